"""Copies that were taken one after the other: what a follower holds only because its leader was copied before it.

The rule is the product's own. It rests on two facts. A leader epoch has one leader (the controller raises it with every election, and since
KIP-380 also for a leader that was only restarted), which appends to its log and never truncates it: whatever a follower holds of the
epoch in which that broker leads is, or was a moment later, in the leader's log. And two logs that hold an offset in the same epoch hold
the same records there (KIP-101): what a later look at the leader's log shows in the follower's epochs is the follower's.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.comparison.pair import difference
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import EpochTable, latest_epoch
from replica_audit.protocol.exchange.looks import LaterBound, Look, Seen
from replica_audit.protocol.exchange.replica import Replica


def seen_as_far(leader: Replica, follower: Replica, context: Context, others: Sequence[Replica]) -> Seen | None:
    """How far a follower can be compared whose leader was copied before it, where nothing beyond can hide a divergence.

    Args:
        leader: by the metadata, not by inference.
        follower: of the same topic.
        context: of the partition.
        others: its other readable replicas.

    Returns:
        The leader's log end offset, and what bounds the rest: a later look at the leader's log that reaches as far as the follower, in the
        same epochs; or, beyond such a look and the copy, the epoch in which the leader leads. None where the follower reaches no further,
        where the copies are of one instant, where the leader does not run or its table may lack the epoch in which it leads (before
        KAFKA-7415), or where an election may have come between: if metadata, the leader's epoch table and every batch beyond do not agree
        on the epoch, or any replica knows a later one.
    """
    end = leader.log.log_end_offset
    is_of_one_time = context.simultaneous or not context.enters_epoch_at_once or not leader.alive or leader.frozen
    if is_of_one_time or leader.unreadable or follower.unreadable:
        return None
    if not follower.log.log_start_offset <= end < follower.log.log_end_offset:
        return None
    table, shown_until = leader.log.epochs, end
    look, bound = (
        (leader.second_look, LaterBound.SECOND_LOOK) if leader.second_look is not None else (_later_table(leader), LaterBound.LATER_TABLE)
    )
    if look is not None:
        if not _agrees(look, follower, end, min(look.log_end_offset, follower.log.log_end_offset)):
            return None
        if _tells_all(look, follower, end):
            table, shown_until = look
    if follower.log.log_end_offset > shown_until:
        bound = LaterBound.CURRENT_EPOCH
        if not _is_of_current_epoch(table, follower, shown_until, context.leader_epoch, others):
            return None
        if look is not None and latest_epoch(look.epochs) > context.leader_epoch:
            return None
    return None if difference(leader, follower, context, end) is not None else Seen(end, bound, shown_until, _held_until(leader, follower))


def _held_until(leader: Replica, follower: Replica) -> int:
    """Up to where a follower reached at least when its leader's log ended where its copy does.

    A log ends behind a batch, but what lay before the leader's end may be cleaned away since. The epoch of the next batch that is left was
    not entered before that batch, so a log that ended in such a gap would be in an earlier epoch than the leader has there.
    """
    held = lineage.until(follower.history, leader.log.log_end_offset)
    return max(leader.log.log_start_offset, follower.log.log_start_offset, held[-1].end_offset if held else 0)


def _is_of_current_epoch(table: EpochTable, follower: Replica, end: int, epoch: int, others: Sequence[Replica]) -> bool:
    """Whether all that a follower holds from an offset on can only be of the epoch in which its leader leads, by table and metadata."""
    if epoch < 0 or latest_epoch(table) != epoch or table[-1].start_offset > end:
        return False
    beyond = [span.leader_epoch for span in follower.history if span.end_offset > end]
    return all(written == epoch for written in beyond) and all(latest_epoch(one.log.epochs) <= epoch for one in (follower, *others))


def _later_table(leader: Replica) -> Look | None:
    """A leader's epoch table as a look at its log, where it was copied later; None where it tells nothing of what lies beyond the copy.

    An epoch is entered at the log end, or before the batch at its start offset is appended (LeaderEpochFileCache.assign).
    """
    table = leader.log.epochs
    if not leader.checkpoint_known or not table or table[-1].start_offset <= leader.log.log_end_offset:
        return None
    look = Look(table, table[-1].start_offset)
    return look if _agrees(look, leader, leader.log.log_start_offset, leader.log.log_end_offset) else None


def _tells_all(look: Look, follower: Replica, end: int) -> bool:
    """Whether a look tells the epoch of all that a follower holds from the end of the leader's copy on, as far as it reaches."""
    is_of_epochs = all(span.leader_epoch >= 0 for span in follower.history if span.end_offset > end)
    return is_of_epochs and bool(look.epochs) and look.epochs[0].start_offset <= end <= look.log_end_offset


def _agrees(look: Look, replica: Replica, start: int, end: int) -> bool:
    """Whether a replica holds no offset of a range in another epoch than a look has there; it may not tell of the first ones."""
    told = lineage.history_of_table(look.epochs, start, end)
    return lineage.first_difference(told, replica.history, start, end, gaps_count=False) is None
