"""What an audit says of itself, and what `report` says of it afterwards, is the same; the worst is said before anything is written."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit import cli, pipeline
from replica_audit.config import Settings
from replica_audit.past.findings import ListedRows
from replica_audit.report.text import plain_text as text
from replica_audit.report.text.json_report import json_pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replica_audit.report.facts.run_report import Report

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"


def _the_worst_was_told_before_the_tables(told: list[str], said: Report) -> None:
    lines = [text for text in told if text]  # an event of numbers alone has none
    writing = lines.index("writing the tables")
    compared = next(place for place, line in enumerate(lines) if line.startswith("compared the replicas of "))
    first = lines[compared + 1 : writing]
    assert len(first) == 6
    label = {cluster.cluster_id: cluster.label for cluster in said.clusters}
    assert first[:4] == [
        f"{row.severity}: {row.verdict}: {row.topic}-{row.partition}, broker {row.follower_id} ({label[cluster]}): {row.reason}"
        for cluster, row in ((one.cluster_id, one.row) for one in said.findings)
    ]
    assert first[5] == f"and {said.finding_count - 5} more; the summary follows"


@pytest.mark.spark
def test_an_audit_and_the_report_of_its_tables_agree(
    spark: SparkSession, empty_warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("not a directory", encoding="utf-8")
    warehouse = tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    # nobody knows yet that anything was truncated: another leader would lose less
    shutil.copytree(SAMPLE / "committed-loss", tmp_path / "committed-loss", ignore=shutil.ignore_patterns("server.log"))
    # not in the order of their names, and one input that is a problem
    inputs = tuple(str(path) for path in (SAMPLE / "multi-round", tmp_path / "committed-loss", SAMPLE / "leader-trimmed", broken))
    told: list[str] = []
    for number, topics in enumerate(("billing|ledger", "billing|ledger|audit")):
        told.clear()
        request = pipeline.AuditRequest(
            inputs=inputs,
            warehouse=str(warehouse),
            settings=Settings(topics=topics, what_if_leaders=True, worst=4),
            run_id=f"run-{number}",
            run_date=date(2026, 1, 2),
        )
        said = pipeline.audit(spark, request, lambda event: told.append(event.text))
    _the_worst_was_told_before_the_tables(told, said)
    assert said.changes
    assert said.problem_count
    assert said.impacts
    assert said.candidates
    assert (said.best_led_partitions, said.already_lost_partitions) == (1, 7)
    assert any(finding.fetcher_fails for finding in said.findings) or len(said.findings) == 4
    capsys.readouterr()
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "json"]) == 0
    written = "".join(json_pieces(said, ListedRows(pipeline.written_run(spark, str(warehouse), "run-1"))))
    document = json.loads(written)
    assert json.loads(capsys.readouterr().out) == document
    assert len(document["findings"]) == said.finding_count > len(said.findings)
    assert cli.main(["report", "--warehouse", str(warehouse), "--format", "text"]) == 0
    assert capsys.readouterr().out == text.render(said)
