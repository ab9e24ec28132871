"""What groups find when they resume at the offsets that they committed, as rows of `consumer_impacts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replica_audit.model import CommittedOffset, PartitionMetadata
from replica_audit.protocol import consumers
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership
from replica_audit.protocol.comparison.candidates import next_epoch, with_new_epoch
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.what_if import WhatIfLeader


def as_groups_find_it(
    leader: Replica | None, leadership: Leadership, replicas: Mapping[int, Replica], known_epoch: int, commits: Sequence[CommittedOffset]
) -> Replica | None:
    """The leader as a group that resumes finds it: one that is only inferred has yet to be elected, in a new epoch.

    `known_epoch` is the latest leader epoch by the metadata, -1 if unknown; `commits` as for `impact_rows`.
    """
    if leader is None or leadership.source != INFERRED:
        return leader
    new_epoch = next_epoch(replicas.values(), known_epoch, *(commit.leader_epoch for commit in commits))
    return with_new_epoch(leader, new_epoch) if leader.has_epochs else leader


def is_election_open(metadata: PartitionMetadata, leadership: Leadership, choices: Sequence[WhatIfLeader]) -> bool:
    """Whether nobody leads, and another replica than the inferred leader may be elected, with other records."""
    if not metadata.no_leader or leadership.source != INFERRED:
        return False
    own = next((choice for choice in choices if choice.candidate_id == leadership.leader_id), None)
    if own is None or any(choice.rank is None for choice in choices):
        return True
    return own.rank != 1 and own.lost_offsets != 0


def impact_rows(
    metadata: PartitionMetadata,
    commits: Sequence[CommittedOffset],
    leader: Replica | None,
    replicas: Mapping[int, Replica],
    *,
    context: Context,
    leader_is_down: bool = False,
    is_election_open: bool = False,
) -> Iterator[ConsumerImpact]:
    """One row per group that committed an offset of the partition.

    Args:
        metadata: what is known last of the partition.
        commits: what groups committed of it.
        leader: None if it is unknown or unreadable.
        replicas: the readable replicas, by broker.
        context: of the partition.
        leader_is_down: whether metadata says so: nothing was written after the copy. (A marker of a clean shutdown does not say it: the
            broker may have been restarted before the groups' offsets were copied.)
        is_election_open: whether nobody leads, and another replica than `leader` may, with other records.
    """
    topic_id = metadata.topic_id or (leader.topic_id if leader else None)
    for commit in sorted(commits, key=lambda one: one.group_id):
        if commit.topic_id and topic_id and commit.topic_id != topic_id:
            continue  # of an earlier topic of this name
        if leader is None or leader.unreadable:
            yield consumers.unknown(commit, "the leader's log is not in the input, or cannot be read")
        elif is_election_open:
            yield consumers.unknown(commit, "nobody leads the partition, and it is not known with which records the next leader leads")
        elif leader.topic_id and leader.topic_id != topic_id:
            yield consumers.unknown(commit, "the leader's log is of an earlier topic of this name")
        else:
            others = [replica for replica in replicas.values() if replica.broker_id != leader.broker_id and _same(replica, leader)]
            known = consumers.known(leader, metadata.elections, commit, context, leader_is_down=leader_is_down)
            yield consumers.assess(leader, others, commit, known)


def _same(replica: Replica, leader: Replica) -> bool:
    return not replica.topic_id or not leader.topic_id or replica.topic_id == leader.topic_id
