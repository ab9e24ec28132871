"""Where a running broker's log begins, and what was deleted below it while its files were copied one after the other.

Sources: UnifiedLog.deleteOldSegments, maybeIncrementLogStartOffset and LeaderEpochFileCache.truncateFromStart, 3.9 to 4.3: retention and
DeleteRecords delete whole segments from the front only, and move the log start, and the first entry of the table with it, before they do.
"""

from __future__ import annotations

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


def deleted_until(log: LoadedLog, front: int) -> int | None:
    """Up to where a copy holds nothing but leftovers of deleted segments: the end of the last hole that a known log start reaches.

    The log start may have been written down before the last segments of a hole were deleted: one where a hole begins says that all below
    is deleted, and what is deleted next is what the copy lacks. Not so behind a segment that is there and damaged, or empty: its own end
    is what is missing, and deleting takes whole files. Only a log start behind the hole says that it does not matter.

    Args:
        log: the copy's.
        front: the largest known log start of the partition.

    Returns:
        An exclusive end, which is where a segment begins; None if every hole begins above the front.
    """
    files = log.missing_files
    return max((last + 1 for first, last in log.missing if (first if (first, last) in files else last + 1) <= front), default=None)


def emptied_segment(log: LoadedLog, cleaned_until: int | None, *, copied_apart: bool) -> tuple[int, int] | None:
    """The first segment without a batch that another follows, and that neither retention nor the cleaner leaves so: (base, end).

    Retention deletes files and empties none; a segment is rolled only when it holds a batch, so only the newest is empty by itself. Where
    each of its records had a newer one, the cleaner leaves an empty file until it is merged with the next (Cleaner.cleanSegments).

    Args:
        log: of the replica.
        cleaned_until: exclusive end of what its cleaner has been through; 0 if it has none, None if that is unknown.
        copied_apart: whether a running broker may have changed the files between their copies: one that was copied while it was the newest,
            and empty, may have been rolled since. An oldest one is not excused so: a log is seldom that young.

    Returns:
        Its base offset and where the next one begins; None if there is none. What lies below the log start does not count.
    """
    for base in log.empty_segments:
        end = log.segment_end(base)
        may_be_cleaned = cleaned_until is None or cleaned_until >= end or (copied_apart and cleaned_until > 0)
        if end > log.log_start_offset and not may_be_cleaned and not (copied_apart and base > log.segment_bases[0]):
            return base, end
    return None


def begins_as_retention_leaves_it(table: EpochTable, log: LoadedLog) -> bool:
    """Whether a table's first entry starts behind batches of its own epoch, and where a segment of the log does.

    Retention leaves it so for as long as the segments below are still listed. A table that lacks its first entries begins where an epoch
    does; one that was lost begins where the broker next appended, which is in the middle of a segment.
    """
    if not table or table[0].start_offset not in log.segment_bases:
        return False
    return any(run.leader_epoch == table[0].epoch and run.first_offset < table[0].start_offset for run in log.runs)
