"""Committed offsets: from bytes, from text of every kafka-dump-log, and of real clusters against what the groups had committed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.coordinators.records import MAX_PROBLEMS
from replica_audit.model import CommittedOffset, SegmentFile
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
DUMP_SAMPLES = ROOT / "tests" / "data" / "dump-samples"
SHARED = ROOT.parent / "shared" / "clusters"
NAME = "00000000000000000000.log"
TOPIC_ID = "FwQ8J6cySmadJADoS7lKRg"
TOPIC_ID_TAG = b"\x01\x00\x10" + bytes.fromhex("17043c27a7324a669d2400e84bb94a46")


class Replayed:
    """What `committed_offsets` gave, taken apart."""

    def __init__(self, files: Iterable[SegmentFile], log_end_offset: int | None = None) -> None:
        self.commits, self.problems = committed_offsets(list(files), log_end_offset)
        self.codes = [problem.code for problem in self.problems]
        self.offsets = {(commit.group_id, commit.topic, commit.partition): commit.offset for commit in self.commits}
        assert [*self.offsets] == sorted(self.offsets)
        assert {problem.kind for problem in self.problems} <= {"group-offsets"}
        assert all(problem.remedy and problem.detail for problem in self.problems)


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[..., Replayed]:
    """Write the batches as one segment and replay it."""

    def write(*batches: bytes, base: int = 0, log_end_offset: int | None = None) -> Replayed:
        return Replayed(rf.raw(kf.segment(tmp_path, base, *batches)), log_end_offset)

    return write


def commit(record_offset: int, offset: int | None, *, partition: int = 0, producer_id: int = -1) -> bytes:
    """One batch that commits for group g, or deletes."""
    value = None if offset is None else rf.commit_value(3, offset)
    return rf.batch(record_offset, (rf.commit_key(partition=partition), value), producer_id=producer_id)


# --- keys and values ---


@pytest.mark.parametrize("key_version", [0, 1])
@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit(replayed, version: int, key_version: int):
    key = rf.commit_key("grüppe", "a.b_c-1", 7, version=key_version)
    value = rf.commit_value(version, 1 << 40, epoch=9, metadata="mötadata", timestamp=1_600_000_000_000)
    made = rf.batch(5, (key, value))
    found = replayed(made, base=5)
    assert found.problems == []
    assert found.commits == [
        CommittedOffset(
            group_id="grüppe",
            topic="a.b_c-1",
            partition=7,
            offset=1 << 40,
            leader_epoch=9 if version >= 3 else -1,
            commit_timestamp_ms=1_600_000_000_000,
            topic_id=None,
            record_offset=5,
            path=found.commits[0].path,
        )
    ]
    assert Path(found.commits[0].path).name == f"{5:020d}.log"


def test_the_bytes_of_a_commit_of_version_3_and_4():
    """The builder itself, against bytes of a real broker (kafka 4.2.0)."""
    real = rf.OFFSETS_SEGMENTS["value-4"]
    assert rf.commit_key("g1", "t", 0) in real
    assert rf.commit_value(3, 10, epoch=5, timestamp=1_600_000_000_000) in real
    assert rf.commit_value(1, 11, timestamp=1_600_000_000_001) in real


@pytest.mark.parametrize(
    ("tags", "topic_id"),
    [
        (b"\x00", None),
        (TOPIC_ID_TAG, TOPIC_ID),
        (b"\x02\x00\x10" + TOPIC_ID_TAG[3:] + b"\x05\x03abc", TOPIC_ID),
        (b"\x01\x81\x01\x02zz", None),
        (b"\x01\x00\x10" + bytes(16), None),
    ],
    ids=["none", "topic id", "topic id and an unknown one", "an unknown one", "the id of zeros"],
)
def test_tagged_fields(replayed, tags: bytes, topic_id: str | None):
    found = replayed(rf.batch(0, (rf.commit_key(), rf.commit_value(4, 3, epoch=1, tags=tags))))
    assert [(commit.offset, commit.leader_epoch, commit.topic_id) for commit in found.commits] == [(3, 1, topic_id)]
    assert found.problems == []


@pytest.mark.parametrize("metadata", ["", "x" * 4096])
@pytest.mark.parametrize("version", [3])
def test_metadata_of_any_size(replayed, version: int, metadata: str):
    assert replayed(rf.batch(0, (rf.commit_key(), rf.commit_value(version, 3, metadata=metadata)))).offsets == {("g", "t", 0): 3}


def test_metadata_of_version_4_beyond_one_byte_of_length(replayed):
    value = struct.pack(">hqi", 4, 77, 2) + b"\xc9\x01" + b"m" * 200 + struct.pack(">q", 5) + b"\0"
    found = replayed(rf.batch(0, (rf.commit_key(), value)))
    assert [(commit.offset, commit.commit_timestamp_ms) for commit in found.commits] == [(77, 5)]


def test_bytes_behind_a_value_do_not_matter(replayed):
    assert replayed(rf.batch(0, (rf.commit_key() + b"?", rf.commit_value(3, 3) + b"more"))).offsets == {("g", "t", 0): 3}


@pytest.mark.parametrize("version", [2, 3, 8, 15, 16, 23, 24, 99, 32767, -1, -32768])
def test_records_of_other_kinds_are_passed_over(replayed, version: int):
    found = replayed(rf.batch(0, (struct.pack(">h", version), b"\xff" * 9), (struct.pack(">h", version) + b"\xff", None)), commit(2, 8))
    assert found.offsets == {("g", "t", 0): 8}
    assert found.problems == []


GROUP = rf.commit_key()
MALFORMED: dict[str, rf.Pair] = {
    "no key": (None, rf.commit_value(3, 1)),
    "empty key": (b"", rf.commit_value(3, 1)),
    "half a version": (b"\0", rf.commit_value(3, 1)),
    "null group": (struct.pack(">hh", 1, -1) + GROUP[5:], rf.commit_value(3, 1)),
    "group beyond the key": (struct.pack(">hh", 1, 32767) + GROUP[4:], rf.commit_value(3, 1)),
    "empty value": (GROUP, b""),
    "version 5": (GROUP, struct.pack(">h", 5) + rf.commit_value(4, 1)[2:]),
    "version -1": (GROUP, struct.pack(">h", -1) + rf.commit_value(4, 1)[2:]),
    "null metadata": (GROUP, struct.pack(">hqihq", 3, 1, 1, -1, 5)),
    "null compact metadata": (GROUP, struct.pack(">hqi", 4, 1, 1) + b"\0" + struct.pack(">q", 5) + b"\0"),
    "metadata beyond the value": (GROUP, struct.pack(">hqi", 4, 1, 1) + b"\xff\xff\xff\xff\x0f" + bytes(9)),
    "length number without an end": (GROUP, struct.pack(">hqi", 4, 1, 1) + b"\xff" * 12),
    "a tag beyond the value": (GROUP, rf.commit_value(4, 1, tags=b"\x01\x07\x05")),
    "tags without number": (GROUP, rf.commit_value(4, 1, tags=b"")),
    "many tags": (GROUP, rf.commit_value(4, 1, tags=b"\xff\xff\xff\xff\x0f")),
    "a topic id of three bytes": (GROUP, rf.commit_value(4, 1, tags=b"\x01\x00\x03abc")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_a_problem_and_the_others_count(replayed, name: str):
    made = rf.batch(4, (rf.commit_key(partition=1), rf.commit_value(3, 10)), MALFORMED[name], (rf.commit_key(partition=2), None))
    found = replayed(commit(3, 9, partition=2), made, commit(7, 11, partition=3), base=3)
    assert found.offsets == {("g", "t", 1): 10, ("g", "t", 3): 11}
    assert found.codes == ["malformed-record"]
    assert "offset 5" in found.problems[0].detail
    assert found.problems[0].byte_offset == len(commit(3, 9, partition=2))


@pytest.mark.parametrize("version", range(5))
def test_keys_and_values_cut_at_every_byte(replayed, version: int):
    value = rf.commit_value(version, 3, epoch=1, metadata="metadata", tags=TOPIC_ID_TAG)
    for cut in range(len(value)):
        assert replayed(rf.batch(0, (GROUP, value[:cut]))).codes == ["malformed-record"], cut
    for cut in range(len(GROUP)):
        assert replayed(rf.batch(0, (GROUP[:cut], value))).codes == ["malformed-record"], cut


def test_problems_of_a_file_are_bounded(replayed):
    found = replayed(rf.batch(0, *[(GROUP, b"\0\x09")] * 150), commit(150, 4))
    assert found.codes == ["malformed-record"] * MAX_PROBLEMS + ["more"]
    assert str(150 - MAX_PROBLEMS) in found.problems[-1].detail
    assert found.offsets == {("g", "t", 0): 4}


# --- replay ---


def test_the_last_commit_counts_and_a_deletion_removes(replayed):
    assert replayed(commit(0, 1), commit(1, 5, partition=1), commit(2, 2)).offsets == {("g", "t", 0): 2, ("g", "t", 1): 5}
    assert replayed(commit(0, 1), commit(1, None)).offsets == {}
    assert replayed(commit(0, 1), commit(1, None), commit(2, 1)).offsets == {("g", "t", 0): 1}
    assert replayed(commit(0, 9), commit(1, 3)).offsets == {("g", "t", 0): 3}, "back, as a group was reset"


def test_segments_are_replayed_in_offset_order(tmp_path: Path):
    last = kf.segment(tmp_path, 20, commit(20, 3))
    middle = kf.segment(tmp_path, 10, commit(12, 2), commit(13, 7, partition=1))
    first = kf.segment(tmp_path, 0, commit(0, 1))
    found = Replayed(rf.raw(last, middle, first))
    assert found.offsets == {("g", "t", 0): 3, ("g", "t", 1): 7}
    assert [(Path(commit.path), commit.record_offset) for commit in found.commits] == [(last, 20), (middle, 13)]


@pytest.mark.parametrize(("log_end_offset", "offset"), [(0, None), (1, 1), (2, 2), (3, 3), (99, 3), (None, 3)])
def test_records_at_and_above_the_log_end_do_not_count(replayed, log_end_offset: int | None, offset: int | None):
    made = rf.batch(0, *((GROUP, rf.commit_value(3, number)) for number in (1, 2, 3)), (GROUP, b"malformed"))
    found = replayed(made, log_end_offset=log_end_offset)
    assert found.offsets == ({} if offset is None else {("g", "t", 0): offset})
    assert found.codes == ["malformed-record"], "what cannot be used is told wherever the log ends"


MARKER = {True: rf.COMMIT, False: rf.ABORT}


def marker(record_offset: int, producer_id: int, *, committed: bool) -> bytes:
    return rf.control_batch(record_offset, MARKER[committed], producer_id=producer_id)


def test_what_a_transaction_commits_counts_once_its_marker_stands_there(replayed):
    begun = [commit(0, 1), commit(1, 5, producer_id=7)]
    assert replayed(*begun).offsets == {("g", "t", 0): 1}
    assert replayed(*begun, marker(2, 7, committed=True)).offsets == {("g", "t", 0): 5}
    assert replayed(*begun, marker(2, 7, committed=False)).offsets == {("g", "t", 0): 1}
    assert replayed(*begun, marker(2, 8, committed=True)).offsets == {("g", "t", 0): 1}
    assert replayed(*begun, marker(2, 7, committed=True), log_end_offset=2).offsets == {("g", "t", 0): 1}


def test_transactions_of_one_producer_one_after_another(replayed):
    made = [commit(0, 1, producer_id=7), marker(1, 7, committed=False), commit(2, 2, partition=1, producer_id=7)]
    assert replayed(*made, marker(3, 7, committed=True)).offsets == {("g", "t", 1): 2}
    assert replayed(*made, marker(3, 7, committed=True), marker(4, 7, committed=True)).offsets == {("g", "t", 1): 2}


def test_transactions_of_two_producers_do_not_mix(replayed):
    made = [commit(0, 1, producer_id=7), commit(1, 2, producer_id=8), commit(2, 3, partition=1, producer_id=8)]
    assert replayed(*made, marker(3, 8, committed=False), marker(4, 7, committed=True)).offsets == {("g", "t", 0): 1}
    assert replayed(*made, marker(3, 8, committed=True), marker(4, 7, committed=True)).offsets == {("g", "t", 0): 2, ("g", "t", 1): 3}


def test_the_later_of_a_transactional_and_a_regular_commit_counts(replayed):
    assert replayed(commit(0, 5, producer_id=7), commit(1, 9), marker(2, 7, committed=True)).offsets == {("g", "t", 0): 9}
    assert replayed(commit(0, 9), commit(1, 5, producer_id=7), marker(2, 7, committed=True)).offsets == {("g", "t", 0): 5}


def test_a_deletion_removes_what_is_pending_too(replayed):
    assert replayed(commit(0, 5, producer_id=7), commit(1, None), marker(2, 7, committed=True)).offsets == {}


def test_a_transaction_over_two_segments(tmp_path: Path):
    paths = [kf.segment(tmp_path, 0, commit(0, 5, producer_id=7)), kf.segment(tmp_path, 1, marker(1, 7, committed=True))]
    assert Replayed(rf.raw(*paths)).offsets == {("g", "t", 0): 5}


@pytest.mark.parametrize("kind", [2, 3, 99, -1])
def test_control_records_of_other_kinds_end_no_transaction(replayed, kind: int):
    other = rf.control_batch(1, struct.pack(">hh", 0, kind), producer_id=7)
    found = replayed(commit(0, 5, producer_id=7), other, marker(2, 7, committed=True))
    assert (found.offsets, found.problems) == ({("g", "t", 0): 5}, [])


def test_a_control_record_without_its_key(replayed):
    found = replayed(commit(0, 5, producer_id=7), rf.control_batch(1, b"\0\0\0", producer_id=7), commit(2, 6, partition=1))
    assert (found.codes, found.offsets) == (["malformed-record"], {("g", "t", 1): 6})


def test_a_batch_that_cannot_be_read_is_left_out(replayed):
    broken = kf.with_field(commit(1, 2), ">b", 65, 1)
    garbled = rf.with_codec(commit(2, 3), "zstd", b"no zstd")
    found = replayed(commit(0, 1), broken, garbled, commit(3, 4, partition=1))
    assert found.offsets == {("g", "t", 0): 1, ("g", "t", 1): 4}
    assert found.codes == ["bad-crc", "bad-records"]
    assert [problem.byte_offset for problem in found.problems] == [len(commit(0, 1)), len(commit(0, 1) + broken)]
    assert replayed(commit(0, 1), broken, log_end_offset=1).codes == ["bad-crc"]


def test_what_stands_behind_damage_is_told_to_be_unknown(replayed):
    found = replayed(commit(5, 1), commit(2, 3), commit(6, 4))
    assert found.offsets == {("g", "t", 0): 1}
    (problem,) = found.problems
    assert (problem.code, problem.byte_offset) == ("offsets-not-increasing", len(commit(5, 1)))
    assert "behind it is unknown" in problem.detail


def test_what_stands_before_the_end_of_a_torn_segment_counts(replayed):
    found = replayed(commit(0, 1), commit(1, 2)[:-3])
    assert (found.offsets, found.problems) == ({("g", "t", 0): 1}, [])


def test_compressed_and_legacy_batches(replayed):
    pairs = [(rf.commit_key(partition=number), rf.commit_value(1, number)) for number in range(4)]
    found = replayed(rf.batch(0, *pairs, codec="snappy"), rf.batch(4, (GROUP, None), codec="zstd"))
    assert found.offsets == {("g", "t", number): number for number in (1, 2, 3)}
    assert replayed(rf.OFFSETS_SEGMENTS["magic-1"]).offsets[("g1", "t", 2)] == 12


def test_a_file_that_is_gone_is_a_problem_and_the_others_count(tmp_path: Path):
    files = rf.raw(kf.segment(tmp_path, 0, commit(0, 1)), kf.segment(tmp_path, 1, commit(1, 2)))
    Path(files[0].path).unlink()
    found = Replayed(files)
    assert (found.codes, found.offsets) == (["cannot-read"], {("g", "t", 0): 2})


def test_no_files():
    assert committed_offsets([]) == ([], [])


# --- what Kafka wrote, and what kafka-dump-log printed of it ---

WRITTEN = {("g1", "t", 1): 11, ("g1", "t", 2): 12, ("g:2, x=ä payload: 1", "t-u.v_w", 3): 20}
IN_TRANSACTIONS = {("g1", "t", 0): 90, ("g1", "t", 5): 50, ("g5", "t", 0): 6}
EXPECTED = {
    "magic-1": WRITTEN | {("g1", "t", 0): 10},
    "magic-2": WRITTEN | IN_TRANSACTIONS,
    "value-3": WRITTEN | IN_TRANSACTIONS,
    "value-4": WRITTEN | IN_TRANSACTIONS | {("g3", "t", 0): 30, ("g3", "t", 1): 31},
}
HIDES_DELETIONS = ("0.10.2.2", "1.1.1", "2.3.1")


def text(folder: Path, content: bytes) -> list[SegmentFile]:
    path = folder / "text"
    path.write_bytes(content)
    return rf.texts(path)


@pytest.mark.parametrize("name", rf.OFFSETS_SEGMENTS)
def test_segments_written_by_kafka(replayed, name: str):
    found = replayed(rf.OFFSETS_SEGMENTS[name])
    assert found.offsets == EXPECTED[name]
    assert found.problems == []


def test_epochs_times_and_topic_ids_written_by_kafka(replayed):
    found = {(c.group_id, c.partition): c for c in replayed(rf.OFFSETS_SEGMENTS["value-4"]).commits}
    told = {key: (c.leader_epoch, c.commit_timestamp_ms - 1_600_000_000_000, c.topic_id) for key, c in found.items() if key[0] != "g5"}
    assert told == {
        ("g1", 0): (6, 7, None),
        ("g1", 1): (-1, 1, None),
        ("g1", 2): (-1, 2, None),
        ("g1", 5): (6, 6, None),
        ("g3", 0): (7, 4, TOPIC_ID),
        ("g3", 1): (8, 5, None),
        ("g:2, x=ä payload: 1", 3): (-1, 3, None),
    }


@pytest.mark.parametrize("case", rf.OFFSETS_TEXTS, ids="-".join)
def test_text_tells_what_the_segment_tells(tmp_path: Path, replayed, case: tuple[str, str]):
    name, version = case
    ours, theirs = replayed(rf.OFFSETS_SEGMENTS[name]), Replayed(text(tmp_path, rf.OFFSETS_TEXTS[case]))
    hidden = {("gone", "t", 0): 1} if version in HIDES_DELETIONS else {}
    assert theirs.offsets == ours.offsets | hidden
    assert theirs.codes == ["deletion-without-key"] * (version in HIDES_DELETIONS)
    of = {(commit.group_id, commit.partition): commit for commit in ours.commits}
    for found in theirs.commits:
        if (found.group_id, found.partition) in of:
            same = of[found.group_id, found.partition]
            assert found.record_offset == same.record_offset
            known = (same.leader_epoch, same.commit_timestamp_ms, same.topic_id) if version == "4.2.0" else (-1, -1, None)
            assert (found.leader_epoch, found.commit_timestamp_ms, found.topic_id) == known


@pytest.mark.parametrize("case", rf.OFFSETS_TEXTS, ids="-".join)
@pytest.mark.parametrize("log_end_offset", [0, 3, 9, 14])
def test_log_end_in_text(tmp_path: Path, replayed, case: tuple[str, str], log_end_offset: int):
    ours = replayed(rf.OFFSETS_SEGMENTS[case[0]], log_end_offset=log_end_offset)
    theirs = Replayed(text(tmp_path, rf.OFFSETS_TEXTS[case]), log_end_offset)
    assert {key: offset for key, offset in theirs.offsets.items() if key[0] != "gone"} == {
        key: offset for key, offset in ours.offsets.items() if key[0] != "gone"
    }


@pytest.mark.parametrize("case", rf.OFFSETS_TEXTS, ids="-".join)
def test_text_with_line_ends_of_windows(tmp_path: Path, case: tuple[str, str]):
    content = rf.OFFSETS_TEXTS[case]
    assert Replayed(text(tmp_path, content.replace(b"\n", b"\r\n"))).offsets == Replayed(text(tmp_path, content)).offsets


def test_several_segments_in_one_text(tmp_path: Path):
    content = rf.OFFSETS_TEXTS["value-4", "4.2.0"]
    later = _batch_line(100, 1) + _record_line(100, '{"type":"1","data":{"group":"g1","topic":"t","partition":0}}', _json_value(3, 700))
    files = text(tmp_path, content + b"Dumping x/__consumer_offsets-0/%020d.log\nLog starting offset: 100\n" % 100 + later)
    assert [file.base_offset for file in files] == [0, 100]
    found = Replayed(reversed(files))
    assert found.offsets == EXPECTED["value-4"] | {("g1", "t", 0): 700}
    assert found.problems == []


# --- text that tells no commits, or lies ---


def _batch_line(
    base: int, count: int, *, position: int = 0, size: int = 90, attributes: str = "isTransactional: false isControl: false"
) -> bytes:
    return (
        f"baseOffset: {base} lastOffset: {base + count - 1} count: {count} baseSequence: -1 lastSequence: -1 producerId: 7 "
        f"producerEpoch: -1 partitionLeaderEpoch: 0 {attributes} deleteHorizonMs: OptionalLong.empty position: {position} CreateTime: 5 "
        f"size: {size} magic: 2 compresscodec: none crc: 1 isvalid: true\n"
    ).encode()


def _record_line(offset: int, key: str, payload: str, *, key_size: int | None = None, value_size: int = 24) -> bytes:
    size = 13 if key_size is None else key_size
    size_of_value = -1 if payload == "<DELETE>" else value_size
    head = f"| offset: {offset} CreateTime: 5 keySize: {size} valueSize: {size_of_value} sequence: -1 headerKeys: []"
    return f"{head} key: {key} payload: {payload}\n".encode()


def _json_value(version: int, offset: object, more: str = "") -> str:
    return f'{{"version":"{version}","data":{{"offset":{offset},"leaderEpoch":1,"metadata":"","commitTimestamp":5{more}}}}}'


JSON_KEY = '{"type":"1","data":{"group":"g1","topic":"t","partition":0}}'
HEAD = b"Dumping x/__consumer_offsets-0/" + NAME.encode() + b"\nLog starting offset: 0\n"


def _json_text(*pairs: tuple[str, str], key_size: int | None = None) -> bytes:
    lines = [_record_line(i, key, payload, key_size=key_size) for i, (key, payload) in enumerate(pairs)]
    return HEAD + _batch_line(0, len(pairs)) + b"".join(lines)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(DUMP_SAMPLES.glob("v*/*.txt")) if "0.10.2.2.shallow" not in path.name or path.parent.name != "v2"],
    ids=lambda path: "-".join(path.parts[-2:]),
)
def test_text_without_decoded_records_is_one_problem(path: Path):
    found = Replayed(rf.texts(path))
    assert found.commits == []
    assert found.codes == ["not-decoded"]
    assert "--offsets-decoder" in found.problems[0].remedy


def test_text_of_a_segment_without_records_lacks_nothing(tmp_path: Path):
    assert Replayed(text(tmp_path, HEAD)).problems == []
    control = _batch_line(0, 1, attributes="isTransactional: true isControl: true")
    assert Replayed(text(tmp_path, HEAD + control)).problems == []
    assert Replayed(text(tmp_path, HEAD + _batch_line(0, 1).replace(b"count: 1", b"count: 0"))).problems == []


def test_records_without_metadata_are_not_decoded(tmp_path: Path):
    found = Replayed(text(tmp_path, HEAD + _batch_line(0, 1) + f"| key: {JSON_KEY} payload: {_json_value(3, 4)}\n".encode()))
    assert (found.codes, found.commits) == (["not-decoded"], [])


UNREADABLE = [
    (JSON_KEY, _json_value(5, 4)),
    (JSON_KEY, _json_value(3, "4.5")),
    (JSON_KEY, _json_value(3, "9" * 30)),
    (JSON_KEY, _json_value(3, "9" * 5000)),
    (JSON_KEY, _json_value(3, '"4"')),
    (JSON_KEY, _json_value(4, 4, ',"topicId":"no id"')),
    (JSON_KEY, _json_value(4, 4, ',"topicId":7')),
    (JSON_KEY, '{"version":"3"}'),
    (JSON_KEY, '{"version":"3","data":[]}'),
    (JSON_KEY, "null"),
    (JSON_KEY, "[" * 100_000),
    (JSON_KEY, _json_value(3, 4) + " "),
    (JSON_KEY, _json_value(3, 4)[:-1]),
    ('{"type":"1","data":{"group":"g1","topic":"t"}}', _json_value(3, 4)),
    ('{"type":"1","data":{"group":null,"topic":"t","partition":0}}', _json_value(3, 4)),
    ('{"type":"1","data":{"group":"g1","topic":"t","partition":4294967296}}', _json_value(3, 4)),
    ('{"type":"1","data":{"group":"g","topic":"t","partition":0}}', _json_value(3, 4)),
    ('{"type":"1","data":{"group":"\\ud800","topic":"t","partition":0}}', _json_value(3, 4)),
    ('{"type":1}', _json_value(3, 4)),
    ('{"type":' + "[" * 100_000, _json_value(3, 4)),
    ("Error at offset 1, skipping. Buffer underflow", ""),
    ("offset_commit::group=g1,partition=t-0", "offset="),
    ("offset_commit::group=g1,partition=t-0", "offset=99999999999999999999"),
    ("offset_commit::group=g1,partition=t-9999999999", "offset=4"),
    ("offset_commit::group=g1", "offset=4"),
    ("offset_commit::group=g1,partition=t-0", "4"),
    ("offset_commit::group=g12,partition=t-0", "offset=4"),
    ("offset_commit::group=g1,partition=t", "offset=4"),
    ("offset::g1:t:0", "<DELETE>"),
    ("offset::g1:t", "4"),
    ("not decoded at all", "4"),
]


@pytest.mark.parametrize(("key", "payload"), UNREADABLE, ids=lambda text: text[:50])
def test_a_record_that_cannot_be_read_is_told_and_the_next_one_counts(tmp_path: Path, key: str, payload: str):
    other = ('{"type":"1","data":{"group":"g2","topic":"t","partition":0}}', _json_value(3, 8))
    found = Replayed(text(tmp_path, _json_text(other, (key, payload), (JSON_KEY, _json_value(3, 6)))))
    assert found.offsets == {("g2", "t", 0): 8, ("g1", "t", 0): 6}
    assert len(found.problems) == 1
    assert found.codes[0] in ("malformed-record", "not-decoded")
    assert "offset 1" in found.problems[0].detail
    assert found.problems[0].line == 5


@pytest.mark.parametrize(
    ("key", "payload"),
    [
        ('{"type":"2","data":{"group":"g1"}}', "<DELETE>"),
        ('{"type":"3","data":{"groupId":"g1"}}', '{"version":"0","data":{"epoch":1}}'),
        ("Unknown record type 99 at offset 0, skipping.", ""),
        ("unknown::version=99", ""),
        ("group_metadata::group=g1", "<DELETE>"),
        ('{"metadata":"g1"}', "{}"),
        ("metadata::g1", ":null:1:{}"),
    ],
)
def test_decoded_records_of_other_kinds_are_passed_over(tmp_path: Path, key: str, payload: str):
    assert Replayed(text(tmp_path, _json_text((key, payload)))).problems == []


def test_text_cut_anywhere_tells_no_more_than_the_whole(tmp_path: Path):
    for case in [("value-4", "4.2.0"), ("value-4", "3.7.1"), ("magic-2", "1.1.1")]:
        content = rf.OFFSETS_TEXTS[case]
        whole = text(tmp_path, content)
        told = {commit for end in range(1, 24) for commit in committed_offsets(whole, end)[0]}
        for cut in range(200, len(content), 19):
            assert told.issuperset(committed_offsets(text(tmp_path, content[:cut]))[0]), cut


FORGED_KEY = "offset_commit::group=victim,partition=t-0"


def _named(group_id: str, offset: int, metadata: str = "") -> tuple[str, str, int, int]:
    key, payload = f"offset_commit::group={group_id},partition=t-0", f"offset={offset}" + (f",metadata={metadata}" if metadata else "")
    return key, payload, len(group_id) + 11, 24 + len(metadata)


def _named_text(*records: tuple[str, str, int, int], base: int = 0, position: int = 0) -> bytes:
    lines = [
        _record_line(base + i, key, payload, key_size=key_size, value_size=value_size)
        for i, (key, payload, key_size, value_size) in enumerate(records)
    ]
    return _batch_line(base, len(records), position=position) + b"".join(lines)


FORGED = _record_line(1, FORGED_KEY, "offset=0", key_size=17).decode().rstrip("\n")
FORGERIES = {
    "a record in the metadata of the first of two": (_named("evil", 1, f"\n{FORGED}"), _named("evil2", 2)),
    "a record in the metadata of the last": (_named("evil", 1), _named("evil2", 2, f"\n{FORGED}")),
    "a record in the group": (_named(f"evil\n{FORGED}\n", 1), _named("evil2", 2)),
    "a batch in the metadata that does not continue the log": (_named("evil", 1, "\n" + _batch_line(1, 1, position=5).decode() + FORGED),),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_contents_that_look_like_a_record_commit_nothing(tmp_path: Path, name: str):
    content = HEAD + _named_text(*FORGERIES[name]) + _named_text(_named("honest", 5), base=2, position=90)
    found = Replayed(text(tmp_path, content))
    assert "victim" not in {commit.group_id for commit in found.commits}
    assert found.offsets[("honest", "t", 0)] == 5
    assert found.codes == ["malformed-record"]


def test_metadata_of_several_lines_does_no_harm(tmp_path: Path):
    found = Replayed(text(tmp_path, HEAD + _named_text(_named("g1", 1, '{\n  "a": 1,\n}'), _named("g2", 2, "\n\n| \n"))))
    assert found.offsets == {("g1", "t", 0): 1, ("g2", "t", 0): 2}
    assert found.problems == []


def test_groups_with_what_separates_fields(tmp_path: Path):
    names = ["a,partition=b-1", " payload: offset=9", "x key: y", "a:b:1 payload: 3", "<DELETE>", "ä"]
    old = HEAD.replace(b"Log s", b"S")
    for i, name in enumerate(names):
        size = len(name.encode()) + 11
        record = f"offset: {i} position: {i} CreateTime: 5 isvalid: true keysize: {size} valuesize: 31 magic: 1 compresscodec: NONE crc: 1"
        old += f"{record} key: offset::{name}:t:0 payload: {i}:m:1\n".encode()
    new = HEAD + _named_text(*((*_named(name, i)[:2], len(name.encode()) + 11, 24) for i, name in enumerate(names)))
    for content in (old, new):
        found = Replayed(text(tmp_path, content))
        assert found.offsets == {(name, "t", 0): i for i, name in enumerate(names)}
        assert found.problems == []


def _old_line(offset: int, group_id: str, payload: str, value_size: int) -> bytes:
    head = f"offset: {offset} position: {offset * 90} CreateTime: 5 isvalid: true keysize: {len(group_id) + 11} valuesize: {value_size}"
    tail = "magic: 2 compresscodec: NONE producerId: -1 producerEpoch: -1 sequence: 0 isTransactional: false headerKeys: []"
    return f"{head} {tail} key: offset::{group_id}:t:0 payload: {payload}\n".encode()


def test_text_without_batches_is_not_read_beyond_contents_that_do_not_fit(tmp_path: Path):
    forged = _old_line(7, "victim", "0", 28).decode().rstrip("\n")
    for evil in [_old_line(1, "evil", f"5:\n{forged}", 29 + len(forged)), _old_line(1, f"evil\n{forged}", "5", 28)]:
        found = Replayed(text(tmp_path, HEAD + _old_line(0, "g1", "3", 28) + evil + _old_line(9, "g2", "4", 28)))
        assert found.offsets == {("g1", "t", 0): 3}
        assert found.codes == ["malformed-record"]


def test_text_without_batches_whose_offsets_do_not_rise_is_not_read_on(tmp_path: Path):
    found = Replayed(text(tmp_path, HEAD + _old_line(4, "g1", "3", 28) + _old_line(4, "g2", "4", 28) + _old_line(5, "g3", "4", 28)))
    assert (found.offsets, found.codes) == ({("g1", "t", 0): 3}, ["malformed-record"])


@pytest.mark.parametrize(
    ("payload", "value_size"),
    [("<DELETE>", 24), ("offset=3", -1), ("offset=3", 19), ("offset=3,metadata=abcdef", 25), (_json_value(3, 1), -1)],
)
def test_a_value_that_cannot_have_the_told_size(tmp_path: Path, payload: str, value_size: int):
    key = JSON_KEY if payload.startswith("{") else "offset_commit::group=g1,partition=t-0"
    line = _record_line(0, key, payload).replace(b"valueSize: 24", b"valueSize: %d" % value_size)
    line = line.replace(b"valueSize: -1", b"valueSize: %d" % value_size)
    assert Replayed(text(tmp_path, HEAD + _batch_line(0, 1) + line)).codes == ["malformed-record"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_with_another_number_of_records_than_its_line_tells(tmp_path: Path, count: int):
    records = b"".join(_record_line(i, JSON_KEY, _json_value(3, i)) for i in range(2))
    found = Replayed(text(tmp_path, HEAD + _batch_line(0, 3).replace(b"count: 3", b"count: %d" % count) + records))
    assert (found.offsets, found.codes) == ({}, ["malformed-record"])


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (1, 2), (-1, 1), (10**30, 1)])
def test_records_outside_of_their_batch_or_out_of_order(tmp_path: Path, offsets: tuple[int, int]):
    records = b"".join(_record_line(offset, JSON_KEY, _json_value(3, 1)) for offset in offsets)
    found = Replayed(text(tmp_path, HEAD + _batch_line(0, 2) + records))
    assert (found.offsets, found.codes) == ({}, ["malformed-record"])


def test_headers_could_hold_anything(tmp_path: Path):
    line = _record_line(0, JSON_KEY, _json_value(3, 1))
    for headers in (b"[] key: {},x]", b"[h]", b"[h i]", b"[h,] key: x]"):
        found = Replayed(text(tmp_path, HEAD + _batch_line(0, 1) + line.replace(b"[]", headers)))
        assert (found.offsets, found.codes) == ({}, ["not-decoded"])


def test_a_marker_counts_only_in_a_control_batch(tmp_path: Path):
    transactional = "isTransactional: true isControl: false"
    begun = _batch_line(0, 1, attributes=transactional) + _record_line(0, JSON_KEY, _json_value(3, 5))
    ended = b"| offset: 1 CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 4\n"
    in_data = _batch_line(1, 1, position=90, attributes=transactional) + ended
    in_control = _batch_line(1, 1, position=90, attributes="isTransactional: true isControl: true") + ended
    assert Replayed(text(tmp_path, HEAD + begun + in_data)).offsets == {}
    assert Replayed(text(tmp_path, HEAD + begun + in_control)).offsets == {("g1", "t", 0): 5}


def test_lines_of_any_length(tmp_path: Path):
    long = "x" * 300_000
    content = HEAD + _named_text(_named(long, 1), _named("g2", 2)) + _named_text(_named("g3", 3), base=2, position=90)
    found = Replayed(text(tmp_path, content))
    assert found.offsets == {("g3", "t", 0): 3}
    assert found.codes == ["malformed-record"]


# --- real clusters ---

BILLING = {"bill-early": (10, 10, 10), "bill-classic": (30, 22, 16), "bill-kip848": (30, 22, 16), "bill-partial": (15, 22, 13)}
BILLING |= {"bill-noepoch": (30, 22, 16), "bill-after": (15, 40, 10)}
EPOCHS = {"bill-noepoch": -1, "bill-after": 2}
Truth = frozenset[tuple[str, str, int, int, int | None]]


def _sample_truth() -> Truth:
    """What the sample's groups had committed when it was taken; the epoch of those that did not tell one is -1."""
    return frozenset(
        (group_id, "billing", partition, offset, EPOCHS.get(group_id, 0))
        for group_id, offsets in BILLING.items()
        for partition, offset in enumerate(offsets)
    )


def _truth(groups: Path, moment: str) -> Truth | None:
    """What an admin client or a consumer was told; an epoch of None where it was not asked for."""
    told = json.loads(groups.read_text(encoding="utf-8")).get(moment)
    if told is None:
        return None
    found: set[tuple[str, str, int, int, int | None]] = set()
    for group_id, commits in told.items():
        if isinstance(commits, list):
            found |= {(group_id, row["topic"], row["partition"], row["offset"], row.get("leader_epoch", -1)) for row in commits}
        else:
            names = ((name.rpartition("-"), offset) for name, offset in commits["committed"].items())
            found |= {(group_id, topic, int(partition), offset, None) for (topic, _, partition), offset in names}
    return frozenset(found)


def _leaders(root: Path) -> list[Path]:
    """The replica of each partition of `__consumer_offsets` that leads."""
    topics = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))["topics"]
    partitions = next(topic["partitions"] for topic in topics if topic["topic"] == "__consumer_offsets")
    return [next(root.glob(f"broker-{row['leader']}/*/__consumer_offsets-{row['partition']}")) for row in partitions]


TRUTHS = [(SAMPLE / "committed-loss", _sample_truth())]
TRUTHS += [
    (groups.with_name(moment), truth)
    for groups in sorted(SHARED.glob("*committed-loss/groups.json"))
    for moment in ("before", "after")
    if (truth := _truth(groups, moment)) is not None
]


def _case(case: tuple[Path, object]) -> str:
    return "/".join(case[0].relative_to(ROOT.parent).parts[-2:])


@pytest.mark.clusters
@pytest.mark.parametrize("case", TRUTHS, ids=_case)
def test_what_real_groups_had_committed(case: tuple[Path, Truth]):
    root, truth = case
    tells_epochs = all(row[4] is not None for row in truth)
    found = set()
    for directory in _leaders(root):
        replayed = Replayed(rf.raw(*sorted(directory.glob("*.log"))))
        assert replayed.problems == []
        found |= {(c.group_id, c.topic, c.partition, c.offset, c.leader_epoch if tells_epochs else None) for c in replayed.commits}
    assert found == truth


TEXTS = [
    (texts / directory.parts[-3] / directory.name, directory)
    for scenario in sorted(SHARED.glob("*"))
    for moment, texts in (("before", scenario / "dump-log-data"), ("after", scenario / "dump-log-after-data"))
    for directory in sorted(scenario.glob(f"{moment}/broker-*/*/__consumer_offsets-*"))
    if (texts / directory.parts[-3] / directory.name).is_dir()
]


@pytest.mark.clusters
def test_text_of_real_clusters_tells_what_their_segments_tell():
    compared = 0
    for folder, directory in TEXTS:
        theirs, ours = Replayed(rf.texts(*sorted(folder.glob("*.txt")))), Replayed(rf.raw(*sorted(directory.glob("*.log"))))
        assert theirs.problems == ours.problems == []
        tells_all = "1.1.1" not in str(folder) and "2.4.1" not in str(folder)
        rows = [
            [
                (c.group_id, c.topic, c.partition, c.offset, c.record_offset)
                + ((c.leader_epoch, c.commit_timestamp_ms, c.topic_id) if tells_all else ())
                for c in one.commits
            ]
            for one in (theirs, ours)
        ]
        assert rows[0] == rows[1], folder
        compared += len(rows[0])
    assert not TEXTS or compared > 200


def test_the_folder_of_real_clusters_is_complete_where_it_exists():
    """Guards the lists above: empty ones would pass."""
    assert not SHARED.is_dir() or (len(TRUTHS) >= 7 and len(TEXTS) >= 60)


# --- fuzzing ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("group-offsets")
