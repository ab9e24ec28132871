"""Upkeep by Spark, of tables that only it can change: clustered ones of an older version."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable

from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.rows import FORMER_TABLES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

OLDER = Path(__file__).resolve().parents[1] / "data" / "older"


@pytest.mark.spark
@pytest.mark.nightly  # by day: jobs/test_older_warehouse.py
def test_tables_of_an_older_version_are_kept_small_too(spark: SparkSession, tmp_path: Path) -> None:
    with tarfile.open(OLDER / "warehouse-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    warehouse = tmp_path / "warehouse"
    request = UpkeepRequest(warehouse=str(warehouse), keep_days=400, keep_runs=2)
    killed: dict[str, str | Column] = {"status": "'running'", "finished_at": "NULL", "run_date": "DATE'2020-01-01'"}
    SparkTable.forPath(spark, f"{warehouse}/audit_runs").update(set=killed)
    done = maintain(request, lambda _line: None, spark)
    assert (done.exit_code, done.removed_runs) == (0, ("first",))
    there = [table.name for table in (*TABLES, *FORMER_TABLES) if (warehouse / table.name).is_dir()]
    assert "content_windows" in there
    assert [table.table for table in done.tables] == there
    assert not any(DeltaTable(str(warehouse / name)).to_pyarrow_table().num_rows for name in there)
