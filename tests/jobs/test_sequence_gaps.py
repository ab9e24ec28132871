"""Spark writes gaps in producers' sequences as this process finds them, beside transactions that are open."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import pipeline
from replica_audit.config import Settings
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.engine.test_transactions import cluster
from tests.formats import kafka_files as kf
from tests.partition.test_sequence_gaps import HOLE, batches
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_both_engines_give_the_same_rows(spark: SparkSession, empty_warehouse: Path, tmp_path: Path) -> None:
    root, warehouse = cluster(tmp_path), tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    for broker in (1, 2):
        kf.replica(root / f"broker-{broker}" / "data", "orders-0", batches=batches(HOLE))
    request = pipeline.AuditRequest(
        inputs=(str(root),), warehouse=str(warehouse), settings=Settings(), run_id="r", run_date=date(2026, 1, 2)
    )
    pipeline.audit(spark, request, lambda _line: None)
    written = WarehouseTables(str(warehouse)).arrow("sequence_gaps")
    assert written is not None
    assert written.select(["missing_records", "doubt"]).to_pylist() == [{"missing_records": 4, "doubt": "time-unknown"}]
    assert differing_tables(warehouse, [str(root)], Settings()) == []
