"""What each replica is, and what its broker takes it for, as rows of `replica_roles`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.model import PartitionMetadata
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.protocol.cluster.fencing import DOWN, Belief, as_told, fetch_error, isr_objection, standings
from replica_audit.protocol.cluster.leadership import Leadership
from replica_audit.protocol.cluster.metadata_image import last_value
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaRole


class Reach(NamedTuple):
    """How far the log of a replica reaches, and its checkpointed high watermark; None where that is unknown."""

    log_end_offset: int | None
    high_watermark: int | None


_UNKNOWN = Reach(None, None)


def role_rows(
    metadata: PartitionMetadata,
    leadership: Leadership,
    reaches: Mapping[int, Reach],
    copies: Mapping[int, PartitionMetadata],
    cluster: ClusterFacts,
    verdicts: Sequence[ReplicaVerdict],
) -> Iterator[ReplicaRole]:
    """One row for each replica that the metadata names or that has a log.

    Args:
        metadata: what is known last of the partition.
        leadership: who leads.
        reaches: of the replicas with a log, by broker.
        copies: what each broker's own copy of the metadata log says, by broker.
        cluster: whether brokers run, are fenced, and were copied at one instant.
        verdicts: the partition's rows of `replica_verdicts`.
    """
    # what a copy says of an earlier topic of this name is not a belief about this one
    copies = {
        broker: copy for broker, copy in copies.items() if None in (metadata.topic_id, copy.topic_id) or copy.topic_id == metadata.topic_id
    }
    brokers = sorted({*metadata.replicas, *reaches})
    beliefs = [_belief(broker, copies.get(broker)) for broker in brokers]
    leader_copy = copies.get(leadership.leader_id)
    answers_in = metadata.leader_epoch if leader_copy is None else leader_copy.leader_epoch
    found = {row.follower_id: row for row in verdicts}
    minimum = last_value(metadata.min_isr, cluster.history.min_isr, metadata.leader) or metadata.min_insync_replicas
    for belief, (broker, standing) in zip(beliefs, standings(beliefs, metadata.leader_epoch, metadata.leader), strict=True):
        reach = reaches.get(broker, _UNKNOWN)
        asks = broker != metadata.leader and metadata.leader >= 0 and belief.leader_epoch is not None
        error = fetch_error(belief.leader_epoch, answers_in, leader_copy is None or leader_copy.leader == metadata.leader) if asks else None
        yield ReplicaRole(
            topic=metadata.topic,
            partition=metadata.partition,
            broker_id=broker,
            leader_id=metadata.leader,
            leader_epoch=metadata.leader_epoch,
            known_leader_id=belief.leader_id,
            known_leader_epoch=belief.leader_epoch,
            standing=as_told(standing, cluster.broker_states.get(broker), simultaneous=cluster.simultaneous),
            fetch_error=None if error is None else str(error),
            in_isr=broker in metadata.isr,
            in_elr=broker in metadata.elr,
            fenced=cluster.fenced.get(broker),
            log_end_offset=reach.log_end_offset,
            high_watermark=reach.high_watermark,
            isr_objection=_objection(broker, found.get(broker), cluster, metadata),
            position=metadata.replicas.index(broker) if broker in metadata.replicas else None,
            min_insync_replicas=minimum,
            unclean_leader_election=metadata.unclean_leader_election,
        )


def _belief(broker: int, copy: PartitionMetadata | None) -> Belief:
    return Belief(broker_id=broker, leader_epoch=copy.leader_epoch if copy else None, leader_id=copy.leader if copy else None)


def _objection(broker: int, verdict: ReplicaVerdict | None, cluster: ClusterFacts, metadata: PartitionMetadata) -> str | None:
    stays_diverged = verdict.reason if verdict and verdict.verdict == Verdict.LOG_MATCHING_VIOLATION else None
    return isr_objection(
        broker,
        metadata,
        fenced=bool(cluster.fenced.get(broker)),
        down=cluster.broker_states.get(broker) == DOWN,
        leader_down=cluster.broker_states.get(metadata.leader) == DOWN,
        stays_diverged=stays_diverged,
    )
