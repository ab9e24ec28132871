"""A plan without brokers that will not come back: who leads, what that costs, how the replicas come back, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from replica_audit.errors import UsageError
from replica_audit.recovery.document import render_plan
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.gone import without_gone
from replica_audit.recovery.steps import GroupPolicy, Plan, Stage
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader
from tests.report.test_plan import candidate, facts, files, log, offline, plan_of, roles, verdict
from tests.support.rows import sparse

RE_READ = GroupPolicy.RE_READ
BROKERS = frozenset([1, 2, 3])


def cut(broker: int, to: int | None, records: int = 0, committed: int = 0) -> FollowerCut:
    return sparse(
        FollowerCut,
        broker_id=broker,
        truncation_offset=to,
        restart_offset=None,
        removed_offsets=records,
        removed_records=records,
        removed_committed=committed,
        catches_up=True,
        still_diverged=False,
    )


def outage(*, collected: bool = True, **fields: Any) -> RecoveryFacts:
    """Broker 3, alone in the ISR, has 9 records more than the others; broker 2 has 2 more than broker 1."""
    known = {"lost_offsets": 9, "lost_records": 9, "lost_committed": 5}
    best = candidate(3, rank=1, election="clean", in_isr=True, lost_offsets=2, lost_records=2)
    if not collected:
        best = candidate(3, rank=None, election="clean", in_isr=True, lost_records=None, lost_offsets=None, lost_committed=None)
        known = {"unread_replicas": 1}
    more = {name: value + 2 for name, value in known.items() if name in ("lost_offsets", "lost_records")}
    of_two, of_one = candidate(2, **{"rank": 2} | known), candidate(1, **{"rank": 3} | known | more)
    cuts = [(2, cut(1, None)), (1, cut(2, 10, 2))]
    under = [
        sparse(
            WhatIfLeader,
            topic="t",
            partition=0,
            candidate_id=leader,
            log_end_offset=12,
            follower_cuts=(other, cut(3, 10, 9, 5)) if collected else (other,),
        )
        for leader, other in cuts
    ]
    ordinary: dict[str, Any] = {
        "offline": (offline("t", best, of_two, of_one, isr=(3,), last_leader_id=3),),
        "roles": roles("t", 3, 1, 2),
        "logs": tuple(log("t", broker) for broker in ((1, 2, 3) if collected else (1, 2))),
        "candidates": tuple(under),
        "brokers": BROKERS,
    }
    return facts(**ordinary | fields)


def plan_without(found: RecoveryFacts, *gone: int) -> Plan:
    return plan_of(without_gone(found, gone), RE_READ)


def test_without_the_word_the_election_is_refused_and_with_it_the_rest_is_chosen_from() -> None:
    found = outage(collected=False)
    refused = plan_of(found, RE_READ)
    assert not [step for step in refused.steps if step.stage is Stage.START]
    plan = plan_without(found, 3)
    assert [step.stage for step in plan.steps] == [Stage.START, Stage.START, Stage.REBUILD, Stage.PREFERRED]
    assert not plan.refusals
    (elect,) = [step for step in plan.steps if ": leads" in step.title]
    assert (
        elect.title
        == "Start broker 2: leads 1 partition (by an unclean election); loses nothing that any copy holds, and what only broker 3 held"
    )
    assert "how much is unknown: it was never collected, and it was the last in-sync replica" in elect.reasons[0]
    assert elect.commands[0].startswith("# brokers 1, 3 must not run yet"), "an empty broker 3 would be elected first"


def test_what_the_copy_holds_is_said_and_not_started() -> None:
    plan = plan_without(outage(), 3)
    (elect,) = [step for step in plan.steps if ": leads" in step.title]
    assert elect.title == "Start broker 2: leads 1 partition (by an unclean election); loses 9 records, 5 of them committed"
    assert "of these, 9 records, 5 of them committed, were on broker 3: its audited copy holds them" in elect.reasons[0]
    (save,) = [step for step in plan.steps if step.stage is Stage.COPY]
    assert "only the audited copy of broker 3 holds" in save.title
    assert "salvage --local --gone 3" in save.commands[0]
    started = [line for step in plan.steps for line in step.commands if line.startswith("# start broker")]
    assert [line for line in started if "broker 3" in line] == ["# start broker 3 on its host"], "once, empty, and last"
    rows = list(csv.DictReader(io.StringIO(files(plan)["truncations.csv"])))
    assert {row["broker"] for row in rows} == {"1", "2"}
    assert {row["leader"] for row in rows} == {"1", "2"}
    said = [one for one in plan.presumptions if "(--gone)" in one.what]
    assert [one.what.split(";")[0] for one in said] == ["broker 3 is gone for good (--gone)"]


def test_a_lost_broker_without_a_spare_one_is_replaced_empty_after_all_elections() -> None:
    plan = plan_without(outage(), 3)
    (step,) = [step for step in plan.steps if step.stage is Stage.REBUILD]
    assert step.title == "Replace broker 3 by an empty one with the same id: it fetches 1 replica again"
    assert "--unavailable-partitions   # must print nothing: else stop here" in step.commands[0]
    assert "kafka-storage.sh format --cluster-id CLUSTER_ID" in step.commands[2]
    (old,) = [one for one in plan_without(replace(outage(), kafka_version="2.4.1"), 3).steps if one.stage is Stage.REBUILD]
    assert [line.split(" ")[:2] for line in old.commands] == [["kafka-topics.sh", "--bootstrap-server"], ["#", "start"]]
    assert not any(word in reason for reason in old.reasons for word in ("kafka-storage", "quorum", "CLUSTER_ID"))
    (start,) = [step for step in plan.steps if step.stage is Stage.START and ": leads" not in step.title]
    assert start.checks[0].command.endswith("a line with a leader and 1 in `Replicas` has it in `Isr`, too"), "3 is missing there still"
    assert step.checks[0].command.endswith("a line with a leader and 3 in `Replicas` has it in `Isr`, too")


def test_other_brokers_take_the_lost_replicas_if_they_can() -> None:
    plan = plan_without(outage(brokers=BROKERS | {4, 5}), 3)
    (step,) = [step for step in plan.steps if step.stage is Stage.REBUILD]
    (moved,) = json.loads(files(plan)["reassign-from-gone.json"])["partitions"]
    assert moved == {"topic": "t", "partition": 0, "replicas": [4, 1, 2]}
    (undo,) = json.loads(files(plan)["reassign-from-gone-undo.json"])["partitions"]
    assert undo["replicas"] == [3, 1, 2]
    assert "--throttle" in step.commands[0]
    assert not any("kafka-storage" in line for line in step.commands)


def test_a_partition_that_stays_without_a_leader_keeps_the_empty_broker_away() -> None:
    """The ISR still names it: it would be elected with an empty log."""
    stuck = offline("u", candidate(2, followers_diverged=1), candidate(3, rank=2), isr=(3,))
    both = outage(offline=(*outage().offline, stuck), roles=(*roles("t", 3, 1, 2), *roles("u", 2, 3)))
    plan = plan_without(both, 3)
    assert not [step for step in plan.steps if step.stage is Stage.REBUILD]
    (refusal,) = [one for one in plan.refusals if one.what.startswith("replace")]
    assert refusal.of == (("u", 0),)
    assert "with an empty log" in refusal.why
    assert not [step for step in plan.steps if step.stage is Stage.PREFERRED], "broker 3 is first, and not back by then"
    spare = plan_without(replace(both, brokers=BROKERS | {4}), 3)
    assert json.loads(files(spare)["reassign-from-gone.json"])["partitions"][0]["topic"] == "t"
    assert [one.of for one in spare.refusals if one.what.startswith("rebuild the lost")] == [(("u", 0),)]


@pytest.mark.parametrize("collected", [True, False])
def test_where_every_replica_is_gone_nothing_is_elected(collected: bool) -> None:
    logs = (log("s", 3),) if collected else ()
    alone = facts(offline=(offline("s", candidate(3, election="clean"), isr=(3,)),), roles=roles("s", 3), logs=logs, brokers=BROKERS)
    plan = plan_without(alone, 3)
    (refusal,) = plan.refusals
    assert refusal.what == "elect a leader of"
    assert ("all that is left: keep it" if collected else "nothing of it was collected") in refusal.why
    (step,) = plan.steps
    assert any("start empty again" in reason for reason in step.reasons)
    assert "must print nothing but the partitions named above" in step.commands[0]


def test_all_brokers_gone_plans_no_election() -> None:
    plan = plan_without(outage(), 1, 2, 3)
    assert not [step for step in plan.steps if step.stage in (Stage.START, Stage.START)]
    assert "brokers 1, 2, 3, which will not come back" in plan.refusals[0].why


def test_an_unknown_broker_and_one_that_ran_are_contradicted() -> None:
    with pytest.raises(UsageError, match=r"--gone 9: cluster c of run run has no such broker; it has: 1, 2, 3"):
        without_gone(outage(), [9])
    led = facts(roles=roles("t", 1, 2, leader=1, isr=(1, 2)), brokers=BROKERS)
    with pytest.raises(UsageError, match=r"saw broker 1 running.*it leads t-0"):
        without_gone(led, [1])
    with pytest.raises(UsageError, match=r"saw broker 2 running.*in the ISR of t-0"):
        without_gone(led, [2])
    up = outage(offline=(offline("t", candidate(3, broker_up=True), isr=(3,)),))
    with pytest.raises(UsageError, match=r"up according to the cluster's metadata"):
        without_gone(up, [3])
    assert without_gone(led, []) is led


def test_a_lost_follower_of_a_leader_that_runs_is_neither_started_nor_rebuilt_from() -> None:
    """Its verdicts ask for nothing any more, its copy is kept, its replica is fetched anew."""
    of_three = verdict("t", 3, "committed_loss", truncation_offset=10, removed_records=5, removed_committed=4)
    found = facts(verdicts=(of_three,), roles=roles("t", 1, 2, 3, leader=1, isr=(1, 2)), logs=(log("t", 3),), brokers=BROKERS)
    assert [step.stage for step in plan_of(found, RE_READ).steps] == [Stage.COPY, Stage.START]
    plan = plan_without(found, 3)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.REBUILD]
    assert "only the audited copy of broker 3 holds" in plan.steps[0].title
    truncated = plan_without(replace(found, verdicts=(replace(of_three, already_truncated=True),)), 3)
    assert [step.stage for step in truncated.steps] == [Stage.COPY, Stage.REBUILD]
    assert truncated.steps[0].title == "Save the records that only the audited copy of broker 3 holds"
    wrong = replace(found, verdicts=(of_three, verdict("t", 2, "log_matching_violation")))
    (refusal,) = [one for one in plan_without(wrong, 3).refusals if one.what == "rebuild"]
    assert "on a broker that is gone is rebuilt in this plan" in refusal.why


def test_the_text_says_what_is_lost_besides() -> None:
    text = render_plan(plan_without(outage(collected=False), 3))
    assert "| nothing known, and what only broker 3 held |" in text
    assert "## Step 1: Start broker 2: leads" in text


def test_where_the_best_leader_has_to_wait_the_next_one_is_elected_for_nobody_leads_by_itself() -> None:
    """Broker 2 would be best, but broker 1, before it in the assignment, has to lead another partition before broker 2 starts."""
    best, worse = candidate(2, lost_offsets=1, lost_records=1), candidate(1, rank=2, lost_offsets=4, lost_records=4)
    other = offline("a", candidate(1), candidate(2, rank=2, election="clean", lost_offsets=9, lost_records=9), isr=(2,), last_leader_id=2)
    both = (offline("t", best, worse, candidate(3, rank=3), isr=(3,), last_leader_id=3), other)
    found = facts(offline=both, roles=(*roles("t", 1, 2, 3), *roles("a", 1, 2)), brokers=BROKERS)
    plan = plan_without(found, 3)
    (instead,) = [one for one in plan.refusals if one.what == "elect broker 2 for"]
    assert "broker 1 leads instead, and that loses 4 records" in instead.why
    (elect,) = [step for step in plan.steps if ": leads" in step.title]
    assert elect.title.startswith(
        "Start broker 1: leads 2 partitions (by an unclean election); loses 4 records, not proven to have been committed"
    )
    assert len(json.loads(files(plan)["elect-unclean.json"])["partitions"]) == 2
    assert "Any other leader: broker 2 loses 1 record, not proven to have been committed" in elect.reasons[0]
