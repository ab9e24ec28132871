"""Partitions that nobody leads: which broker to start, whom to elect, who must not run meanwhile.

The tool names partitions, not leaders: of an unclean election the controller takes the first running replica of the assignment
(PartitionChangeBuilder.electAnyLeader), so that the others must be stopped until it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.report.facts.recovery_facts import ActedRole, PartitionKey, RecoveryFacts
from replica_audit.report.facts.run_report import Electable, OfflinePartition
from replica_audit.report.plan.kafka_files import SERVER, election_json
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Presumption, Safety

_MOST = 20  # partitions named in a step; all are in its file


def elections(facts: RecoveryFacts) -> PlanPart:
    """Steps that bring offline partitions back, and the elections that are refused."""
    refusals: list[PlanRefusal] = []
    stopped: list[OfflinePartition] = []
    clean: list[tuple[OfflinePartition, Electable]] = []
    unclean: list[tuple[OfflinePartition, Electable]] = []
    for one in facts.offline:
        best = best_choice(one)
        why = _refused(one, best)
        if one.cluster_stopped:
            stopped.append(one)
        elif best is None or why is not None:
            refusals.append(PlanRefusal(what=f"elect a leader of {_name(one)}", why=why or "what electing any replica loses is not known"))
        else:
            (clean if best.election == ElectionType.CLEAN else unclean).append((one, best))
    leaders = sorted({best.candidate_id for _one, best in unclean})
    steps = [
        *_all_stopped(stopped),
        *_clean(clean),
        *(
            _unclean(facts, [row for row in unclean if row[1].candidate_id == leader], leader, alone=len(leaders) == 1)
            for leader in leaders
        ),
        *_others(facts, [*clean, *unclean]),
    ]
    return PlanPart(steps=tuple(steps), refusals=tuple(refusals), presumptions=tuple(_presumptions(facts, unclean)))


def chosen(facts: RecoveryFacts) -> list[tuple[OfflinePartition, Electable]]:
    """The partitions that get a leader by this plan, with who it is to be."""
    found = [(one, best_choice(one)) for one in facts.offline if not one.cluster_stopped]
    return [(one, best) for one, best in found if best is not None and _refused(one, best) is None]


def best_choice(one: OfflinePartition) -> Electable | None:
    """The candidate that loses least; None where none can lead."""
    return next((choice for choice in one.candidates or () if choice.rank == 1), None)


def price(choice: Electable) -> str:
    """What electing a replica loses, in words."""
    if not choice.lost_offsets:
        return "loses nothing"
    committed = choice.lost_committed or 0
    proven = f"{committed} of them committed" if committed else "not proven to have been committed"
    return f"loses {choice.lost_records} records ({proven})"


def _refused(one: OfflinePartition, best: Electable | None) -> str | None:
    if best is None or one.cluster_stopped:
        return None
    if best.election == ElectionType.CLEAN:
        if best.broker_up:
            return f"broker {best.candidate_id} runs and could be elected cleanly, but is not: look at its log and at the controller's"
        return None
    if best.unread_replicas:
        return (
            f"{best.unread_replicas} other replica(s) could not be read, or are not in the input, and may hold more than broker "
            f"{best.candidate_id}: collect from them, audit again, and choose then"
        )
    if best.followers_diverged:
        return f"with broker {best.candidate_id} as the leader, {best.followers_diverged} replica(s) stay diverged and do not notice"
    return None


def _name(one: OfflinePartition) -> str:
    return partition_shown(one.topic, one.partition)


def _all_stopped(found: Sequence[OfflinePartition]) -> Iterator[PlanStep]:
    if found:
        yield PlanStep(
            safety=Safety.ELECT,
            title="Start the cluster",
            reasons=(
                f"All brokers were stopped in order: {len(found)} partition(s) have no leader only for that. Starting them loses nothing.",
            ),
            commands=("# start every broker, each on its host",),
            check=(f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # prints nothing",),
            undo="Stop the brokers again.",
        )


def _clean(found: Sequence[tuple[OfflinePartition, Electable]]) -> Iterator[PlanStep]:
    for broker in sorted({best.candidate_id for _one, best in found}):
        rows = [(one, best) for one, best in found if best.candidate_id == broker]
        crashed = any(best.in_elr and not best.in_isr and best.stopped_cleanly is False for _one, best in rows)
        caution = ("It is only in the ELR and was not stopped cleanly: the controller may take it out of the ELR when it registers.",)
        yield PlanStep(
            safety=Safety.ELECT,
            title=f"Start broker {broker}: it leads {len(rows)} partition(s) by itself, cleanly",
            reasons=tuple(_reasons(rows)) + (caution if crashed else ()),
            commands=(f"# start broker {broker} on its host",),
            check=(f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # none of these partitions is listed",),
            undo=f"Stop broker {broker}: the partitions are offline again, as before. Nothing was truncated unless other replicas ran.",
        )


def _unclean(facts: RecoveryFacts, rows: Sequence[tuple[OfflinePartition, Electable]], leader: int, *, alone: bool) -> PlanStep:
    name = "elect-unclean.json" if alone else f"elect-unclean-broker-{leader}.json"
    rivals = sorted({broker for one, _best in rows for broker in _rivals(facts.replicas.get((one.topic, one.partition), ()), leader)})
    lost, committed = (sum(getattr(best, column) or 0 for _one, best in rows) for column in ("lost_records", "lost_committed"))
    total = f"loses {lost} records, {committed} offsets of them committed" if lost else "loses nothing"
    stop = [f"# broker(s) {', '.join(map(str, rivals))} must not run now: the controller would elect them instead; stop those that do"]
    return PlanStep(
        safety=Safety.ELECT,
        title=f"Elect broker {leader} for {len(rows)} partition(s): {total}",
        reasons=tuple(_reasons(rows)),
        commands=(
            *(stop if rivals else ()),
            f"# start broker {leader} on its host, unless it runs",
            f"kafka-leader-election.sh {SERVER} --election-type UNCLEAN --path-to-json-file {name}",
        ),
        check=(
            f"kafka-topics.sh {SERVER} --describe   # these partitions have `Leader: {leader}` and `Isr: {leader}`",
            f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # none of them is listed",
        ),
        undo=(
            "None: an election is not taken back. Until other replicas are started nothing is truncated: stop the leader again, and their "
            "directories are as they were."
        ),
        files=(PlanFile(name=name, content=election_json((one.topic, one.partition) for one, _best in rows)),),
    )


def _rivals(roles: Sequence[ActedRole], leader: int) -> list[int]:
    """Who would be elected instead: replicas before it in the assignment, or all where the order is not known."""
    if any(role.position is None for role in roles):
        return [role.broker_id for role in roles if role.broker_id != leader]
    place = next((role.position for role in roles if role.broker_id == leader), None)
    return [role.broker_id for role in roles if place is not None and role.position is not None and role.position < place]


def _reasons(rows: Sequence[tuple[OfflinePartition, Electable]]) -> Iterator[str]:
    worst = sorted(rows, key=lambda row: (-(row[1].lost_committed or 0), -(row[1].lost_records or 0), row[0].topic, row[0].partition))
    for one, best in worst[:_MOST]:
        others = [choice for choice in one.candidates or () if choice is not best]
        said = "; ".join(f"broker {choice.candidate_id} {price(choice) if choice.rank else 'cannot be judged'}" for choice in others)
        yield f"{_name(one)}: broker {best.candidate_id} {price(best)}{f' (instead: {said})' if said else ''}."
    if len(rows) > _MOST:
        yield f"and {len(rows) - _MOST} more partitions; all are in the file."


def _others(facts: RecoveryFacts, rows: Sequence[tuple[OfflinePartition, Electable]]) -> Iterator[PlanStep]:
    """Starting the rest truncates them: after everything else that needs their records."""
    brokers = sorted({role.broker_id for one, best in rows for role in _followers(facts, (one.topic, one.partition), best)})
    if not brokers:
        return
    lost = sum(best.lost_records or 0 for _one, best in rows)
    what = (
        f"they truncate what their leaders do not hold: {lost} records, as said above"
        if lost
        else "they truncate nothing that only they hold"
    )
    yield PlanStep(
        safety=Safety.START,
        title=f"Start the other replicas' brokers: {', '.join(map(str, brokers))}",
        reasons=(f"They follow the leaders elected before; {what}. Start them only when the leaders are there.",),
        commands=tuple(f"# start broker {broker} on its host" for broker in brokers),
        check=(f"kafka-topics.sh {SERVER} --describe --under-replicated-partitions   # prints nothing, after a while",),
        undo="None where something is truncated: only the copies made before hold it.",
    )


def _followers(facts: RecoveryFacts, key: PartitionKey, best: Electable) -> list[ActedRole]:
    return [role for role in facts.replicas.get(key, ()) if role.broker_id != best.candidate_id]


def _presumptions(facts: RecoveryFacts, unclean: Sequence[tuple[OfflinePartition, Electable]]) -> Iterator[Presumption]:
    if not facts.offline:
        return
    down = sorted({choice.candidate_id for one in facts.offline for choice in one.candidates or () if choice.broker_up is False})
    unknown = sorted({choice.candidate_id for one in facts.offline for choice in one.candidates or () if choice.broker_up is None})
    if down:
        said = f"brokers {', '.join(map(str, down))} are stopped, and nothing was written to their directories since they were copied"
        yield Presumption(what=said, holds=True, how_to_check=f"kafka-broker-api-versions.sh {SERVER}   # does not list them")
    if unknown:
        said = f"whether brokers {', '.join(map(str, unknown))} run is not in the input"
        yield Presumption(what=said, holds=None, how_to_check=f"kafka-broker-api-versions.sh {SERVER}   # lists those that run")
    yield Presumption(
        what="the partitions still have no leader",
        holds=None,
        how_to_check=f"kafka-topics.sh {SERVER} --describe --unavailable-partitions   # lists them",
    )
    if unclean:
        yield Presumption(
            what="unclean.leader.election.enable is false, or the controller elects whichever replica starts first",
            holds=None,
            how_to_check=f"kafka-configs.sh {SERVER} --describe --all --entity-type topics --entity-name TOPIC",
        )
