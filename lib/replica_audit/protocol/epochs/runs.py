"""Runs of batches: when a batch continues the one before it, and what both are together.

Written so that the same functions take numbers of Python, numbers of compiled code, and whole columns.
"""

from __future__ import annotations

from replica_audit.model import BatchRun

_MOST_RECORDS = 2**63 - 1  # of a run: more can only be damage


def continues(run: BatchRun, following: BatchRun) -> bool:
    """Whether a run goes on in the next: one leader epoch, no offset missing between them, and CRCs that match in both or in neither."""
    return same_kind(run, following) & (following.first_offset == run.last_offset + 1)


def same_kind(run: BatchRun, following: BatchRun) -> bool:
    """The same, whatever offsets are missing between them."""
    return (run.leader_epoch == following.leader_epoch) & (run.intact == following.intact)


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
