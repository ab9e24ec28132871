"""How a report names the replica that a follower is compared with: a leader only where the metadata says that it leads.

Rows have -1 where there is no such replica; people read words for it.
"""

from __future__ import annotations

from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.rows.pairs import ReplicaVerdict

PAIR_WITHOUT_LEADER = "?>F: no leader is known, so that F is not compared."  # of `pair`, in a legend


def is_inferred(one: ReplicaVerdict) -> bool:
    """Whether the leader is inferred from the logs."""
    return one.leader_source == INFERRED


def has_no_leader(one: ReplicaVerdict) -> bool:
    """Whether the metadata says that nobody leads."""
    return is_inferred(one) and one.inferred_because == InferredBecause.NO_LEADER


def nobody(one: ReplicaVerdict) -> str:
    """In the place of a leader where `leader_id` is -1: whether there is none, or none is known."""
    return "no leader" if has_no_leader(one) else "leader unknown"


def leader_name(one: ReplicaVerdict) -> str:
    """The replica as the leader of a sentence."""
    if one.leader_id < 0:
        return nobody(one)
    if has_no_leader(one):
        return f"broker {one.leader_id} (as if it led)"
    return f"{'inferred leader' if is_inferred(one) else 'leader'} {one.leader_id}"


def pair(leader_id: int, follower_id: int, leader_source: str) -> str:
    """A pair as a cell: LEADER>FOLLOWER, with a question mark behind an inferred leader, or in place of one that is not known."""
    return f"{leader_id if leader_id >= 0 else ''}{'?' if leader_source == INFERRED or leader_id < 0 else ''}>{follower_id}"


def known_from(one: ReplicaVerdict) -> str:
    """Who leads, and where that is known from."""
    if one.leader_id < 0:
        return "none, according to the metadata" if has_no_leader(one) else "unknown"
    if has_no_leader(one):
        return f"none, according to the metadata; compared as if broker {one.leader_id} led"
    return f"broker {one.leader_id}, {'inferred from the logs' if is_inferred(one) else f'known from {one.leader_source}'}"


def caveat(one: ReplicaVerdict) -> str:
    """What has to be known about the leader before the verdict is read; empty where the metadata says who leads."""
    if not is_inferred(one) or one.leader_id < 0:
        return ""
    match one.inferred_because:
        case InferredBecause.NO_LEADER:
            return (
                f"According to the metadata this partition has no leader. Broker {one.leader_id} has the most advanced log, and the others "
                "are compared as if it led."
            )
        case InferredBecause.METADATA_OUTDATED:
            return "The leader is inferred from the logs: one of them has a leader epoch that the metadata in the input does not know yet."
        case InferredBecause.LEADER_NOT_NAMED:
            return "The leader is inferred from the logs: the metadata in the input does not name it, or names two of one epoch."
    return "The leader is inferred from the logs."
