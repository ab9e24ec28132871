"""What an explanation says is to be done: the steps of the plan, by their numbers in PLAN.md, and nothing of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest

from replica_audit.commands.audit_options import SAMPLE
from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past import explained as module
from replica_audit.past.explained import Explainer
from replica_audit.past.recovery import recovery_facts
from replica_audit.past.run import PastRun
from replica_audit.recovery.document import render_plan
from replica_audit.recovery.invariants import PlanDefectError, Violation
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import (
    Action,
    AskForInput,
    Copy,
    CorrectFile,
    Elect,
    ElectPreferred,
    EndTransaction,
    GroupPolicy,
    KeepCopy,
    NameTopic,
    Plan,
    PlanRefusal,
    PutBack,
    ResetGroup,
    SetAside,
    StartBroker,
    StopBroker,
    TakeOut,
    WaitForIsr,
)
from replica_audit.report.document import Sentence
from replica_audit.report.facts.explanation import Explained, ToDo, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.sections.to_do import to_do_blocks
from replica_audit.report.text.explanation_text import render
from tests.protocol.logs import compare, replica
from tests.report.audited import TablesInMemory, tables_of

KEY, MINE, OTHER = ("orders", 0), ("orders", 0, 2), ("other", 1, 7)
IN_WORDS: list[tuple[Action, str]] = [
    (KeepCopy((MINE, OTHER)), "Keep the audited copy of broker 2, which alone has what is gone there"),
    (Copy((MINE, OTHER)), "Copy the directory of broker 2 to a safe place."),
    (
        AskForInput(replicas=(MINE, OTHER), wanted="a copy", why="who leads is a guess"),
        "Give a copy, and plan again: of broker 2, who leads",
    ),
    (CorrectFile(MINE), "Correct a file of broker 2 while it does not run."),
    (NameTopic(MINE), "Write the partition.metadata that broker 2 lacks."),
    (StopBroker(2), "Stop broker 2."),
    (StartBroker(2), "Start broker 2."),
    (StartBroker(2, empty=True), "Start a new, empty broker 2."),
    (Elect(KEY, 2), "Elect broker 2, uncleanly."),
    (Elect(KEY, 2, is_clean=True), "Broker 2 is then elected."),
    (WaitForIsr((2, 3)), "Wait until brokers 2, 3 are in the ISR."),
    (SetAside(MINE), "Move the directory of broker 2 out of its log directory"),
    (TakeOut(MINE), "Take broker 2 out of the assignment, which deletes its replica."),
    (PutBack(MINE), "Put broker 2 back: it fetches the whole log from the leader."),
    (ResetGroup("g\n", KEY, 5), "Set group g\\n to offset 5."),
    (EndTransaction(KEY, 3, 7), "Abort the transaction of producer 3 from offset 7."),
    (EndTransaction(KEY, 3, 7, saved_from=2), "once its records are saved from the copy of broker 2."),
    (ElectPreferred(KEY), "Give the leadership back to the preferred replica."),
]


def explained(to_do: ToDo | None) -> Explained:
    tables = tables_of(compare(replica(1, [(1, 0, 9)]), replica(2, [(1, 0, 4)])))
    return replace(explain(TablesInMemory(tables), Question(topic="orders", partition=0)), to_do=to_do)


def said(to_do: ToDo | None) -> list[str]:
    return [f"{one.label}{one.text}" for one in to_do_blocks(explained(to_do)) if isinstance(one, Sentence)]


def test_every_action_has_words() -> None:
    assert {type(action) for action, _words in IN_WORDS} == set(get_args(Action))


@pytest.mark.parametrize(("action", "words"), IN_WORDS)
def test_an_action_is_said_of_the_partition_alone(action: Action, words: str) -> None:
    step, _where = said(ToDo(steps=((4, (action,)),)))
    assert step.startswith("step 4  ")
    assert words in step
    assert "7" not in step.replace("offset 7", ""), "another partition's broker"


def test_what_is_refused_is_said_with_its_reason() -> None:
    refused = PlanRefusal(what="rebuild", of=(MINE,), why="the leader misses offsets")
    assert said(ToDo(refusals=(refused,))) == ["not done: rebuild broker 2: the leader misses offsets."]
    of_partition = PlanRefusal(what="elect a leader of", of=(KEY,), why="nobody knows")
    assert said(ToDo(refusals=(of_partition,))) == ["not done: elect a leader of this partition: nobody knows."]


def test_nothing_to_do_is_said_and_no_plan_is_not_that() -> None:
    assert said(ToDo()) == ["Nothing: no step of the plan is about this partition."]
    assert said(ToDo(no_plan="rule 1 would break")) == ["rule 1 would break"]
    assert said(None) == [], "nobody asked for a plan"


def test_the_steps_are_those_of_the_plan_that_is_written() -> None:
    """By number: whoever reads both finds the step, and it names the partition, or starts a broker of it."""
    done = triage([str(SAMPLE)], Settings(), tell=lambda event: None, run_id="now")
    run, explainer = PastRun(done.tables, "now"), Explainer(done.tables)
    numbers = 0
    for facts in recovery_facts(run):
        text = render_plan(plan_of(facts, GroupPolicy.RE_READ))
        parts = dict(re.findall(r"^## Step (\d+): (.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
        for topic, partition in {verdict.key for verdict in facts.verdicts}:
            found = explainer.explain(Question(topic=topic, partition=partition, run_id="now", cluster_id=facts.cluster_id))
            assert found.to_do is not None
            assert found.to_do.steps or found.to_do.refusals
            assert render(found).startswith("What to do\n")
            for number, actions in found.to_do.steps:
                numbers += 1
                part = parts[str(number)]
                assert f"{topic}-{partition}" in part or any(isinstance(one, StartBroker | Copy | KeepCopy | ResetGroup) for one in actions)
    assert numbers


def test_a_plan_that_would_break_a_rule_is_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(facts: object, policy: object) -> Plan:
        plan = Plan(run_id="now", cluster_id="c", steps=())
        raise PlanDefectError(plan, Violation(rule=1, number=0, what="so it is"))

    done = triage([str(SAMPLE)], Settings(), tell=lambda event: None, run_id="now")
    (facts, *_more) = recovery_facts(PastRun(done.tables, "now"))
    monkeypatch.setattr(module, "plan_of", defect)
    topic, partition = facts.verdicts[0].key
    found = Explainer(done.tables).explain(Question(topic=topic, partition=partition, cluster_id=facts.cluster_id))
    assert found.to_do is not None
    assert "it would break the rule" in found.to_do.no_plan
