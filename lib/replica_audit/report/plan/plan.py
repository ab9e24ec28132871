"""All that a cluster needs, in order of safety."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from replica_audit.report.advice.decisions import decisions
from replica_audit.report.facts.due_facts import due_of
from replica_audit.report.facts.recovery_facts import RecoveryFacts
from replica_audit.report.plan.checkpoints import checkpoints
from replica_audit.report.plan.elections import elections, leaders_by_plan
from replica_audit.report.plan.followers import followers
from replica_audit.report.plan.group_resets import group_resets
from replica_audit.report.plan.hanging import hanging
from replica_audit.report.plan.kafka_files import SERVER, election_json
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.rebuilds import rebuilds
from replica_audit.report.plan.replacing import replacing
from replica_audit.report.plan.saving import saving
from replica_audit.report.plan.steps import GroupPolicy, Plan, PlanFile, PlanPart, PlanRefusal, PlanStep, Presumption, Safety
from replica_audit.report.plan.truncations import truncations, truncations_text
from replica_audit.rows.codes import Protocol
from replica_audit.words import count


def plan_of(facts: RecoveryFacts, policy: GroupPolicy) -> Plan:
    """What to do about the findings of a cluster; no step where there is nothing to do."""
    replaced = replacing(facts)
    parts = [
        saving(facts),
        checkpoints(facts),
        elections(facts),
        followers(facts),
        hanging(facts),
        replaced,
        rebuilds(facts),
        group_resets(facts, policy),
        _still_open(facts),
    ]
    parts.append(_preferred(facts, away=frozenset() if replaced.steps else facts.gone))
    steps = sorted((step for part in parts for step in part.steps), key=lambda step: step.safety)
    return Plan(
        run_id=facts.run_id,
        cluster_id=facts.cluster_id,
        decisions=tuple(one.text for one in decisions(due_of(facts))),
        steps=tuple(steps),
        refusals=tuple(_joined(refusal for part in parts for refusal in part.refusals)),
        presumptions=tuple(dict.fromkeys([*_tools(facts), *(one for part in parts for one in part.presumptions)])),
        truncations=tuple(truncations_text(truncations(facts))),
    )


def _tools(facts: RecoveryFacts) -> Iterator[Presumption]:
    """Truncation on fetch needs brokers of 2.8, which take all of a plan; before KIP-455 reassignments went through ZooKeeper."""
    if facts.protocol is not None and facts.protocol != Protocol.TRUNCATE_ON_FETCH:
        yield Presumption(
            what="brokers run Kafka 2.4 or newer, and the tools are of 2.6 or newer. Older ones do the same through ZooKeeper: "
            "kafka-reassign-partitions.sh with --zookeeper instead of --bootstrap-server, kafka-preferred-replica-election.sh; an unclean "
            "election is made by setting unclean.leader.election.enable=true for the topic",
            holds=None,
            how_to_check=f"kafka-broker-api-versions.sh {SERVER} | grep -c AlterPartitionReassignments   # not 0",
        )


def _still_open(facts: RecoveryFacts) -> PlanPart:
    """What earlier runs found is planned for once it has been looked at again."""
    found, part = facts.still_open, facts.missing
    lacking = () if part is None or part.broker_ids is None else tuple(f"broker {broker}" for broker in part.broker_ids)
    missing = PlanRefusal(
        what="act on", where=lacking, why="missing from the input, and an earlier run read it: copy its folder and audit again"
    )
    if not found.count:
        return PlanPart(refusals=(missing,) if lacking else ())
    more = [f"{found.count - len(found.first)} more"] if found.count > len(found.first) else []
    refusal = PlanRefusal(
        what="act on what earlier runs found in",
        where=(*(partition_shown(*key) for key in found.first), *more),
        why="this run could not check it, or found something else there: audit again with every broker's files",
    )
    return PlanPart(refusals=(missing, refusal) if lacking else (refusal,))


def _joined(refusals: Iterable[PlanRefusal]) -> Iterator[PlanRefusal]:
    """One refusal for all places that it is about."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in refusals:
        found.setdefault((one.what, one.why), []).extend(one.where)
    for (what, why), where in found.items():
        yield PlanRefusal(what=what, where=tuple(where), why=why)


def _preferred(facts: RecoveryFacts, away: Collection[int]) -> PlanPart:
    """Last, and only where something was elected: the leadership goes back to the preferred replicas, once they are in sync.

    `away` are brokers that are not back by then.
    """
    moved = []
    for key, best in leaders_by_plan(facts).items():
        first = next((role for role in facts.replicas.get(key, ()) if role.position == 0), None)
        if first is not None and first.broker_id != best.candidate_id and first.broker_id not in away:
            moved.append(key)
    if not moved:
        return PlanPart()
    step = PlanStep(
        safety=Safety.PREFERRED,
        title=f"Give the leadership of {count(len(moved), 'partition')} back to the preferred replica",
        reasons=("Not urgent. A preferred replica that is not in the ISR is not elected: this cannot lose anything.",),
        commands=(f"kafka-leader-election.sh {SERVER} --election-type PREFERRED --path-to-json-file elect-preferred.json",),
        check=(f"kafka-topics.sh {SERVER} --describe   # Leader is the first of Replicas",),
        undo="Not needed: leaderships can be moved again in the same way.",
        files=(PlanFile(name="elect-preferred.json", content=election_json(sorted(moved))),),
    )
    return PlanPart(steps=(step,))
