from __future__ import annotations

import io
import json
import tracemalloc
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from replica_audit.errors import DumpLogError
from replica_audit.formats.dump.dump_log import DumpSection, batches, looks_like_dump, scan_section, sections
from replica_audit.model import BatchHeader, Damage
from tests.vector_kinds import dump_samples

PROJECT = Path(__file__).resolve().parents[2]
SAMPLES = PROJECT / "tests" / "data" / "dump-samples"
ALL_SAMPLES = PROJECT.parent / "shared" / "vectors"  # every version and mode; only beside the sources
START = b"Dumping /data/orders-0/00000000000000000000.log\nLog starting offset: 0\n"
RECORD = b"| offset: 0 CreateTime: 1000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k1 payload: v1\n"
FOUND = b"Found 40 invalid bytes at the end of 00000000000000000000.log\n"
ZEROS = (
    b'Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException: Found record size 0 smaller than minimum record '
    b"overhead (14) in file /data/orders-0/00000000000000000000.log.\n\tat org.apache.kafka.common.record.FileLogInputStream.nextBatch\n"
)


def outputs() -> list[Any]:
    cases = []
    for file in (SAMPLES / "samples.json", ALL_SAMPLES / "dump-samples.json"):
        for row in json.loads(file.read_text(encoding="utf-8")) if file.exists() else []:
            for version, modes in row["outputs"].items():
                for mode, name in modes.items():
                    cases.append(pytest.param(row, file.parent, version, mode, name, id=f"{file.parent.name}-{row['id']}-{version}-{mode}"))
    return cases


def line(base: int, last: int, position: int, size: int | None = 100, **changes: Any) -> bytes:
    """A batch line of 4.x; `changes` are other values, None leaves a key out."""
    fields: dict[str, Any] = {
        "baseOffset": base,
        "lastOffset": last,
        "count": last - base + 1,
        "baseSequence": -1,
        "lastSequence": -1,
        "producerId": -1,
        "producerEpoch": -1,
        "partitionLeaderEpoch": 5,
        "isTransactional": "false",
        "isControl": "false",
        "deleteHorizonMs": "OptionalLong.empty",
        "position": position,
        "CreateTime": 1000,
        "size": size,
        "magic": 2,
        "compresscodec": "none",
        "crc": 4294967295,
        "isvalid": "true",
    } | changes
    return " ".join(f"{key}: {value}" for key, value in fields.items() if value is not None).encode() + b"\n"


def read(text: bytes) -> tuple[list[BatchHeader], Damage | None]:
    """Batches and damage of a text with one section."""
    (section,) = sections(io.BytesIO(text))
    return read_section(text, section)


def read_section(text: bytes, section: DumpSection) -> tuple[list[BatchHeader], Damage | None]:
    items = list(batches(io.BytesIO(text), section))
    assert not any(isinstance(item, Damage) for item in items[:-1])
    damage = items[-1] if items and isinstance(items[-1], Damage) else None
    return [item for item in items if isinstance(item, BatchHeader)], damage


def spans(text: bytes) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.last_offset) for batch in read(text)[0]]


def code(text: bytes) -> str | None:
    damage = read(text)[1]
    return damage.code if damage else None


@pytest.mark.parametrize(("row", "folder", "version", "mode", "name"), outputs())
def test_every_output_of_real_tools_tells_the_batches_of_its_segment(row, folder, version, mode, name):
    dump_samples.check_text(row, folder, version, mode, name)


def test_the_vectors_kind_accepts_the_samples_and_notices_a_wrong_batch():
    rows = json.loads((SAMPLES / "samples.json").read_text(encoding="utf-8"))
    for row in rows:
        dump_samples.run(row, SAMPLES)
    wrong = next(row for row in rows if row["id"] == "dump-v2")
    wrong["expect"]["batches"][3]["leader_epoch"] = 77
    with pytest.raises(AssertionError, match="batch 3, leader_epoch: 2, Kafka 77"):
        dump_samples.run(wrong, SAMPLES)


@pytest.mark.parametrize(
    "name",
    [
        "v2/kafka-0.11.0.2.deep.txt",
        "v2/kafka-2.0.1.print-data-log.txt",
        "v1/kafka-1.1.1.deep.txt",
        "v1/kafka-0.10.2.2.deep.txt",
        "v0/kafka-0.10.2.2.print-data-log.txt",
    ],
)
def test_record_level_text_is_refused_with_its_remedy(name):
    with pytest.raises(DumpLogError, match="without --deep-iteration and --print-data-log") as caught:
        read((SAMPLES / name).read_bytes())
    assert caught.value.line is not None


def test_a_tool_too_old_for_the_segment_is_refused_with_its_remedy():
    with pytest.raises(DumpLogError, match="of the broker's version, or a newer one"):
        read((SAMPLES / "v2/kafka-0.10.2.2.shallow.txt").read_bytes())


def test_every_field_of_a_batch():
    text = START + line(3, 7, 0, 90, count=2, baseSequence=4, producerId=8, producerEpoch=1, isTransactional="true", compresscodec="zstd")
    assert read(text) == (
        [
            BatchHeader(
                position=0,
                base_offset=3,
                last_offset=7,
                size_bytes=90,
                magic=2,
                leader_epoch=5,
                record_count=2,
                max_timestamp_ms=1000,
                crc=4294967295,
                crc_valid=True,
                codec="zstd",
                is_transactional=True,
                is_control=False,
                producer_id=8,
                producer_epoch=1,
                base_sequence=4,
            )
        ],
        None,
    )


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"CreateTime": None, "LogAppendTime": 77}, "max_timestamp_ms", 77),
        ({"CreateTime": None, "NoTimestampType": -1}, "max_timestamp_ms", -1),
        ({"partitionLeaderEpoch": -1}, "leader_epoch", -1),
        ({"isvalid": "false"}, "crc_valid", False),
        ({"isControl": "true"}, "is_control", True),
        ({"isControl": None}, "is_control", False),
        ({"count": None}, "record_count", None),
        ({"count": 0}, "record_count", 0),
        ({"compresscodec": "SNAPPY"}, "codec", "snappy"),
        ({"compresscodec": "LZ4CompressionCodec"}, "codec", "lz4"),
        ({"compresscodec": "NoCompressionCodec"}, "codec", "none"),
        ({"deleteHorizonMs": "OptionalLong[1700000000000]"}, "codec", "none"),
        ({"deleteHorizonMs": None, "lastSequence": None}, "base_sequence", -1),
        ({"someNewKey": "17", "another": "x"}, "leader_epoch", 5),
        ({"someNewKey": "a value of words", "empty": ""}, "leader_epoch", 5),
    ],
)
def test_keys_are_read_wherever_they_stand_and_unknown_ones_are_passed_over(changes, field, value):
    ordinary, changed = line(0, 2, 0), line(3, 5, 100, **changes)
    for order in (changed, b"baseOffset: 3 " + b" ".join(reversed(list(pairs(changed))[1:])) + b"\n"):
        found, damage = read(START + ordinary + order + line(6, 6, 200))
        assert (len(found), damage) == (3, None)
        assert getattr(found[1], field) == value


def pairs(text: bytes) -> list[bytes]:
    """The `key: value` parts of a line."""
    parts: list[bytes] = []
    for token in text.split():
        if token.endswith(b":"):
            parts.append(token)
        else:
            parts[-1] += b" " + token
    return parts


def test_isvalid_may_stand_in_the_middle_as_before_2_2():
    text = START + b"baseOffset: 0 lastOffset: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 4"
    text += b" isTransactional: false position: 0 CreateTime: 1002 isvalid: false size: 90 magic: 2 compresscodec: NONE crc: 2865171658\n"
    ((batch,), damage) = read(text)
    assert (batch.leader_epoch, batch.record_count, batch.crc_valid, batch.crc, damage) == (4, None, False, 2865171658, None)


def test_legacy_entries_begin_where_the_one_before_ends():
    text = b"Dumping orders-0/00000000000000000010.log\nStarting offset: 10\n"
    text += b"offset: 13 position: 0 CreateTime: 7 size: 94 magic: 1 compresscodec: GZIP crc: 1 isvalid: true\n"
    text += b"offset: 20 position: 94 CreateTime: 8 size: 38 magic: 1 compresscodec: NONE crc: 1 isvalid: true\n"
    text += b"offset: 25 position: 132 CreateTime: 9 size: 94 magic: 1 compresscodec: LZ4 crc: 1 isvalid: true\n"
    found, damage = read(text)
    assert [(b.base_offset, b.last_offset, b.record_count, b.leader_epoch) for b in found] == [
        (10, 13, None, -1),
        (20, 20, 1, -1),
        (21, 25, None, -1),
    ]
    assert damage is None
    headless = text[text.index(b"offset: 25") :]
    assert [(b.base_offset, b.last_offset) for b in read(headless)[0]] == [(25, 25)]


def test_sizes_that_0_10_prints_make_the_exact_size_of_an_entry():
    text = b"Dumping orders-0/00000000000000000000.log\nStarting offset: 0\n"
    text += b"offset: 0 position: 0 isvalid: true payloadsize: -1 magic: 0 compresscodec: NoCompressionCodec crc: 1 keysize: 3\n"
    text += b"offset: 1 position: 29 CreateTime: 5 isvalid: true payloadsize: 7 magic: 1 compresscodec: NoCompressionCodec crc: 1\n"
    found, damage = read(text)
    assert [(b.size_bytes, b.max_timestamp_ms) for b in found] == [(29, -1), (41, 5)]
    assert damage is None
    valueless = b"offset: 1 position: 29 isvalid: true payloadsize: 2 magic: 0 compresscodec: NONE crc: 1 keysize:\n"
    assert code(text[: text.index(b"offset: 1")] + valueless) == "dump-malformed"


@pytest.mark.parametrize(
    ("magic", "contents", "remedy"), [(1, b" payload: v1", "without --deep"), (1, b" key: k1", "without --deep"), (2, b"", "newer one")]
)
def test_a_line_of_0_10_that_tells_contents_or_a_newer_magic_is_refused(magic, contents, remedy):
    entry = b"offset: 0 position: 0 CreateTime: 5 isvalid: true payloadsize: 2 magic: %d compresscodec: NONE crc: 1" % magic
    with pytest.raises(DumpLogError, match=remedy):
        read(b"Dumping orders-0/00000000000000000000.log\nStarting offset: 0\n" + entry + contents + b"\n")


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (FOUND, ("torn-batch", 100)),
        (FOUND.replace(b"40", b"17"), ("trailing-bytes", 100)),
        (FOUND.replace(b"40", b"18"), ("torn-batch", 100)),
        (ZEROS, ("zero-filled-tail", 100)),
        (ZEROS.replace(b"size 0", b"size 13"), ("bad-batch-length", 100)),
        (b'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat x\n', ("dump-truncated", 100)),
        (b"Non-consecutive offsets in /data/orders-0/00000000000000000000.log\n  6 is followed by 12\n", None),
        (b"Non-consecutive offsets in /data/orders-0/00000000000000000000.log\n  6 is followed by 12", None),
        (b"Found 40 invalid bytes at the end of another.log\n", None),
        (b"[2026-11-21] WARN java.io.FileNotFoundException: log4j.properties\n\tat java.lang.Exception: x\n", None),
        (b"Exception in thread x CorruptRecordException: Record is corrupt (stored crc = 1)\n", ("dump-truncated", 100)),
        (FOUND + b'Exception in thread "main" java.nio.file.NoSuchFileException: 00000000000000000044.log\n', ("torn-batch", 100)),
    ],
)
def test_how_the_dump_ended(ending, expected):
    for records in (b"", RECORD * 3):
        found, damage = read(START + line(0, 2, 0) + records + ending)
        assert len(found) == 1
        assert (damage and (damage.code, damage.byte_offset)) == expected


def test_an_error_that_a_wrapper_prints_counts_unless_it_may_be_content():
    error = b"DumpLogSegments threw: org.apache.kafka.common.InvalidRecordException: Found invalid number of record headers\n"
    assert code(START + line(0, 0, 0) + error) == "dump-truncated"
    assert code(START + line(0, 0, 0) + RECORD + error) is None


def test_an_ending_before_any_batch():
    assert read(START + FOUND)[1] == Damage(code="torn-batch", detail="40 bytes behind the last batch", byte_offset=0, line=3)
    assert code(START + ZEROS) == "zero-filled-tail"


def test_what_is_printed_behind_an_ending_voids_it():
    assert spans(START + line(0, 2, 0) + RECORD + FOUND + line(3, 3, 100)) == [(0, 2), (3, 3)]
    assert code(START + line(0, 2, 0) + RECORD + FOUND + line(3, 3, 100) + RECORD) is None


def test_deep_text_that_stops_at_a_batch_without_its_records_is_truncated():
    text = START + line(0, 0, 0) + RECORD + line(1, 2, 100, isvalid="false")
    assert (spans(text), code(text)) == ([(0, 0), (1, 2)], "dump-truncated")
    assert code(text + RECORD + b"\n") is None  # without metadata and contents a record is a blank line


@pytest.mark.parametrize(
    "forged",
    [
        line(3, 9, 100, size=7),
        line(0, 0, 0),
        line(4, 4, 5000, partitionLeaderEpoch=99),
        line(2, 2, 100),
        line(9, 3, 100),
        line(3, 3, 100, magic=3),
        line(3, 3, 100, isvalid="perhaps"),
        line(3, 3, 100, size=None),
        line(3, 3, 100, producerId=1 << 64),
        line(3, 3, 100, crc=-5),
        b"baseOffset: \n",
        b"baseOffset: " + b"9" * 5000 + b"\n",
        b"offset: 3 position: 100 CreateTime: 5 isvalid: true keysize: 2 valuesize: 2 magic: 2 compresscodec: NONE\n",
        b"offset: 3 position: 100 isvalid: true payloadsize: 2 magic: 2 compresscodec: NONE crc: 1\n",
        b"Dumping heap to java_pid1.hprof ...\n",
        b"Dumping /tmp/other-0/00000000000000000000.log\nand more\n",
        b"Dumping /tmp/other-0/00000000000000000000.log\n" + line(3, 3, 77),
        b"java.lang.IllegalStateException: in a payload\n",
        FOUND,
        ZEROS,
        b"\n\n  \n|\n",
    ],
)
def test_contents_that_look_like_lines_of_the_dump_are_passed_over(forged):
    text = START + line(0, 2, 0) + RECORD + forged + RECORD * 2 + line(3, 3, 100) + RECORD
    assert (spans(text), code(text)) == ([(0, 2), (3, 3)], None)


def test_a_line_that_claims_a_place_ahead_is_a_hole_unless_the_log_goes_on_before_it():
    behind, ahead = line(0, 0, 0), line(9, 9, 700)
    text = START + line(0, 2, 0) + RECORD * 3
    assert code(text + behind) is None
    assert code(text + ahead) == "dump-malformed"
    assert code(text + ahead + RECORD + line(3, 3, 100) + RECORD) is None
    damage = read(text + ahead + RECORD + line(10, 10, 800) + RECORD)[1]
    assert damage is not None
    assert (damage.code, damage.byte_offset, damage.line) == ("dump-malformed", 100, 7)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (line(3, 3, 250), "dump-malformed"),
        (line(3, 3, 50), "dump-malformed"),
        (line(3, 3, 100, size=None), "dump-malformed"),
        (line(3, 3, 100, isvalid=None), "dump-malformed"),
        (line(3, 3, 100, crc="x"), "dump-malformed"),
        (line(3, 3, 100, partitionLeaderEpoch=1 << 31), "dump-malformed"),
        (line(3, 3, 100, lastOffset=1 << 63), "dump-malformed"),
        (line(3, 3, 100, magic=1), "dump-malformed"),
        (line(2, 3, 100, isvalid="false"), "offsets-not-increasing"),
        (line(5, 3, 100), "bad-batch-header"),
        (line(3, 3, 100, size=60), "bad-batch-header"),
        (line(3, 3, 100, magic=3), "bad-batch-header"),
        (line(3, 3, 100, count=-2), "bad-batch-header"),
        (line(3, 3, 100)[:150], "dump-truncated"),
    ],
)
def test_a_text_without_records_stops_at_the_first_line_that_does_not_fit(bad, expected):
    items = list(batches(io.BytesIO(START + line(0, 2, 0) + bad), next(sections(io.BytesIO(START + line(0, 2, 0) + bad)))))
    assert isinstance(items[0], BatchHeader)
    assert isinstance(items[1], Damage)
    assert (len(items), items[1].code, items[1].byte_offset, items[1].line) == (2, expected, 100, 4)


def test_contents_are_expected_only_behind_a_record_line():
    text = START + line(0, 0, 0) + RECORD + line(1, 1, 100)
    assert (spans(text + line(9, 9, 700) + line(2, 2, 200)), code(text + line(9, 9, 700) + line(2, 2, 200))) == (
        [(0, 0), (1, 1)],
        "dump-malformed",
    )


def test_the_first_batch_lies_at_byte_zero_unless_the_head_of_the_text_is_missing():
    assert code(START + line(7, 7, 300)) == "dump-malformed"
    assert code(b"Starting offset: 7\n" + line(7, 7, 300)) == "dump-malformed"
    assert code(START[: START.index(b"\n") + 1] + b"[2026-11-21] WARN x\n" + line(7, 7, 300)) == "dump-malformed"
    assert spans(line(7, 7, 300) + line(8, 8, 400)) == [(7, 7), (8, 8)]


def test_a_text_with_other_line_ends_tells_the_same():
    text = START + line(0, 2, 0) + RECORD * 3 + line(3, 3, 100) + RECORD + FOUND
    assert read(text.replace(b"\n", b"\r\n")) == read(text)


def test_the_last_line_may_lack_its_end_only_if_it_is_certainly_whole():
    text = START + line(0, 2, 0) + line(3, 3, 100)
    assert read(text[:-1]) == read(text)
    assert code((text + FOUND)[:-1]) == "torn-batch"
    early = START + line(0, 2, 0).replace(b" isvalid: true", b"").replace(b" size:", b" isvalid: true size:")
    assert code(early) is None
    assert (spans(early[:-1]), code(early[:-1])) == ([], "dump-truncated")
    assert code(START + line(0, 0, 0) + RECORD[:-1]) == "dump-truncated"
    assert code(START[: START.index(b"\n") + 1]) == "dump-truncated"


@pytest.mark.parametrize("name", ["v2/kafka-4.2.0.shallow.txt", "v2/kafka-2.8.2.print-data-log.txt", "v2/kafka-0.11.0.2.shallow.txt"])
def test_a_text_cut_anywhere_tells_the_batches_before_the_cut_and_that_it_was_cut(name):
    whole = (SAMPLES / name).read_bytes()
    ends = set(accumulate(len(part) for part in whole.splitlines(keepends=True)))
    everything = read(whole)[0]
    for cut in range(len(b"Dumping "), len(whole)):
        text = whole[:cut]
        try:
            found, damage = read(text)
        except DumpLogError as error:
            assert cut < whole.index(b"\n"), (cut, error)
            continue
        assert found == everything[: len(found)], cut
        told = damage is not None and damage.code == "dump-truncated"
        certainly_whole = text.endswith(b"isvalid: true") or text.rpartition(b"\n")[2][:1].isspace()
        assert told or cut in ends or certainly_whole, (cut, damage)


def test_sections_of_one_text_can_be_read_alone_and_other_files_are_left_out():
    first = START + line(0, 2, 0)
    index = b"Dumping /data/orders-0/00000000000000000000.index\noffset: 12 position: 4096\n"
    second = b"Dumping C:\\kafka\\orders-0.0123456789abcdef0123456789abcdef-future\\00000000000000000044.log\r\nStarting offset: 44\r\n"
    second += line(44, 45, 0) + FOUND.replace(b"00000000000000000000", b"00000000000000000044")
    checkpoint = b"Dumping __cluster_metadata-0/00000000000000000123-0000000001.checkpoint\nSnapshot end offset: 123, epoch: 1\n"
    checkpoint += line(0, 0, 0) + RECORD
    third = b"Dumping 00000000000000000007.log\n" + line(7, 7, 0)
    text = b"OpenJDK 64-Bit Server VM warning: x\n" + first + index + second + checkpoint + third
    a, b, c = sections(io.BytesIO(text))
    assert (a.path, a.log_dir, a.directory, a.segment_base_offset, a.first_line) == (
        "/data/orders-0/00000000000000000000.log",
        "/data",
        "orders-0",
        0,
        2,
    )
    assert (b.log_dir, b.directory) == ("C:\\kafka", "orders-0.0123456789abcdef0123456789abcdef-future")
    assert (b.segment_base_offset, b.first_line) == (44, 7)
    assert (c.log_dir, c.directory, c.segment_base_offset) == ("", "", 7)
    assert [text[s.byte_start : s.byte_end] for s in (a, b, c)] == [first, second, third]
    assert [[batch.base_offset for batch in read_section(text, s)[0]] for s in (a, b, c)] == [[0], [44], [7]]
    damage = read_section(text, b)[1]
    assert damage is not None
    assert (damage.code, damage.line) == ("torn-batch", 10)


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/data//orders-0//00000000000000000010.log", ("/data", "orders-0", 10)),
        ("orders-0/00000000000000000010.log", ("", "orders-0", 10)),
        ("./a b/orders-0/00000000000000000010.log", ("./a b", "orders-0", 10)),
        ("orders-0/99999999999999999999.log", ("", "orders-0", None)),
        ("orders-0/copy.log", ("", "orders-0", None)),
    ],
)
def test_parts_of_a_path(path, parts):
    (section,) = sections(io.BytesIO(f"Dumping {path}\nStarting offset: 10\n".encode()))
    assert (section.path, section.log_dir, section.directory, section.segment_base_offset) == (path, *parts)


def test_text_without_a_dumping_line_is_one_section():
    text = b"Starting offset: 10\n" + line(10, 12, 0)
    (section,) = sections(io.BytesIO(text))
    assert section == DumpSection(
        path="", log_dir="", directory="", segment_base_offset=10, first_line=1, end_line=3, byte_start=0, byte_end=len(text)
    )
    assert spans(text) == [(10, 12)]
    assert spans(line(10, 12, 0)) == [(10, 12)]
    assert list(sections(io.BytesIO(b""))) == []


@pytest.mark.parametrize("cut", [b"Dumping ", b"Dumping /data/orders-0/000000"])
def test_text_that_ends_inside_a_dumping_line_says_so_after_its_sections(cut):
    found = []
    with pytest.raises(DumpLogError, match="inside a 'Dumping' line") as caught:
        for section in sections(io.BytesIO(START + line(0, 2, 0) + cut)):
            found.append(section.directory)
    assert (found, caught.value.line) == (["orders-0"], 4)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (START, True),
        (b"\r\n\r\n" + START, True),
        (b"OpenJDK 64-Bit Server VM warning: x\nSLF4J: y\n[2026-11-21] WARN z\n" + START, True),
        (b"Log starting offset: 0\n", True),
        (b"Starting offset: 10\n", True),
        (line(0, 2, 0)[:60], True),
        (b"offset: 10 position: 0 CreateTime: 2000", True),
        (b"offset: 10\n", False),
        (b"0\n2\n0 0\n", False),
        (b"", False),
        (b"\x00\x00\x00\x00Dumping ", False),
        (b"I was Dumping \n", False),
        (b"[\n" + START, True),
        (b'[\n{"id": "x"}\n]\n' + START, False),
    ],
)
def test_what_looks_like_a_dump(head, expected):
    assert looks_like_dump(head) is expected


def test_lines_of_any_length_take_bounded_memory(tmp_path):
    path = tmp_path / "dump.txt"
    with path.open("wb") as stream:
        stream.write(START + line(0, 0, 0) + RECORD[:-1])
        for _ in range(160):
            stream.write(b"x" * (1 << 16))
        stream.write(b"\n" + line(1, 1, 100) + b"| offset: 1 ")
        for _ in range(160):
            stream.write(b"baseOffset: 1 " * 4096)
    tracemalloc.start()
    with path.open("rb") as stream:
        (section,) = sections(stream)
        items = list(batches(stream, section))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert section.byte_end == path.stat().st_size > 15_000_000
    assert [item.base_offset for item in items if isinstance(item, BatchHeader)] == [0, 1]
    assert isinstance(items[-1], Damage)
    assert (items[-1].code, items[-1].line) == ("dump-truncated", 6)
    assert peak < 2_000_000


@pytest.mark.parametrize("end", [b"\x0e| offset: 2 CreateTime: 1000\n", b"\xef\xbb\xbf\n", b"x\n"])
def test_a_damaged_batch_line_behind_records_is_no_content(end):
    """Found by mutation: the last batch of a text with records went without a word if its line could not be read."""
    damaged = line(2, 3, 100).rstrip(b"\n") + end
    found, damage = read(START + line(0, 1, 0) + RECORD * 2 + damaged + RECORD * 2)
    assert [batch.base_offset for batch in found] == [0]
    assert damage is not None
    assert (damage.code, damage.line) == ("dump-malformed", 6)
    sound, damage = read(START + line(0, 1, 0) + RECORD * 2 + damaged + RECORD * 2 + line(2, 3, 100) + RECORD * 2)
    assert len(sound) == 2
    assert damage is None, "a batch at the very byte shows that the line before was the content of a record"


@pytest.mark.parametrize(
    "content", [b"baseOffset: nobody knows\n", b"offset: 7 position: 0 and so on\n", b"baseOffset: 2 position: 1000 x\n"]
)
def test_contents_that_only_begin_like_a_batch_line_stay_contents(content):
    _found, damage = read(START + line(0, 1, 0) + RECORD * 2 + content)
    assert damage is None


# --- as editors and terminals leave lines ---

SHALLOW = ["v2/kafka-4.2.0.shallow.txt", "v2/kafka-2.8.2.shallow.txt", "v2/kafka-2.0.1.shallow.txt", "v2/kafka-0.11.0.2.shallow.txt"]
KEPT = [name for name in [*SHALLOW, "v2/kafka-2.8.2.print-data-log.txt", "v1/kafka-1.1.1.shallow.txt"] if (SAMPLES / name).exists()]


def scanned_alike(text: bytes) -> tuple[list[tuple[int, int]], Damage | None]:
    """What both readers make of a text."""
    found, damage = read(text)
    (section,) = sections(io.BytesIO(text))
    scan = scan_section(io.BytesIO(text), section)
    assert (sum(run.batch_count for run in scan.runs), scan.damage) == (len(found), damage)
    return [(batch.base_offset, batch.last_offset) for batch in found], damage


@pytest.mark.parametrize("blanks", [b" ", b"   ", b"\t", b" \t ", b"\r", b" \r", b"\x0c", b"\xc2\xa0", b"\xe3\x80\x80", b"\xe2\x80\x8b"])
@pytest.mark.parametrize("name", KEPT)
def test_blanks_at_the_ends_of_lines_change_nothing(name, blanks):
    whole = (SAMPLES / name).read_bytes()
    lines = whole.splitlines(keepends=True)
    expected = scanned_alike(whole)
    for which in [range(len(lines)), *((place,) for place in range(len(lines)))]:
        text = b"".join(part[:-1] + blanks + b"\n" if place in which else part for place, part in enumerate(lines))
        assert scanned_alike(text) == expected
    at_the_end = read(whole + blanks)
    assert (at_the_end[0], at_the_end[1] and at_the_end[1].code) == (read(whole)[0], expected[1] and expected[1].code)


@pytest.mark.parametrize("joint", [b" ", b"  ", b"\t", b""])
@pytest.mark.parametrize("name", KEPT)
def test_lines_that_were_joined_are_read_or_told(name, joint):
    whole = (SAMPLES / name).read_bytes()
    expected = read(whole)
    lines = whole.splitlines(keepends=True)
    for place in range(len(lines) - 1):
        text = b"".join(part[:-1] + joint if place == at else part for at, part in enumerate(lines))
        if not list(sections(io.BytesIO(text))):
            continue  # a file of which nothing is known is told as that
        found, damage = read(text)
        assert found == expected[0] or (damage is not None and found == expected[0][: len(found)])
        if joint and lines[place + 1].startswith(b"baseOffset: ") and not lines[place].startswith(b"|"):
            assert (found, damage and damage.code) == (expected[0], expected[1] and expected[1].code)


@pytest.mark.parametrize("end", [b"\n", b" \n", b"\n\n", b"\n$ \n"])
@pytest.mark.parametrize("name", KEPT)
def test_a_last_line_that_was_cut_is_never_believed(name, end):
    """An editor ends it as if it were whole. Only a CRC at its very end, as up to 2.1, may be cut unseen."""
    whole = (SAMPLES / name).read_bytes()
    everything = read(whole)[0]
    ends = {place for place in accumulate(len(part) for part in whole.splitlines(keepends=True))}
    is_old = b"isvalid: true\n" not in whole
    for cut in range(len(b"Dumping /"), len(whole), 3):
        text = whole[:cut] + end
        if cut in ends or cut + 1 in ends or not list(sections(io.BytesIO(text))):
            continue
        found, damage = read(text)
        begun = whole[whole.rfind(b"\n", 0, cut) + 1 : cut]
        if is_old and b" crc: " in begun and begun[-1:].isdigit():
            continue
        assert found == everything[: len(found)], text
        if begun.startswith(b"baseOffset: ") and len(begun) > len(b"baseOffset: "):
            assert damage is not None, text


@pytest.mark.parametrize("width", [24, 40, 79, 80, 100, 132, 200, 237, 240, 250, 256])
@pytest.mark.parametrize("name", KEPT)
def test_lines_that_a_terminal_wrapped_are_told(name, width):
    whole = (SAMPLES / name).read_bytes()
    everything = read(whole)[0]
    first, _, rest = whole.partition(b"\n")
    parts = [part[at : at + width] for part in rest.splitlines() for at in range(0, len(part), width) or (0,)]
    text = first + b"\n" + b"\n".join(parts) + b"\n"
    found, damage = read(text)
    if text != whole:
        assert damage is not None
        assert [batch._replace(crc=0) for batch in found] == [batch._replace(crc=0) for batch in everything[: len(found)]]
    if all(len(part) <= width for part in rest.splitlines()):
        assert text == whole


def test_a_crc_that_goes_on_in_the_next_line_is_told():
    """Up to 2.1 it is the last number of a line."""
    early = [line(at, at, 100 * at, isvalid=None).replace(b" size:", b" isvalid: true size:") for at in range(3)]
    assert code(START + b"".join(early)) is None
    for place in range(3):
        broken = [part[:-4] + b"\n" + part[-4:] if at == place else part for at, part in enumerate(early)]
        assert code(START + b"".join(broken)) == "dump-malformed"


@pytest.mark.parametrize("cut", [20, 30, 34, 36, 37])
def test_invalid_bytes_count_though_the_line_is_cut_or_wrapped(cut):
    assert code(START + line(0, 2, 0) + FOUND[:cut] + b"\n") == "torn-batch"
    assert code(START + line(0, 2, 0) + FOUND[:cut] + b"\n" + FOUND[cut:]) == "torn-batch"


def test_a_batch_line_cut_behind_records_is_told():
    text = START + line(0, 0, 0) + RECORD
    assert code(text) is None
    for cut in (13, 20, 28, 60, 200, len(line(1, 1, 100)) - 3):
        assert code(text + line(1, 1, 100)[:cut] + b"\n") == "dump-malformed"
    assert code(text + line(1, 1, 100)[:60] + b"\n" + RECORD) is None, "the content of a record"


@pytest.mark.parametrize("cut", [b"Log starting offset: ", b"Log starting offset: 1", b"Log starting offset: 12 baseOff"])
def test_a_start_that_is_cut_is_told(cut):
    text = b"Dumping /data/orders-0/00000000000000000123.log\n"
    assert code(text + b"Log starting offset: 123\n") is None
    assert code(text + cut + b"\n") == "dump-malformed"


@pytest.mark.parametrize("cut", [1, 4, 10, 11, 12])
@pytest.mark.parametrize("before", [START, START + line(0, 2, 0)])
def test_the_first_word_of_a_line_is_told(before, cut):
    assert code(before + line(3, 3, 100)[:cut] + b"\n") == "dump-malformed"
    assert code(before + b"\n") is None
