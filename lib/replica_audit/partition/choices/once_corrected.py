"""What each follower does once every corrected `leader-epoch-checkpoint` is in place, and whether what it keeps is the leader's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs import content, second_read
from replica_audit.partition.pairs.sides import Side
from replica_audit.partition.replicas.corrected_checkpoints import corrected_tables
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.exchange.rejoin import Rejoin, rejoins
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import Protocol
from replica_audit.rows.replicas import FollowerOnceCorrected


def followers_once_corrected(
    loaded: Sequence[Loaded], leader_id: int, replicas: Mapping[int, Replica], protocol: Protocol, context: Context, mode: CompareMode
) -> list[FollowerOnceCorrected]:
    """A value for each follower of the leader's topic; none where no file is corrected.

    Args:
        loaded: every replica directory of the partition.
        leader_id: who leads.
        replicas: those that have a log, by broker.
        protocol: that the cluster runs.
        context: of the partition.
        mode: whether more than epochs is compared.
    """
    corrected = corrected_tables(loaded)
    if not corrected:
        return []
    sides = {one.broker_id: one for one in loaded if one.is_compared}
    leads = replicas.get(leader_id)
    same_topic = [one for one in replicas.values() if leads and (not one.topic_id or leads.topic_id in (None, one.topic_id))]
    found = rejoins(leader_id, same_topic, corrected, protocol, context.leader_epoch)
    return [_value(one, sides[leader_id], sides[one.follower.broker_id], context, mode) for one in found]


def _value(one: Rejoin, leader: Loaded, follower: Loaded, context: Context, mode: CompareMode) -> FollowerOnceCorrected:
    effect = _effect(one, leader, follower)
    comparison = Comparison(leader=one.leader, follower=one.follower, context=context, effect=effect, witnesses=())
    is_left = not comparison.leader_copied_before_its_election and (
        comparison.still_diverged or _differs(comparison, leader, follower, mode)
    )
    return FollowerOnceCorrected(
        leader_id=leader.broker_id,
        follower_id=follower.broker_id,
        truncation_offset=one.truncation.truncation_offset,
        restart_offset=one.truncation.restart_offset,
        catches_up=one.catches_up and not effect.fetcher_fails,
        still_diverged=is_left,
    )


def _effect(one: Rejoin, leader: Loaded, follower: Loaded) -> Effect:
    sides = Side(loaded=leader, replica=one.leader), Side(loaded=follower, replica=one.follower)
    try:
        return second_read.effect(*sides, one.truncation, reads=True)[0]
    except UnreadBatchesError:
        return second_read.effect(*sides, one.truncation, reads=False)[0]


def _differs(comparison: Comparison, leader: Loaded, follower: Loaded, mode: CompareMode) -> bool:
    """Whether batches that the follower keeps are not the leader's, though their epochs agree."""
    if mode is CompareMode.EPOCHS or not comparison.content_decides:
        return False
    return content.compare(comparison, leader, follower).difference is not None
