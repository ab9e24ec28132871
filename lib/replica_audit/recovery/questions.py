"""What of a cluster is a guess, and what has to be given so that it is none: until then nothing is done with these replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from replica_audit.errors import visible
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey, known_cut
from replica_audit.recovery.names import partition_shown, plain
from replica_audit.rows.codes import Cause
from replica_audit.rows.pairs import ReplicaVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked for, by name, and the replicas that wait for it. `why` is what is not known without it."""

    replicas: tuple[ReplicaKey, ...]
    wanted: str
    why: str
    brokers: tuple[int, ...] = ()


def questions(facts: RecoveryFacts) -> tuple[Question, ...]:
    """All that is not known and decides something, each kind once."""
    found: dict[tuple[str, str], list[ReplicaKey]] = {}
    for replica, wanted, why in _all(facts):
        if replica[2] not in facts.gone:
            found.setdefault((wanted, why), []).append(replica)
    return tuple(Question(replicas=tuple(sorted(set(replicas))), wanted=wanted, why=why) for (wanted, why), replicas in found.items())


def unknown_replicas(facts: RecoveryFacts) -> frozenset[ReplicaKey]:
    """The replicas that wait for an answer: their brokers are not started, nor stopped, before it is there."""
    return frozenset(replica for one in questions(facts) for replica in one.replicas)


def questions_about_brokers(facts: RecoveryFacts, known: Collection[int]) -> Iterator[Question]:
    """Of brokers whose start is not known to be safe, besides those that are asked about, or that the plan knows what to do with."""
    for one in facts.unknown_starts:
        if one.broker_id not in known and one.broker_id not in facts.gone:
            of = f" ({', '.join(map(plain, one.partitions))})" if one.partitions else ""
            wanted = f"the folder of broker {one.broker_id}, copied again and given once"
            yield Question(replicas=(), brokers=(one.broker_id,), wanted=wanted, why=f"{', '.join(one.because)}{of}")


def _all(facts: RecoveryFacts) -> Iterator[tuple[ReplicaKey, str, str]]:
    for problem in facts.doubted:
        brokers = {role.broker_id for role in facts.roles} if problem.broker_id is None else {problem.broker_id}
        wanted = f"{plain(problem.remedy)} (`{visible(problem.path)}`)"
        for role in facts.roles:
            if role.broker_id in brokers:
                yield (role.topic, role.partition, role.broker_id), wanted, plain(problem.detail)
    for replica in facts.short_copies:
        yield replica, _copy_again(replica), "its copy ends below its own high watermark: the copy is short, or the broker lost records"
    yield from _of_candidates(facts)
    for verdict in facts.verdicts:
        yield from _of_verdict(facts, verdict)
    for topic, partition, broker in sorted(facts.had_a_tail - facts.corrected - facts.cut_once_corrected.keys()):
        if facts.verdict_of.get((topic, partition, broker)) is None:
            wanted = _copy_again((topic, partition, broker))
            yield (topic, partition, broker), wanted, "an earlier run found records in it that its leader does not hold"


def _of_candidates(facts: RecoveryFacts) -> Iterator[tuple[ReplicaKey, str, str]]:
    """Of partitions without a leader the replicas that cannot be judged, where others can."""
    for one in facts.offline:
        for choice in one.candidates or ():
            replica = (one.topic, one.partition, choice.candidate_id)
            if choice.rank is None and replica not in facts.corrected and any(other.rank for other in one.candidates or ()):
                yield replica, _copy_again(replica), "it could not be read, or is not in the input, and may hold more than the others"


def _of_verdict(facts: RecoveryFacts, verdict: ReplicaVerdict) -> Iterator[tuple[ReplicaKey, str, str]]:
    replica, leader = (*verdict.key, verdict.follower_id), (*verdict.key, verdict.leader_id)
    if verdict.already_truncated or verdict.key in facts.leaderless or replica in facts.settled:
        return
    if verdict.leader_source == INFERRED and verdict.inferred_because != InferredBecause.NO_LEADER:
        wanted = "`cluster-metadata.json` (command `describe-cluster`), or the directory `__cluster_metadata-0` of a broker or controller"
        yield replica, wanted, "who leads is only a guess"
    elif verdict.verdict == Verdict.INCONCLUSIVE and not known_cut(verdict):
        of = leader if verdict.cause in (Cause.LEADER_UNKNOWN, Cause.LEADER_COPIED_EARLIER) else replica
        wanted = _by_records(verdict) if verdict.cause == Cause.RECORDS_NOT_COMPARED else _copy_again(of)
        yield replica, wanted, f"what it holds beyond its leader is not known ({verdict.cause or 'it could not be compared'})"
    elif verdict.verdict == Verdict.UNREADABLE:
        log, led = facts.log_of(*replica), facts.log_of(*leader)
        if led is not None and led.unreadable_reason is not None:
            why = f"neither it nor its leader {verdict.leader_id} can be read: keep every replica; `explain` says which copy is good"
            yield replica, _copy_again(leader), why
        elif replica in facts.had_a_tail:
            yield replica, _copy_again(replica), "an earlier run found records in it that its leader does not hold"
        elif replica in facts.not_read:
            yield replica, _copy_again(replica), "a file of it could not be read: let the audit's user read it"
        elif log is None or (log.corrected_checkpoint is None and not log.batch_count):
            yield replica, _copy_again(replica), "nothing of it could be read: perhaps only the copy is broken"


def _copy_again(replica: ReplicaKey) -> str:
    topic, partition, broker = replica
    return f"the directory of {partition_shown(topic, partition)} on broker {broker}, copied again while the broker does not run"


def _by_records(verdict: ReplicaVerdict) -> str:
    return f"an audit with `--compare records` of {partition_shown(*verdict.key)}"
