"""Partitions that nobody leads: which broker to start, whom to elect, who must not run meanwhile.

The tool names partitions, not leaders: of an unclean election the controller takes the first running replica of the assignment
(PartitionChangeBuilder.electAnyLeader), so that the others must be stopped until it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.report.facts.recovery_facts import PartitionKey, RecoveryFacts
from replica_audit.report.plan.gone import brokers_shown, said_of_gone, unknown_of_gone
from replica_audit.report.plan.kafka_files import SERVER, election_json, joined
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.start_order import CrossedLeader, PlannedLeader, StartOrder, start_order
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Presumption, Safety
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.words import count

_MOST = 20  # partitions named in a step; all are in its file


def elections(facts: RecoveryFacts) -> PlanPart:
    """Steps that bring offline partitions back, and the elections that are refused."""
    refusals = [PlanRefusal(what="elect a leader of", where=(_name(one),), why=why) for one, why in _all_refused(facts)]
    stopped = facts.offline if _only_stopped(facts) else ()
    order = order_of(facts)
    files = len({one.choice.candidate_id for one in order.leaders if one.choice.election != ElectionType.CLEAN})
    steps = [
        *_all_stopped(stopped),
        *(step for broker in order.brokers for step in _led(facts, order, broker, is_only_file=files == 1)),
        *start_others(facts, order),
    ]
    return PlanPart(
        steps=tuple(steps),
        refusals=(*refusals, *(_crossed(one) for one in order.crossed)),
        presumptions=tuple(_presumptions(facts, order)),
    )


def order_of(facts: RecoveryFacts) -> StartOrder:
    """In which order brokers are started by this plan, and which partitions each then leads."""
    if _only_stopped(facts):
        return start_order(())
    found = [(one, best_choice(one)) for one in facts.offline]
    accepted = [(one, best) for one, best in found if best is not None and _refused(one, best) is None]
    return start_order([(one, best, facts.replicas.get((one.topic, one.partition), ())) for one, best in accepted])


def leaders_by_plan(facts: RecoveryFacts) -> dict[PartitionKey, ElectionChoice]:
    """Who leads each offline partition once the plan was done; those that stay offline, or lose nothing by any start, are not there."""
    order = order_of(facts)
    crossed = {(one.partition.topic, one.partition.partition): one.instead for one in order.crossed if one.instead is not None}
    return {(one.partition.topic, one.partition.partition): one.choice for one in order.leaders} | crossed


def _only_stopped(facts: RecoveryFacts) -> bool:
    """Whether starting everything at once is all there is to do: with other partitions it matters who is started first."""
    return all(one.cluster_stopped for one in facts.offline)


def _all_refused(facts: RecoveryFacts) -> Iterator[tuple[RunFinding, str]]:
    for one in () if _only_stopped(facts) else facts.offline:
        best = best_choice(one)
        why = _no_choice(facts, one) if best is None else _refused(one, best)
        if why is not None:
            yield one, why


def _no_choice(facts: RecoveryFacts, one: RunFinding) -> str:
    if not facts.gone or one.candidates:
        return "nobody knows what electing any of its replicas loses"
    copies = [role.broker_id for role in facts.replicas.get(_key(one), ()) if facts.log_of(*_key(one), role.broker_id)]
    left = f"the audited copy of {brokers_shown(copies)} is all that is left: keep it" if copies else "nothing of it was collected"
    return f"every replica of it was on {brokers_shown(facts.gone)}, which will not come back; {left}"


def best_choice(one: RunFinding) -> ElectionChoice | None:
    """The candidate that loses least; None where none can lead."""
    return next((choice for choice in one.candidates or () if choice.rank == 1), None)


def price(choice: ElectionChoice) -> str:
    """What electing a replica loses, in words."""
    if not choice.lost_offsets:
        return "loses nothing"
    return f"loses {_records(choice.lost_records or 0, choice.lost_committed or 0)}"


def _records(lost: int, committed: int) -> str:
    proven = f"{committed} of them committed" if committed else "not proven to have been committed"
    return f"{count(lost, 'record')}, {proven}"


def _refused(one: RunFinding, best: ElectionChoice | None) -> str | None:
    if best is None:
        return None
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
    return None


def _key(one: RunFinding) -> PartitionKey:
    return one.topic, one.partition


def _name(one: RunFinding) -> str:
    return partition_shown(one.topic, one.partition)


def _all_stopped(found: Sequence[RunFinding]) -> Iterator[PlanStep]:
    if found:
        yield PlanStep(
            safety=Safety.ELECT,
            title="Start the cluster",
            reasons=(
                f"All brokers were stopped cleanly; only because of that {count(len(found), 'partition has', 'partitions have')} no "
                "leader. "
                "Starting them loses nothing.",
            ),
            commands=("# start every broker, each on its host",),
            check=(f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # prints nothing",),
            undo="Stop the brokers again.",
        )


def _led(facts: RecoveryFacts, order: StartOrder, broker: int, *, is_only_file: bool) -> Iterator[PlanStep]:
    """A broker that is started: first what it leads by itself, then what it is elected for."""
    rows = order.led_by(broker)
    clean = [one for one in rows if one.choice.election == ElectionType.CLEAN]
    unclean = [one for one in rows if one.choice.election != ElectionType.CLEAN]
    later = sorted({rival for one in rows for rival in one.rivals})
    stop = (f"# {brokers_shown(later)} must not run yet, else they lead instead: stop them",) if later else ()
    start = (
        *stop,
        f"# start broker {broker} on its host, unless it runs, and wait until this lists it:",
        f"kafka-broker-api-versions.sh {SERVER} | grep 'id: {broker} '",
    )
    if clean:
        yield _clean(facts, clean, broker, start)
    if unclean:
        name = "elect-unclean.json" if is_only_file else f"elect-unclean-broker-{broker}.json"
        yield _unclean(facts, unclean, broker, start, name)


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


def _clean(facts: RecoveryFacts, rows: Sequence[PlannedLeader], broker: int, start: tuple[str, ...]) -> PlanStep:
    crashed = any(one.choice.in_elr and not one.choice.in_isr and one.choice.stopped_cleanly is False for one in rows)
    caution = ("It is only in the ELR and was not stopped cleanly: the controller may remove it from the ELR when it registers.",)
    return PlanStep(
        safety=Safety.ELECT,
        title=f"Start broker {broker}: it leads {count(len(rows), 'partition')} by itself, cleanly; {_total(facts, rows)}",
        reasons=tuple(_reasons(facts, rows)) + (caution if crashed else ()),
        commands=start,
        check=(f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # none of these partitions is listed",),
        undo=f"Stop broker {broker}: the partitions are offline again, as before. Nothing was truncated unless other replicas ran.",
    )


def _unclean(facts: RecoveryFacts, rows: Sequence[PlannedLeader], leader: int, start: tuple[str, ...], name: str) -> PlanStep:
    return PlanStep(
        safety=Safety.ELECT,
        title=f"Elect broker {leader} for {count(len(rows), 'partition')}: {_total(facts, rows)}",
        reasons=tuple(_reasons(facts, rows)),
        commands=(*start, f"kafka-leader-election.sh {SERVER} --election-type UNCLEAN --path-to-json-file {name}"),
        check=(
            f"kafka-topics.sh {SERVER} --describe   # these partitions have `Leader: {leader}` and `Isr: {leader}`",
            f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # none of them is listed",
        ),
        undo=(
            "None: an election cannot be undone. Until other replicas start, nothing is truncated: stop the leader again, and their "
            "directories are as they were."
        ),
        files=(PlanFile(name=name, content=election_json((one.partition.topic, one.partition.partition) for one in rows)),),
    )


def _total(facts: RecoveryFacts, rows: Sequence[PlannedLeader]) -> str:
    lost, committed = (sum(getattr(one.choice, column) or 0 for one in rows) for column in ("lost_records", "lost_committed"))
    said = f"loses {_records(lost, committed)}" if lost else "loses nothing"
    unknown = {broker for row in rows for broker in unknown_of_gone(facts, _key(row.partition), row.choice.candidate_id)}
    if not unknown:
        return said
    return f"{said if lost else 'loses nothing that any copy holds'}, and what only {brokers_shown(unknown)} held"


def _crossed(one: CrossedLeader) -> PlanRefusal:
    then = "it stays offline: audit again afterwards"
    if one.instead is not None:
        then = f"when broker {one.instead.candidate_id} starts it leads by itself, and that {price(one.instead)}"
    why = f"it would have to lead before brokers start that must lead other partitions before it; {then}"
    return PlanRefusal(
        what=f"elect broker {one.choice.candidate_id} for", where=(_name(one.partition),), why=f"it {price(one.choice)}, but {why}"
    )


def _reasons(facts: RecoveryFacts, rows: Sequence[PlannedLeader]) -> Iterator[str]:
    worst = sorted(
        rows,
        key=lambda row: (-(row.choice.lost_committed or 0), -(row.choice.lost_records or 0), row.partition.topic, row.partition.partition),
    )
    for row in worst[:_MOST]:
        one, best = row.partition, row.choice
        others = [choice for choice in one.candidates or () if choice is not best]
        said = "; ".join(f"broker {choice.candidate_id} {price(choice) if choice.rank else 'cannot be judged'}" for choice in others)
        instead = f" Any other leader: {said}." if said else ""
        gone = "".join(f"; {part}" for part in said_of_gone(facts, _key(one), best.candidate_id))
        yield f"{_name(one)}: broker {best.candidate_id} {price(best)}{gone}.{instead}"
    if len(rows) > _MOST:
        yield f"and {len(rows) - _MOST} more partitions."


def start_others(facts: RecoveryFacts, order: StartOrder) -> Iterator[PlanStep]:
    """Starting the rest truncates them: after everything else that needs their records."""
    leaders = leaders_by_plan(facts)
    assigned = {role.broker_id for key in leaders for role in facts.replicas.get(key, ())}
    brokers = sorted(assigned - set(order.brokers) - facts.gone)
    if not brokers:
        return
    cuts = [cut for key, best in leaders.items() for cut in facts.cuts_under(*key, best.candidate_id) if cut.broker_id in brokers]
    removed, committed = (sum(getattr(cut, column) or 0 for cut in cuts) for column in ("removed_records", "removed_committed"))
    what = f"they truncate {_records(removed, committed)} (see the table above)" if removed else "they truncate nothing that only they hold"
    yield PlanStep(
        safety=Safety.START,
        title=f"Start the brokers of the other replicas: {_listed(brokers)}",
        reasons=(f"They follow the leaders elected above; {what}. Start them only when every partition has its leader.",),
        commands=tuple(f"# start broker {broker} on its host" for broker in brokers),
        check=(joined(brokers),),
        undo="None where something is truncated: only the copies made before still hold it.",
    )


def _presumptions(facts: RecoveryFacts, order: StartOrder) -> Iterator[Presumption]:
    yield from _gone(facts)
    if not facts.offline:
        return
    down = sorted({choice.candidate_id for one in facts.offline for choice in one.candidates or () if choice.broker_up is False})
    unknown = sorted({choice.candidate_id for one in facts.offline for choice in one.candidates or () if choice.broker_up is None})
    if down:
        said = f"brokers {', '.join(map(str, down))} are stopped, and nothing was written to their directories since they were copied"
        yield Presumption(
            what=said, holds=True, how_to_check=f"kafka-broker-api-versions.sh {SERVER}   # does not list them, or cannot connect"
        )
    if unknown:
        said = f"the input does not show whether brokers {', '.join(map(str, unknown))} run"
        yield Presumption(what=said, holds=None, how_to_check=f"kafka-broker-api-versions.sh {SERVER}   # lists those that run")
    yield Presumption(
        what="the partitions still have no leader",
        holds=None,
        how_to_check=f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # lists them",
    )
    if any(one.choice.election != ElectionType.CLEAN for one in order.leaders):
        yield Presumption(
            what="unclean.leader.election.enable is false; else the controller elects whichever replica starts first",
            holds=_unclean_is_off(facts, order),
            how_to_check=f"kafka-configs.sh {SERVER} --describe --all --entity-type topics --entity-name TOPIC",
        )


def _gone(facts: RecoveryFacts) -> Iterator[Presumption]:
    """What an operator said, which no run can see; where a copy would lead at a lower price, that there is another way."""
    for broker in sorted(facts.gone):
        yield Presumption(
            what=f"broker {broker} is gone for good (--gone); nothing with its id runs before the step that says so",
            holds=None,
            how_to_check=f"kafka-broker-api-versions.sh {SERVER} | grep 'id: {broker} '   # prints nothing",
        )


def _unclean_is_off(facts: RecoveryFacts, order: StartOrder) -> bool | None:
    """Whether no controller elects a replica outside of the ISR unasked, in the partitions that the plan elects leaders of."""
    keys = [(one.partition.topic, one.partition.partition) for one in order.leaders if one.choice.election != ElectionType.CLEAN]
    said = {role.unclean_leader_election for key in keys for role in facts.replicas.get(key, ())}
    return False if True in said else None if None in said or not said else True
