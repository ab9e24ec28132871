"""A broker that was there last night and is not tonight: what was found of it stays open, and summary, page and exit code say so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import cli
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import plain_text
from replica_audit.rows import FINDINGS
from tests.faults.nights import LOSS, audit, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MISSING = 1


@pytest.fixture(scope="module")
def nights(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Report]]:
    """All brokers; one is missing; it is back."""
    folder = tmp_path_factory.mktemp("nights")
    shutil.copytree(empty_warehouse, folder / "warehouse")
    lacking = folder / "lacking"
    shutil.copytree(LOSS, lacking, ignore=shutil.ignore_patterns(f"broker-{MISSING}"))
    nights = {"first": LOSS, "second": lacking, "third": LOSS}
    return folder / "warehouse", {run_id: audit(spark, folder / "warehouse", run_id, root) for run_id, root in nights.items()}


def statuses(warehouse: Path, run_id: str) -> dict[str, tuple[str, str, str]]:
    """By key: status, first and last seen."""
    rows = [row for row in read(warehouse, FINDINGS) if row["run_id"] == run_id]
    found = {row["finding_key"]: (row["status"], row["first_seen_run_id"], row["last_seen_run_id"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_what_was_found_of_it_stays_open(nights: tuple[Path, dict[str, Report]]) -> None:
    warehouse, _reports = nights
    first, second, third = (statuses(warehouse, run_id) for run_id in ("first", "second", "third"))
    of_broker = [key for key in first if key.endswith(f":{MISSING}")]
    assert len(of_broker) == 3
    assert {key: second[key] for key in of_broker} == dict.fromkeys(of_broker, ("unconfirmed", "first", "first"))
    assert {key: third[key] for key in of_broker} == dict.fromkeys(of_broker, ("persisting", "first", "third")), "it is not new"
    assert "resolved" not in {status for status, *_seen in second.values()}


def test_the_summary_says_so(nights: tuple[Path, dict[str, Report]], tmp_path: Path) -> None:
    warehouse, reports = nights
    report = reports["second"]
    assert report.changes["unconfirmed"] == 3
    assert "resolved" not in report.changes
    assert report.exit_code == 3, "nothing is found of what is there, and not all is there"
    said = " ".join(plain_text.render(report).split())
    assert "3 unconfirmed" in said
    assert f"the metadata names broker {MISSING}, but the input has only 2, 3" in said
    assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", "second", "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "unconfirmed" in page
    assert f"the metadata names broker {MISSING}" in page
