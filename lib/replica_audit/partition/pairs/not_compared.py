"""A leader and a follower that cannot be compared, as a row of `replica_verdicts`."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.partition.pairs.pair import PairKeys, verdict_row
from replica_audit.partition.replicas.known_empty import MADE_EMPTY
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.topic_ids import TopicIdsInDoubt
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, inconclusive
from replica_audit.rows.codes import Cause, Protocol
from replica_audit.rows.pairs import ReplicaVerdict


def not_compared_row(
    keys: PairKeys, leader_source: str, protocol: Protocol, judgement: Judgement, *, inferred_because: str | None = None
) -> ReplicaVerdict:
    """What is known of a pair all the same; `inferred_because` as the column."""
    return verdict_row(keys, leader_source, protocol, judgement)(inferred_because=inferred_because)


def with_empty_side(verdict: ReplicaVerdict, leader: Loaded, follower: Loaded) -> ReplicaVerdict:
    """The row with whose log is empty because there is no directory of it."""
    told = [f"broker {one.broker_id}: {MADE_EMPTY}" for one in (leader, follower) if one.is_known_empty]
    return replace(verdict, reason="; ".join([verdict.reason, *told])) if told else verdict


def why_not_compared(
    leader: Loaded | None, follower: Loaded | None, leader_id: int, topic_id: str | None, doubt: TopicIdsInDoubt | None = None
) -> Judgement | tuple[Loaded, Loaded]:
    """The judgement on a follower that cannot be compared; else the two replicas, both of which have a log with a known end.

    Args:
        leader: None if the input does not hold it, or there is none.
        follower: None if the input does not hold it.
        leader_id: -1 if none can be inferred.
        topic_id: by the metadata, None if unknown.
        doubt: which topic id is right, if nobody can tell.
    """
    if follower is None:
        return inconclusive(Cause.NOT_COLLECTED, "the metadata names this replica, the input does not hold it")
    if follower.not_whole is not None and follower.files.checkpoint_state != "unreadable":
        return inconclusive(follower.not_whole, str(follower.unreadable))
    if follower.log is None or follower.is_end_unknown or follower.files.checkpoint_state == "unreadable":
        return Judgement(verdict=Verdict.UNREADABLE, reason=follower.unreadable or "no log")
    ids = {one.files.topic_id for one in (leader, follower) if one is not None} | ({topic_id} if topic_id else set())
    if doubt is not None and len(ids - {None}) > 1:
        return inconclusive(Cause.TOPIC_ID_IN_DOUBT, doubt.sentence)
    if leader is None:
        is_known = leader_id >= 0
        named = f"the input does not hold the replica of leader {leader_id}" if is_known else "no replica can be inferred as the leader"
        return inconclusive(Cause.LEADER_UNKNOWN, named)
    if leader.log is None or leader.not_whole or leader.is_end_unknown or leader.files.checkpoint_state == "unreadable":
        return inconclusive(Cause.LEADER_UNKNOWN, str(leader.unreadable))
    if leader.files.topic_id and topic_id and leader.files.topic_id != topic_id:
        reason = f"the log of leader {leader.broker_id} is of an earlier topic of this name (topic id {leader.files.topic_id})"
        return inconclusive(Cause.LEADER_UNKNOWN, reason)
    return leader, follower
