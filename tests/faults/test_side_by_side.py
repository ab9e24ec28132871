"""`maintain` beside an audit beside reports, on one warehouse: each does its own, and no reader ever sees half of anything."""

from __future__ import annotations

import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit.rows import TABLES
from tests.faults.audit_process import started
from tests.faults.nights import LOSS, audit, read, reported, rows_of, runs
from tests.support.warehouse import STARTED, write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]
OLD, LAST, TONIGHT = [f"old-{number}" for number in range(4)], "last", "tonight"
NAMES = {run_id: run_id for run_id in (*OLD, LAST, TONIGHT)}


def shown_now(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, shown = reported(warehouse, capsys)
    assert code == 0, shown
    assert isinstance(shown, dict)
    return {name: value for name, value in shown.items() if name not in ("warehouse", "seconds", "started_at", "finished_at")}


def test_at_once(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse, alone, working = tmp_path / "warehouse", tmp_path / "alone", tmp_path / "working"
    working.mkdir()
    for number, run_id in enumerate(OLD):
        write_warehouse(warehouse, LOSS, run_id=run_id, started_at=STARTED - timedelta(days=900 - number))
    write_warehouse(warehouse, LOSS, run_id=LAST, started_at=STARTED)
    shutil.copytree(warehouse, alone)
    audit(spark, alone, TONIGHT, LOSS)
    expected = {LAST: shown_now(warehouse, capsys), TONIGHT: shown_now(alone, capsys)}

    seen: list[str] = []
    failed: list[BaseException] = []

    def make() -> None:
        try:
            audit(spark, warehouse, TONIGHT, LOSS)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    with started(warehouse, working, "--keep-days", "400", "--keep-runs", "1", job="maintain") as maintain:
        while not maintain.lines and maintain.is_running():
            shown = shown_now(warehouse, capsys)
            assert shown == expected[shown["run_id"]]
        making = threading.Thread(target=make)
        making.start()
        while maintain.is_running() or making.is_alive():
            shown = shown_now(warehouse, capsys)
            assert shown == expected[shown["run_id"]]
            seen.append(shown["run_id"])
            making.join(0.2)
        making.join()
        assert (maintain.end(), failed) == (0, []), maintain.lines
    assert seen[0] == LAST
    assert shown_now(warehouse, capsys) == expected[TONIGHT]
    assert runs(warehouse) == {LAST: {"complete"}, TONIGHT: {"complete"}}
    for table in TABLES:
        assert {row["run_id"] for row in read(warehouse, table)} <= {LAST, TONIGHT}, table.name
    for run_id, place in ((LAST, alone), (TONIGHT, alone)):
        assert rows_of(warehouse, run_id, NAMES) == rows_of(place, run_id, NAMES)
