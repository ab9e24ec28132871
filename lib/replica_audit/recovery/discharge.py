"""What has to be done before a broker starts, by what its start does to each of its replicas (`replica_starts`).

Records that it removes are copied; whoever is to lead instead leads; a wrong file is corrected, or the replica rebuilt, which only a broker
that runs can do; what is not known is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey
from replica_audit.rows.findings import ElectionChoice
from replica_audit.rows.starts import OUTCOME_OF, ReplicaStart, StartBecause, StartOutcome

OF_BROKERS = (
    StartBecause.COPIED_TWICE,
    StartBecause.SAME_DIRECTORY_ID,
    StartBecause.NOT_READ,
    StartBecause.MISLED_BY_INDEX,
    StartBecause.MISSING,
)
"""Reasons that may be those of a broker as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done before a start; `rebuilt`: replicas that it makes anew, or that the plan rebuilds afterwards where the broker ran."""

    copied: Collection[ReplicaKey]
    led: Collection[PartitionKey]
    corrected: Collection[ReplicaKey]
    rebuilt: Collection[ReplicaKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStart:
    """A replica, and why its broker is not started: the worst first."""

    replica: ReplicaKey
    reasons: tuple[StartBecause, ...]


def still_open(facts: RecoveryFacts, start: ReplicaStart, done: Done) -> Iterator[StartBecause]:
    """The reasons for which the start is not safe that nothing of what was done takes away."""
    key = (start.topic, start.partition)
    replica = (*key, start.broker_id)
    is_mended = replica in facts.settled and bool({replica, (*key, -1 if start.leader_id is None else start.leader_id)} & {*done.corrected})
    for reason in map(StartBecause, start.because):
        outcome = OUTCOME_OF[reason]
        if reason is StartBecause.TORN_END:
            is_done = replica in done.corrected or replica in done.rebuilt
        elif reason is StartBecause.ELECTION_UNKNOWN:
            is_done = _is_known_without_gone(facts, key)
        elif reason in (StartBecause.BECOMES_STRAY, StartBecause.MAY_BECOME_STRAY):
            is_named = replica in facts.topic_ids and replica in done.corrected
            is_done = is_named or (replica in done.copied and _is_of_an_earlier_topic(facts, replica))
        elif reason is StartBecause.OTHERS_TRUNCATE:
            is_done = False  # a plan starts no leader that costs others their records
        elif outcome is StartOutcome.ORDER:
            is_done = key in done.led or (start.leader_id in facts.gone and _loses_least(facts, replica))
        elif outcome is StartOutcome.COPY_FIRST:
            is_done = replica in done.copied
        elif outcome is StartOutcome.REPAIR_FIRST:
            is_done = is_mended or replica in done.rebuilt
        else:
            is_done = is_mended
        if not is_done:
            yield reason


def open_by_facts(
    facts: RecoveryFacts, corrected: Collection[ReplicaKey], rebuilt: Collection[ReplicaKey], led: Collection[PartitionKey] = ()
) -> Iterator[OpenStart]:
    """The replicas whose brokers no plan starts that copies everything, corrects and rebuilds only these, and elects leaders of `led`."""
    copied = {(one.topic, one.partition, one.broker_id) for one in facts.starts}
    done = Done(copied=copied, led={one[:2] for one in copied} - facts.leaderless.keys() | {*led}, corrected=corrected, rebuilt=rebuilt)
    for start in facts.starts:
        reasons = tuple(still_open(facts, start, done))
        if reasons:
            yield OpenStart(replica=(start.topic, start.partition, start.broker_id), reasons=reasons)


def _loses_least(facts: RecoveryFacts, replica: ReplicaKey) -> bool:
    """Whether, without the brokers that are gone, the election of a replica loses least."""
    best = _best(facts, replica[:2])
    return best is not None and best.candidate_id == replica[2]


def _best(facts: RecoveryFacts, key: PartitionKey) -> ElectionChoice | None:
    one = facts.leaderless.get(key)
    return None if one is None else next((choice for choice in one.candidates or () if choice.rank == 1), None)


def _is_known_without_gone(facts: RecoveryFacts, key: PartitionKey) -> bool:
    """Whether only brokers that are gone kept it unknown what an election loses."""
    best = _best(facts, key)
    return bool(facts.gone) and best is not None and not best.unread_replicas


def _is_of_an_earlier_topic(facts: RecoveryFacts, replica: ReplicaKey) -> bool:
    """Whether the leader holds the topic, and the replica an earlier one of its name: an empty log takes its place."""
    verdict = facts.verdict_of.get(replica)
    return verdict is not None and verdict.verdict == Verdict.STALE_TOPIC_ID


def unknown_brokers(facts: RecoveryFacts) -> dict[int, tuple[StartBecause, ...]]:
    """Brokers of which, as a whole, something that decides is not known, each with what: besides what is said of their replicas."""
    own = Counter((one.broker_id, reason) for one in facts.starts for reason in one.because)
    found = {
        one.broker_id: tuple(reason for reason in OF_BROKERS if one.because.get(reason, 0) > own[one.broker_id, str(reason)])
        for one in facts.broker_starts
        if one.broker_id not in facts.gone
    }
    return {broker: reasons for broker, reasons in found.items() if reasons}
