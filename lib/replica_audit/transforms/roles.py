"""What each replica is, and what its broker takes it for, as rows of `replica_roles`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.fencing import Belief, Standing, fetch_error, standings
from replica_audit.protocol.leadership import Leadership
from replica_audit.protocol.metadata_image import METADATA_LOG
from replica_audit.protocol.replica import Replica
from replica_audit.protocol.verdict import Verdict
from replica_audit.transforms.clusters import ClusterFacts
from replica_audit.transforms.rows import Row

DOWN, BEHIND = "down", "behind"


def role_rows(
    metadata: PartitionMetadata,
    leadership: Leadership,
    replicas: Mapping[int, Replica],
    copies: Mapping[int, PartitionMetadata],
    cluster: ClusterFacts,
    verdicts: Sequence[Row],
) -> Iterator[Row]:
    """One row for each replica that the metadata names or that has a log.

    Args:
        metadata: what is known last of the partition.
        leadership: who leads.
        replicas: those with a log, by broker.
        copies: what each broker's own copy of the metadata log says, by broker.
        cluster: whether brokers run, are fenced, and were copied at one instant.
        verdicts: the partition's rows of `replica_verdicts`.
    """
    # what a copy says of an earlier topic of this name is no belief about this one
    copies = {
        broker: copy for broker, copy in copies.items() if None in (metadata.topic_id, copy.topic_id) or copy.topic_id == metadata.topic_id
    }
    brokers = sorted({*metadata.replicas, *replicas})
    beliefs = [_belief(broker, copies.get(broker)) for broker in brokers]
    leader_copy = copies.get(leadership.leader_id)
    answers_in = metadata.leader_epoch if leader_copy is None else leader_copy.leader_epoch
    found = {row["follower_id"]: row for row in verdicts}
    for belief, (broker, standing) in zip(beliefs, standings(beliefs, metadata.leader_epoch, metadata.leader), strict=True):
        replica = replicas.get(broker)
        in_isr = broker in metadata.isr
        asks = broker != metadata.leader and metadata.leader >= 0 and belief.leader_epoch is not None
        error = fetch_error(belief.leader_epoch, answers_in, leader_copy is None or leader_copy.leader == metadata.leader) if asks else None
        yield {
            "topic": metadata.topic,
            "partition": metadata.partition,
            "broker_id": broker,
            "leader_id": metadata.leader,
            "leader_epoch": metadata.leader_epoch,
            "known_leader_id": belief.leader_id,
            "known_leader_epoch": belief.leader_epoch,
            "standing": _standing(standing, broker, cluster),
            "fetch_error": None if error is None else str(error),
            "in_isr": in_isr,
            "in_elr": broker in metadata.elr,
            "fenced": cluster.fenced.get(broker),
            "log_end_offset": replica.log.log_end_offset if replica else None,
            "high_watermark": replica.high_watermark if replica else None,
            "isr_objection": _objection(broker, found.get(broker), cluster, metadata) if in_isr else None,
        }


def _standing(standing: Standing, broker: int, cluster: ClusterFacts) -> str:
    """What can be said of a broker's standing: a copy of old metadata alone does not make a zombie.

    It may be of a broker that is down, or have been taken before the election.
    """
    state = cluster.broker_states.get(broker)
    if state == "down":
        return DOWN
    is_zombie = standing in (Standing.ZOMBIE_LEADER, Standing.ZOMBIE_FOLLOWER)
    return BEHIND if is_zombie and not cluster.simultaneous and state != "paused" else str(standing)


def _belief(broker: int, copy: PartitionMetadata | None) -> Belief:
    return Belief(broker_id=broker, leader_epoch=copy.leader_epoch if copy else None, leader_id=copy.leader if copy else None)


def _objection(broker: int, verdict: Row | None, cluster: ClusterFacts, metadata: PartitionMetadata) -> str | None:
    """Why an ISR member should not be one: it is fenced, or down, and not the last one, or its log is not the leader's and stays so."""
    is_last = len(metadata.isr) == 1 or broker == metadata.leader
    # in one record with the fencing the controller takes a broker out of every ISR but one that it is the last of
    if cluster.fenced.get(broker) and metadata.source == METADATA_LOG and not is_last:
        return "its broker is fenced"
    # where the leader is down, too, nobody has been there to take it out
    if cluster.broker_states.get(broker) == "down" and cluster.broker_states.get(metadata.leader) != "down" and not is_last:
        return "its broker does not run"
    if verdict and verdict["verdict"] == Verdict.LOG_MATCHING_VIOLATION:
        return f"its log is not the leader's: {verdict['reason']}"
    return None
