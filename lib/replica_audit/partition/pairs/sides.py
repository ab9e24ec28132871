"""One replica of a pair, or of a partition in which every replica is tried as the leader, with the commits in what it removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.commitment import Committed, Context
from replica_audit.protocol.comparison.copied_earlier import seen_as_far
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pairs import CommittedSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """As it was loaded, and as the rules see it."""

    loaded: Loaded
    replica: Replica


def as_far_as_copied(leader: Side, follower: Side, context: Context, others: Sequence[Replica]) -> Side:
    """The follower, without what its leader's log got after it was copied; as of `seen_as_far`."""
    seen = seen_as_far(leader.replica, follower.replica, context, others)
    return follower if seen is None else replace(follower, replica=replace(follower.replica, seen=seen))


def witnesses(replicas: Mapping[int, Replica], leader: Replica, follower: Replica) -> list[Replica]:
    """The readable replicas of the follower's topic besides the two; `replicas` are those of the partition, by broker."""
    return [
        replica
        for broker, replica in replicas.items()
        if broker not in (follower.broker_id, leader.broker_id)
        and not replica.unreadable
        and (not replica.topic_id or not follower.topic_id or replica.topic_id == follower.topic_id)
    ]


def removed_committed(comparison: Comparison, judgement: Judgement) -> Sequence[Committed]:
    """Return what of a pair was committed; nothing where the comparison proves nothing: then no loss may be summed up."""
    return () if judgement.verdict is Verdict.INCONCLUSIVE else comparison.committed


def committed_spans(found: Sequence[Committed]) -> tuple[CommittedSpan, ...]:
    """Return the offsets, each with what proves that they were committed."""
    return tuple(
        CommittedSpan(
            evidence=str(one.bound.evidence),
            leader_epoch=span.leader_epoch,
            first_offset=span.first_offset,
            end_offset=span.end_offset,
            broker_id=one.bound.broker_id,
            metadata_offset=one.bound.metadata_offset,
            not_ruled_out=tuple(sorted(str(doubt) for doubt in one.bound.doubts)),
        )
        for one in found
        for span in one.spans
    )
