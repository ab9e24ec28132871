"""Clusters of hundreds of partitions, some with a diverged follower: Spark says what the engine of this process says, row by row."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import pipeline
from replica_audit.config import Settings
from tests.house.checkout import ROOT
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PARTITIONS = {"collected": 700, "raw": 150}  # 2,100 segments are many: plans are compiled then


@pytest.mark.parametrize("form", ["collected", pytest.param("raw", marks=pytest.mark.nightly)])
def test_both_engines_write_the_same_rows(spark: SparkSession, empty_warehouse: Path, tmp_path: Path, form: str) -> None:
    cluster, warehouse = tmp_path / "cluster", tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(cluster), "--form", form]
    subprocess.run([*command, "--partitions", str(PARTITIONS[form]), "--diverged", "0.1"], check=True)
    settings, inputs = Settings(), (str(cluster),)
    request = pipeline.AuditRequest(inputs=inputs, warehouse=str(warehouse), settings=settings, run_id="one", run_date=date(2026, 1, 2))
    report = pipeline.audit(spark.newSession(), request, lambda _line: None)
    (of_cluster,) = report.clusters
    diverged = of_cluster.verdicts["stale_tail"]
    assert of_cluster.verdicts == {"identical": 2 * PARTITIONS[form] - diverged, "stale_tail": diverged}
    assert 5 < diverged < PARTITIONS[form] / 2
    assert differing_tables(warehouse, inputs, settings) == []
