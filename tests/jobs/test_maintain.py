"""Upkeep of real Delta tables: old runs are gone, the others read as before, and what a kill left half done the next start finishes."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.report.upkeep_report import Upkeep
from replica_audit.rows import FORMER_TABLES, TABLES
from replica_audit.storage.warehouse import attempts
from tests.support.warehouse import Row, write_rows, write_warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark
DATA = Path(__file__).resolve().parents[1] / "data"
LOSS, ROUNDS = (DATA / "sample" / name for name in ("committed-loss", "multi-round"))
NOW = datetime.now(UTC)
TEMPORARY = ".00000000000000000005.json.4c2fb818-8be3-41d1-a66a-72282f397b7c.tmp"
GOING, STAYING = {"old", "older", "killed"}, {"other", "kept", "new"}
EMPTY = {f"empty-{number}" for number in range(8)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two clusters, of which the second has but an old one; a file that nothing uses."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    for run_id, days in (("older", 900), ("old", 800), ("kept", 500), ("new", 1)):
        write_warehouse(warehouse, LOSS, run_id=run_id, started_at=NOW - timedelta(days=days))
    write_warehouse(warehouse, ROUNDS, run_id="other", started_at=NOW - timedelta(days=700))
    write_warehouse(warehouse, LOSS, run_id="killed", started_at=NOW - timedelta(days=600), status="running")
    for run_id in sorted(EMPTY):  # a file of audit_runs each
        write_rows(warehouse, {"audit_runs": [run_row(run_id, status="complete", exit_code=2)]})
    unused = warehouse / "findings" / "part-of-a-killed-audit.parquet"
    unused.write_bytes(bytes(1000))
    temporary = warehouse / "findings" / "_delta_log" / TEMPORARY
    temporary.write_bytes(bytes(7))
    for path in (unused, temporary):
        os.utime(path, (1, 1))
    return warehouse


@pytest.fixture
def warehouse(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "warehouse")
    return tmp_path / "warehouse"


def run_row(run_id: str, days: int = 0, **known: object) -> Row:
    began = NOW - timedelta(days=days)
    return {"run_id": run_id, "cluster_id": "c", "started_at": began, "run_date": began.date()} | known


def upkeep(spark: SparkSession, warehouse: Path, tell: Callable[[str], None] = lambda line: None, *, is_dry: bool = False) -> Upkeep:
    return maintain(spark, UpkeepRequest(warehouse=str(warehouse), keep_days=400, keep_runs=2, is_dry=is_dry), tell)


def rows_by_run(warehouse: Path, table: str) -> Counter[str]:
    return Counter(map(str, DeltaTable(str(warehouse / table)).to_pyarrow_table()["run_id"].to_pylist()))


def runs_in_tables(warehouse: Path) -> set[str]:
    there = [table.name for table in TABLES if (warehouse / table.name).is_dir()]
    return {run_id for name in there for run_id in rows_by_run(warehouse, name)}


def files(warehouse: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in warehouse.rglob("*")}


def shown(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What report and explain say of the runs that stay."""
    capsys.readouterr()
    for run_id in sorted(STAYING):
        assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", run_id, "--format", "text"]) == 0
    for run_id in ("kept", "new"):
        assert cli.main(["explain", "--warehouse", str(warehouse), "--run-id", run_id, "--partition", "billing-0"]) == 0
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "text"]) == 0
    said = capsys.readouterr().out
    assert said.count("The exchange") == 2
    return said.splitlines()


def test_old_runs_go_and_the_others_read_as_before(
    spark: SparkSession, warehouse: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, rows = shown(warehouse, capfd), {table.name: rows_by_run(warehouse, table.name) for table in TABLES}
    assert cli.main(["maintain", "--warehouse", str(warehouse), "--json", str(tmp_path / "done.json")]) == 0
    captured = capfd.readouterr()
    assert runs_in_tables(warehouse) == STAYING | EMPTY
    assert shown(warehouse, capfd) == before
    written = json.loads((tmp_path / "done.json").read_text(encoding="utf-8"))
    assert set(written["removed_runs"]) == GOING
    assert {run["run_id"]: run["reason"] for run in written["runs"] if run["run_id"] in STAYING} == {
        "kept": "among-newest",
        "new": "newest",
        "other": "newest",
    }
    assert {one["table"]: one["rows"] for one in written["tables"]} == {
        name: sum(of[run_id] for run_id in GOING) for name, of in rows.items()
    }
    tables = {one["table"]: one for one in written["tables"]}
    assert tables["audit_runs"]["merged_files"] > 8, "each command reads all of them"
    assert len(DeltaTable(str(warehouse / "audit_runs")).file_uris()) == 1
    assert (tables["findings"]["removed_files"], tables["findings"]["freed_bytes"]) == (2, 1007)
    assert not (warehouse / "findings" / "_delta_log" / TEMPORARY).exists()
    assert not (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()
    assert "  findings: " in captured.out
    assert "files and directories" not in captured.out, "Delta prints that of each VACUUM"
    assert "audit_runs: " in captured.err
    assert upkeep(spark, warehouse).removed_runs == ()


def test_a_dry_run_says_the_same_and_touches_nothing(spark: SparkSession, warehouse: Path) -> None:
    lives = replace(attempts.this_process(), pid=os.getppid(), began=attempts._began(os.getppid()) or "")
    held = run_row("held", 900, status="running", holder=asdict(lives), attempt=1, alive_at=NOW)
    write_rows(warehouse, {"audit_runs": [held]})
    before = files(warehouse)
    would = upkeep(spark, warehouse, is_dry=True)
    assert files(warehouse) == before
    assert (set(would.removed_runs), would.exit_code) == (GOING, 0)
    assert {run.run_id: run.reason for run in would.runs}["held"] == "running"
    since_import = (datetime.now(UTC) - NOW) // timedelta(hours=1)
    assert 900 * 24 + 1 <= would.vacuum_hours <= 900 * 24 + 2 + since_import, "its files may be as old as it is"
    of = {one.table: one for one in would.tables}
    assert of["replica_verdicts"].rows == sum(rows_by_run(warehouse, "replica_verdicts")[run_id] for run_id in GOING)
    assert of["audit_runs"].merged_files == len(DeltaTable(str(warehouse / "audit_runs")).file_uris())
    assert of["findings"].removed_files == 2


def test_a_table_that_cannot_be_read_is_named_and_the_rest_is_done(
    spark: SparkSession, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(warehouse, capsys)
    log = sorted((warehouse / "leader_epochs" / "_delta_log").glob("*.json"))[-1]
    whole = log.read_bytes()
    log.write_bytes(b"{")
    partly = upkeep(spark, warehouse)
    assert (partly.exit_code, partly.removed_runs) == (3, ())
    (failed,) = partly.failures
    assert (failed.table, failed.what) == ("leader_epochs", "delete the rows of runs")
    assert "table leader_epochs cannot be read" in failed.reason
    assert "start maintain again" in failed.remedy
    assert set(rows_by_run(warehouse, "replica_verdicts")) <= STAYING
    assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", "old"]) == 2
    assert "maintain is removing it" in capsys.readouterr().err
    log.write_bytes(whole)
    done = upkeep(spark, warehouse)
    assert (done.exit_code, set(done.removed_runs)) == (0, GOING)
    assert runs_in_tables(warehouse) == STAYING | EMPTY
    assert shown(warehouse, capsys) == before


@pytest.mark.parametrize("below", [".", "_delta_log/_staged_commits"])
def test_nothing_behind_a_link_is_removed(spark: SparkSession, warehouse: Path, tmp_path: Path, below: str) -> None:
    photo = tmp_path / "elsewhere" / "photo.jpg"
    photo.parent.mkdir()
    photo.touch()
    os.utime(photo, (1, 1))
    link = warehouse / "findings" / below / "photos"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(photo.parent)
    for is_dry in (True, False):
        partly = upkeep(spark, warehouse, is_dry=is_dry)
        (failed,) = partly.failures
        assert (partly.exit_code, failed.table, failed.what) == (3, "findings", "remove files that nothing uses (VACUUM)")
        assert f"{link} is a link" in failed.reason
    assert photo.exists()
    assert (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()
    link.unlink()
    assert upkeep(spark, warehouse).exit_code == 0
    assert not (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()


def test_what_is_killed_half_way_is_finished_by_the_next_start_whatever_is_kept_then(
    spark: SparkSession, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(warehouse, capsys)

    def until_the_third_table(line: str, seen: list[str] = []) -> None:  # noqa: B006 - it is to be kept
        seen += [line] * line.endswith("deleted")
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upkeep(spark, warehouse, until_the_third_table)
    assert runs_in_tables(warehouse) >= GOING, "it was half way"
    assert shown(warehouse, capsys) == before
    assert cli.main(["explain", "--warehouse", str(warehouse), "--run-id", "old", "--partition", "billing-0"]) == 2
    request = UpkeepRequest(warehouse=str(warehouse), keep_days=4000, keep_runs=50)
    assert set(maintain(spark, request, lambda line: None).removed_runs) == GOING
    assert runs_in_tables(warehouse) == STAYING | EMPTY
    assert shown(warehouse, capsys) == before


@pytest.mark.nightly  # by day: jobs/test_older_warehouse.py
def test_tables_of_an_older_version_are_kept_small_too(spark: SparkSession, tmp_path: Path) -> None:
    with tarfile.open(DATA / "older" / "warehouse-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    warehouse = tmp_path / "warehouse"
    assert upkeep(spark, warehouse, is_dry=True).removed_runs == (), "the newest run stays"
    killed: dict[str, str | Column] = {"status": "'running'", "finished_at": "NULL", "run_date": "DATE'2020-01-01'"}
    SparkTable.forPath(spark, f"{warehouse}/audit_runs").update(set=killed)
    done = upkeep(spark, warehouse)
    assert (done.exit_code, done.removed_runs) == (0, ("first",))
    assert runs_in_tables(warehouse) == set()
    there = [table.name for table in (*TABLES, *FORMER_TABLES) if (warehouse / table.name).is_dir()]
    assert "content_windows" in there
    assert [table.table for table in done.tables] == there
