"""Future replicas of moves between log directories, against the current replica of the same broker, as rows of `future_replicas`.

Source: ReplicaAlterLogDirsThread: the leader is the local current replica, and truncation goes by OffsetsForLeaderEpoch in every version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.partition.pairs.pair import Pair, measure
from replica_audit.partition.pairs.sides import Side
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import Leadership
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, inconclusive, judge, stale_topic
from replica_audit.rows.codes import Cause, Protocol, Severity
from replica_audit.rows.replicas import FutureReplica

_LOCAL = "local"


def future_rows(loaded: Sequence[Loaded], context: Context, protocol: Protocol) -> Iterator[FutureReplica]:
    """One row per future directory.

    Args:
        loaded: every replica directory of the partition, of all brokers.
        context: of the partition.
        protocol: the rule of moves.
    """
    # a broker's two copies are of one time, and the cluster's leader epoch says nothing of who of them leads
    context = replace(context, simultaneous=True, leader_epoch=UNDEFINED_EPOCH)
    for future in loaded:
        if future.files.state != "future":
            continue
        current = next((one for one in loaded if one.broker_id == future.broker_id and one.is_compared), None)
        yield _row(current, future, context, protocol)


def _row(current: Loaded | None, future: Loaded, context: Context, protocol: Protocol) -> FutureReplica:
    refused = _incomparable(current, future)
    if refused is not None or current is None:
        judgement = refused or _missing()
        return FutureReplica(
            topic=future.files.topic,
            partition=future.files.partition,
            broker_id=future.broker_id,
            log_dir=current.files.log_dir if current else None,
            future_log_dir=future.files.log_dir,
            directory=future.files.directory,
            protocol=str(protocol),
            verdict=str(judgement.verdict),
            severity=_severity(judgement),
            log_end_offset=None,
            lag_offsets=None,
            divergence_offset=None,
            truncation_offset=None,
            restart_offset=None,
            removed_records=None,
            reason=judgement.reason,
        )
    # the broker reads both copies at one time, and neither is in the ISR for the other's sake
    pair = Pair(
        leader=Side(loaded=current, replica=_replica(current)),
        follower=Side(loaded=future, replica=_replica(future)),
        leadership=Leadership(future.broker_id, _LOCAL),
        context=context,
        applies=protocol,
        witnesses=(),
    )
    measured = measure(pair, (protocol,))
    comparison, truncation = measured.comparison, measured.comparison.effect.truncation
    judgement = judge(comparison)
    return FutureReplica(
        topic=future.files.topic,
        partition=future.files.partition,
        broker_id=future.broker_id,
        log_dir=current.files.log_dir,
        future_log_dir=future.files.log_dir,
        directory=future.files.directory,
        protocol=str(protocol),
        verdict=str(judgement.verdict),
        severity=_severity(judgement),
        log_end_offset=comparison.follower.log.log_end_offset,
        lag_offsets=max(0, comparison.leader.log.log_end_offset - comparison.follower.log.log_end_offset),
        divergence_offset=comparison.divergence_offset,
        truncation_offset=truncation.truncation_offset,
        restart_offset=truncation.restart_offset,
        removed_records=measured.removal.records if measured.removal else 0,
        reason=judgement.reason,
    )


def _replica(one: Loaded) -> Replica:
    return one.replica(alive=None, in_isr=False)


def _incomparable(current: Loaded | None, future: Loaded) -> Judgement | None:
    if future.not_whole is not None:
        return inconclusive(future.not_whole, str(future.unreadable))
    if future.log is None or future.unreadable:
        return Judgement(verdict=Verdict.UNREADABLE, reason=future.unreadable or "no log")
    if current is None:
        return _missing()
    if current.log is None or current.unreadable:
        return _no_leader(f"the current replica is unreadable: {current.unreadable}")
    own, theirs = future.files.topic_id, current.files.topic_id
    if own and theirs and own != theirs:
        return stale_topic(own, theirs, "the current replica's")
    return None


def _missing() -> Judgement:
    return _no_leader("the broker's current replica is not in the input")


def _no_leader(why: str) -> Judgement:
    """The current replica, which leads here, cannot be compared with."""
    return Judgement(verdict=Verdict.INCONCLUSIVE, cause=Cause.LEADER_UNKNOWN, reason=why)


def _severity(judgement: Judgement) -> str:
    """Nothing is lost with a future replica, which no one reads before it becomes the current one."""
    return str(Severity.NONE if judgement.severity is Severity.NONE else Severity.WARNING)
