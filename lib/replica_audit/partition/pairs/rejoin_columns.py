"""Columns of `replica_verdicts` that say why a follower cannot come back, and where a log has a hole."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pair_structs import MissingOffsets, RefusedFetch, WrongCheckpointLine


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckColumns:
    """The columns of the same names."""

    stuck: RefusedFetch | None = None
    wrong_lines_broker_id: int | None = None
    wrong_lines: tuple[WrongCheckpointLine, ...] = ()


def stuck_columns(comparison: Comparison, judgement: Judgement) -> StuckColumns:
    """Why the follower never catches up; nothing where the comparison proves nothing."""
    found = comparison.cannot_rejoin
    if found is None or judgement.verdict is Verdict.INCONCLUSIVE:
        return StuckColumns()
    refused = found.refusal
    stuck = RefusedFetch(
        fetch_offset=refused.fetch_offset,
        requested_epoch=refused.requested_epoch,
        answered_epoch=refused.answered_epoch,
        answered_end_offset=refused.answered_end_offset,
        back_to_offset=refused.back_to,
        before_records=refused.before_records,
        fresh_replica_too=found.fresh_too,
    )
    lines = (WrongCheckpointLine(epoch=line.epoch, start_offset=line.start_offset, found_offset=line.found_offset) for line in found.lines)
    return StuckColumns(stuck=stuck, wrong_lines_broker_id=found.broker_id, wrong_lines=tuple(lines))


def hole_column(comparison: Comparison, judgement: Judgement) -> MissingOffsets | None:
    """The hole that the verdict is about; None if it is about none."""
    return comparison.hole if judgement.verdict is Verdict.LOG_MATCHING_VIOLATION else None
