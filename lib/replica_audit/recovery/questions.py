"""What of a cluster is a guess, and what has to be given so that it is none: until then nothing is done with these replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from replica_audit.errors import visible
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.discharge import open_by_facts, unknown_brokers
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey, known_cut
from replica_audit.recovery.names import partition_shown, plain
from replica_audit.rows.codes import Cause
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.starts import OUTCOME_OF, StartBecause, StartOutcome


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
    known: set[ReplicaKey] = set()
    for replica, wanted, why in _all(facts):
        if replica[2] not in facts.gone:
            found.setdefault((wanted, why), []).append(replica)
            known.add(replica)
    for replica, wanted, why in _of_starts(facts, known):
        found.setdefault((wanted, why), []).append(replica)
    return tuple(Question(replicas=tuple(sorted(set(replicas))), wanted=wanted, why=why) for (wanted, why), replicas in found.items())


def unknown_replicas(facts: RecoveryFacts) -> frozenset[ReplicaKey]:
    """The replicas that wait for an answer: their brokers are not started, nor stopped, before it is there."""
    return frozenset(replica for one in questions(facts) for replica in one.replicas)


def questions_about_brokers(facts: RecoveryFacts, known: Collection[int]) -> Iterator[Question]:
    """Of brokers of which, as a whole, something is not known, besides those that are asked about already."""
    for broker, reasons in unknown_brokers(facts).items():
        if broker not in known:
            wanted = f"the folder of broker {broker}, copied again and given once"
            yield Question(replicas=(), brokers=(broker,), wanted=wanted, why=" and ".join(_OF_BROKER[reason] for reason in reasons))


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


def _of_starts(facts: RecoveryFacts, known: Collection[ReplicaKey]) -> Iterator[tuple[ReplicaKey, str, str]]:
    """Of replicas of which it is not known what their broker's start does, besides those that are asked about already."""
    keys = {replica[:2] for replica in known}
    for one in open_by_facts(facts, corrected=facts.settled, rebuilt=()):
        reason = one.reasons[0]
        is_asked = one.replica in known or (reason is StartBecause.ELECTION_UNKNOWN and one.replica[:2] in keys)
        if OUTCOME_OF[reason] is StartOutcome.UNKNOWN and not is_asked:
            yield one.replica, _wanted(facts, one.replica, reason), _OF_START[reason]


_METADATA = "`cluster-metadata.json` (command `describe-cluster`), or the directory `__cluster_metadata-0` of a broker or controller"
_OF_BROKER = {
    StartBecause.COPIED_TWICE: "the input has two copies of it",
    StartBecause.NOT_READ: "a file or a folder of it could not be read",
    StartBecause.MISSING: "it is not in the input",
}
_OF_START = _OF_BROKER | {
    StartBecause.NOT_COMPARED: "it could not be compared with its leader",
    StartBecause.NOT_READ: "it could not be read: let the audit's user read it",
    StartBecause.SHORT_COPY: "its copy ends below its own high watermark",
    StartBecause.LEADER_GUESSED: "who leads is only a guess",
    StartBecause.LEADER_DAMAGED: "it leads, and its log is damaged: keep every replica; `explain` says which copy is good",
    StartBecause.MAY_BECOME_STRAY: "it has no partition.metadata: where the broker has none, either, its start sets the log aside (-stray)",
    StartBecause.ELECTION_UNKNOWN: "nobody leads it, and what an election loses is not known",
}


def _wanted(facts: RecoveryFacts, replica: ReplicaKey, reason: StartBecause) -> str:
    topic, partition, broker = replica
    verdict = facts.verdict_of.get(replica)
    if reason is StartBecause.MISSING:
        return f"the folder of broker {broker}"
    if reason is StartBecause.LEADER_GUESSED:
        return _METADATA
    if reason is StartBecause.MAY_BECOME_STRAY:
        return f"the file partition.metadata of {partition_shown(topic, partition)} on broker {broker}"
    if reason is StartBecause.NOT_COMPARED and verdict is not None and verdict.keys_may_differ:
        return _by_records(verdict)
    return _copy_again(replica)


def _of_verdict(facts: RecoveryFacts, verdict: ReplicaVerdict) -> Iterator[tuple[ReplicaKey, str, str]]:
    replica, leader = (*verdict.key, verdict.follower_id), (*verdict.key, verdict.leader_id)
    if verdict.already_truncated or verdict.key in facts.leaderless or replica in facts.settled:
        return
    if verdict.leader_source == INFERRED and verdict.inferred_because != InferredBecause.NO_LEADER:
        yield replica, _METADATA, "who leads is only a guess"
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
