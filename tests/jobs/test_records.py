"""`audit --compare records` by Spark: the rows of `triage`, and the keys in the report of a run."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from replica_audit import cli, pipeline
from replica_audit.config import Settings
from replica_audit.stages import records as record_stages
from tests.clusters.test_scenarios import SHARED
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.stages.test_records import ahead, compacted, replica
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SETTINGS = Settings(compare="records", show_keys=True)


def test_both_engines_write_the_same_rows(
    spark: SparkSession, empty_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_stages, "IN_BUCKET", 20)  # in this process, where buckets are counted
    made, warehouse = tmp_path / "made", str(tmp_path / "warehouse")
    shutil.copytree(empty_warehouse, warehouse)
    keys = compacted(200)
    replica(made, 1, keys, ahead())
    replica(made, 2, keys[50:], ahead())
    for broker in (1, 2):
        replica(tmp_path / "raw", broker, keys)
        (tmp_path / "raw" / f"broker-{broker}" / "data" / "meta.properties").write_bytes(kf.meta_properties(broker, cluster_id="collected"))
    collected = collect_cluster(tmp_path / "raw", tmp_path / "collected")
    other = SHARED / "kafka-1.1.1-ibp-0.10.2-kip101-scenario-1" / "after"
    inputs = (str(SHARED / "compacted-key-loss" / "before"), str(SHARED / "txn-loss" / "after"), str(other), str(made), str(collected))
    request = pipeline.AuditRequest(inputs=inputs, warehouse=warehouse, settings=SETTINGS, run_id="one", run_date=date(2026, 1, 2))
    stored = spark.sparkContext._jsc.getPersistentRDDs
    before = set(stored())
    report = pipeline.audit(spark.newSession(), request, lambda _line: None)
    assert set(stored()) <= before
    assert sum(cluster.verdicts.get("compaction_differs", 0) for cluster in report.clusters) == 1
    assert sum(cluster.verdicts.get("content_mismatch", 0) for cluster in report.clusters) == 1
    assert {cluster.cluster_id: cluster.records_unread for cluster in report.clusters if cluster.records_unread} == {"collected": 1}
    runs = DeltaTable(f"{warehouse}/audit_runs").to_pyarrow_table(columns=["cluster_id", "records_unread"]).to_pylist()
    assert {row["cluster_id"]: row["records_unread"] for row in runs if row["records_unread"]} == {"collected": 1}
    assert differing_tables(Path(warehouse), inputs, SETTINGS) == []


def test_explain_names_the_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["triage", "--input", str(SHARED / "compacted-key-loss" / "after"), "--compare", "records", "--partition", "settings-0"]
    assert cli.main([*command, "--plan", str(tmp_path / "plan")]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "compaction_differs (error)" in text
    assert text.count("key-missing-or-deleted on broker 1; leader a value at") == 9
    assert "ask their owner whether they were deleted" in (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
