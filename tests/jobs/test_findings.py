"""Findings in Spark: partitions without a leader, what an earlier run left open, tables of an older version, every finding as JSON."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from replica_audit import cli, pipeline
from replica_audit.past.findings import ListedRows
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.text import plain_text as text
from replica_audit.report.text.json_report import json_pieces
from replica_audit.rows import FINDINGS, WHAT_IF_LEADERS
from replica_audit.rows.arrow import FOUND, schema_of
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.jobs.test_audit import SAMPLE, read, run
from tests.support import in_process
from tests.support.warehouse import STARTED, write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OFFLINE = SAMPLE.parent / "offline" / "nobody-leads"
LOSS = SAMPLE / "committed-loss"
OLD_STATUSES = "status IN ('new', 'persisting', 'resolved')"


def _as_of_old(warehouse: Path) -> None:
    """Make the table of findings one of an older version: without the facts, with a constraint that knows three statuses."""
    rows = DeltaTable(str(warehouse / "findings")).to_pyarrow_table()
    shutil.rmtree(warehouse / "findings")
    schema = pa.schema([field for field in schema_of(FINDINGS) if field.name not in ("run_date", "severity_rank")][:12])
    write_deltalake(str(warehouse / "findings"), rows.select(schema.names).cast(schema))
    DeltaTable(str(warehouse / "findings")).alter.add_constraint({"known_status": OLD_STATUSES})


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A warehouse of an older version with one run, and the report of a second one that cannot see one of its replicas any more."""
    folder = tmp_path_factory.mktemp("findings")
    warehouse, lacking = folder / "warehouse", folder / "lacking"
    write_warehouse(warehouse, LOSS, run_id="one", started_at=STARTED - timedelta(days=300))
    _as_of_old(warehouse)
    shutil.copytree(LOSS, lacking)
    shutil.rmtree(lacking / "broker-1" / "data-0" / "billing-0")
    return warehouse, run(spark, warehouse, "two", lacking, OFFLINE)


def test_what_is_not_seen_again_stays_open_in_a_table_of_an_older_version(spark: SparkSession, made: tuple[Path, Any]) -> None:
    warehouse, report = made
    (left,) = read(warehouse, FINDINGS, run_id="two", status="unconfirmed")
    assert (left["finding_key"], left["first_seen_run_id"], left["last_seen_run_id"]) == ("committed_loss:billing-0:1", "one", "one")
    # of the replica that is gone, its broker's server.log still says that it truncated below its high watermark
    assert report.changes == {"new": 4, "persisting": 2, "unconfirmed": 1}
    written = DeltaWarehouse(spark, str(warehouse))
    before = DeltaTable(str(warehouse / "findings")).version()
    written.create_missing()
    assert DeltaTable(str(warehouse / "findings")).version() == before, "the constraint is replaced once"
    row = {**left, "run_id": "bad", "status": "forgotten"}
    with pytest.raises(Exception, match="known_status"):
        written.write_run(FINDINGS, written.frame(FINDINGS, [row]), "bad", replace=False)


def test_partitions_without_a_leader(made: tuple[Path, Any]) -> None:
    warehouse, report = made
    rows = read(warehouse, FINDINGS, run_id="two", code="offline_partition")
    expected = {row["finding_key"]: row for row in in_process.audit(OFFLINE)["found"]}
    assert len(rows) == len(expected) == 2
    for row in rows:
        assert {name: row[name] for name in FOUND.names} == expected[row["finding_key"]]
    assert report.offline_count == 2
    assert len(read(warehouse, WHAT_IF_LEADERS, run_id="two")) == 4, "without --what-if-leaders only theirs"
    assert report.candidates == ()


def test_the_past_run_reads_as_the_audit_did(spark: SparkSession, made: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    warehouse, report = made
    past = report_of(PastRun(WarehouseTables(str(warehouse)), "two"))
    assert text.render(past) == text.render(report)
    assert "\n\n4 new findings since the run before\n  error: offline partition of jb-1 (nobody-leads)\n" in text.render(report)
    assert "\n\nWhat to decide, worst first\n" in text.render(report)
    assert "\n\n2 partitions without a leader\n  error: jb-1 (cluster 2): ISR none, ELR 2, last leader 2" in text.render(report)
    written = "".join(json_pieces(report, ListedRows(pipeline.written_run(spark, str(warehouse), "two"))))
    assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", "two", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(written)
    document = json.loads(written)
    assert [row["code"] for row in document["findings"]][:3] == ["offline_partition", "offline_partition", "committed_loss"]
    assert [row["finding_key"] for row in document["unconfirmed"]] == ["committed_loss:billing-0:1"]
