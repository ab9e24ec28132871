"""The leader epoch table of one replica: epoch → start offset, and what Kafka does with it.

A table is an ascending tuple of `EpochEntry`. Every function is pure and returns a new table.
Sources: LeaderEpochFileCache (storage, 4.2.0) for the current rules; LeaderEpochFileCache (core, 0.11 to 1.1) for `kip101_*`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, BatchRun


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that was, or will be, written in it."""

    epoch: int
    start_offset: int


EpochTable = tuple[EpochEntry, ...]
EMPTY: EpochTable = ()
_ENTRY = partial(tuple.__new__, EpochEntry)  # as `_make`, which looks at the length of each
_EPOCH, _START = attrgetter("epoch"), attrgetter("start_offset")
UNDEFINED = EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


def table(pairs: Iterable[tuple[int, int]]) -> EpochTable:
    """Pairs of (epoch, start offset), already in order, as a table; nothing is checked."""
    if isinstance(pairs, tuple) and all(type(one) is EpochEntry for one in pairs):
        return pairs
    return tuple(map(_ENTRY, pairs))


def latest_epoch(entries: EpochTable) -> int:
    """The last epoch of the table; -1 if it is empty."""
    return entries[-1].epoch if entries else UNDEFINED_EPOCH


class Building:
    """A table into which entries are put one after the other. All of them take as long as they are many, in any order.

    `entries` are those so far.
    """

    def __init__(self, entries: EpochTable = EMPTY) -> None:
        """Begin with a table that there is."""
        self.entries = list(entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`assign` in place. Returns whether the entry went behind the others, none of which was dropped.

        Raises:
            ValueError: as `assign`.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at start offset {start_offset}: neither may be negative")
        entries = self.entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        before = len(entries)
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return len(entries) > before

    def append(self, epoch: int, base_offset: int, magic: int) -> None:
        """`appended` in place."""
        if magic < 2:
            self.entries.clear()
        elif epoch >= 0:
            self.assign(epoch, base_offset)

    def recover(self, epoch: int, base_offset: int, magic: int) -> None:
        """`recovered` in place."""
        if magic >= 2 and epoch >= 0 and epoch > (self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH):
            self.assign(epoch, base_offset)

    def table(self) -> EpochTable:
        """What has come of it."""
        return tuple(self.entries)


def assign(entries: EpochTable, epoch: int, start_offset: int) -> EpochTable:
    """Record that `epoch` starts at `start_offset` (2.0 and later).

    Entries at the end whose epoch or start is not below the new one are dropped, so the result stays strictly ascending in both.

    Raises:
        ValueError: the epoch or the offset is negative (IllegalArgumentException in Kafka).
    """
    building = Building(entries)
    building.assign(epoch, start_offset)
    return building.table()


def load(lines: Iterable[tuple[int, int]]) -> EpochTable:
    """The table of a broker of 2.7 or later that has read a checkpoint's lines: each goes through `assign`, the later line wins.

    Raises:
        ValueError: a line holds a negative epoch or offset.
    """
    building = Building()
    for epoch, start_offset in lines:
        building.assign(epoch, start_offset)
    return building.table()


def truncate_from_end(entries: EpochTable, end_offset: int) -> EpochTable:
    """Drop every entry that starts at or above `end_offset` (exclusive end of the log). A negative offset changes nothing."""
    if end_offset < 0:
        return entries
    if not entries or entries[-1].start_offset < end_offset:
        return entries
    return entries[: bisect_left(entries, end_offset, key=_START)]


def truncate_from_start(entries: EpochTable, start_offset: int) -> EpochTable:
    """Drop the entries at or below the new log start and re-insert the last of them at it: the covering epoch survives, moved up."""
    if start_offset < 0 or not entries:
        return entries
    dropped = bisect_right(entries, start_offset, key=_START)
    if not dropped:
        return entries
    return (EpochEntry(entries[dropped - 1].epoch, start_offset), *entries[dropped:])


def end_offset_for(entries: EpochTable, requested_epoch: int, log_end_offset: int) -> EpochEntry:
    """The end of an epoch as a leader of 2.0 or later answers it: (largest epoch not above the requested one, its exclusive end offset).

    (-1, -1) if the requested epoch is -1 or no known epoch is as high. An epoch below the first entry is echoed with the first start.
    """
    if requested_epoch == UNDEFINED_EPOCH:
        return UNDEFINED
    if requested_epoch == latest_epoch(entries):
        return EpochEntry(requested_epoch, log_end_offset)
    later = _first_later(entries, requested_epoch)
    if later == len(entries):
        return UNDEFINED
    floor_epoch = entries[later - 1].epoch if later else requested_epoch
    return EpochEntry(floor_epoch, entries[later].start_offset)


def knows(entries: EpochTable, epoch: int) -> bool:
    """Whether an epoch has an entry."""
    later = _first_later(entries, epoch)
    return later > 0 and entries[later - 1].epoch == epoch


def epoch_for_offset(entries: EpochTable, offset: int) -> int | None:
    """The epoch that covers `offset`: that of the last entry starting at or below it; None below the first entry."""
    index = bisect_right(entries, offset, key=_START)
    return entries[index - 1].epoch if index else None


def entries_in_range(entries: EpochTable, start_offset: int, end_offset: int) -> EpochTable:
    """The slice of the table that describes [start_offset, end_offset), its first entry moved up to the start."""
    return truncate_from_end(truncate_from_start(entries, start_offset), end_offset)


def appended(entries: EpochTable, epoch: int, base_offset: int, magic: int) -> EpochTable:
    """The table after a batch was appended (UnifiedLog.append): one older than magic 2 clears it (2.3 and later)."""
    building = Building(entries)
    building.append(epoch, base_offset, magic)
    return building.table()


def recovered(entries: EpochTable, epoch: int, base_offset: int, magic: int) -> EpochTable:
    """The table after log recovery has met a batch (LogSegment.recover): only an epoch above the latest one is added."""
    building = Building(entries)
    building.recover(epoch, base_offset, magic)
    return building.table()


def kip101_assign(entries: EpochTable, epoch: int, start_offset: int) -> EpochTable:
    """`assign` of 0.11 to 1.1: appended only if the epoch is new and the start is not below the last; otherwise ignored.

    Raises:
        ValueError: the epoch is negative.
    """
    if epoch < 0:
        raise ValueError(f"epoch {epoch} may not be negative")
    if epoch > latest_epoch(entries) and (not entries or start_offset >= entries[-1].start_offset):
        return (*entries, EpochEntry(epoch, start_offset))
    return entries


def kip101_end_offset_for(entries: EpochTable, requested_epoch: int, log_end_offset: int) -> int:
    """The end of an epoch as a leader of 0.11 to 1.1 answers it: -1 if the epoch is above the latest or below the first."""
    if requested_epoch == UNDEFINED_EPOCH or not entries or requested_epoch < entries[0].epoch:
        return UNDEFINED_EPOCH_OFFSET
    if requested_epoch == entries[-1].epoch:
        return log_end_offset
    later = _first_later(entries, requested_epoch)
    return entries[later].start_offset if later < len(entries) else UNDEFINED_EPOCH_OFFSET


def _first_later(entries: EpochTable, epoch: int) -> int:
    return bisect_right(entries, epoch, key=_EPOCH)


# Runs of batches: when a batch continues the one before it, and what both are together.
# Written so that the same functions take numbers of Python, numbers of compiled code, and whole columns.

_MOST_RECORDS = 2**63 - 1  # of a run: more can only be damage


def continues(run: BatchRun, following: BatchRun) -> bool:
    """Whether a run goes on in the next: one leader epoch, no offset missing between them, and CRCs that match in both or in neither."""
    return same_kind(run, following) & (following.first_offset == run.last_offset + 1)


def same_kind(run: BatchRun, following: BatchRun) -> bool:
    """The same, whatever offsets are missing between them."""
    return (run.leader_epoch == following.leader_epoch) & (run.intact == following.intact)


def ascending(runs: Sequence[BatchRun]) -> tuple[BatchRun, ...]:
    """Runs in the order of their file, each offset once: as it comes first, or as it comes last if so more offsets are left.

    A read finds the first batch that reaches an offset (LogSegment.translateOffset), and clients pass over what lies below their position.
    But where the base offset of one batch alone is wrong, and too high, all behind it lies below. Of a run that is clipped the record count
    is the most that it can be.
    """
    as_first, as_last = _as_first(runs), _as_last(runs)
    return as_last if _offsets(as_last) > _offsets(as_first) else as_first


def _as_first(runs: Iterable[BatchRun]) -> tuple[BatchRun, ...]:
    found: list[BatchRun] = []
    end = 0
    for run in runs:
        if run.last_offset >= end:
            found.append(_clipped(run, max(run.first_offset, end), run.last_offset))
            end = run.last_offset + 1
    return tuple(found)


def _as_last(runs: Sequence[BatchRun]) -> tuple[BatchRun, ...]:
    found: list[BatchRun] = []
    for run in reversed(runs):
        last = run.last_offset if not found else min(run.last_offset, found[-1].first_offset - 1)
        if run.first_offset <= last:
            found.append(_clipped(run, run.first_offset, last))
    return tuple(reversed(found))


def _clipped(run: BatchRun, first: int, last: int) -> BatchRun:
    return run._replace(first_offset=first, last_offset=last, record_count=min(run.record_count, last - first + 1))


def _offsets(runs: Iterable[BatchRun]) -> int:
    return sum(run.last_offset - run.first_offset + 1 for run in runs)


def goes_back(runs: Sequence[BatchRun]) -> BatchRun | None:
    """The first run of a segment that begins below the end of the one before it; None if its offsets ascend."""
    return next((after for before, after in pairwise(runs) if after.first_offset <= before.last_offset), None)


def joined(run: BatchRun, following: BatchRun) -> BatchRun:
    """Both as one run, which is intact if the first is."""
    room = _MOST_RECORDS - run.record_count
    return BatchRun(
        run.leader_epoch,
        run.first_offset,
        following.last_offset,
        run.batch_count + following.batch_count,
        run.record_count + min(following.record_count, room),
        run.size_bytes + following.size_bytes,
        min(run.min_timestamp_ms, following.min_timestamp_ms),
        max(run.max_timestamp_ms, following.max_timestamp_ms),
        max(run.magic, following.magic),
        run.intact,
    )
