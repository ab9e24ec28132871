"""Commits that ask nothing of a table that has not changed, and everything of one that has."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from replica_audit.past.findings import all_findings
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.rows import INPUT_ERRORS, TABLES
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.spark_tables import SparkTables
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.house.checkout import ROOT
from tests.support.warehouse import write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SAMPLE = ROOT / "tests" / "data" / "sample"


@pytest.fixture(scope="module")
def place(empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose tables are there."""
    made = tmp_path_factory.mktemp("warehouses") / "warehouse"
    shutil.copytree(empty_warehouse, made)
    return made


def write(warehouse: DeltaWarehouse, run_id: str, broker: int, fence: int | None) -> None:
    words = {name: "w" for name in ("path", "kind", "code", "detail", "remedy")}
    rows = warehouse.frame(INPUT_ERRORS, [{"run_id": run_id, "cluster_id": "c", "broker_id": broker, **words}])
    warehouse.write_run(INPUT_ERRORS, rows, run_id, replace=False, fence=fence)


def brokers(place: Path, run_id: str) -> list[int]:
    rows = DeltaTable(str(place / INPUT_ERRORS.name)).to_pyarrow_table().to_pylist()
    return sorted(row["broker_id"] for row in rows if row["run_id"] == run_id)


@pytest.mark.parametrize("others", [0, 1, 120], ids=["the same run", "another run", "more runs than Delta's checksum keeps"])
def test_what_is_sent_after_a_later_attempt_has_written_is_passed_over(spark: SparkSession, place: Path, others: int) -> None:
    run_id = f"passed-over-{others}"
    slow, fast = DeltaWarehouse(spark, str(place)), DeltaWarehouse(spark, str(place))
    slow.create_missing()
    fast.create_missing()
    write(fast, run_id, 2, fence=20)
    if others > 1:
        _add_transactions(place, others)
    elif others:
        write(fast, "another", 7, fence=1)
    write(slow, run_id, 1, fence=10)
    assert brokers(place, run_id) == [2]
    write(slow, run_id, 3, fence=30)
    assert brokers(place, run_id) == [2, 3]


def _add_transactions(place: Path, count: int) -> None:
    """Commits of other runs, as Delta writes them, without rows; no checksum follows them."""
    log = place / INPUT_ERRORS.name / "_delta_log"
    for number in range(count):
        version = 1 + max(int(path.stem) for path in log.glob("*.json"))
        action = f'{{"txn":{{"appId":"replica-audit:other-{number}","version":1,"lastUpdated":1767322984000}}}}\n'
        (log / f"{version:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n' + action, encoding="utf-8")


def test_an_unchanged_table_takes_the_rows_of_the_process_that_made_it_ready(spark: SparkSession, place: Path) -> None:
    warehouse = DeltaWarehouse(spark, str(place))
    warehouse.create_missing()
    before = DeltaTable(str(place / INPUT_ERRORS.name)).version()
    write(warehouse, "alone", 1, fence=5)
    table = DeltaTable(str(place / INPUT_ERRORS.name))
    assert (brokers(place, "alone"), table.version()) == ([1], before + 1)
    assert table.transaction_version("replica-audit:alone") == 5
    write(warehouse, "alone", 2, fence=5)
    assert brokers(place, "alone") == [1], "a number is written once"


def test_the_report_through_spark_is_the_one_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE / "committed-loss", run_id="one")
    frames = {table.name: table for table in TABLES}
    warehouse = DeltaWarehouse(spark, str(tmp_path))
    through_spark = SparkTables(str(tmp_path), lambda name: warehouse.read(frames[name]) if name in frames else None)
    here, there = PastRun(WarehouseTables(str(tmp_path)), "one"), PastRun(through_spark, "one")
    assert there.runs[0].run_date == date(2026, 1, 2)
    assert report_of(there) == report_of(here)
    assert list(all_findings(there, ("new",))) == list(all_findings(here, ("new",)))
