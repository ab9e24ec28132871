"""Copies that were taken one after the other: what a follower holds only because its leader was copied before it.

The rule is the product's own. It rests on this: a leader epoch has one leader (the controller raises it with every election, and since
KIP-380 also for a leader that was only restarted), which appends to its log and never truncates it. So whatever a follower holds of the
epoch in which that broker leads is, or was a moment later, in the leader's log.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.comparison.pair import difference
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.exchange.replica import Replica


def seen_until(leader: Replica, follower: Replica, context: Context, others: Sequence[Replica]) -> int | None:
    """How far a follower can be compared whose leader was copied before it, where all beyond can only be what that leader wrote since.

    Args:
        leader: by the metadata, not by inference.
        follower: of the same topic.
        context: of the partition.
        others: its other readable replicas.

    Returns:
        The leader's log end offset. None where the follower reaches no further, where the copies are of one instant, where the leader does
        not run or its table may lack the epoch in which it leads (before KAFKA-7415), or where an election may have come between: if
        metadata, the leader's epoch table and every batch beyond do not agree on the epoch, or any replica knows a later one.
    """
    end, epoch = leader.log.log_end_offset, context.leader_epoch
    if (
        context.simultaneous
        or not context.enters_epoch_at_once
        or not leader.alive
        or leader.frozen
        or leader.unreadable
        or follower.unreadable
    ):
        return None
    if not follower.log.log_start_offset <= end < follower.log.log_end_offset:
        return None
    if epoch < 0 or latest_epoch(leader.log.epochs) != epoch or leader.log.epochs[-1].start_offset > end:
        return None
    beyond = [span.leader_epoch for span in follower.history if span.end_offset > end]
    if any(written != epoch for written in beyond) or any(latest_epoch(one.log.epochs) > epoch for one in (follower, *others)):
        return None
    return None if difference(leader, follower, context, end) is not None else end
