"""Each rule that holds in every plan, broken by hand: a plan that breaks one is not written, and the command says which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.recovery import plan as recovery_plan
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.invariants import PlanDefectError, refuse_defects, violations
from replica_audit.recovery.steps import (
    Action,
    AskForInput,
    Check,
    Copy,
    CorrectFile,
    Elect,
    EndTransaction,
    GroupPolicy,
    Plan,
    PlanFile,
    PlanPart,
    PlanStep,
    PutBack,
    ResetGroup,
    SetAside,
    Shows,
    Stage,
    StartBroker,
    StopBroker,
    TakeOut,
)
from replica_audit.rows.starts import OUTCOME_OF, BrokerStart, ReplicaStart, StartBecause, StartOutcome
from tests.recovery.blank_rows import row
from tests.report.test_plan import candidate, facts, group, log, offline, roles, transaction, verdict

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
ASKED = Check("# ask", Shows.ANSWERED)
RUNS = Check("kafka-broker-api-versions.sh", Shows.RUNS)
COPIED = Check("# diff", Shows.COPIED)
OUT = Check("kafka-reassign-partitions.sh", Shows.TAKEN_OUT)
BACK = Check("kafka-reassign-partitions.sh", Shows.IN_SYNC)


def step(check: Check, *actions: Action, **fields: Any) -> PlanStep:
    ordinary: dict[str, Any] = {"reasons": (), "commands": ("# do",), "undo": "Undo it.", "cannot_undo": "it", "title": "A step"}
    return PlanStep(stage=Stage.START, actions=actions, checks=(check,), **ordinary | fields)


def plan(*steps: PlanStep, **fields: Any) -> Plan:
    return Plan(run_id="run", cluster_id="c", steps=steps, **fields)


def broken(found: RecoveryFacts, *steps: PlanStep, **fields: Any) -> set[int]:
    return {one.rule for one in violations(found, plan(*steps, **fields))}


def down(found: tuple[Any, ...], broker: int) -> tuple[Any, ...]:
    return tuple(replace(role, standing="down", in_isr=False) if role.broker_id == broker else role for role in found)


CUT = facts(
    verdicts=(verdict("t", 2, "stale_tail", truncation_offset=10, removed_records=5, divergence_offset=10),),
    roles=down(roles("t", 1, 2, leader=1, isr=(1,)), 2),
    logs=(log("t", 1), log("t", 2)),
)
SAVED = step(COPIED, Copy((("t", 0, 2),)))


def test_what_exists_once_is_copied_before_it_is_truncated() -> None:
    assert broken(CUT, step(RUNS, StartBroker(2))) == {1}
    assert broken(CUT, SAVED, step(RUNS, StartBroker(2))) == set()


def test_nobody_leads_at_a_higher_price_than_another_would() -> None:
    choices = (candidate(2, rank=1), candidate(1, rank=2, lost_offsets=9, lost_records=9))
    found = facts(offline=(offline("t", *choices, isr=()),), roles=roles("t", 1, 2))
    by_one, by_two = (step(RUNS, StartBroker(broker), Elect(("t", 0), broker)) for broker in (1, 2))
    assert broken(found, by_one) == {2}
    assert broken(found, by_one, crossed=frozenset({("t", 0)})) == set(), "the plan says that it is so, and why"
    assert broken(found, by_two) == set()


def test_nobody_leads_whose_election_loses_nobody_knows_what() -> None:
    found = facts(offline=(offline("t", candidate(2, rank=None), isr=()),), roles=roles("t", 1, 2))
    assert broken(found, step(RUNS, StartBroker(2), Elect(("t", 0), 2))) == {2}


@pytest.mark.parametrize(
    "action",
    [
        StartBroker(2),
        StopBroker(2),
        TakeOut(("t", 0, 2)),
        SetAside(("t", 0, 2)),
        PutBack(("t", 0, 2)),
        CorrectFile(("t", 0, 2)),
        Elect(("t", 0), 1),
        ResetGroup("g", ("t", 0), 3),
    ],
)
def test_nothing_is_done_with_what_is_a_guess(action: Action) -> None:
    guessed = replace(CUT, verdicts=(replace(CUT.verdicts[0], leader_source="inferred"),))
    assert 3 in broken(guessed, SAVED, step(RUNS, action))
    assert 3 not in broken(
        guessed, SAVED, step(ASKED, AskForInput(replicas=(("t", 0, 2),), wanted="the metadata", why="who leads is a guess"))
    )


ILL = facts(
    verdicts=(verdict("t", 3, "log_matching_violation"),),
    roles=roles("t", 2, 1, 3, leader=1, isr=(1, 2, 3), min_insync_replicas=2),
    logs=tuple(log("t", broker) for broker in (1, 2, 3)),
)
REBUILT = (step(OUT, TakeOut(("t", 0, 3))), step(BACK, PutBack(("t", 0, 3))))
KEPT = step(COPIED, Copy((("t", 0, 3),)))


def test_a_rebuild_deletes_what_was_copied_of_a_broker_that_runs() -> None:
    assert broken(ILL, KEPT, *REBUILT) == set()
    assert broken(ILL, *REBUILT) == {4}, "not copied"
    held = replace(ILL, verdicts=(replace(ILL.verdicts[0], verdict="cannot_rejoin", lost_offsets=0),))
    assert broken(held, *REBUILT) == set(), "its leader holds everything"
    assert broken(replace(ILL, roles=down(ILL.roles, 3)), KEPT, *REBUILT) == {4}, "nobody deletes it"
    assert broken(replace(ILL, roles=down(ILL.roles, 3)), KEPT, step(RUNS, StartBroker(3)), *REBUILT) == set()
    few = tuple(replace(role, min_insync_replicas=3) for role in ILL.roles)
    assert broken(replace(ILL, roles=few), KEPT, *REBUILT) == {4}, "producers would be refused"
    away = tuple(replace(role, in_isr=role.broker_id != 1) for role in ILL.roles)
    assert broken(replace(ILL, roles=away), KEPT, *REBUILT) == {4}, "the leader is not in sync"
    compacted = replace(ILL, verdicts=(replace(ILL.verdicts[0], compacted=True),))
    assert broken(compacted, KEPT, *REBUILT) == {4}, "keys were not compared"
    compared = replace(ILL, verdicts=(replace(ILL.verdicts[0], compacted=True, differing_keys=()),))
    assert broken(compared, KEPT, *REBUILT) == set()


def test_each_broker_is_started_once_after_everything_that_must_come_before() -> None:
    start = step(RUNS, StartBroker(2))
    assert 5 in broken(CUT, SAVED, start, start), "twice"
    assert 5 in broken(CUT, start, SAVED), "copied afterwards"
    corrects = CorrectFile(("t", 0, 2))
    assert 5 in broken(CUT, SAVED, start, step(RUNS, corrects)), "corrected afterwards"
    assert 5 in broken(CUT, SAVED, step(RUNS, CorrectFile(("t", 0, 1)))), "corrected while its broker runs"
    assert 5 not in broken(CUT, SAVED, step(RUNS, StopBroker(1), CorrectFile(("t", 0, 1)), StartBroker(1)))
    found = facts(offline=(offline("t", candidate(2), isr=()),), roles=roles("t", 1, 2))
    assert 5 in broken(found, step(RUNS, Elect(("t", 0), 2))), "elected before it runs"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"commands": ("one \\\n two",)}, id="two lines"),
        pytest.param({"commands": ("",)}, id="none"),
        pytest.param({"checks": ()}, id="no check"),
        pytest.param({"checks": (Check("a\nb", Shows.RUNS),)}, id="a check of two lines"),
        pytest.param({"checks": (Check("# diff", Shows.COPIED),)}, id="it fails although the step worked"),
        pytest.param({"actions": (StartBroker(1),)}, id="it shows the same before: broker 1 runs"),
    ],
)
def test_every_check_can_fail_and_every_command_is_a_line(bad: dict[str, Any]) -> None:
    assert broken(CUT, SAVED, replace(step(RUNS, StartBroker(2)), **bad)) == {6}


def test_every_step_says_what_it_cannot_undo_and_everything_is_followed_to_its_end() -> None:
    start = step(RUNS, StartBroker(2))
    assert broken(CUT, SAVED, replace(start, cannot_undo="")) == {7}
    assert broken(CUT, SAVED, replace(start, undo="")) == {7}
    ended = step(Check("# find-hanging", Shows.ENDED), EndTransaction(("t", 0), 7, 40))
    taken = step(Check("# find-hanging", Shows.ENDED), EndTransaction(("t", 0), 7, 40, saved_from=2))
    assert 1 in broken(CUT, taken), "its records are in no copy"
    assert 1 not in broken(CUT, SAVED, taken)
    assert broken(facts(transactions=(transaction("t"),))) == {7}
    assert broken(facts(transactions=(transaction("t"),)), ended) == set()
    assert broken(facts(transactions=(transaction("t"),)), replace(ended, cannot_undo="")) == {7}
    assert broken(facts(groups=(group("g", "t", 9, 3),))) == {7}
    stuck = replace(ILL, roles=down(ILL.roles, 3))
    assert broken(stuck, KEPT, step(RUNS, StartBroker(3))) == {7}, "it never follows, and nobody says so"
    cleaned = replace(CUT, verdicts=(replace(CUT.verdicts[0], cleaned_beyond_cut=True),))
    assert broken(cleaned, SAVED, start) == {7}, "it may lack keys, and nobody says so"
    assert broken(replace(cleaned, verdicts=(replace(cleaned.verdicts[0], differing_keys=()),)), SAVED, start) == set(), "none, compared"


def test_no_script_names_the_files_that_were_audited() -> None:
    script = PlanFile(name="put.sh", content="cp x /var/lib/kafka/data-0/t-0", executable=True)
    start = step(RUNS, StartBroker(2), files=(script,))
    assert broken(CUT, SAVED, start) == {8}
    assert broken(CUT, SAVED, replace(start, files=(replace(script, executable=False),))) == set(), "a list for people"


def with_start(found: RecoveryFacts, *because: StartBecause, **known: Any) -> RecoveryFacts:
    """The same, where the start of broker 2 is not safe for these reasons."""
    outcome = str(OUTCOME_OF[because[0]])
    start = row(ReplicaStart, topic="t", partition=0, broker_id=2, outcome=outcome, because=tuple(map(str, because)), leader_id=1, **known)
    return replace(found, starts=(start,))


HELD = facts(
    verdicts=(verdict("t", 2, "log_matching_violation"),),
    roles=down(roles("t", 1, 3, 2, leader=1, isr=(1, 3), min_insync_replicas=2), 2),
    logs=tuple(log("t", broker) for broker in (1, 2, 3)),
)
START = step(RUNS, StartBroker(2))
RIGHTED = step(RUNS, CorrectFile(("t", 0, 2)), StartBroker(2))
ANEW = step(RUNS, SetAside(("t", 0, 2)), StartBroker(2))


def test_what_is_moved_away_was_copied_and_leads_nothing_with_an_empty_log() -> None:
    assert broken(HELD, SAVED, ANEW) == set()
    assert broken(HELD, ANEW) == {4}, "not copied"
    assert 5 in broken(HELD, SAVED, START, step(RUNS, SetAside(("t", 0, 2)))), "the broker runs"
    assert 4 in broken(replace(HELD, verdicts=(replace(HELD.verdicts[0], compacted=True),)), SAVED, ANEW), "keys were not compared"
    alone = tuple(replace(one, in_isr=True) if one.broker_id == 2 else replace(one, standing="down", in_isr=False) for one in HELD.roles)
    assert 4 in broken(replace(HELD, roles=alone), SAVED, ANEW), "it is the last member of the ISR"
    both_down = tuple(replace(one, standing="down", in_isr=True, leader_id=1) for one in HELD.roles)
    stopped = tuple(row(BrokerStart, broker_id=broker, outcome="safe", because={}, runs=False) for broker in (1, 2, 3))
    assert 4 in broken(replace(HELD, roles=both_down, broker_starts=stopped), SAVED, ANEW), "nobody leads yet, and the ISR names it"


@pytest.mark.parametrize("reason", list(StartBecause))
def test_no_broker_is_started_before_that_was_done_which_makes_its_start_safe(reason: StartBecause) -> None:
    led = facts(roles=down(roles("t", 1, 2, leader=1, isr=(1,)), 2), logs=(log("t", 1), log("t", 2)))
    nobody = facts(offline=(offline("t", candidate(1, rank=1), candidate(2, rank=2), isr=()),), roles=roles("t", 1, 2))
    found = with_start(nobody if OUTCOME_OF[reason] is StartOutcome.ORDER or reason is StartBecause.ELECTION_UNKNOWN else led, reason)
    assert 9 in broken(found, START), "nothing was done"
    copied, first = 9 not in broken(found, SAVED, START), step(RUNS, StartBroker(1), Elect(("t", 0), 1))
    corrected = 9 not in broken(found, SAVED, RIGHTED)
    rebuilt = 9 not in broken(found, SAVED, ANEW)
    later = (step(OUT, TakeOut(("t", 0, 2))), step(BACK, PutBack(("t", 0, 2))))
    assert copied is (9 not in broken(replace(found, roles=HELD.roles), SAVED, START, *later)), "until then it serves what it holds"
    outcome = OUTCOME_OF[reason]
    is_never_started = reason is StartBecause.OTHERS_TRUNCATE  # by a plan
    assert copied is (outcome is StartOutcome.COPY_FIRST and not is_never_started)
    assert corrected is (copied or reason is StartBecause.TORN_END)
    may_be_rebuilt = outcome is StartOutcome.REPAIR_FIRST and reason is not StartBecause.BECOMES_STRAY
    assert rebuilt is (copied or may_be_rebuilt)
    if outcome is StartOutcome.ORDER:
        assert 9 not in broken(found, first, START), "another one leads"
        assert 9 not in broken(found, START, crossed=frozenset({("t", 0)})), "the plan says that it is so, and why"


def test_a_corrected_file_makes_only_the_start_safe_that_it_heals() -> None:
    healed = log("t", 2, corrected_checkpoint="0\n0\n", rejoins_once_corrected=())
    found = with_start(replace(HELD, logs=(log("t", 1), healed)), StartBecause.STAYS_DIVERGED)
    assert 9 in broken(found, SAVED, START)
    assert 9 not in broken(found, SAVED, RIGHTED)
    of_leader = step(RUNS, StopBroker(1), CorrectFile(("t", 0, 1)), StartBroker(1))
    assert 9 not in broken(found, SAVED, of_leader, START)


def test_a_log_of_an_earlier_topic_is_copied_and_may_go() -> None:
    stale = replace(HELD, verdicts=(replace(HELD.verdicts[0], verdict="stale_topic_id"),))
    assert 9 in broken(with_start(stale, StartBecause.BECOMES_STRAY), START)
    assert 9 not in broken(with_start(stale, StartBecause.BECOMES_STRAY), SAVED, START)


def test_no_broker_is_started_of_which_something_is_not_known_as_a_whole() -> None:
    twice = row(BrokerStart, broker_id=2, runs=False, outcome="unknown", because={str(StartBecause.COPIED_TWICE): 1})
    assert 9 in broken(replace(CUT, broker_starts=(twice,)), SAVED, START)
    assert 9 not in broken(replace(CUT, broker_starts=(replace(twice, broker_id=1, runs=True),)), SAVED, START)


def test_a_broker_that_runs_is_not_started() -> None:
    runs = with_start(replace(CUT, roles=roles("t", 1, 2, leader=1, isr=(1, 2))), StartBecause.NOT_COMPARED)
    assert 9 not in broken(runs, START)
    assert 9 in broken(runs, step(RUNS, StopBroker(2), StartBroker(2))), "its restart is a start"


def test_a_plan_with_a_defect_is_refused_and_says_what_to_do_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = plan(SAVED, step(RUNS, StartBroker(2)))
    assert refuse_defects(CUT, good) is good
    with pytest.raises(PlanDefectError, match=r"step 1 \(A step\): t-0 on broker 2 truncates 5 records") as refused:
        refuse_defects(CUT, plan(step(RUNS, StartBroker(2))))
    assert refused.value.exit_code == 2
    monkeypatch.setattr(recovery_plan, "group_resets", lambda facts, policy, tools, waiting: PlanPart())
    assert cli.main(["triage", "--input", str(LOSS), "--plan", str(tmp_path / "plan")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "followed to its end (rule 7)" in said and "it does not say what becomes of group" in said
    assert "Until then start no broker that is stopped" in said
    assert not (tmp_path / "plan").exists()


def test_a_follower_that_truncates_is_copied_started_and_waited_for() -> None:
    made = recovery_plan.plan_of(CUT, GroupPolicy.RE_READ)
    assert [type(one).__name__ for each in made.steps for one in each.actions] == ["Copy", "StartBroker", "WaitForIsr"]
