"""Two nights of one warehouse, whose second has findings of every status, and the rows of a run as they can be compared with another's."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from replica_audit import cli, pipeline
from replica_audit.config import Settings
from replica_audit.rows import AUDIT_RUNS, TABLES, Table

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

    from replica_audit.report.facts.run_report import Report

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
LOSS, ROUNDS = SAMPLE / "committed-loss", SAMPLE / "multi-round"
RUN_DATE = date(2026, 1, 2)
# differ between any two runs, or attempts at one
_OF_AN_ATTEMPT = {"started_at", "finished_at", "holder", "alive_at", "attempt"}
_RUN_IDS = ("run_id", "first_seen_run_id", "last_seen_run_id")
Rows = dict[str, Counter[str]]


def second_night(folder: Path) -> tuple[Path, Path]:
    """The roots of the second night: of the first's findings one is mended, one cannot be seen; a second cluster has new ones."""
    later = folder / "later"
    shutil.copytree(LOSS, later)
    mended, unseen = (later / "broker-1" / "data-0" / f"billing-{number}" for number in (0, 1))
    shutil.rmtree(mended)
    shutil.copytree(later / "broker-2" / "data-0" / mended.name, mended)
    shutil.rmtree(unseen)
    return later, ROUNDS


def audit(spark: SparkSession, warehouse: Path, run_id: str, *inputs: Path) -> Report:
    """An audit in the session of this process, with the settings that an audit has without options."""
    request = pipeline.AuditRequest(
        inputs=tuple(map(str, inputs)), warehouse=str(warehouse), settings=Settings(), run_id=run_id, run_date=RUN_DATE
    )
    return pipeline.audit(spark, request, lambda _event: None)


def reported(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, object]:
    """What `report` shows, and its exit code."""
    capsys.readouterr()
    code = cli.main(["report", "--warehouse", str(warehouse), "--format", "json"])
    said = capsys.readouterr()
    return (code, json.loads(said.out)) if code == 0 else (code, said.err)


def rows_of(warehouse: Path, run_id: str, names: Mapping[str, str]) -> Rows:
    """The rows of a run in every table, read without Spark; run ids are replaced by their `names`."""
    return {table.name: _counted(read(warehouse, table), run_id, names) for table in TABLES}


def read(warehouse: Path, table: Table) -> list[dict[str, Any]]:
    """Every row of a table."""
    rows: list[dict[str, Any]] = DeltaTable(str(warehouse / table.name)).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
    return rows


def _counted(rows: list[dict[str, Any]], run_id: str, names: Mapping[str, str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows:
        if row["run_id"] == run_id:
            bare = {name: value for name, value in row.items() if name not in _OF_AN_ATTEMPT}
            bare |= {name: names[row[name]] for name in _RUN_IDS if row.get(name) is not None}
            counted[json.dumps(bare, sort_keys=True, default=str)] += 1
    return counted


def runs(warehouse: Path) -> dict[str, set[str]]:
    """The statuses of every run's rows of `audit_runs`; none if that table is not there."""
    found: dict[str, set[str]] = {}
    if DeltaTable.is_deltatable(str(warehouse / AUDIT_RUNS.name)):
        for row in read(warehouse, AUDIT_RUNS):
            found.setdefault(row["run_id"], set()).add(row["status"])
    return found


def unknown_files(warehouse: Path) -> set[Path]:
    """Files of tables that no version of them has ever named, the temporary ones of their logs among them."""
    found: set[Path] = set()
    for table in TABLES:
        place = warehouse / table.name
        logged = [json.loads(line) for commit in (place / "_delta_log").glob("*.json") for line in commit.read_text().splitlines()]
        named = {action["path"] for line in logged for kind, action in line.items() if kind in ("add", "remove")}
        found |= {path for path in place.glob("*.parquet") if path.name not in named}
        found |= set((place / "_delta_log").glob(".*.tmp*"))
    return found
