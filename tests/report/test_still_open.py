"""A broker is missing tonight: what an earlier run found of it still stands, and what is explained next is what that run saw."""

from __future__ import annotations

import shlex
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.past.recovery import due_facts, recovery_of
from replica_audit.past.run import PastRun
from replica_audit.report.facts.due_facts import due_of
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.report.test_next_steps import lines_behind
from tests.support.warehouse import STARTED, write_warehouse

LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
STAND = "3 errors are still open from earlier runs (billing-0, billing-1, billing-2): this run could not check them"


@pytest.fixture(params=["1", "2"], ids=["the follower's", "the leader's"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = shutil.copytree(LOSS, tmp_path / "cluster")
    write_warehouse(tmp_path / "w", root, run_id="monday", settings=Settings())
    shutil.rmtree(root / f"broker-{request.param}")
    return write_warehouse(tmp_path / "w", root, run_id="tuesday", started_at=STARTED + timedelta(days=1), settings=Settings())


def shown(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "text"]) == 0
    return capsys.readouterr().out


def test_the_summary_and_the_plan_say_so(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(warehouse, capsys).split())
    decided = text.partition("What to decide, worst first ")[2]
    assert decided.startswith(STAND)
    assert "`explain --run-id monday --partition billing-0` shows what that run saw there" in decided
    assert cli.main(["plan", "--warehouse", str(warehouse), "--output", str(tmp_path / "plan")]) == 0
    plan = (tmp_path / "plan" / "PLAN.md").read_text()
    assert "nothing to do" not in plan
    assert "act on what earlier runs found in" in plan


def test_what_that_run_saw_is_explained_next(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_others = lines_behind(shown(warehouse, capsys), "Next: explain the worst finding, which run monday saw last")
    assert cli.main(shlex.split(first)[1:]) == 0
    assert "committed_loss (critical)" in capsys.readouterr().out


def test_a_run_that_is_no_longer_kept_is_not_asked(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DeltaTable(str(warehouse / "audit_runs")).delete("run_id = 'monday'")
    text = shown(warehouse, capsys)
    assert STAND in " ".join(text.split())
    assert "monday" not in text
    first, *_others = lines_behind(text, "Next: explain the worst finding, make a page")
    assert cli.main(shlex.split(first)[1:]) == 0
    assert "billing-0" in first or "__consumer_offsets-0" in first


def test_nothing_of_it_once_the_broker_is_back(warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(warehouse, LOSS, run_id="wednesday", started_at=STARTED + timedelta(days=2), settings=Settings())
    text = shown(warehouse, capsys)
    assert "still open" not in text
    assert "saw last" not in text
    assert "3 persisting" in text


def test_what_is_counted_is_what_is_read(warehouse: Path) -> None:
    run = PastRun(WarehouseTables(str(warehouse)), "tuesday")
    found = due_facts(run, run.runs[0].cluster_id)
    assert found == due_of(recovery_of(run, run.runs[0].cluster_id))
    assert (found.still_open.rows, found.still_open.worst, found.still_open.seen_by) == (3, ("billing", 0), "monday")
