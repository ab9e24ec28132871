"""One replica of a pair, or of a partition in which every replica is tried as the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.copied_earlier import seen_as_far
from replica_audit.protocol.exchange.replica import Replica


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
