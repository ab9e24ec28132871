"""Fencing by the leader epoch (KIP-320): who may fetch from whom, and which replicas' brokers stand in an epoch that ended.

Sources: Partition.checkCurrentLeaderEpoch, Partition.getLocalLog, FetchRequest.optionalEpoch (4.2.0).
Epoch 0 is an epoch like any other; -1 and None are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import METADATA_LOG

DOWN, BEHIND = "down", "behind"


class FencingError(StrEnum):
    """Why a leader refuses a fetch before it looks at its log, by Kafka's names."""

    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"


class Standing(StrEnum):
    """What a replica's broker takes itself for, compared with what is true of the partition."""

    LEADER = "leader"
    FOLLOWER = "follower"
    ZOMBIE_LEADER = "zombie-leader"
    ZOMBIE_FOLLOWER = "zombie-follower"
    AHEAD = "ahead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What one replica's broker knows of the partition, by its own copy of the metadata log.

    `leader_epoch` is None or -1 where that is unknown; `leader_id` likewise, or where it knows that nobody leads.
    """

    broker_id: int
    leader_epoch: int | None
    leader_id: int | None


class ReplicaStanding(NamedTuple):
    """One replica and its standing."""

    broker_id: int
    standing: Standing


def fetch_error(request_leader_epoch: int | None, leader_epoch: int, is_leader: bool) -> FencingError | None:
    """How a broker answers a request that carries the sender's current leader epoch; None if it goes on to its log.

    Args:
        request_leader_epoch: the epoch in which the sender believes to be; None or negative means that it is not checked.
        leader_epoch: the epoch in which the asked broker believes to be.
        is_leader: whether the asked broker believes to lead. Asked last: a deposed leader that knows the new epoch fences the old one.
    """
    if request_leader_epoch is not None and request_leader_epoch >= 0:
        if request_leader_epoch < leader_epoch:
            return FencingError.FENCED_LEADER_EPOCH
        if request_leader_epoch > leader_epoch:
            return FencingError.UNKNOWN_LEADER_EPOCH
    return None if is_leader else FencingError.NOT_LEADER_OR_FOLLOWER


def standings(beliefs: Sequence[Belief], leader_epoch: int | None, leader_id: int | None) -> list[ReplicaStanding]:
    """Every replica's standing, in the order of `beliefs`.

    A zombie leader's broker believes that it leads, in an epoch that ended. A zombie follower's fetches are answered FENCED_LEADER_EPOCH by
    every broker that knows a later one. One that is ahead gets UNKNOWN_LEADER_EPOCH until the leader's broker learns its epoch. Unknown is
    who tells no epoch, or contradicts the cluster: it names another leader of the latest epoch, or shares a later one with the leader.

    Args:
        beliefs: one per replica.
        leader_epoch: the latest that the cluster has; None or -1 if unknown: then nobody's standing is.
        leader_id: who leads in it; None or -1 if nobody does.
    """
    if leader_epoch is None or leader_epoch < 0:
        return [ReplicaStanding(belief.broker_id, Standing.UNKNOWN) for belief in beliefs]
    # what the leader's broker can answer is bounded by what it knows itself
    leads_in = next((belief.leader_epoch for belief in beliefs if belief.broker_id == leader_id), None)
    answers_in = leader_epoch if leads_in is None or leads_in < 0 else leads_in
    return [ReplicaStanding(belief.broker_id, _standing(belief, leader_epoch, leader_id, answers_in)) for belief in beliefs]


def _standing(belief: Belief, leader_epoch: int, leader_id: int | None, answers_in: int) -> Standing:
    epoch = belief.leader_epoch
    named = None if belief.leader_id is None or belief.leader_id < 0 else belief.leader_id
    if epoch is None or epoch < 0:
        return Standing.UNKNOWN
    if epoch < leader_epoch:
        return Standing.ZOMBIE_LEADER if named == belief.broker_id else Standing.ZOMBIE_FOLLOWER
    if leader_epoch < epoch <= answers_in or (epoch == leader_epoch and named not in (None, leader_id)):
        return Standing.UNKNOWN  # the latest epoch has one leader, and there is none later
    if epoch > answers_in:
        return Standing.AHEAD
    return Standing.LEADER if belief.broker_id == leader_id else Standing.FOLLOWER


def as_told(standing: Standing, state: str | None, *, simultaneous: bool) -> str:
    """What can be said of a broker's standing: a copy of old metadata alone does not make a zombie.

    It may be of a broker that is down, or have been taken before the election.

    Args:
        standing: by the broker's copy of the metadata.
        state: of the broker: up, down, paused or stopped; None if unknown.
        simultaneous: whether all brokers were copied at one instant.
    """
    if state == DOWN:
        return DOWN
    is_zombie = standing in (Standing.ZOMBIE_LEADER, Standing.ZOMBIE_FOLLOWER)
    return BEHIND if is_zombie and not simultaneous and state != "paused" else str(standing)


def isr_objection(
    broker_id: int, metadata: PartitionMetadata, *, fenced: bool, down: bool, leader_down: bool, stays_diverged: str | None
) -> str | None:
    """Why a broker should not be in the ISR: it is fenced, or down, and not the last one, or its log is not the leader's and stays so.

    KIP-320: a leader may not add a replica that the controller has marked as offline.

    Args:
        broker_id: of the replica.
        metadata: of the partition.
        fenced: whether the metadata log says that the broker is fenced.
        down: whether it is known not to run.
        leader_down: the same of the leader's broker.
        stays_diverged: what of its log differs from the leader's whatever is cut; None if nothing does.

    Returns:
        The reason; None if there is none, or it is not in the ISR.
    """
    if broker_id not in metadata.isr:
        return None
    is_last = len(metadata.isr) == 1 or broker_id == metadata.leader
    # in one record with the fencing the controller takes a broker out of every ISR but one that it is the last of
    if fenced and metadata.source == METADATA_LOG and not is_last:
        return "its broker is fenced"
    # where the leader is down, too, nobody has been there to take it out
    if down and not leader_down and not is_last:
        return "its broker does not run"
    return None if stays_diverged is None else f"its log is not the leader's: {stays_diverged}"
