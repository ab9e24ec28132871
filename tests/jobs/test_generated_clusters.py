"""Clusters of hundreds of partitions, some with a diverged follower: Spark says what the engine of this process says, row by row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import tables
from tests.jobs.test_audit import AUDITED, as_in, comparable, read, run
from tests.support import in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = {"collected": 700, "raw": 150}  # 2,100 segments are many: plans are compiled then


@pytest.mark.parametrize("form", PARTITIONS)
def test_both_engines_write_the_same_rows(spark: SparkSession, tmp_path: Path, form: str) -> None:
    cluster, warehouse = tmp_path / "cluster", tmp_path / "warehouse"
    command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(cluster), "--form", form]
    subprocess.run([*command, "--partitions", str(PARTITIONS[form]), "--diverged", "0.1"], check=True)
    expected = in_process.audit(cluster)
    assert len(expected["replica_logs"]) == 3 * PARTITIONS[form]
    assert 5 < sum(row["verdict"] == "stale_tail" for row in expected["replica_verdicts"]) < PARTITIONS[form]
    run(spark.newSession(), warehouse, "one", cluster)
    for table in AUDITED:
        rows = expected[table.name] + (expected["problems"] if table is tables.INPUT_ERRORS else [])
        assert comparable(read(warehouse, table)) == comparable(as_in(table, rows)), table.name
