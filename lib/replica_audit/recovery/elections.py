"""Partitions that nobody leads: who is to lead each, at which price, and in which order brokers are started for it.

The tool names partitions, not leaders: of an unclean election the controller takes the first running replica of the assignment
(PartitionChangeBuilder.electAnyLeader), so that the others must be stopped until it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.commands import Tools
from replica_audit.recovery.discharge import unknown_brokers
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey
from replica_audit.recovery.gone import brokers_shown, said_of_gone, unknown_of_gone
from replica_audit.recovery.names import partition_shown, some
from replica_audit.recovery.start_order import CrossedLeader, PlannedLeader, StartOrder, Wanted, rivals_of, start_order
from replica_audit.recovery.steps import PlanRefusal
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.words import count

MOST = 20  # partitions named in a step; all are in its file


def order_of(facts: RecoveryFacts, waiting: Collection[ReplicaKey] = ()) -> StartOrder:
    """In which order brokers are started by this plan, and which partitions each then leads.

    `waiting` replicas, and brokers that have one, wait for an answer: they are not started, and their partitions elected cleanly only.
    """
    accepted, _refused = _judged(facts, waiting)
    asked_keys, asked = {replica[:2] for replica in waiting}, _asked_about(facts, waiting)
    elects = Tools.of(facts.kafka_version, facts.protocol).elects
    return start_order(
        [
            Wanted(
                partition=one,
                choices=(best, *_next_best(facts, one, best, asked, only_clean=not elects or key_of(one) in asked_keys)),
                roles=facts.replicas.get(key_of(one), ()),
            )
            for one, best in accepted
        ]
    )


def _next_best(
    facts: RecoveryFacts, one: RunFinding, best: ElectionChoice, asked: Collection[int], *, only_clean: bool
) -> list[ElectionChoice]:
    """The other candidates that may be elected, the least loss first."""
    allowed = [choice for choice in _others(one, best) if choice.election == ElectionType.CLEAN or not only_clean]
    return [choice for choice in allowed if _refused(facts, one, choice, asked) is None]


def _others(one: RunFinding, best: ElectionChoice) -> list[ElectionChoice]:
    """The candidates that can lead besides this one, the least loss first."""
    others = [choice for choice in one.candidates or () if choice.rank is not None and choice.candidate_id != best.candidate_id]
    return sorted(others, key=lambda choice: choice.rank or 0)


_Election = tuple[RunFinding, ElectionChoice]


def _judged(facts: RecoveryFacts, waiting: Collection[ReplicaKey]) -> tuple[list[_Election], dict[PartitionKey, str]]:
    """The elections that this plan makes, and why not the others; what is asked for is in neither."""
    if only_stopped(facts):
        return [], {}
    accepted: list[_Election] = []
    why_not: dict[PartitionKey, str] = {}
    asked_keys, asked = {replica[:2] for replica in waiting}, _asked_about(facts, waiting)
    for one in facts.offline:
        best = best_choice(one)
        if best is not None and key_of(one) in asked_keys and best.election != ElectionType.CLEAN:
            continue
        if best is None:
            why_not[key_of(one)] = _no_choice(facts, one)
            continue
        why = _refused(facts, one, best, asked)
        chosen = best if why is None else next((other for other in _as_good(one, best) if _refused(facts, one, other, asked) is None), None)
        if chosen is not None:
            accepted.append((one, chosen))
        elif why is not None:
            why_not[key_of(one)] = why
    while taken := _taken_along(facts, accepted):
        why_not |= taken
        accepted = [(one, best) for one, best in accepted if key_of(one) not in taken]
    return accepted, why_not


def _asked_about(facts: RecoveryFacts, waiting: Collection[ReplicaKey]) -> set[int]:
    """The brokers of which, or of a replica of which, something that decides is not known."""
    return {replica[2] for replica in waiting} | unknown_brokers(facts).keys()


def _taken_along(facts: RecoveryFacts, accepted: Sequence[_Election]) -> dict[PartitionKey, str]:
    """Unclean elections that give another partition of the topic a leader that it is not to have, each with why it is not made.

    Before Kafka 2.4 they are allowed for a topic as a whole (KIP-460 has the tool that names partitions).
    """
    if Tools.of(facts.kafka_version, facts.protocol).elects:
        return {}
    planned = {key_of(one): best.candidate_id for one, best in accepted}
    others: dict[str, list[PartitionKey]] = {}
    for key in facts.leaderless:
        others.setdefault(key[0], []).append(key)
    unclean = {(one.topic, best.candidate_id) for one, best in accepted if best.election != ElectionType.CLEAN}
    led = {
        (topic, broker): other
        for topic, broker in unclean
        for other in others[topic]
        if planned.get(other) != broker and _somebody_runs(facts, other, broker)
    }
    return {
        key_of(one): "before Kafka 2.4 an unclean election is one of all partitions of a topic, and "
        f"{partition_shown(*led[one.topic, best.candidate_id])} would get a leader by it that it is not to have"
        for one, best in accepted
        if best.election != ElectionType.CLEAN and (one.topic, best.candidate_id) in led
    }


def _somebody_runs(facts: RecoveryFacts, key: PartitionKey, started: int) -> bool:
    """Whether a replica of a partition runs, or may, once a broker is started."""
    return any(role.broker_id == started or facts.is_stopped(role.broker_id) is not True for role in facts.replicas.get(key, ()))


def running_rivals(facts: RecoveryFacts, rivals: Collection[int]) -> list[int]:
    """Brokers that run, and would be elected instead: they are stopped for the election."""
    return sorted(rival for rival in rivals if facts.is_stopped(rival) is False)


def _in_the_way(facts: RecoveryFacts, one: RunFinding, best: ElectionChoice, asked: Collection[int]) -> str | None:
    """Why a broker that runs, and would be elected instead, cannot be stopped for the election; None if none is in the way."""
    for rival in running_rivals(facts, rivals_of(one, best, facts.replicas.get(key_of(one), ()))):
        instead = f"broker {rival} runs and would be elected instead"
        if rival in {*asked, *facts.held}:
            return f"{instead}, and is not stopped while to start it again is not safe"
        if rival in facts.lead_where_anybody_may:
            return f"{instead}; if it stops, the controller may elect others uncleanly for what it leads"
    return None


def leaders_by_plan(facts: RecoveryFacts, waiting: Collection[ReplicaKey] = ()) -> dict[PartitionKey, ElectionChoice]:
    """Who leads each offline partition once the plan was done; those that stay offline, or lose nothing by any start, are not there."""
    order = order_of(facts, waiting)
    crossed = {key_of(one.partition): one.instead for one in order.crossed if one.instead is not None}
    return {key_of(one.partition): one.choice for one in order.leaders} | crossed


def led_by_plan(facts: RecoveryFacts, waiting: Collection[ReplicaKey] = ()) -> set[PartitionKey]:
    """The offline partitions that get a leader, and those that the order has no place for: it says so."""
    order = order_of(facts, waiting)
    return {key_of(one.partition) for one in order.leaders} | {key_of(one.partition) for one in order.crossed}


def only_stopped(facts: RecoveryFacts) -> bool:
    """Whether starting everything at once is all there is to do: with other partitions it matters who is started first."""
    return all(one.cluster_stopped for one in facts.offline)


def one_by_one(facts: RecoveryFacts) -> RecoveryFacts:
    """The facts where brokers are not simply all started at once."""
    return replace(facts, offline=tuple(replace(one, cluster_stopped=False) for one in facts.offline))


def refusals_of_elections(facts: RecoveryFacts, order: StartOrder, waiting: Collection[ReplicaKey]) -> Iterator[PlanRefusal]:
    """Elections that are refused, and those that the order has no place for."""
    for key, why in _judged(facts, waiting)[1].items():
        yield PlanRefusal(what="elect a leader of", of=(key,), why=why)
    planned = {key_of(one.partition) for one in order.leaders}
    yield from (_crossed(one, is_planned=key_of(one.partition) in planned) for one in order.crossed)


def _no_choice(facts: RecoveryFacts, one: RunFinding) -> str:
    if not facts.gone or one.candidates:
        return "nobody knows what electing any of its replicas loses"
    copies = [role.broker_id for role in facts.replicas.get(key_of(one), ()) if facts.log_of(*key_of(one), role.broker_id)]
    left = f"the audited copy of {brokers_shown(copies)} is all that is left: keep it" if copies else "nothing of it was collected"
    return f"every replica of it was on {brokers_shown(facts.gone)}, which will not come back; {left}"


def _as_good(one: RunFinding, best: ElectionChoice) -> list[ElectionChoice]:
    """The other candidates that, like the best one, lose nothing, by an election of the same kind with the same consequences."""
    same = attrgetter("election", "lost_offsets", "unread_replicas", "followers_failing", "followers_diverged")
    return [choice for choice in _others(one, best) if best.lost_offsets == 0 and same(choice) == same(best)]


def best_choice(one: RunFinding) -> ElectionChoice | None:
    """The candidate that loses least; None where none can lead."""
    return next((choice for choice in one.candidates or () if choice.rank == 1), None)


def price(choice: ElectionChoice) -> str:
    """What electing a replica loses, in words."""
    said = f"loses {records_lost(choice.lost_records or 0, choice.lost_committed or 0)}" if choice.lost_offsets else "loses nothing"
    return f"{said} of what could be read" if choice.unread_replicas else said


def records_lost(lost: int, committed: int) -> str:
    """A number of records and how many of them are proven to have been committed."""
    return f"{count(lost, 'record')}, {f'{committed} of them committed' if committed else 'not proven to have been committed'}"


def _refused(facts: RecoveryFacts, one: RunFinding, best: ElectionChoice, asked: Collection[int]) -> str | None:
    """Why the best candidate is not elected; None if it is."""
    if best.candidate_id in asked:
        return f"broker {best.candidate_id}, whose election loses least, waits for an answer about it or a replica of it"
    if best.candidate_id in facts.held_stopped:
        return f"broker {best.candidate_id}, whose election loses least, is not started by this plan"
    if best.election == ElectionType.CLEAN:
        if best.broker_up:
            return f"broker {best.candidate_id} runs and could be elected cleanly but is not: check its server.log and the controller's"
        return None
    if best.unread_replicas:
        return (
            f"{count(best.unread_replicas, 'other replica')} could not be read or are not in the input, and may hold more than broker "
            f"{best.candidate_id}: collect from them, audit again, then choose; name one that is lost for good with --gone"
        )
    if best.followers_diverged:
        return f"with broker {best.candidate_id} as the leader, {count(best.followers_diverged, 'replica')} would stay diverged, unnoticed"
    return _in_the_way(facts, one, best, asked)


def key_of(one: RunFinding) -> PartitionKey:
    """The partition of a finding."""
    return one.topic, one.partition


def name_of(one: RunFinding) -> str:
    """The same as it is shown."""
    return partition_shown(one.topic, one.partition)


def total_price(facts: RecoveryFacts, rows: Sequence[PlannedLeader]) -> str:
    """What several elections lose together."""
    lost, committed = (sum(getattr(one.choice, column) or 0 for one in rows) for column in ("lost_records", "lost_committed"))
    said = f"loses {records_lost(lost, committed)}" if lost else "loses nothing"
    if any(row.choice.unread_replicas for row in rows):
        said += " of what could be read"
    unknown = {broker for row in rows for broker in unknown_of_gone(facts, key_of(row.partition), row.choice.candidate_id)}
    if not unknown:
        return said
    return f"{said if lost else 'loses nothing that any copy holds'}, and what only {brokers_shown(unknown)} held"


def _crossed(one: CrossedLeader, *, is_planned: bool) -> PlanRefusal:
    then = "it stays offline: audit again afterwards"
    if one.instead is not None:
        leads = "broker {} leads instead" if is_planned else "when broker {} starts it leads by itself"
        lost = f"that {price(one.instead)}" if one.instead.rank is not None else "what that loses is not known"
        then = f"{leads.format(one.instead.candidate_id)}, and {lost}"
    why = f"it would have to lead before brokers start that must lead other partitions before it; {then}"
    return PlanRefusal(
        what=f"elect broker {one.choice.candidate_id} for", of=(key_of(one.partition),), why=f"it {price(one.choice)}, but {why}"
    )


def why_elected(facts: RecoveryFacts, rows: Sequence[PlannedLeader]) -> Iterator[str]:
    """A sentence for each partition with what electing its leader loses, and any other one, worst first; where nothing is lost, one."""
    harmless = [row for row in rows if _loses_nothing(facts, row)]
    if len(harmless) == 1:
        harmless = []
    rest = [row for row in rows if row not in harmless]
    worst = sorted(rest, key=lambda row: (-(row.choice.lost_committed or 0), -(row.choice.lost_records or 0), key_of(row.partition)))
    for row in worst[:MOST]:
        one, best = row.partition, row.choice
        others = [choice for choice in one.candidates or () if choice.candidate_id != best.candidate_id]
        said = "; ".join(f"broker {choice.candidate_id} {price(choice) if choice.rank else 'cannot be judged'}" for choice in others)
        instead = f" Any other leader: {said}." if said else ""
        gone = "".join(f"; {part}" for part in said_of_gone(facts, key_of(one), best.candidate_id))
        yield f"{name_of(one)}: broker {best.candidate_id} {price(best)}{gone}.{instead}"
    if len(rest) > MOST:
        yield f"and {len(rest) - MOST} more partitions."
    if harmless:
        yield f"{some([name_of(row.partition) for row in harmless])}: nothing is lost, whoever leads."


def _loses_nothing(facts: RecoveryFacts, row: PlannedLeader) -> bool:
    """Whether no replica of a partition, whichever leads, loses anything that anybody held."""
    is_nothing = all(choice.rank and choice.lost_offsets == 0 and not choice.unread_replicas for choice in row.partition.candidates or ())
    return is_nothing and not any(said_of_gone(facts, key_of(row.partition), row.choice.candidate_id))


def with_recovered(facts: RecoveryFacts, recovered: Collection[int]) -> RecoveryFacts:
    """The facts once these brokers recover their logs as after a crash: a member of the ELR alone is then elected uncleanly only."""
    if not recovered:
        return facts
    offline = []
    for one in facts.offline:
        choices = tuple(
            replace(choice, election=str(ElectionType.UNCLEAN), stopped_cleanly=False)
            if choice.candidate_id in recovered and choice.in_elr and not choice.in_isr
            else choice
            for choice in one.candidates or ()
        )
        stopped = one.cluster_stopped and not any(choice.candidate_id in recovered for choice in choices)
        offline.append(replace(one, candidates=choices, cluster_stopped=stopped))
    return replace(facts, offline=tuple(offline))
