"""Where a running broker's log begins, and what was deleted below it while its files were copied one after the other.

Sources: UnifiedLog.deleteOldSegments, maybeIncrementLogStartOffset and LeaderEpochFileCache.truncateFromStart, 3.9 to 4.3: retention and
DeleteRecords delete whole segments from the front only, and move the log start, and the first entry of the table with it, before they do.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.protocol.epochs.epoch_table import EpochTable
from replica_audit.protocol.epochs.replica_log import LoadedLog


def known_start(table: EpochTable, checkpoint: int | None, log: LoadedLog | None) -> int:
    """The log start that a broker wrote down: no file that is missing can feign it. 0 if it wrote none.

    Args:
        table: its epoch table as the file has it; empty if it is not known.
        checkpoint: its entry in log-start-offset-checkpoint.
        log: the log beside the table. Batches of a format without epochs are in no table: one that begins behind them tells nothing.
    """
    first = table[0].start_offset if table else 0
    is_silent = log is not None and any(run.magic < 2 and run.first_offset < first for run in log.runs)
    return max(checkpoint or 0, 0 if is_silent else first)


def deleted_until(missing: Iterable[tuple[int, int]], front: int) -> int | None:
    """Up to where a copy holds nothing but leftovers of deleted segments: the end of the last hole that a known log start reaches.

    The log start may have been written down before the last segments of a hole were deleted: one where a hole begins says that all below
    is deleted, and what is deleted next is what the copy lacks.

    Args:
        missing: (first, last) inclusive offsets that no segment of the copy holds, between others that do.
        front: the largest known log start of the partition.

    Returns:
        An exclusive end, which is where a segment begins; None if every hole begins above the front.
    """
    return max((last + 1 for first, last in missing if first <= front), default=None)


def begins_as_retention_leaves_it(table: EpochTable, log: LoadedLog) -> bool:
    """Whether a table's first entry starts behind batches of its own epoch, and where a segment of the log does.

    Retention leaves it so for as long as the segments below are still listed. A table that lacks its first entries begins where an epoch
    does; one that was lost begins where the broker next appended, which is in the middle of a segment.
    """
    if not table or table[0].start_offset not in log.segment_bases:
        return False
    return any(run.leader_epoch == table[0].epoch and run.first_offset < table[0].start_offset for run in log.runs)
