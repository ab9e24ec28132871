"""Which index files that contradict their segments mislead a broker: not those that it rebuilds, nor what only comes of a copy.

Sources: LogLoader.recoverLog and recoverSegment, LogSegment.sanityCheck (storage, 4.0): after an unclean stop the segments from the
recovery point on are recovered, and all of their indexes rebuilt; other offset and time indexes are used as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replica_audit.formats.indexes import TRANSACTION_INDEX_KIND
from replica_audit.model import MISLEADING_INDEX, PERHAPS_MISLEADING_INDEX, Problem, ReplicaFiles, Segment
from replica_audit.partition.replicas.replica_problems import cleaner_offset

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
