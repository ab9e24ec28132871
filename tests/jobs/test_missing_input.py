"""A cluster or a broker that an earlier run read and this one lacks is no all-clear: summary, exit code, tables and metrics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import acknowledged, pipeline
from replica_audit.config import Settings
from replica_audit.maintain.run import warehouse_upkeep
from replica_audit.past.metrics import run_metrics
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.report.metrics import ClusterMetrics
from replica_audit.report.text import plain_text as text
from replica_audit.rows import AUDIT_RUNS, FINDINGS
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.jobs.test_audit import SAMPLE, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
GONE = "- {verdict: cluster_missing, reason: scrapped, who: ana, until: 2026-12-01}\n"


@dataclass
class Nights:
    """Audits of one folder of clusters, night after night."""

    spark: SparkSession
    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def audit(self, run_id: str, known: str | None = None) -> Report:
        file = self.folder / "known.yaml"
        file.write_text(known or "", encoding="utf-8")
        on = date(2026, 11, 30)
        request = pipeline.AuditRequest(
            inputs=(str(self.folder / "backup"),),
            warehouse=str(self.warehouse),
            settings=Settings(),
            run_id=run_id,
            run_date=on,
            acknowledged=acknowledged.load(file, on),
        )
        return pipeline.audit(self.spark, request, lambda _event: None)

    def metrics(self, run_id: str) -> dict[str, ClusterMetrics]:
        return {one.cluster_id: one for one in run_metrics(PastRun(WarehouseTables(str(self.warehouse)), run_id))}


@pytest.fixture(scope="module")
def nights(
    spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Nights, dict[str, Report]]]:
    made = Nights(spark, tmp_path_factory.mktemp("missing"))
    shutil.copytree(empty_warehouse, made.warehouse)
    backup = made.folder / "backup"
    for name in ("clean-in-sync", "committed-loss"):
        shutil.copytree(SAMPLE / name, backup / name)
    reports = {"one": made.audit("one")}
    shutil.rmtree(backup / "committed-loss")
    reports["two"] = made.audit("two")
    shutil.rmtree(backup / "clean-in-sync" / "broker-3")
    reports["three"] = made.audit("three", GONE)
    yield made, reports


def cluster_of(report: Report, name: str) -> str:
    return next(cluster.cluster_id for cluster in report.clusters if cluster.path.endswith(name))


def test_a_missing_cluster_is_said_first_and_is_no_exit_0(nights: tuple[Nights, dict[str, Report]]) -> None:
    made, reports = nights
    lost = cluster_of(reports["one"], "committed-loss")
    assert reports["one"].exit_code == 1
    report = reports["two"]
    assert report.exit_code == 3
    assert f"Cluster {lost} is missing from the input, and run one read it" in report.decisions[0].text
    said = " ".join(text.render(report).split())
    assert "MISSING from the input: nothing was read; run one read it last" in said
    assert "still open from earlier runs" in said
    open_now = read(made.warehouse, FINDINGS, run_id="two", cluster_id=lost)
    before = read(made.warehouse, FINDINGS, run_id="one", cluster_id=lost)
    assert before
    assert {row["finding_key"] for row in open_now} == {row["finding_key"] for row in before}
    assert {row["status"] for row in open_now} == {"unconfirmed"}


def test_its_series_stay_with_their_age(nights: tuple[Nights, dict[str, Report]]) -> None:
    made, reports = nights
    lost = cluster_of(reports["one"], "committed-loss")
    then, now = made.metrics("one")[lost], made.metrics("two")[lost]
    assert then.verdicts["committed_loss"] == now.verdicts["committed_loss"] > 0
    assert now.finished_at == then.finished_at
    assert (then.is_missing, now.is_missing, now.exit_code) == (False, True, 3)
    clean = made.metrics("two")[cluster_of(reports["one"], "clean-in-sync")]
    assert (clean.is_missing, clean.missing_brokers) == (False, 0)


def test_what_is_acknowledged_to_be_gone_is_dropped(nights: tuple[Nights, dict[str, Report]]) -> None:
    _made, reports = nights
    assert [cluster.path.rpartition("/")[2] for cluster in reports["three"].clusters] == ["clean-in-sync"]


def test_a_missing_broker_is_said_first(nights: tuple[Nights, dict[str, Report]]) -> None:
    made, reports = nights
    report = reports["three"]
    assert report.exit_code == 3
    assert report.decisions[0].text.startswith("Broker 3 is missing from the input, and an earlier run read it")
    clean = cluster_of(report, "clean-in-sync")
    assert made.metrics("three")[clean].missing_brokers == 1
    (row,) = read(made.warehouse, AUDIT_RUNS, run_id="three", cluster_id=clean)
    assert (row["broker_ids"], row["missing_broker_ids"], row["last_seen_run_id"]) == ([1, 2], [3], None)


def test_upkeep_keeps_the_run_that_read_a_cluster_last(nights: tuple[Nights, dict[str, Report]]) -> None:
    made, reports = nights
    lost = cluster_of(reports["one"], "committed-loss")
    runs = {run.run_id: run.cluster_ids for run in warehouse_upkeep(str(made.warehouse), None).runs()}
    assert lost in runs["one"]
    assert lost not in runs["two"]
