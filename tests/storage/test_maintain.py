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

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.errors import UsageError
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.report.upkeep_report import Upkeep
from replica_audit.rows import AUDIT_RUNS, TABLES, Table
from replica_audit.storage.warehouse import attempts, direct_upkeep
from replica_audit.storage.warehouse import upkeep as store
from replica_audit.storage.warehouse.commits import TableCommits
from replica_audit.storage.warehouse.damage import data_damage
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import Row, write_rows, write_warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

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


def upkeep(warehouse: Path, tell: Callable[[str], None] = lambda line: None, *, is_dry: bool = False) -> Upkeep:
    return maintain(UpkeepRequest(warehouse=str(warehouse), keep_days=400, keep_runs=2, is_dry=is_dry), tell)


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


def test_old_runs_go_and_the_others_read_as_before(warehouse: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
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
    assert upkeep(warehouse).removed_runs == ()


def test_a_dry_run_says_the_same_and_touches_nothing(warehouse: Path) -> None:
    lives = replace(attempts.this_process(), pid=os.getppid(), began=attempts._began(os.getppid()) or "")
    held = run_row("held", 900, status="running", holder=asdict(lives), attempt=1, alive_at=NOW)
    write_rows(warehouse, {"audit_runs": [held]})
    before = files(warehouse)
    would = upkeep(warehouse, is_dry=True)
    assert files(warehouse) == before
    assert (set(would.removed_runs), would.exit_code) == (GOING, 0)
    assert {run.run_id: run.reason for run in would.runs}["held"] == "running"
    since_import = (datetime.now(UTC) - NOW) // timedelta(hours=1)
    assert 900 * 24 + 1 <= would.vacuum_hours <= 900 * 24 + 2 + since_import, "its files may be as old as it is"
    of = {one.table: one for one in would.tables}
    assert of["replica_verdicts"].rows == sum(rows_by_run(warehouse, "replica_verdicts")[run_id] for run_id in GOING)
    assert of["audit_runs"].merged_files == len(DeltaTable(str(warehouse / "audit_runs")).file_uris())
    assert of["findings"].removed_files == 2


def test_a_table_that_cannot_be_read_is_named_and_the_rest_is_done(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = shown(warehouse, capsys)
    log = sorted((warehouse / "leader_epochs" / "_delta_log").glob("*.json"))[-1]
    whole = log.read_bytes()
    log.write_bytes(b"{")
    partly = upkeep(warehouse)
    assert (partly.exit_code, partly.removed_runs) == (3, ())
    (failed,) = partly.failures
    assert (failed.table, failed.what) == ("leader_epochs", "delete the rows of runs")
    assert "table leader_epochs cannot be read" in failed.reason
    assert "start maintain again" in failed.remedy
    assert set(rows_by_run(warehouse, "replica_verdicts")) <= STAYING
    assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", "old"]) == 2
    assert "maintain is removing it" in capsys.readouterr().err
    log.write_bytes(whole)
    done = upkeep(warehouse)
    assert (done.exit_code, set(done.removed_runs)) == (0, GOING)
    assert runs_in_tables(warehouse) == STAYING | EMPTY
    assert shown(warehouse, capsys) == before


@pytest.mark.parametrize("below", [".", "_delta_log/_staged_commits"])
def test_nothing_behind_a_link_is_removed(warehouse: Path, tmp_path: Path, below: str) -> None:
    photo = tmp_path / "elsewhere" / "photo.jpg"
    photo.parent.mkdir()
    photo.touch()
    os.utime(photo, (1, 1))
    link = warehouse / "findings" / below / "photos"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(photo.parent)
    for is_dry in (True, False):
        partly = upkeep(warehouse, is_dry=is_dry)
        (failed,) = partly.failures
        assert (partly.exit_code, failed.table, failed.what) == (3, "findings", "remove files that nothing uses (VACUUM)")
        assert f"{link} is a link" in failed.reason
    assert photo.exists()
    assert (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()
    link.unlink()
    assert upkeep(warehouse).exit_code == 0
    assert not (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()


def test_what_is_killed_half_way_is_finished_by_the_next_start_whatever_is_kept_then(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(warehouse, capsys)

    def until_the_third_table(line: str, seen: list[str] = []) -> None:  # noqa: B006 - it is to be kept
        seen += [line] * line.endswith("deleted")
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upkeep(warehouse, until_the_third_table)
    assert runs_in_tables(warehouse) >= GOING, "it was half way"
    assert shown(warehouse, capsys) == before
    assert cli.main(["explain", "--warehouse", str(warehouse), "--run-id", "old", "--partition", "billing-0"]) == 2
    request = UpkeepRequest(warehouse=str(warehouse), keep_days=4000, keep_runs=50)
    assert set(maintain(request, lambda line: None).removed_runs) == GOING
    assert runs_in_tables(warehouse) == STAYING | EMPTY
    assert shown(warehouse, capsys) == before


def test_clustered_tables_of_an_older_version_are_refused_as_long_as_spark_is_not_asked_for(tmp_path: Path) -> None:
    with tarfile.open(DATA / "older" / "warehouse-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = files(tmp_path)
    for is_dry in (True, False):
        with pytest.raises(UsageError, match=r"only Spark can change table \w+ and 16 more \(Delta's clustering, .*\); add --spark"):
            upkeep(tmp_path / "warehouse", is_dry=is_dry)
    assert files(tmp_path) == before


@pytest.fixture
def merged(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse of which every table is one file, so that runs that go and others stand in the same."""
    for bound in ("_MANY_FILES", "_MANY_RUN_FILES"):
        monkeypatch.setattr(store, bound, 1)
    done = maintain(UpkeepRequest(warehouse=str(warehouse), keep_days=4000, keep_runs=2), lambda line: None)
    assert (done.exit_code, done.removed_runs) == (0, ())
    assert {one.made_files for one in done.tables} == {0, 1}
    assert {len(DeltaTable(str(path)).file_uris()) for path in warehouse.iterdir()} == {0, 1}
    return warehouse


def test_runs_go_from_files_that_they_share_with_others(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, rows = shown(merged, capsys), {table.name: rows_by_run(merged, table.name) for table in TABLES}
    feed_from = DeltaTable(str(merged / "findings")).version() + 1
    done = upkeep(merged)
    assert (done.exit_code, set(done.removed_runs)) == (0, GOING)
    assert runs_in_tables(merged) == STAYING | EMPTY
    assert {one.table: one.rows for one in done.tables} == {name: sum(of[run_id] for run_id in GOING) for name, of in rows.items()}
    assert shown(merged, capsys) == before
    findings = DeltaTable(str(merged / "findings"))
    feed = pa.table(findings.load_cdf(starting_version=feed_from, ending_version=findings.version()).read_all())
    told = Counter(zip(feed["run_id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True))
    assert told == {(run_id, "delete"): rows["findings"][run_id] for run_id in GOING if rows["findings"][run_id]}


def test_files_that_maintain_wrote_have_checksums_and_types_that_rows_are_filtered_by(merged: Path) -> None:
    upkeep(merged)
    written = [(path, file) for path in merged.iterdir() for file in DeltaTable(str(path)).file_uris()]
    assert len(written) > 10
    for path, file in written:
        assert pq.read_schema(file).field("run_id").type == pa.string()
        content = bytearray(Path(file).read_bytes())
        column = pq.read_metadata(file).row_group(0).column(0)
        content[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
        Path(file).write_bytes(content)
        assert [damaged.why for damaged in data_damage(path)] != [], path


def test_what_an_audit_has_begun_to_write_stays(warehouse: Path) -> None:
    young = warehouse / "findings" / "part-of-a-running-audit.parquet"
    young.write_bytes(bytes(1000))
    assert upkeep(warehouse).exit_code == 0
    assert young.exists()
    assert not (warehouse / "findings" / "part-of-a-killed-audit.parquet").exists()


def test_a_run_with_any_name_goes_and_no_other(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MANY_FILES", 1)
    names = ("it's", "back\\slash", "c' OR '1'='1", "it''s", "new", "x" * 100)
    finding = DeltaTable(str(made / "findings")).to_pyarrow_table().slice(0, 1).to_pylist()[0]
    rows = [finding | {"run_id": name} for name in names]
    for row in rows:
        days = 0 if row["run_id"] in ("new", "it''s") else 900
        write_rows(tmp_path, {"audit_runs": [run_row(str(row["run_id"]), days, status="complete", exit_code=0)], "findings": [row]})
    for _time in range(2):  # that of files of their own, and that of a merged one
        done = upkeep(tmp_path)
        assert done.exit_code == 0
    assert runs_in_tables(tmp_path) == {"new", "it''s"}
    again = [row for row in rows if row["run_id"] not in ("new", "it''s")]
    write_rows(
        tmp_path, {"audit_runs": [run_row(str(row["run_id"]), 900, status="complete", exit_code=0) for row in again], "findings": again}
    )
    assert set(upkeep(tmp_path).removed_runs) == {row["run_id"] for row in again}
    assert runs_in_tables(tmp_path) == {"new", "it''s"}


def test_a_commit_of_another_process_comes_first(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    whole, met = direct_upkeep.DirectChanges._writable, Counter[str]()

    def beaten(changes: direct_upkeep.DirectChanges, table: Table) -> DeltaTable:
        opened = whole(changes, table)
        if not met[table.name]:
            write_rows(
                merged,
                {
                    table.name: [
                        row | {"run_id": "new"} for row in DeltaTable(str(merged / table.name)).to_pyarrow_table().slice(0, 1).to_pylist()
                    ]
                },
            )
        met[table.name] += 1
        return opened

    monkeypatch.setattr(direct_upkeep.DirectChanges, "_writable", beaten)
    before = {name: rows_by_run(merged, name)["new"] for name in ("findings", "replica_logs")}
    done = upkeep(merged)
    assert (done.exit_code, set(done.removed_runs)) == (0, GOING)
    assert {name: rows_by_run(merged, name)["new"] for name in before} == {name: rows + 1 for name, rows in before.items()}
    assert not GOING & runs_in_tables(merged)


def test_a_run_shows_that_it_lives_where_its_row_was_merged_with_others(warehouse: Path) -> None:
    write_rows(warehouse, {"audit_runs": [run_row("held", attempt=number, status="running") for number in (1, 2)]})
    direct_upkeep.DirectChanges(str(warehouse)).merge(AUDIT_RUNS)
    commits = TableCommits(str(warehouse))
    before = {run_id: rows for run_id, rows in rows_by_run(warehouse, "audit_runs").items()}
    assert commits.sign(AUDIT_RUNS, "held", 2, NOW) == 1
    assert commits.sign(AUDIT_RUNS, "held", 3, NOW) == 0
    assert rows_by_run(warehouse, "audit_runs") == before
    asked = pa.schema([("attempt", pa.int32()), ("alive_at", pa.timestamp("us", "UTC"))])
    found = WarehouseTables(str(warehouse)).columns("audit_runs", asked, run_id="held").to_pylist()
    assert sorted((row["attempt"], row["alive_at"]) for row in found if row["alive_at"]) == [(2, NOW)]
    assert len(found) == 2
