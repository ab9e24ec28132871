"""Index files beside a segment, for tests: as a broker writes them, and what follows from an entry by looking at every batch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Stored(NamedTuple):
    """A batch: where it begins, its size, its first and last offset, and its largest timestamp."""

    position: int
    size: int
    first: int
    last: int
    timestamp: int


OffsetEntry = tuple[int, int]  # offset, position
TimeEntry = tuple[int, int]  # timestamp, offset


def offset_index(base: int, entries: Iterable[OffsetEntry]) -> bytes:
    """The content of a `.index` of these entries."""
    return b"".join(struct.pack(">ii", offset - base, position) for offset, position in entries)


def time_index(base: int, entries: Iterable[TimeEntry]) -> bytes:
    """The content of a `.timeindex` of these entries."""
    return b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in entries)


def entries_of(batches: Sequence[Stored], interval: int = 0) -> tuple[list[OffsetEntry], list[TimeEntry]]:
    """What a broker that recovers a segment indexes: LogSegment.recover."""
    offsets: list[OffsetEntry] = []
    times: list[TimeEntry] = []
    newest, indexed = (-1, 0), 0

    def add_time() -> None:
        if newest[0] > (times[-1][0] if times else -1):
            times.append(newest)

    for batch in batches:
        if batch.timestamp > newest[0]:
            newest = (batch.timestamp, batch.last)
        if batch.position - indexed > interval:
            offsets.append((batch.last, batch.position))
            add_time()
            indexed = batch.position
    add_time()
    return offsets, times


def write_indexes(segment: Path, base: int, offsets: Iterable[OffsetEntry], times: Iterable[TimeEntry]) -> None:
    """Write both beside a segment."""
    segment.with_suffix(".index").write_bytes(offset_index(base, offsets))
    segment.with_suffix(".timeindex").write_bytes(time_index(base, times))


def reads_otherwise(batches: Sequence[Stored], base: int, entry: OffsetEntry) -> bool:
    """Whether a read of an offset in the segment that follows an entry finds another batch than one from the beginning."""
    offset, position = entry
    starts = {batch.position for batch in batches}
    for wanted in range(max(offset, base), batches[-1].last + 1):
        right = next(batch for batch in batches if batch.last >= wanted)
        if position not in starts:
            return True
        if next((batch for batch in batches if batch.position >= position and batch.last >= wanted), None) != right:
            return True
    return False


def finds_other_time(batches: Sequence[Stored], entry: TimeEntry) -> bool:
    """Whether a search for a timestamp above that of an entry, from its offset on, passes over the first batch that is as new."""
    timestamp, offset = entry
    if offset > batches[-1].last:
        return False
    for wanted in {batch.timestamp for batch in batches if batch.timestamp > timestamp}:
        right = next(batch for batch in batches if batch.timestamp >= wanted)
        if next((batch for batch in batches if batch.last >= offset and batch.timestamp >= wanted), None) != right:
            return True
    return False
