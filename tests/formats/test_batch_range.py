"""The batches of a replica in a range of offsets: those that hold any of it, across segments, with what is wrong inside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import batches_in
from replica_audit.model import BatchHeader, Damage, ReplicaFiles, SegmentFile
from tests.formats import kafka_files as kf

BATCHES = [(0, 4), (5, 9), (10, 14), (15, 19), (20, 24), (25, 29)]


def segments(folder: Path) -> tuple[SegmentFile, ...]:
    (replica,) = (found for found in replicas_of(folder) if isinstance(found, ReplicaFiles))
    return replica.segments


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    """Three segments of two batches of five offsets each."""
    directory = tmp_path / "broker-1" / "data-0" / "orders-0"
    for base in (0, 10, 20):
        kf.segment(directory, base, *(kf.batch(first, 0, deltas=range(5)) for first in (base, base + 5)))
    return directory


def found(directory: Path, first: int = 0, last: int | None = None, *, before: int = 0) -> list[tuple[int, int]]:
    located = batches_in(segments(directory.parents[1]), first, last, before=before)
    return [(one.item.base_offset, one.item.last_offset) for one in located if isinstance(one.item, BatchHeader)]


def test_without_a_range_it_is_the_whole_log_with_its_crcs(replica: Path) -> None:
    assert found(replica) == BATCHES
    items = [one.item for one in batches_in(segments(replica.parents[1]))]
    assert {item.crc_valid for item in items if isinstance(item, BatchHeader)} == {True}


@pytest.mark.parametrize("first", [0, 4, 5, 10, 14, 17, 20, 29, 30])
@pytest.mark.parametrize("length", [0, 1, 5, 13, None])
def test_a_batch_is_found_where_it_holds_an_offset_of_the_range(replica: Path, first: int, length: int | None) -> None:
    last = None if length is None else first + length
    assert found(replica, first, last) == [(base, end) for base, end in BATCHES if end >= first and (last is None or base <= last)]


@pytest.mark.parametrize(("first", "before", "expected"), [(17, 1, 10), (17, 9, 10), (12, 1, 10), (29, 1, 20), (29, 0, 25)])
def test_batches_before_the_range_come_from_its_first_segment(replica: Path, first: int, before: int, expected: int) -> None:
    assert found(replica, first, before=before)[0][0] == expected


def test_segments_outside_of_the_range_are_not_opened(replica: Path) -> None:
    files = segments(replica.parents[1])
    (replica / f"{0:020d}.log").unlink()
    (replica / f"{20:020d}.log").unlink()
    assert [one.item.base_offset for one in batches_in(files, 12, 16) if isinstance(one.item, BatchHeader)] == [10, 15]
    with pytest.raises(FileNotFoundError):
        list(batches_in(files, 12, 20))


def test_damage_inside_the_range_is_told_where_it_is(replica: Path) -> None:
    torn = replica / f"{20:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    *good, last = batches_in(segments(replica.parents[1]), 12)
    assert [one.item.base_offset for one in good if isinstance(one.item, BatchHeader)] == [10, 15, 20]
    assert isinstance(last.item, Damage)
    assert (last.path, last.item.code) == (str(torn), "torn-batch")


def test_damage_where_the_range_would_begin_is_told_alone(replica: Path) -> None:
    torn = replica / f"{20:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    (only,) = batches_in(segments(replica.parents[1]), 27)
    assert isinstance(only.item, Damage)


def test_a_wrong_crc_is_told_by_its_batch(replica: Path) -> None:
    segment = replica / f"{10:020d}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(bytes(content))
    items = [one.item for one in batches_in(segments(replica.parents[1]), 10, 19)]
    assert [item.crc_valid for item in items if isinstance(item, BatchHeader)] == [True, False]


def test_what_a_finished_swap_replaces_is_left_out(replica: Path) -> None:
    """The cleaner merged the first two segments into one, of which two batches are left."""
    swap = kf.segment(replica, 0, kf.batch(0, 0, deltas=range(5)), kf.batch(15, 0, deltas=range(5)))
    Path(swap).rename(replica / f"{0:020d}.log.swap")
    kf.segment(replica, 0, *(kf.batch(first, 0, deltas=range(5)) for first in (0, 5)))
    assert found(replica) == [(0, 4), (15, 19), (20, 24), (25, 29)]
