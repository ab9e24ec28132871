"""Which version of a damaged table is the last that is whole, and which runs are lost by going back to it; without Spark."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.errors import OutputError, UsageError
from replica_audit.maintain.restore import restore
from replica_audit.past.run import PastRun
from replica_audit.report import upkeep_report
from replica_audit.report.upkeep_report import Restoration
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.restore import set_aside
from tests.faults.power_cuts import DAMAGES
from tests.support.warehouse import STARTED, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
ENTRY = "_delta_log/00000000000000000002.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("restored") / "warehouse"
    for days, run_id in enumerate(("first", "second", "third")):
        write_warehouse(warehouse, SAMPLE / "multi-round", run_id=run_id, started_at=STARTED + timedelta(days=days))
    return warehouse


@pytest.fixture
def warehouse(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "warehouse")
    return tmp_path / "warehouse"


def look(warehouse: Path) -> Restoration:
    """What would be done; nothing is changed, and no session is started."""
    before = sorted((str(path), path.stat().st_mtime_ns) for path in warehouse.rglob("*"))
    found = restore(warehouse, is_dry=True, tell=lambda _line: None)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in warehouse.rglob("*")) == before
    return found


def newest_rows(warehouse: Path, table: str) -> Path:
    return max((warehouse / table).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def test_nothing_is_done_to_a_warehouse_that_is_whole(warehouse: Path) -> None:
    found = restore(warehouse, is_dry=False, tell=lambda _line: None)
    assert (found.tables, found.lost_runs, found.exit_code) == ((), (), 0)
    assert upkeep_report.restored(found) == f"{warehouse}: every table is whole, and no complete run lacks rows.\n"


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "gone"])
def test_an_entry_of_the_log_is_set_aside(warehouse: Path, damage: str) -> None:
    DAMAGES[damage](warehouse / "findings" / ENTRY)
    found = look(warehouse)
    (table,) = found.tables
    assert (table.table, table.version, table.set_aside) == ("findings", 1, ("00000000000000000002.json",))
    assert table.damaged[0].startswith(f"{warehouse / 'findings' / ENTRY} is ")
    (lost,) = found.lost_runs
    assert lost.run_id == "third"
    assert lost.why.startswith("table findings has 0 rows of run third, which wrote ")


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_of_the_last_run_are_given_up(warehouse: Path, damage: str) -> None:
    DAMAGES[damage](newest_rows(warehouse, "replica_verdicts"))
    found = look(warehouse)
    assert [(table.table, table.version, table.set_aside) for table in found.tables] == [("replica_verdicts", 1, ())]
    assert [lost.run_id for lost in found.lost_runs] == ["third"]


def test_an_entry_in_the_middle_takes_those_after_it_along(warehouse: Path) -> None:
    (warehouse / "findings" / ENTRY.replace("2", "1")).write_bytes(b"")
    found = look(warehouse)
    assert found.tables[0].version == 0
    assert found.tables[0].set_aside == ("00000000000000000001.json", "00000000000000000002.json")
    assert [lost.run_id for lost in found.lost_runs] == ["second", "third"]


def test_files_that_were_merged_are_taken_from_before(warehouse: Path) -> None:
    DeltaTable(str(warehouse / "findings")).optimize.compact()
    newest_rows(warehouse, "findings").write_bytes(b"")
    found = look(warehouse)
    assert [table.version for table in found.tables] == [2]
    assert found.lost_runs == (), "the rows are in the files that were merged"


def test_a_checkpoint_that_cannot_be_read_is_not_needed(warehouse: Path) -> None:
    DeltaTable(str(warehouse / "findings")).create_checkpoint()
    (checkpoint,) = (warehouse / "findings" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"")
    found = look(warehouse)
    assert found.tables[0].version == 2
    assert set(found.tables[0].set_aside) == {checkpoint.name, "_last_checkpoint"}
    assert found.lost_runs == ()


def test_a_table_of_which_nothing_is_whole_is_said_to_be_lost(warehouse: Path) -> None:
    for path in (warehouse / "findings" / "_delta_log").glob("*.json"):
        path.write_bytes(b"")
    found = look(warehouse)
    assert found.tables[0].version is None
    assert [lost.run_id for lost in found.lost_runs] == ["first", "second", "third"]
    assert "findings: no version of it is whole" in upkeep_report.restored(found)


def test_a_table_that_is_missing_costs_the_runs_that_had_rows_in_it(warehouse: Path) -> None:
    shutil.rmtree(warehouse / "truncation_points")
    found = look(warehouse)
    assert found.tables == ()
    assert [lost.why.startswith("table truncation_points is missing, run ") for lost in found.lost_runs] == [True] * 3


def test_runs_whose_own_rows_are_lost_are_named(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (warehouse / "audit_runs" / ENTRY).write_bytes(b"")
    assert cli.main(["maintain", "--warehouse", str(warehouse), "--restore", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "audit_runs: would be taken back to version 1\n" in said
    assert "1 run would count no more; audit again, with the same --run-id:\n  third: table audit_runs does not say" in said
    assert said.endswith("Nothing was changed: this was a dry run.\n")


def test_a_warehouse_without_a_whole_table_of_runs_is_refused(warehouse: Path) -> None:
    for path in (warehouse / "audit_runs" / "_delta_log").glob("*.json"):
        path.write_bytes(b"")
    with pytest.raises(UsageError, match="nothing of table audit_runs is whole; audit again into a new warehouse"):
        look(warehouse)


def test_only_a_directory_is_restored(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["maintain", "--warehouse", "s3://bucket/audits", "--restore"]) == 2
    assert "only a directory; of a store or a catalog use RESTORE of Delta" in capsys.readouterr().err


def test_nothing_that_was_set_aside_is_replaced(warehouse: Path) -> None:
    table = warehouse / "findings"
    for content in (b"one", b"two"):
        (table / ENTRY).write_bytes(content)
        set_aside(table, [Path(ENTRY).name])
    kept = {path.name: path.read_bytes() for path in (table / "_damaged").iterdir()}
    assert kept == {"00000000000000000002.json": b"one", "00000000000000000002.json.1": b"two"}


def test_nothing_is_set_aside_through_a_link(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (warehouse / "findings" / "_damaged").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="is a link"):
        set_aside(warehouse / "findings", [Path(ENTRY).name])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_damaged_tables_go_back_and_the_run_that_lacks_rows_counts_no_more(warehouse: Path) -> None:
    (warehouse / "findings" / ENTRY).write_bytes(b"")
    newest_rows(warehouse, "replica_verdicts").write_bytes(b"")
    made = restore(warehouse, is_dry=False, tell=lambda _line: None)
    assert (made.exit_code, [table.table for table in made.tables]) == (0, ["replica_verdicts", "findings"])
    assert [lost.run_id for lost in made.lost_runs] == ["third"]
    assert PastRun(WarehouseTables(str(warehouse)), None).run_id == "second"
    assert restore(warehouse, is_dry=False, tell=lambda _line: None).tables == ()
