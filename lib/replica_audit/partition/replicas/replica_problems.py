"""What is wrong with one replica beyond its single files, as problems with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from replica_audit.formats.indexes import TRANSACTION_INDEX_KIND
from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, HIGH_WATERMARKS, LOG_STARTS
from replica_audit.formats.segment.segment_scan import BY_THE_PLAN, ENDS_IN_NO_BATCH, GOES_BACK, IF_THE_SAME
from replica_audit.model import MISLEADING_INDEX, PERHAPS_MISLEADING_INDEX, PartitionMetadata, Problem, ReplicaFiles, Segment
from replica_audit.protocol.epochs.replica_log import LoadedLog

_LOG_WAS_LONGER = (
    "copy the replica's segments again: the broker was stopped cleanly, so its log reached this offset when the entry was written; if the "
    "broker's own log ends here too, it lost its end after the stop"
)
_NO_RECOVERY = (
    "do not start the broker yet: it was stopped cleanly (.kafka_cleanshutdown), so it does not recover the log, and what it appends after "
    f"these bytes is unreadable; {IF_THE_SAME}"
)
_RECOVERS = "none: the broker was not stopped cleanly, so it recovers the log when it starts and truncates these bytes"
EMPTIED = "emptied-segment"
_CUTS = (
    "copy the replica's directory before its broker starts: {}, so it recovers the log and truncates it at offset {}, with all that is "
    "behind that; it fetches again only what the leader holds"
)
# where log recovery stops (LogSegment.recover), besides at the torn ends that a crash leaves
_ENDS_RECOVERY = ("crc-mismatch", "bad-batch-length", "bad-batch-header", GOES_BACK)
_MAX_BEYOND = 20  # problems of one table; one more says how many there are besides


def no_segments(files: ReplicaFiles) -> Problem:
    """That a replica's directory has nothing to read."""
    return Problem(
        path=files.path,
        kind="directory",
        code="no-segments",
        detail="a replica directory without a readable segment file",
        remedy="copy the directory again, with its .log files",
    )


def cleaner_offset(files: ReplicaFiles) -> int | None:
    """How far the cleaner has been through a log that is compacted, 0 if its checkpoint does not name the log, None if it is unknown."""
    return (files.cleaner_offset or 0) if files.cleaner_offset is not None or files.cleaner_offsets_collected else None


def without_batch(base: int, end: int) -> str:
    """What is true of a segment that was emptied; `end` is where the next one begins."""
    return (
        f"segment {base:020d}.log is there and holds no batch, though the next one begins at offset {end}: offsets {base}..{end - 1} "
        "are gone from it (retention deletes files, it empties none)"
    )


def emptied_problem(path: str, base: int, end: int) -> Problem:
    """That a segment was emptied; `path` is that of the file, or text."""
    return Problem(
        path=path,
        kind="segment",
        code=EMPTIED,
        detail=without_batch(base, end),
        remedy=f"no broker notices, and nothing brings the records back by itself; {IF_THE_SAME}",
        byte_offset=0,
    )


def is_left_by_recovery(problem: Problem, files: ReplicaFiles, *, alive: bool | None) -> bool:
    """Whether a problem is an end of the newest segment that its broker, stopped cleanly, will not cut off when it starts."""
    return problem.code in ENDS_IN_NO_BATCH and files.clean_shutdown and not alive


def with_known_stop(problem: Problem, files: ReplicaFiles, *, alive: bool | None) -> Problem:
    """What to do about a torn end, where the files tell how the broker was stopped: after a clean stop it does not recover the log.

    Args:
        problem: of the newest segment of the replica.
        files: of the replica.
        alive: as of the broker.
    """
    if problem.code not in ENDS_IN_NO_BATCH or alive:
        return problem
    if files.clean_shutdown:
        return replace(problem, remedy=_NO_RECOVERY)
    return replace(problem, remedy=_RECOVERS) if files.has_lock else problem


def as_recovered(problem: Problem, files: ReplicaFiles, segment: Segment, log: LoadedLog) -> Problem:
    """A segment's problem with what the broker will do about it when it starts, if log recovery ends at it, or before it.

    Args:
        problem: of the segment.
        files: of the replica.
        segment: the one.
        log: the replica's, as it will be loaded.
    """
    if log.recovery_cut is None or segment.base_offset < log.segment_bases[-1] or problem.code not in _ENDS_RECOVERY:
        return problem
    if problem.code == GOES_BACK and not segment.damaged:
        return problem  # recovery passes over it
    why = "it was not stopped cleanly" if files.has_lock else "the input shows no clean stop (.kafka_cleanshutdown)"
    return replace(problem, remedy=_CUTS.format(why, log.recovery_cut))


def log_problems(files: ReplicaFiles, log: LoadedLog, *, alive: bool | None, may_have_holes: bool) -> Iterator[Problem]:
    """Offsets that no segment holds, and entries of the table or a log start that lie beyond the log; `alive` as of the broker."""
    if log.deleted_end is not None and not alive:
        yield _all_deleted(files, log, log.deleted_end)
    missing = () if may_have_holes else log.missing_files
    may_load = files.checkpoint_state != "unreadable" and not alive
    beyond = [entry for entry in files.checkpoint if entry[2] > log.log_end_offset] if may_load else []
    if not missing and not beyond:
        return
    for first, last in missing:
        yield Problem(
            path=files.path,
            kind="directory",
            code="missing-offsets",
            detail=f"offsets {first}..{last} are missing before segment {last + 1:020d}.log: no segment holds them",
            remedy=f"look for the missing segment file on the broker; if it has none, either, {BY_THE_PLAN}",
        )
    for place, (line, epoch, start) in enumerate(beyond[: _MAX_BEYOND + 1]):
        detail = f"epoch {epoch} starts in the file at {start}, beyond the log end {log.log_end_offset}: a broker drops the entry"
        if place == _MAX_BEYOND:
            detail = f"from this line on {len(beyond) - _MAX_BEYOND} more entries begin beyond the log end {log.log_end_offset}"
        yield Problem(
            path=files.inside(EPOCH_CHECKPOINT),
            kind=EPOCH_CHECKPOINT,
            code="checkpoint-beyond-log-end",
            detail=detail,
            remedy=_LOG_WAS_LONGER if files.clean_shutdown else "none: legal after a crash, without effect",
            line=line,
        )


def _all_deleted(files: ReplicaFiles, log: LoadedLog, end: int) -> Problem:
    """That a broker which starts would delete every segment. Of one that runs the file may have been copied after the segments."""
    return Problem(
        path=files.beside(LOG_STARTS),
        kind=LOG_STARTS,
        code="log-start-beyond-log-end",
        detail=f"the log start of {files.directory} is {log.log_start_offset}, and its segments end at {end}: a broker that starts with "
        "both deletes every segment of the replica",
        remedy="before the broker starts, copy the replica's directory away, and compare the file with the replica's segments: either the "
        "file is wrong, or the newest segments are missing",
    )


def knows_later(files: ReplicaFiles, log: LoadedLog, metadata: PartitionMetadata, known: int) -> Problem:
    """That a replica's table, which is not empty, ends in an epoch later than the last `known` one."""
    epoch, start = log.epochs[-1]
    last = f"the newest metadata in the input ({metadata.source}) knows epoch {known} as the last"
    if metadata.leader_epoch < 0:
        last = f"broker {metadata.leader}, which the metadata names as the leader without an epoch, knows epoch {known} as the last"
    return Problem(
        path=files.inside(EPOCH_CHECKPOINT),
        kind=EPOCH_CHECKPOINT,
        code="metadata-outdated",
        detail=f"epoch {epoch} began at {start}, and {last}: the leader is inferred from the logs",
        remedy="give a cluster-metadata.json, or a copy of __cluster_metadata-0, taken after the last election",
        line=next((line for line, known, _start in files.checkpoint if known == epoch), None),
    )


def gone_everywhere(files: ReplicaFiles, end: int, committed: int) -> Problem:
    """That a high watermark lies beyond the end of every log: `files` are those of the replica that has persisted it."""
    return Problem(
        path=files.beside(HIGH_WATERMARKS),
        kind=HIGH_WATERMARKS,
        code="high-watermark-beyond-log-end",
        detail=f"the high watermark of {files.directory} is {committed}, and no replica's log reaches beyond {end}: offsets "
        f"{end}..{committed - 1} had been committed and are gone",
        remedy="look for an earlier copy; else the records are lost",
    )


_CODES = (MISLEADING_INDEX, PERHAPS_MISLEADING_INDEX)


def as_index_misleads(
    problem: Problem,
    files: ReplicaFiles,
    segment: Segment,
    segments: Sequence[Segment],
    log_start_offset: int,
    *,
    alive: bool | None,
    compacted: bool,
) -> Problem | None:
    """A problem of a segment as it is reported; None of an index by which no broker is misled, or perhaps none.

    Args:
        problem: any of the segment.
        files: of the replica.
        segment: the one.
        segments: of the replica, that count, in the order of their offsets.
        log_start_offset: of the replica.
        alive: whether the broker ran when its files were copied; None if unknown.
        compacted: whether batches may be missing without harm.
    """
    if problem.code not in _CODES:
        return problem
    following = next((one.base_offset for one in segments if one.base_offset > segment.base_offset), None)
    if files.state != "current" or (following is not None and following <= log_start_offset):
        return None
    if not files.clean_shutdown and not alive and (following is None or following > (files.recovery_point or 0)):
        return None
    is_cleaned = compacted or cleaner_offset(files) != 0
    if problem.kind == TRANSACTION_INDEX_KIND and compacted:
        return None  # the cleaner writes it anew, without transactions the records of which are gone
    if alive is not False and (following is None or is_cleaned or problem.code != MISLEADING_INDEX):
        return None
    return replace(problem, code=MISLEADING_INDEX)
