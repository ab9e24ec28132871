"""Runs of batches: when a batch continues the one before it, and what both are together.

Written so that the same functions take numbers of Python, numbers of compiled code, and whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from replica_audit.model import BatchRun

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
