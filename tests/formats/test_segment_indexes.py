"""Index files against the batches of their segment: what misleads a broker is told, and nothing that a broker writes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats import indexes as checks
from replica_audit.formats.indexes import OFFSET_ENTRY, TIME_ENTRY, index_entries
from replica_audit.formats.native import native_code
from replica_audit.formats.replicas import segment_reader
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.model import MISLEADING_INDEX, PERHAPS_MISLEADING_INDEX, AbortedTransaction, Problem
from tests.formats import index_files as made
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats.index_files import Stored
from tests.formats.segment_readers import native_code_for_tests
from tests.formats.test_producer_snapshots import index as transaction_index

BASE = 100
ALL = (".index", ".timeindex", ".txnindex")


class Segment:
    """A segment with three batches or more and its indexes, in a folder of its own."""

    def __init__(self, folder: Path, shapes: Sequence[tuple[int, int, int]]) -> None:
        """Batches, each by (offsets missing before it, records, timestamp)."""
        content, self.batches, offset = b"", list[Stored](), BASE
        for missing, count, timestamp in shapes:
            offset += missing
            batch = kf.batch(offset, 0, deltas=range(count), timestamp=timestamp)
            self.batches.append(Stored(len(content), len(batch), offset, offset + count - 1, timestamp + count - 1))
            content, offset = content + batch, offset + count
        self.path = kf.segment(folder, BASE, content)
        self.offsets, self.times = made.entries_of(self.batches)

    def problems(self, beside: Sequence[str] = ALL[:2], *, scanner: object = None) -> list[Problem]:
        made.write_indexes(self.path, BASE, self.offsets, self.times)
        with mock.patch.object(native_code, "scanner", lambda _batches: scanner):
            return list(scan_file(self.path, beside=beside).index_problems)


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    """Five batches; the newest record is in the third."""
    return Segment(tmp_path, [(0, 2, 1000), (0, 3, 2000), (4, 1, 5000), (0, 2, 3000), (0, 1, 4000)])


def test_what_a_broker_writes(segment: Segment) -> None:
    assert (len(segment.offsets), len(segment.times)) == (4, 2)
    assert segment.problems() == []


def test_a_position_inside_a_batch(segment: Segment) -> None:
    offset, position = segment.offsets[1]
    segment.offsets[1] = (offset, position + 1)
    (problem,) = segment.problems()
    assert (problem.kind, problem.code, problem.byte_offset) == ("offset-index", MISLEADING_INDEX, 8)
    assert problem.path == str(segment.path.with_suffix(".index"))
    assert problem.detail == f"entry 1 leads reads of offset {offset} to byte {position + 1}, where no batch begins: they fail"


def test_the_position_of_a_later_batch(segment: Segment) -> None:
    segment.offsets[0] = (segment.offsets[0][0], segment.offsets[1][1])
    (problem,) = segment.problems()
    assert problem.code == MISLEADING_INDEX
    assert problem.detail.endswith("behind offset 104: they skip offsets 104..104")


def test_an_offset_that_is_too_low(segment: Segment) -> None:
    segment.offsets[1] = (103, segment.offsets[1][1])
    (problem,) = segment.problems()
    assert (problem.code, problem.detail.endswith("they skip offsets 103..104")) == (MISLEADING_INDEX, True)


def test_an_entry_that_points_too_early_is_only_slow(segment: Segment) -> None:
    """An append of several batches is indexed so."""
    segment.offsets[1] = (segment.offsets[2][0], segment.offsets[1][1])
    del segment.offsets[2]
    assert segment.problems() == []


def test_entries_behind_the_log(segment: Segment) -> None:
    """The log was copied before its index."""
    segment.offsets.append((segment.batches[-1].last + 5, segment.path.stat().st_size))
    segment.times.append((9_000, segment.batches[-1].last + 5))
    assert segment.problems() == []


def test_the_last_entry_may_be_of_a_log_that_was_truncated(segment: Segment) -> None:
    segment.offsets[-1] = (segment.offsets[-1][0], segment.offsets[-1][1] - 1)
    assert [one.code for one in segment.problems()] == [PERHAPS_MISLEADING_INDEX]


def test_a_position_behind_the_log(segment: Segment) -> None:
    segment.offsets[-1] = (segment.offsets[-1][0], segment.path.stat().st_size)
    (problem,) = segment.problems()
    assert problem.detail.endswith("where no batch begins: they fail")


def test_a_timestamp_that_is_too_low(segment: Segment) -> None:
    segment.times[-1] = (segment.times[-1][0] - 4000, segment.times[-1][1])
    (problem,) = segment.problems()
    assert (problem.kind, problem.code, problem.byte_offset) == ("time-index", PERHAPS_MISLEADING_INDEX, 12)
    assert "no record before offset 109 is newer than timestamp 1000, where one has 2002" in problem.detail


def test_an_offset_of_a_timestamp_that_is_too_high(segment: Segment) -> None:
    segment.times[0] = (segment.times[0][0], 110)
    (problem,) = segment.problems()
    assert (problem.code, problem.byte_offset) == (MISLEADING_INDEX, 0)


def test_the_last_timestamp_decides_on_retention(segment: Segment) -> None:
    segment.times[-1] = (segment.times[-1][0] - 1, segment.times[-1][1])
    (problem,) = segment.problems()
    assert (problem.code, "retention by time deletes the segment too early" in problem.detail) == (PERHAPS_MISLEADING_INDEX, True)


def test_room_behind_the_entries(segment: Segment) -> None:
    """The index of the segment that is written to: what a truncation left may stand behind its entries."""
    segment.offsets[1] = (segment.offsets[1][0], segment.offsets[1][1] + 1)
    segment.offsets += [(BASE, 0)] * 10
    segment.times = segment.times[:1] + [(0, BASE)] * 10
    assert [one.code for one in segment.problems()] == [PERHAPS_MISLEADING_INDEX]


def test_zeros_are_not_read_to_their_end(segment: Segment) -> None:
    reads: list[int] = []

    class Counted:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def read(self, size: int) -> bytes:
            reads.append(size)
            part, self.content = self.content[:size], self.content[size:]
            return part

    content = made.offset_index(BASE, segment.offsets)
    found = index_entries(Counted(content.ljust(10 << 20, b"\0")), OFFSET_ENTRY, BASE)  # type: ignore[arg-type]
    assert found is not None
    assert (found.offsets.tolist(), found.is_cut) == ([offset for offset, _position in segment.offsets], False)
    assert sum(reads) < 1 << 16


def test_an_entry_of_zeros_between_others() -> None:
    found = index_entries(io.BytesIO(made.time_index(BASE, [(0, BASE), (5, BASE + 3)])), TIME_ENTRY, BASE)
    assert found is not None
    assert (found.values.tolist(), found.is_cut) == ([0, 5], True)


@pytest.mark.parametrize("change", ["crc", "torn inside", "goes back"])
def test_of_a_damaged_segment_nothing_is_told(segment: Segment, change: str) -> None:
    segment.offsets[1] = (segment.offsets[1][0], segment.offsets[1][1] + 1)
    content = bytearray(segment.path.read_bytes())
    if change == "crc":
        content[-1] ^= 1
    elif change == "torn inside":
        content[segment.batches[2].position + 8] = 0xFF
    else:
        content += kf.batch(BASE, 0)
    segment.path.write_bytes(content)
    assert segment.problems() == []


def test_a_torn_end(segment: Segment) -> None:
    segment.offsets[1] = (segment.offsets[1][0], segment.offsets[1][1] + 1)
    segment.path.write_bytes(segment.path.read_bytes() + b"torn")
    assert [one.code for one in segment.problems()] == [MISLEADING_INDEX]


@pytest.mark.parametrize("content", [b"", b"abc", bytes(8), bytes(100)])
def test_an_index_without_entries(segment: Segment, content: bytes) -> None:
    made.write_indexes(segment.path, BASE, [], [])
    segment.path.with_suffix(".index").write_bytes(content)
    assert scan_file(segment.path, beside=ALL[:1]).index_problems == ()


def test_an_index_that_cannot_be_read(segment: Segment) -> None:
    segment.path.with_suffix(".index").mkdir()
    assert scan_file(segment.path, beside=ALL).index_problems == ()


# --- aborted transactions ---


def of_transactions(folder: Path, *, key: bytes = rf.ABORT) -> Path:
    """Producer 7 ends a transaction at offset 3; the one that producer 8 ends at offset 4 began before the segment."""
    data = kf.batch(0, 0, deltas=range(3), producer=(7, 0, 0), transactional=True)
    path = kf.segment(folder, 0, data, rf.control_batch(3, key, producer_id=7), rf.control_batch(4, rf.ABORT, producer_id=8))
    with path.open("r+b") as stream:
        content = bytearray(stream.read())
        for position in (len(data), len(data) + (len(content) - len(data)) // 2):
            content[position + 22] |= kf.TRANSACTIONAL
        stream.seek(0)
        stream.write(b"".join(kf.sealed(part) for part in _parts(bytes(content), len(data))))
    return path


def _parts(content: bytes, first: int) -> list[bytes]:
    size = (len(content) - first) // 2
    return [content[:first], content[first : first + size], content[first + size :]]


RIGHT = AbortedTransaction(7, 0, 3, 4)


@pytest.mark.parametrize(
    ("entries", "beside", "detail"),
    [
        ([RIGHT], ALL, None),
        ([RIGHT, AbortedTransaction(8, -5, 4, 5)], ALL, None),
        ([], ALL, "the transaction of producer 7 that aborted at offset 3 is not in it"),
        ([], ALL[:2], "the transaction of producer 7 that aborted at offset 3 is not in it"),
        ([], (".timeindex",), None),
        ([RIGHT._replace(producer_id=8)], ALL, "producer 8 aborted at offset 3, where the log has no ABORT marker of it"),
        ([RIGHT._replace(first_offset=1)], ALL, "began at offset 1, by the log at 0"),
        ([RIGHT, AbortedTransaction(9, 9, 50, 51)], ALL, None),
    ],
)
def test_transactions(tmp_path: Path, entries: list[AbortedTransaction], beside: tuple[str, ...], detail: str | None) -> None:
    path = of_transactions(tmp_path)
    made.write_indexes(path, 0, [], [])
    path.with_suffix(".txnindex").write_bytes(transaction_index(*entries))
    found = [one.detail for one in scan_file(path, beside=beside).index_problems]
    assert len(found) == (detail is not None)
    assert not detail or detail in found[0]


def test_a_commit_that_the_index_calls_aborted(tmp_path: Path) -> None:
    path = of_transactions(tmp_path, key=rf.COMMIT)
    made.write_indexes(path, 0, [], [])
    path.with_suffix(".txnindex").write_bytes(transaction_index(RIGHT))
    (problem,) = scan_file(path, beside=ALL).index_problems
    assert (problem.kind, "where the log has a COMMIT marker of it" in problem.detail) == ("transaction-index", True)


# --- any entries, held against a look at every batch ---


SHAPES = st.lists(st.tuples(st.sampled_from([0, 0, 0, 3]), st.integers(1, 3), st.integers(0, 30)), min_size=1, max_size=12)
SCANNERS: list[Callable[[], Any]] = [lambda: None, native_code_for_tests]


@pytest.mark.parametrize("scanner", SCANNERS, ids=["Python", "compiled code"])
@given(shapes=SHAPES, changes=st.data(), room=st.integers(1, 5))
def test_any_entries(
    tmp_path_factory: pytest.TempPathFactory, scanner: Callable[[], Any], shapes: Any, changes: st.DataObject, room: int
) -> None:
    segment = Segment(tmp_path_factory.mktemp("any"), shapes)
    last, size = segment.batches[-1].last, segment.path.stat().st_size
    positions = st.sampled_from([batch.position for batch in segment.batches]) | st.integers(0, size + 9)
    offsets = st.integers(BASE - 1, last + 3)
    kept = changes.draw(st.sets(st.integers(0, 20)))
    segment.offsets = [one for i, one in enumerate(segment.offsets) if i not in kept]
    segment.offsets += changes.draw(st.lists(st.tuples(offsets, positions), max_size=3))
    segment.times += changes.draw(st.lists(st.tuples(st.integers(0, 40), offsets), max_size=3))
    with (
        mock.patch.object(segment_reader, "HEADER_ROOM", room),
        mock.patch.object(segment_reader, "_FIRST", 2),
        mock.patch.object(segment_reader, "_FEW", 0),
        mock.patch.object(checks, "_AT_ONCE", room),
    ):
        found = {problem.kind: problem for problem in segment.problems(scanner=scanner())}
    segment.offsets = _without_zeros(segment.offsets, (BASE, 0))
    segment.times = _without_zeros(segment.times, (0, BASE))
    wrong = [i for i, entry in enumerate(segment.offsets) if made.reads_otherwise(segment.batches, BASE, entry)]
    assert _told(found.get("offset-index"), 8) == (wrong[:1], len(wrong))
    wrong = [i for i, entry in enumerate(segment.times) if made.finds_other_time(segment.batches, entry)]
    told = found.get("time-index")
    if told is not None and "retention" in told.detail:
        assert segment.times[-1][0] < max(batch.timestamp for batch in segment.batches)
        assert wrong == []
    elif told is not None and _told(told, 12)[1] == len(wrong) + 1:
        assert segment.times[-1][0] < max(batch.timestamp for batch in segment.batches)
        assert len(segment.times) - 1 not in wrong
        assert _told(told, 12)[0] == wrong[:1]
    else:
        assert _told(told, 12) == (wrong[:1], len(wrong))


def _without_zeros(entries: list[Any], zero: tuple[int, int]) -> list[Any]:
    while entries and entries[-1] == zero:
        entries = entries[:-1]
    return entries


def _told(problem: Problem | None, entry_bytes: int) -> tuple[list[int], int]:
    if problem is None:
        return [], 0
    more = re.search(r"and (\d+) more of its", problem.detail)
    assert problem.byte_offset is not None
    return [problem.byte_offset // entry_bytes], 1 + (int(more[1]) if more else 0)


@given(shapes=SHAPES, interval=st.integers(0, 400))
def test_whatever_a_broker_writes(tmp_path_factory: pytest.TempPathFactory, shapes: Any, interval: int) -> None:
    segment = Segment(tmp_path_factory.mktemp("any"), shapes)
    segment.offsets, segment.times = made.entries_of(segment.batches, interval)
    assert segment.problems() == []
