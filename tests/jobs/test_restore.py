"""Damage to the tables of a real audit: the next audit refuses them and changes nothing, and `maintain --restore` takes them back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.errors import UsageError
from replica_audit.maintain.restore import restore
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.faults.power_cuts import DAMAGES
from tests.jobs.test_audit import SAMPLE, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_damaged_warehouse_is_refused_and_taken_back(spark: SparkSession, empty_warehouse: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    _first, before_damage = (run(spark, warehouse, run_id, SAMPLE / "committed-loss") for run_id in ("first", "second"))
    tables = WarehouseTables(str(warehouse))
    entry = max((warehouse / "findings" / "_delta_log").glob("*.json"))
    rows = max((warehouse / "replica_verdicts").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    DAMAGES["empty"](entry)
    DAMAGES["zeros"](rows)
    forget_tables(spark)
    before = {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")}
    with pytest.raises(UsageError, match=f"{entry} is empty, as a power cut leaves it"):
        run(spark, warehouse, "third", SAMPLE / "committed-loss")
    assert {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")} == before

    made = restore(warehouse, is_dry=False, tell=lambda _line: None)
    assert (made.exit_code, [table.table for table in made.tables]) == (0, ["replica_verdicts", "findings"])
    assert [lost.run_id for lost in made.lost_runs] == ["second"]
    aside = {path.name for path in (warehouse / "findings" / "_damaged").iterdir()}
    assert aside == {entry.name}
    assert report_of(PastRun(tables, None)).run_id == "first"
    with pytest.raises(UsageError, match=r"--run-id second: .* not complete"):
        PastRun(tables, "second")
    assert restore(warehouse, is_dry=False, tell=lambda _line: None).tables == ()

    again = run(spark, warehouse, "second", SAMPLE / "committed-loss")
    assert (again.finding_count, again.changes) == (before_damage.finding_count, before_damage.changes)
    assert report_of(PastRun(tables, None)).run_id == "second"

    for _entry in range(2):  # that the run began, and that it is complete
        newest = max((warehouse / "audit_runs" / "_delta_log").glob("0*.json"))
        for path in (warehouse / "audit_runs" / "_delta_log").glob(f"*{newest.stem}*"):
            path.unlink()
    forget_tables(spark)
    with pytest.raises(UsageError):
        PastRun(tables, "second")
    assert run(spark, warehouse, "second", SAMPLE / "committed-loss").run_id == "second", "its tables hold what it wrote, once"


def forget_tables(spark: SparkSession) -> None:
    """As if the machine had been off meanwhile."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
