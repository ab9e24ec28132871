"""Who is started, stopped and elected, and in which order, by facts made by hand."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.recovery.document import render_plan
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import Action, Elect, GroupPolicy, Plan, Stage, StartBroker, StopBroker
from replica_audit.rows.starts import BrokerStart, ReplicaStart, StartBecause, StartOutcome
from replica_audit.rows.what_if import WhatIfLeader
from tests.recovery.blank_rows import row
from tests.recovery.test_invariants import down, with_start
from tests.report.test_plan import candidate, facts, log, offline, roles, verdict


def planned(found: RecoveryFacts) -> Plan:
    return plan_of(found, GroupPolicy.RE_READ)


def actions(plan: Plan) -> list[Action]:
    return [action for step in plan.steps for action in step.actions]


def test_what_a_start_deletes_is_copied_by_its_own_name() -> None:
    deleted = log("t", 2, state="deleted", directory="t-0.1-delete")
    led = facts(roles=down(roles("t", 1, 2, leader=1, isr=(1,)), 2), logs=(log("t", 1), log("t", 2), deleted))
    found = planned(with_start(led, StartBecause.DELETES))
    (copy,) = (step for step in found.steps if step.stage is Stage.COPY)
    assert copy.files[0].content.splitlines()[1:] == [
        "2,/var/lib/kafka/data-0,t-0,broker-2",
        "2,/var/lib/kafka/data-0,t-0.1-delete,broker-2",
    ]


UNCLEAN = {"election": "unclean", "lost_records": 0, "lost_committed": 0, "lost_offsets": 0}
CLEAN = {"rank": 2, "in_isr": True, "election": "clean", "lost_records": 9, "lost_committed": 0, "lost_offsets": 9}


def _seen(broker: int, *, runs: bool) -> BrokerStart:
    return row(BrokerStart, broker_id=broker, runs=runs, outcome=str(StartOutcome.SAFE), because={})


def test_a_broker_that_runs_and_would_be_elected_instead_is_stopped_and_started_again() -> None:
    nobody = offline("t", candidate(2, **UNCLEAN), candidate(3, **CLEAN), candidate(1, rank=3, **UNCLEAN), isr=(3,))
    found = facts(offline=(nobody,), roles=roles("t", 1, 2, 3), broker_starts=(_seen(1, runs=True),))
    made = planned(found)
    assert actions(made)[:3] == [StopBroker(1), StartBroker(2), Elect(("t", 0), 2)]
    assert StartBroker(1) in actions(made)[3:]
    assert made.steps[0].commands[0] == "# stop broker 1: else it leads instead; a step below starts it again"
    others = roles("other", 1, 2, leader=1, isr=(1,), unclean_leader_election=True)
    led = planned(replace(found, roles=(*found.roles, *others)))
    assert Elect(("t", 0), 1) in actions(led), "which loses nothing, either, and runs"
    assert not {StopBroker(1), StartBroker(1)} & {*actions(led)}
    costly = offline("t", candidate(2, **UNCLEAN), candidate(1, **{**UNCLEAN, "rank": 2, "lost_offsets": 1}), isr=(3,))
    (refused,) = planned(replace(found, offline=(costly,), roles=(*found.roles, *others))).refusals
    assert (refused.what, refused.of) == ("elect a leader of", (("t", 0),))
    assert refused.why.startswith("broker 1 runs and would be elected instead; if it stops")


def test_a_broker_that_runs_is_elected_though_it_must_not_be_restarted() -> None:
    """Else broker 3, which other partitions need, leads with 9 records less as soon as it starts."""
    nobody = offline("t", candidate(1, **UNCLEAN, broker_up=True), candidate(3, **CLEAN), isr=(3,))
    other = offline("u", candidate(3, rank=1, in_isr=True, election="clean"), isr=(3,))
    bad = row(ReplicaStart, topic="v", partition=0, broker_id=1, outcome="repair-first", because=(str(StartBecause.TORN_END),))
    there = (*roles("t", 1, 3), *roles("u", 3), *roles("v", 1, leader=1, isr=(1,)))
    found = facts(offline=(nobody, other), roles=there, broker_starts=(_seen(1, runs=True), _seen(3, runs=False)), starts=(bad,))
    made = planned(found)
    assert [one for one in actions(made) if isinstance(one, StartBroker | Elect)] == [
        Elect(("t", 0), 1),
        StartBroker(3),
        Elect(("u", 0), 3, is_clean=True),
    ]
    elected = next(step for step in made.steps if step.title.startswith("Elect broker 1: leads 1 partition"))
    assert not any("start broker 1" in line for line in elected.commands)
    assert [one.what for one in made.refusals] == ["restart broker 1 because of"]


def test_an_unclean_election_of_a_whole_topic_gives_no_other_partition_a_leader() -> None:
    """Before Kafka 2.4: broker 2 would lead t-1 as well, where broker 3 loses less."""
    first = offline("t", candidate(2, **UNCLEAN), candidate(3, **CLEAN), isr=(3,))
    second = offline("t", candidate(3, **UNCLEAN), candidate(2, **(UNCLEAN | {"rank": 2, "lost_records": 5})), isr=(1,), partition=1)
    both = (*roles("t", 2, 3), *(replace(one, partition=1) for one in roles("t", 2, 3)))
    found = facts(offline=(first, second), roles=both, kafka_version="2.3.1")
    made = planned(found)
    assert not [action for action in actions(made) if isinstance(action, Elect)]
    assert {one.of for one in made.refusals if one.what == "elect a leader of"} == {(("t", 0),), (("t", 1),)}
    since = planned(
        replace(found, kafka_version="2.4.0", roles=(*roles("t", 2, 3), *(replace(one, partition=1) for one in roles("t", 3, 2))))
    )
    assert [action for action in actions(since) if isinstance(action, Elect)] == [
        Elect(("t", 0), 2),
        Elect(("t", 1), 3),
    ]


def test_stopped_leaders_start_before_those_that_follow_them_however_far() -> None:
    """Broker 3 truncates; its leader 2 is stopped, and so is broker 1, which leads what broker 2 follows."""
    cut = verdict("t", 3, "stale_tail", leader_id=2, truncation_offset=5, divergence_offset=5, lost_offsets=5, lost_records=5)
    led = (*roles("t", 2, 3, leader=2, isr=(2,)), *roles("u", 1, 2, leader=1, isr=(1,)))
    stopped = tuple(_seen(broker, runs=False) for broker in (1, 2, 3))
    made = planned(facts(verdicts=(cut,), roles=led, logs=(log("t", 3),), broker_starts=stopped))
    assert [action.broker for action in actions(made) if isinstance(action, StartBroker)] == [1, 2, 3]


def test_no_broker_starts_that_would_lead_before_the_election_that_loses_less() -> None:
    """The controller elects whoever runs, and the best leader waits for an answer: broker 1, which others need, does not start."""
    best = offline("t", candidate(2, rank=1, **UNCLEAN), candidate(1, rank=2, **(UNCLEAN | {"lost_offsets": 3})), isr=(2,))
    other = offline("u", candidate(1, rank=1, in_isr=True, election="clean"), isr=(1,))
    there = (*roles("t", 1, 2, unclean_leader_election=True), *roles("u", 1))
    order = row(ReplicaStart, topic="t", partition=0, broker_id=1, outcome="order", because=(str(StartBecause.OTHER_LOSES_LESS),))
    found = facts(offline=(best, other), roles=there, short_copies=frozenset({("t", 0, 2)}), starts=(order,))
    made = planned(found)
    assert not [action for action in actions(made) if isinstance(action, StartBroker)]
    assert any(one.what == "start broker 1 because of" and "loses less" in one.why for one in made.refusals)


def test_an_election_that_costs_nothing_has_its_commands_where_somebody_leads() -> None:
    """Broker 1 leads with an empty disk, and broker 2 holds everything."""
    cut = verdict("t", 2, "committed_loss", truncation_offset=0, divergence_offset=0, lost_offsets=9, lost_records=9, removed_committed=9)
    free = row(WhatIfLeader, topic="t", partition=0, candidate_id=2, rank=1, lost_offsets=0, unread_replicas=0)
    led = facts(verdicts=(cut,), roles=down(roles("t", 1, 2, leader=1, isr=(1,)), 2), logs=(log("t", 2),), candidates=(free,))
    (way,) = planned(led).instead
    assert way.commands[2:5] == (
        "# broker 1 must not run until the election is over: stop it",
        "# start broker 2 on its host, unless it runs",
        'kafka-leader-election.sh --bootstrap-server "$BOOTSTRAP" --election-type UNCLEAN --topic t --partition 0',
    )
    assert "**Choose first:**" in render_plan(planned(led))
    costly = replace(led, candidates=(replace(free, lost_offsets=2, lost_records=2),))
    assert not any(one.commands for one in planned(costly).instead)
    assert not any(one.commands for one in planned(replace(led, kafka_version="2.3.1")).instead), "no tool elects one partition"
    apart = replace(led, candidates=(replace(free, followers_diverged=1),))
    assert not any(one.commands for one in planned(apart).instead), "broker 1 would keep other records"
    others = (*led.roles, *roles("u", 1, leader=1, isr=(1,), unclean_leader_election=True))
    assert not any(one.commands for one in planned(replace(led, roles=others)).instead), "the controller would elect others there"
