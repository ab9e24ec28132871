"""An audit goes on in a warehouse of the version before this one: its tables get the columns that they lack, inside of structs, too."""

from __future__ import annotations

import tarfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import open_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.spark
def test_old_and_new_runs_stand_in_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    from replica_audit import pipeline
    from replica_audit.config import Settings

    with tarfile.open(DATA / "older" / "warehouse-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    settings = Settings(topics="ledger|audit")
    roots = tuple(str(DATA / "sample" / name) for name in ("multi-round", "leader-trimmed"))
    request = pipeline.AuditRequest(
        inputs=roots, warehouse=str(tmp_path / "warehouse"), settings=settings, run_id="second", run_date=date(2026, 1, 3)
    )
    pipeline.audit(spark, request, lambda line: None)
    opened = open_warehouse(str(tmp_path / "warehouse"))
    assert opened.run_ids == ("second", "first")
    rounds = {run: opened.run(run).partition("ledger-0").rounds() for run in opened.run_ids}
    same = [name for name in rounds["first"].columns if name != "decided_by"]
    assert rounds["first"][same].equals(rounds["second"][same]), "the same exchange"
    assert rounds["first"]["decided_by"].isna().all()
    applied = rounds["second"][rounds["second"]["applies"]]
    assert list(applied["decided_by"]) == ["unknown-epoch", "unknown-epoch", "common-epoch", "records"]
    causes = {run: set(opened.run(run).verdicts(verdict="inconclusive")["cause"].dropna()) for run in opened.run_ids}
    assert causes == {"first": set(), "second": {"no common range"}}
    again = opened.run("second").findings()
    assert set(again["status"]) == {"persisting"}, "what the older version found is found again"
