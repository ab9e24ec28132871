"""What each follower does once every corrected `leader-epoch-checkpoint` is in place, and whether what it keeps is the leader's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.partition.pairs import content
from replica_audit.partition.replicas.corrected_checkpoints import corrected_tables
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.compare_mode import CompareMode
from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.exchange.healed import Rejoin, rejoins
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.tables.replicas import FollowerOnceCorrected


def followers_once_corrected(
    loaded: Sequence[Loaded], leader_id: int, replicas: Mapping[int, Replica], protocol: Protocol, context: Context, mode: CompareMode
) -> list[FollowerOnceCorrected]:
    """A value for each follower; none where no file is corrected.

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
    compared = {one.broker_id: one for one in loaded if one.is_compared}
    found = rejoins(leader_id, list(replicas.values()), corrected, protocol, context.leader_epoch)
    return [_value(one, compared, context, mode) for one in found]


def _value(one: Rejoin, loaded: Mapping[int, Loaded], context: Context, mode: CompareMode) -> FollowerOnceCorrected:
    truncation = one.truncation
    effect = Effect(truncation=truncation, physical_offset=truncation.truncation_offset, fetcher_fails=False)
    comparison = Comparison(leader=one.leader, follower=one.follower, context=context, effect=effect, witnesses=())
    return FollowerOnceCorrected(
        leader_id=one.leader.broker_id,
        follower_id=one.follower.broker_id,
        truncation_offset=truncation.truncation_offset,
        restart_offset=truncation.restart_offset,
        catches_up=one.catches_up,
        still_diverged=comparison.still_diverged or _differs(comparison, loaded, mode),
    )


def _differs(comparison: Comparison, loaded: Mapping[int, Loaded], mode: CompareMode) -> bool:
    """Whether batches that the follower keeps are not the leader's, though their epochs agree."""
    if mode is CompareMode.EPOCHS or not comparison.content_decides:
        return False
    sides = (loaded[one.broker_id] for one in (comparison.leader, comparison.follower))
    return content.compare(comparison, *sides).difference is not None
