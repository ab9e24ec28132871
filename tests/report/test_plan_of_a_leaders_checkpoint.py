"""A leader whose leader-epoch-checkpoint is wrong: the plan corrects it before its follower starts, and does not rebuild that one, too."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.recovery.corrected_files import corrections
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.steps import CorrectFile, GroupPolicy, SetAside, Stage
from replica_audit.rows.replicas import FollowerOnceCorrected
from tests.report.test_plan import facts, log, plan_of, roles, verdict
from tests.support.rows import sparse

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda file: file.write_bytes(b""), id="of 0 bytes"),
        pytest.param(lambda file: file.write_text("0\n0\n"), id="without entries"),
        pytest.param(lambda file: file.write_text("none\n"), id="garbled"),
    ],
)
def test_it_is_followed_from_top_to_bottom(tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], object]) -> None:
    """With it the follower truncates to 10, where the sample's follower did; without, it would keep offsets of another history."""
    root = shutil.copytree(LOSS, tmp_path / "cluster")
    file = root / "broker-2" / "data-0" / "billing-0" / "leader-epoch-checkpoint"
    right = file.read_text()
    spoil(file)
    plan = tmp_path / "plan"
    assert cli.main(["triage", "--input", str(root), "--plan", str(plan)]) == 1
    text = (plan / "PLAN.md").read_text()
    assert [line.split(": ")[1].split(",")[0] for line in text.splitlines() if line.startswith("## Step")] == [
        "Copy 1 replica directory of broker 1 to a safe place",
        "Restart broker 2",
        "Start broker 1",
        "Reset 4 consumer groups",
    ]
    assert "- `billing-0`: broker 1 truncates to 10, " in text
    assert "a salvage of this run lacks what lies between: keep the copies of their directories (`billing-0` on broker 1)" in text
    assert not list(plan.glob("reassign*"))
    assert (plan / "checkpoints" / "broker-2" / "billing-0" / "leader-epoch-checkpoint").read_text() == right
    assert [(row["broker_id"], row["directory"]) for row in _rows(plan / "save-first.csv")] == [("1", "billing-0")]
    assert [(row["broker"], row["truncates_to"]) for row in _rows(plan / "truncations.csv")] == [("1", "10")]


def _rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def _then(follower: int, **fields: Any) -> FollowerOnceCorrected:
    ordinary: dict[str, Any] = {"truncation_offset": 10, "restart_offset": None, "catches_up": True, "still_diverged": False}
    return sparse(FollowerOnceCorrected, leader_id=1, follower_id=follower, **ordinary | fields)


def _facts(*then: FollowerOnceCorrected, kind: str = "log_matching_violation", **fields: Any) -> RecoveryFacts:
    """Broker 1 leads with a wrong file, broker 2 follows."""
    leader = log("t", 1, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=then)
    cut: dict[str, Any] = {"truncation_offset": 15, "divergence_offset": 10, "removed_records": 5}
    found = verdict("t", 2, kind, **cut | fields)
    return facts(
        verdicts=(found,), roles=roles("t", 1, 2, leader=1, isr=(1,), min_insync_replicas=1), logs=(leader, log("t", 2)), protocol=None
    )


def _steps(found: RecoveryFacts) -> list[Stage]:
    return [step.stage for step in plan_of(found, GroupPolicy.RE_READ).steps]


@pytest.mark.parametrize("kind", ["log_matching_violation", "inconclusive", "cannot_rejoin", "committed_loss", "stale_tail"])
def test_what_the_follower_truncates_by_the_corrected_file_is_copied_first(kind: str) -> None:
    plan = plan_of(_facts(_then(2), kind=kind), GroupPolicy.RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.START, Stage.START]
    assert plan.steps[2].reasons[1:] == ("`t-0`: broker 2 truncates to 10, which removes an unknown number of records.",)
    same = plan_of(_facts(_then(2), kind=kind, truncation_offset=10), GroupPolicy.RE_READ)
    assert same.steps[2].reasons[1:] == ("`t-0`: broker 2 truncates to 10, which removes 5 records.",)
    assert not any("a salvage of this run lacks" in reason for reason in same.steps[0].reasons)


def test_a_follower_that_truncates_nothing_or_only_what_the_leader_has_needs_the_file_alone() -> None:
    assert _steps(_facts(_then(2, truncation_offset=None))) == [Stage.COPY, Stage.START], "with the wrong file it truncates"
    assert _steps(_facts(_then(2), kind="cannot_rejoin", divergence_offset=None, truncation_offset=None)) == [Stage.START]
    assert _steps(_facts(_then(2), kind="committed_loss", already_truncated=True)) == [Stage.COPY, Stage.START], "only its copy has it"


def test_a_follower_that_stays_diverged_is_copied_and_rebuilt_after_it() -> None:
    plan = plan_of(_facts(_then(2, still_diverged=True), truncation_offset=None), GroupPolicy.RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.START, Stage.START]
    assert SetAside(("t", 0, 2)) in plan.steps[2].actions
    assert not plan.refusals
    assert (
        plan.steps[1]
        .reasons[2]
        .endswith("truncates to 10 and catches up, but keeps batches that are not the leader's: do not let it lead.")
    )
    unknown = _facts(_then(2, still_diverged=True), kind="inconclusive", truncation_offset=None, divergence_offset=None)
    assert _steps(unknown) == [Stage.COPY, Stage.START], "audited again before it is started"
    (refused,) = plan_of(unknown, GroupPolicy.RE_READ).refusals
    assert (refused.what, refused.of, "audit again then" in refused.why) == ("rebuild", (("t", 0, 2),), True)


def test_a_file_is_not_corrected_while_something_is_asked_about_its_leader() -> None:
    wrong = log("t", 2, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=())
    found = facts(verdicts=(verdict("t", 2, "epoch_table_only"),), roles=roles("t", 1, 2, leader=1, isr=(1,)), logs=(wrong, log("t", 1)))
    assert corrections(found, frozenset(), ())[0] == {2: [wrong]}
    made, (refused,) = corrections(found, frozenset({("t", 0, 1)}), ())
    assert (made, "about its leader" in refused.why) == ({}, True)


def test_a_leader_that_is_gone_or_nobody_corrects_heals_nothing() -> None:
    refused = _facts(_then(2), _then(3, catches_up=False))
    assert not [one for step in plan_of(refused, GroupPolicy.RE_READ).steps for one in step.actions if isinstance(one, CorrectFile)]
    assert SetAside(("t", 0, 2)) in plan_of(refused, GroupPolicy.RE_READ).steps[-1].actions
    gone = replace(_facts(_then(2), _then(3)), gone=frozenset({2}))
    assert set(gone.healed_by_leader) == {("t", 0, 3)}


def test_a_leader_has_its_file_before_its_follower_starts_with_its_own() -> None:
    """Broker 2 leads u and follows broker 3 in v; broker 3 has a wrong file there."""
    first = log("u", 2, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=())
    leads = log("v", 3, corrected_checkpoint="0\n0\n", corrected_entries=(), rejoins_once_corrected=(replace(_then(2), leader_id=3),))
    cut = verdict("v", 2, "stale_tail", leader_id=3, truncation_offset=15, removed_records=1)
    found = facts(verdicts=(cut,), roles=roles("v", 3, 2, leader=3, isr=(3,)), logs=(first, leads, log("v", 2)))
    steps = [step for step in plan_of(found, GroupPolicy.RE_READ).steps if step.stage is Stage.START]
    assert [step.title.partition(":")[0] for step in steps] == ["Restart broker 3", "Restart broker 2"]
    assert "`v-0`: broker 2 truncates to 10, which removes an unknown number of records." in steps[1].reasons
