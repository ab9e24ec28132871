"""The summary says how many partitions were taken over, from which run, and which run read every file last."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text.blocks import Notes, blocks
from replica_audit.report.text.checks_text import last_full_look
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import STARTED, write_rows, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "clean-in-sync"
LINE = "3 partitions have not changed since run nightly-24 and keep their rows; run nightly-19 of 2026-11-20 read every file last"


def lines(report: Report) -> list[str]:
    return [line for block in blocks(report) if isinstance(block, Notes) for line in block.lines]


def test_a_run_that_took_rows_over_says_so(tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE)
    first = report_of(PastRun(WarehouseTables(str(tmp_path)), "first"))
    (cluster,) = first.clusters
    assert (cluster.taken_over, cluster.full_run_id) == (0, None)
    assert not [line for line in lines(first) if "not changed" in line]
    said = {"partitions_taken_over": 3, "taken_over_from": "nightly-24", "full_run_id": "nightly-19", "full_run_date": date(2026, 11, 20)}
    known = {"cluster_id": cluster.cluster_id, "path": str(SAMPLE), "config": "{}", "exit_code": 0, "status": "complete"}
    row = {"run_id": "second", "started_at": STARTED, "finished_at": STARTED, "run_date": STARTED.date(), **known, **said}
    write_rows(tmp_path, {"audit_runs": [row]})
    second = report_of(PastRun(WarehouseTables(str(tmp_path)), "second"))
    assert LINE in lines(second)
    (of_json,) = second.as_json()["clusters"]
    assert {name: of_json[name] for name in ("taken_over", "taken_over_from", "full_run_id", "full_run_date")} == {
        "taken_over": 3,
        "taken_over_from": "nightly-24",
        "full_run_id": "nightly-19",
        "full_run_date": date(2026, 11, 20),
    }


def test_one_partition(tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE)
    (cluster,) = report_of(PastRun(WarehouseTables(str(tmp_path)), "first")).clusters
    cluster = replace(cluster, taken_over=1, taken_over_from="a", full_run_id="b", full_run_date=date(2026, 11, 20))
    (line,) = last_full_look(cluster)
    assert line.startswith("1 partition has not changed since run a and keeps its rows; run b")
