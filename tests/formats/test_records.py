"""Records out of batches: as Kafka wrote them, as kafka-python reads them, and out of batches that nobody could read."""

from __future__ import annotations

import base64
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from replica_audit.formats.segment import records as under_test
from replica_audit.formats.segment.records import Record, UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

DATA = Path(__file__).parents[1] / "data"
SEGMENTS = sorted({path.read_bytes(): path for path in [*DATA.rglob("*.log")]}.values())
VALUE = b"first value, first value, first value"


class Read:
    """What `read_records` gave, taken apart."""

    def __init__(self, path: Path) -> None:
        self.items = list(read_records(path))
        self.batches = [item for item in self.items if isinstance(item, tuple)]
        self.records = [record for _, records in self.batches for record in records]
        self.unreadable = [item for item in self.items if isinstance(item, UnreadableRecords)]
        self.codes = [item.code for item in self.items if isinstance(item, UnreadableRecords | Damage)]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Read]:
    """Write the bytes as a segment and read it."""

    def write(*batches: bytes, base: int = 0) -> Read:
        return Read(kf.segment(tmp_path, base, *batches))

    return write


# --- what Kafka wrote ---


@pytest.mark.parametrize("case", rf.KAFKA_BATCHES, ids="-".join)
def test_batches_written_by_kafka(written, case: tuple[str, str, str]):
    read = written(base64.b64decode(rf.KAFKA_BATCHES[case]))
    times = {
        "NoTimestampType": (-1, -1, -1),
        "CreateTime": (rf.TIMESTAMP, rf.TIMESTAMP - 3, rf.TIMESTAMP + 70),
        "LogAppendTime": (5000, 5000, 5000),
    }[case[2]]
    headers = b"\x04\x02h\x04\x01\x02\x02n\x01" if case[0] == "2" else b""  # two: h with bytes, n with none
    assert read.records == [Record(40, times[0], b"k1", VALUE, headers), Record(41, times[1], None, b""), Record(44, times[2], b"", None)]
    assert {batch.codec for batch, _ in read.batches} == {case[1]}
    assert not read.codes


def test_every_magic_and_codec_is_among_them():
    wanted = {("2", codec) for codec in rf.CODECS} | {(magic, codec) for magic in "01" for codec in rf.CODECS if codec != "zstd"}
    assert {case[:2] for case in rf.KAFKA_BATCHES} == wanted


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: "/".join(path.parts[-3:]))
def test_real_segments_as_kafka_python_reads_them(path: Path):
    whole = [batch for batch in read_batches(path) if isinstance(batch, BatchHeader)]
    ours = {item[0].position: item[1] for item in read_records(path) if isinstance(item, tuple)}
    theirs = kf.decoded(path.read_bytes()[: whole[-1].position + whole[-1].size_bytes] if whole else b"")
    assert len(theirs) == len(whole)
    compared = 0
    for header, batch in zip(whole, theirs, strict=True):
        if not header.crc_valid:
            assert header.position not in ours
            continue
        compared += 1
        if header.codec in ("none", "gzip"):  # for the others it needs libraries
            found = [
                (record.offset, record.timestamp or -1, record.key, record.value, rf.encoded(getattr(record, "headers", ())))
                for record in batch
            ]
            assert [tuple(record) for record in ours[header.position]] == found
        else:
            assert len(ours[header.position]) == header.record_count
    assert compared == len(ours)


def test_headers_are_those_of_the_scan(tmp_path: Path):
    path = kf.segment(tmp_path, 0, rf.batch(0, (b"k", b"v")), kf.empty_batch(1, 0, last_delta=3), kf.legacy(1, [5]), b"tail")
    assert [item[0] if isinstance(item, tuple) else item for item in read_records(path)] == list(read_batches(path))


# --- batches of magic 2 ---


@pytest.mark.parametrize("codec", rf.CODECS)
def test_every_codec(written, codec: rf.Codec):
    pairs = [(b"key %d" % i, b"value" * i) for i in range(300)]
    read = written(rf.batch(7, *pairs, codec=codec), base=7)
    assert read.records == [Record(7 + i, rf.TIMESTAMP + i, *pair) for i, pair in enumerate(pairs)]


@pytest.mark.parametrize("codec", rf.CODECS)
def test_a_batch_of_megabytes(written, codec: rf.Codec):
    value = bytes(range(256)) * (4 << 10)
    read = written(rf.batch(0, (None, value), (b"", value), codec=codec), rf.batch(2, (b"k", None)))
    assert [(record.key, record.value == value) for record in read.records] == [(None, True), (b"", True), (b"k", False)]


def test_null_and_empty_are_told_apart(written):
    pairs: list[rf.Pair] = [(None, None), (b"", b""), (None, b""), (b"", None)]
    assert [(record.key, record.value) for record in written(rf.batch(0, *pairs)).records] == pairs


def test_headers_are_passed_over(written):
    read = written(rf.batch(0, (b"k", b"v"), (b"l", b"w"), headers=[("one", b"1"), ("null", None), ("", b"x" * 300)]))
    assert [(record.key, record.value) for record in read.records] == [(b"k", b"v"), (b"l", b"w")]


def test_gaps_that_compaction_left(written):
    assert written(rf.batch(100, (b"a", b"1"), (b"b", b"2"), deltas=(3, 9))).offsets == [103, 109]


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_batch_that_the_cleaner_emptied_has_no_records(written, codec: int):
    read = written(kf.sealed(kf.with_field(kf.empty_batch(0, 0, last_delta=4), ">h", 21, codec)), rf.batch(5, (b"k", b"v")))
    assert read.batches[0][1] == ()
    assert read.offsets == [5]


def test_a_transaction_marker_has_its_control_key(written):
    read = written(rf.control_batch(0, rf.ABORT, producer_id=7), rf.control_batch(1, rf.COMMIT, producer_id=7))
    assert [(batch.is_control, record.key) for batch, (record,) in read.batches] == [(True, b"\0\0\0\0"), (True, b"\0\0\0\1")]


def test_a_delete_horizon_stands_in_for_the_first_timestamp(written):
    # the cleaner writes the horizon there, and the records' timestamps relative to it
    made = kf.sealed(kf.with_field(rf.batch(0, (b"k", b"v")), ">h", 21, 0x40))
    moved = kf.sealed(kf.with_field(made, ">q", 27, rf.TIMESTAMP + 900))
    assert [record.timestamp_ms for record in written(moved).records] == [rf.TIMESTAMP + 900]


def test_a_snapshot_of_kraft(tmp_path: Path):
    path = tmp_path / "00000000000000000012-0000000003.checkpoint"
    path.write_bytes(rf.control_batch(0, b"\0\0\0\3") + rf.batch(1, (None, b"record")) + rf.control_batch(2, b"\0\0\0\4"))
    assert [(record.offset, record.key, record.value) for record in Read(path).records] == [
        (0, b"\0\0\0\3", b"\0\0\0\0\0\3"),
        (1, None, b"record"),
        (2, b"\0\0\0\4", b"\0\0\0\0\0\3"),
    ]


# --- snappy ---

BODY = rf.batch(0, *((b"key", bytes([i]) * 700) for i in range(120)))[61:]
SNAPPY = pa.Codec("snappy")


def framed(*parts: bytes) -> bytes:
    blocks = [SNAPPY.compress(part, asbytes=True) for part in parts]
    return b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.parametrize(
    "data",
    [
        SNAPPY.compress(BODY, asbytes=True),
        rf.XERIAL + framed(BODY),
        rf.XERIAL + framed(BODY[:7], BODY[7:9], BODY[9:]),
        rf.XERIAL + framed(BODY[:500]) + rf.XERIAL + framed(BODY[500:]),
    ],
    ids=["raw", "framed", "several blocks", "streams one after another"],
)
def test_snappy_in_every_framing(written, data: bytes):
    made = rf.batch(0, *((b"key", b"") for _ in range(120)))
    assert [record.value for record in written(rf.with_codec(made, "snappy", data)).records] == [bytes([i]) * 700 for i in range(120)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 12,
        b"\xff\xff\xff\xff\x0f" + bytes(40),
        rf.XERIAL,
        rf.XERIAL[:-3],
        rf.XERIAL + b"\0\0",
        rf.XERIAL + struct.pack(">i", 1000) + b"short",
        rf.XERIAL + struct.pack(">i", -1) + b"negative",
        rf.XERIAL + framed(BODY)[:-1],
        rf.XERIAL + bytes(400),
    ],
)
def test_broken_snappy(written, data: bytes):
    read = written(rf.with_codec(rf.batch(0, (b"k", b"v")), "snappy", data), rf.batch(1, (b"next", None)))
    assert read.codes == ["bad-records"]
    assert read.offsets == [1]


# --- entries of magic 0 and 1 ---


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_compressed_legacy_entries_have_the_offsets_of_their_records(written, magic: int, codec: rf.Codec):
    inner = kf.legacy(magic, [0, 1, 3] if magic else [20, 21, 23], timestamp=44)
    read = written(kf.legacy(magic, [19]), rf.wrapper(magic, 23, codec, inner), base=19)
    assert read.offsets == [19, 20, 21, 23]
    assert {record.timestamp_ms for record in read.records[1:]} == {44 if magic else -1}
    assert not read.codes


@pytest.mark.parametrize(("magic", "data"), [(0, b"a" * 100), (0, bytes(range(256)) * 900), (1, b"a" * 100)])
def test_lz4_of_magic_0_is_read_whatever_its_header_checksum_says(written, magic: int, data: bytes):
    frame = bytearray(rf.compress(kf.legacy(magic, [0], value=data), "lz4"))
    frame[6] ^= 0x55
    read = written(rf.wrapper(magic, 0, "lz4", b"", value=bytes(frame)))
    assert [record.value for record in read.records] == ([data] if magic == 0 else [])
    assert read.codes == ([] if magic == 0 else ["bad-records"])


def test_lz4_of_magic_0_with_the_size_of_its_content(written):
    inner = kf.legacy(0, [0])
    frame = rf.compress(inner, "lz4")
    sized = frame[:4] + bytes([frame[4] | 0x08]) + frame[5:6] + struct.pack("<q", len(inner)) + b"?" + frame[7:]
    assert written(rf.wrapper(0, 0, "lz4", b"", value=sized)).offsets == [0]


def test_append_time_of_a_compressed_entry_counts_for_its_records(written):
    read = written(rf.wrapper(1, 1, "gzip", kf.legacy(1, [0, 1], timestamp=44), append_time=True))
    assert [record.timestamp_ms for record in read.records] == [rf.TIMESTAMP, rf.TIMESTAMP]


def test_a_part_of_an_entry_at_the_end_is_passed_over_as_kafka_does(written):
    inner = kf.legacy(1, [0, 1])
    assert written(rf.wrapper(1, 1, "gzip", inner + inner[:20])).offsets == [0, 1]


INNER = kf.legacy(1, [0, 1])
NESTED = rf.wrapper(1, 1, "gzip", INNER)


@pytest.mark.parametrize(
    "made",
    [
        rf.wrapper(1, 5, "gzip", b""),
        rf.wrapper(1, 5, "gzip", NESTED),
        rf.wrapper(1, 5, "zstd", INNER),
        rf.wrapper(1, 5, "gzip", b"", value=b"no gzip"),
        rf.wrapper(1, 5, "gzip", kf.with_field(INNER, ">i", 8, 3)),
        rf.wrapper(1, 5, "gzip", kf.with_field(INNER, ">i", 8, -40)),
        rf.wrapper(1, 5, "gzip", kf.with_field(INNER, ">b", 16, 2)),
        rf.wrapper(1, 5, "gzip", kf.with_field(INNER, ">i", 26, 2**31 - 1)),
        rf.wrapper(1, 5, "gzip", kf.with_field(INNER, ">q", 0, 2**62)),
        rf.wrapper(0, 5, "gzip", kf.legacy(0, [9])),
        rf.wrapper(1, 1, "gzip", kf.legacy(1, [7])),
    ],
)
def test_compressed_legacy_entries_that_cannot_be_read(written, made: bytes):
    read = written(made, kf.legacy(1, [8]))
    assert read.codes == ["bad-records"]
    assert read.offsets == [8]


def test_a_compressed_legacy_entry_without_a_value(written):
    body = struct.pack(">bbqii", 1, 1, 5, -1, -1)
    assert written(struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body).codes == ["bad-records"]


# --- what cannot be read ---

GOOD = rf.batch(9, (b"next", b"batch"))
ONE = rf.batch(0, (b"key", b"value"))
RECORD = ONE[61:]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        RECORD[:-1],
        RECORD + b"\0",
        RECORD[:1] + b"\0" + RECORD[1:],
        b"\xff" * 12,
        b"\x80" * 40,
        b"\x01" + RECORD[1:],
        b"\xfe\xff\xff\xff\x0f" + RECORD[1:],
        RECORD[:4] + b"\xfe\xff\xff\xff\x0f" + RECORD[5:],
        RECORD[:8] + b"\xfe\xff\xff\xff\x0f" + RECORD[9:],
        RECORD[:-1] + b"\xfe\xff\xff\xff\x0f",
        RECORD[:-1] + b"\x01",
        RECORD[:-1] + b"\x02",
        bytes([RECORD[0] + 2]) + RECORD[1:] + b"\0",
        bytes([RECORD[0] + 4]) + RECORD[1:-1] + b"\x02\x01\0",
        RECORD[:3] + b"\x02" + RECORD[4:],
        RECORD[:3] + b"\x01" + RECORD[4:],
        bytes([RECORD[0] + 18]) + RECORD[1:2] + b"\xfe" + b"\xff" * 8 + b"\x01" + RECORD[3:],
    ],
    ids=[
        "nothing",
        "cut",
        "a byte more",
        "a byte between",
        "numbers without an end",
        "zeros without an end",
        "negative size",
        "largest size",
        "largest key",
        "largest value",
        "largest number of headers",
        "negative number of headers",
        "a header that is not there",
        "a byte that is of no field",
        "a header without a key",
        "offset behind the last",
        "offset before the first",
        "timestamp beyond 64 bits",
    ],
)
def test_a_batch_with_impossible_records_is_told_and_the_next_one_read(written, body: bytes):
    read = written(rf.with_codec(ONE, "none", body), GOOD)
    assert [(item.code, item.byte_offset, item.header.base_offset) for item in read.unreadable] == [("bad-records", 0, 0)]
    assert read.offsets == [9]


def test_a_batch_whose_crc_is_wrong_is_not_trusted(written):
    changed = kf.with_field(rf.batch(1, (b"k", b"v")), ">b", 65, 1)
    read = written(ONE, changed, kf.with_field(kf.legacy(1, [5]), ">b", 40, 1), GOOD)
    assert read.offsets == [0, 9]
    assert [(item.code, item.byte_offset) for item in read.unreadable] == [("bad-crc", len(ONE)), ("bad-crc", len(ONE + changed))]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(written, codec: int):
    read = written(kf.sealed(kf.with_field(ONE, ">h", 21, codec)), GOOD)
    assert (read.codes, read.offsets) == (["bad-records"], [9])


@pytest.mark.parametrize("codec", rf.CODECS[1:])
def test_compressed_bytes_cut_anywhere(tmp_path: Path, codec: rf.Codec):
    data = rf.compress(RECORD, codec)
    for left in range(len(data)):
        read = Read(kf.segment(tmp_path, 0, rf.with_codec(ONE, codec, data[:left]), GOOD))
        assert (read.codes, read.offsets) == (["bad-records"], [9]), left


def test_a_damage_is_the_last_item(written):
    read = written(ONE, rf.with_codec(ONE, "none", b""), GOOD[:-1])
    assert read.codes[-1] == "offsets-not-increasing"
    assert read.offsets == [0]
    assert written(ONE, GOOD[:-1]).codes == ["torn-batch"]


# --- bounds ---


def peak_of(path: Path) -> tuple[Read, int]:
    tracemalloc.start()
    try:
        read = Read(path)
        return read, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_what_would_decompress_beyond_the_limit_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, codec: rf.Codec):
    monkeypatch.setattr(under_test, "MAX_BATCH_BYTES", 4 << 20)
    bomb = rf.with_codec(ONE, codec, rf.compress(bytes(48 << 20), codec))
    read, peak = peak_of(kf.segment(tmp_path, 0, bomb, GOOD))
    assert (read.codes, read.offsets) == (["records-beyond-limit"], [9])
    assert peak < 24 << 20
    assert "once decompressed" in read.unreadable[0].detail


def test_the_limit_itself(monkeypatch: pytest.MonkeyPatch, written):
    made = rf.batch(0, (b"k", b"v" * 5000), codec="zstd")
    size = len(rf.batch(0, (b"k", b"v" * 5000))) - 61
    monkeypatch.setattr(under_test, "MAX_BATCH_BYTES", size)
    assert not written(made).codes
    monkeypatch.setattr(under_test, "MAX_BATCH_BYTES", size - 1)
    assert written(made).codes == ["records-beyond-limit"]


def test_a_snappy_block_is_not_believed_to_be_gigabytes(tmp_path: Path):
    read, peak = peak_of(kf.segment(tmp_path, 0, rf.with_codec(ONE, "snappy", b"\xff\xff\xff\xff\x07" + bytes(90)), GOOD))
    assert (read.codes, read.offsets) == (["bad-records"], [9])
    assert peak < 8 << 20


def test_a_batch_larger_than_the_limit_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(under_test, "MAX_BATCH_BYTES", 1 << 20)
    read, peak = peak_of(kf.segment(tmp_path, 0, rf.batch(0, (b"k", bytes(6 << 20))), GOOD))
    assert (read.codes, read.offsets) == (["records-beyond-limit"], [9])
    assert peak < 5 << 20


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_more_records_than_there_is_room_for(tmp_path: Path, count: int):
    read, peak = peak_of(kf.segment(tmp_path, 0, kf.sealed(kf.with_field(ONE, ">i", 57, count)), GOOD))
    assert (read.codes, read.offsets) == (["bad-records"], [9])
    assert peak < 8 << 20


@pytest.mark.parametrize("magic", [1, 2])
def test_more_records_than_the_limit(monkeypatch: pytest.MonkeyPatch, written, magic: int):
    pairs = [(b"k", b"v")] * 5
    made = rf.batch(0, *pairs, codec="gzip") if magic == 2 else rf.wrapper(1, 4, "gzip", kf.legacy(1, range(5)))
    monkeypatch.setattr(under_test, "MAX_RECORDS", 5)
    assert len(written(made).records) == 5
    monkeypatch.setattr(under_test, "MAX_RECORDS", 4)
    assert written(made).codes == ["records-beyond-limit"]


def test_one_batch_at_a_time_is_held(tmp_path: Path):
    made = rf.batch(0, (b"k", bytes(1 << 20)))
    path = kf.segment(tmp_path, 0, *(kf.with_field(made, ">q", 0, i) for i in range(48)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_records(path)) == 48
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


# --- fuzzing ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_batches_that_cannot_be_decompressed_keep_no_memory(tmp_path: Path, codec: str) -> None:
    """A partition of damaged batches has thousands of them; found by mutation: each kept a MiB."""
    content = base64.b64decode(rf.KAFKA_BATCHES["2", codec, "CreateTime"])
    broken = kf.sealed(content[:-12] + b"zzzzzzzzzzzz")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(broken)

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])

    def read() -> None:
        (found,) = read_records(path)
        assert isinstance(found, UnreadableRecords), found

    read()
    before = pages()
    for _ in range(500):
        read()
    assert (pages() - before) * resource.getpagesize() < 100 << 20
