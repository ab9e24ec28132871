"""`--acknowledged` in Spark: the same rows as in one process, over nights, and in every count."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit import acknowledged, local_run, pipeline
from replica_audit.config import Settings
from replica_audit.past.findings import ListedRows
from replica_audit.past.metrics import run_metrics
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import plain_text as text
from replica_audit.report.text.json_report import json_pieces
from replica_audit.rows import FINDINGS
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.jobs.test_audit import SAMPLE, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.nightly]  # by day: engine/test_tally, faults/test_histories, commands/test_acknowledged_triage
LOSS = SAMPLE / "committed-loss"
KNOWN = """\
- {topic: billing, partition: [0, 1], severity: critical, at_most_records: 100, reason: known, who: ana, until: 2026-12-01}
- {topic: billing, partition: 2, severity: critical, at_most_records: 3, reason: few, who: bo, until: 2026-12-05}
"""


@pytest.fixture(scope="module")
def nights(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Report]]:
    folder = tmp_path_factory.mktemp("nights")
    (folder / "known.yaml").write_text(KNOWN, encoding="utf-8")
    shutil.copytree(empty_warehouse, folder / "warehouse")
    lacking = folder / "lacking"
    shutil.copytree(LOSS, lacking)
    shutil.rmtree(lacking / "broker-1" / "data-0" / "billing-0")
    reports = {}
    for run_id, root, day in (("one", LOSS, 30), ("two", lacking, 30), ("three", LOSS, 32)):
        on = date(2026, 11, 30) if day == 30 else date(2026, 12, 2)
        request = pipeline.AuditRequest(
            inputs=(str(root),),
            warehouse=str(folder / "warehouse"),
            settings=Settings(),
            run_id=run_id,
            run_date=on,
            acknowledged=acknowledged.load(folder / "known.yaml", on),
        )
        reports[run_id] = pipeline.audit(spark, request, lambda _line: None)
    return folder, reports


def rows_of(run: local_run.Triaged) -> list[dict[str, Any]]:
    found = run.tables.arrow(FINDINGS.name)
    assert found is not None
    return found.to_pylist()


def test_both_engines_say_the_same(nights: tuple[Path, dict[str, Report]]) -> None:
    folder, _reports = nights
    known = acknowledged.load(folder / "known.yaml", date(2026, 11, 30))
    here = local_run.triage((str(LOSS),), Settings(), acknowledged=known, tell=lambda _line: None)
    expected = {row["finding_key"]: row for row in rows_of(here)}
    rows = {row["finding_key"]: row for row in read(folder / "warehouse", FINDINGS, run_id="one")}
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        assert row["acknowledgement"] == expected[key]["acknowledgement"]
    assert {row["acknowledgement"]["state"] for row in rows.values()} == {"acknowledged", "more-records"}


def test_the_first_night(nights: tuple[Path, dict[str, Report]]) -> None:
    report = nights[1]["one"]
    assert (report.exit_code, report.finding_count, report.acknowledged_count, report.changes) == (1, 1, 2, {"new": 1})
    said = " ".join(text.render(report).split())
    assert "2 acknowledged findings, next expires 2026-12-01" in said
    assert "more records are lost than acknowledged: until 2026-12-05, bo: few (1 finding: committed loss; billing-2; line 2)" in said


def test_what_could_not_be_looked_at_stays_acknowledged_or_open(nights: tuple[Path, dict[str, Report]]) -> None:
    folder, reports = nights
    (left,) = read(folder / "warehouse", FINDINGS, run_id="two", status="unconfirmed")
    assert left["finding_key"] == "committed_loss:billing-0:1"
    assert left["acknowledgement"]["state"] == "acknowledged"
    assert reports["two"].changes.get("unconfirmed") is None, "it is counted apart"


def test_back_after_the_last_day(nights: tuple[Path, dict[str, Report]]) -> None:
    folder, reports = nights
    report = reports["three"]
    assert (report.exit_code, report.acknowledged_count) == (1, 0)
    assert report.changes["persisting"] >= 3
    said = " ".join(text.render(report).split())
    back = sum(one.count for one in report.acknowledgements)
    assert back >= 3
    assert f" No new findings since the run before; {back} are no longer acknowledged Besides: " in said
    assert "expired: until 2026-12-01, ana: known" in said
    rows = read(folder / "warehouse", FINDINGS, run_id="three", code="committed_loss")
    assert {row["status"] for row in rows} == {"persisting"}, "an acknowledged finding is known all the while"


def test_every_count_is_apart(nights: tuple[Path, dict[str, Report]]) -> None:
    folder, reports = nights
    run = PastRun(WarehouseTables(str(folder / "warehouse")), "one")
    (numbers,) = run_metrics(run)
    assert numbers.findings[("critical", "acknowledged")] == 2
    assert numbers.findings[("critical", "new")] == numbers.verdicts["committed_loss"] == 1
    document = json.loads("".join(json_pieces(reports["one"], ListedRows(run))))
    assert (len(document["findings"]), len(document["acknowledged"])) == (1, 2)
    assert replace(reports["one"], decisions=()).follower_findings == 1
