"""Plots of runs show the tables' numbers; what names a run or a place is escaped where it is shown as HTML."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from replica_audit import open_warehouse
from replica_audit.notebook import charts
from replica_audit.notebook.run import Run
from replica_audit.notebook.warehouse import Warehouse
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity
from tests.notebooks.execution import RUNS
from tests.notebooks.test_frames import rows
from tests.notebooks.test_partition import shown as shown_as
from tests.notebooks.test_partition import spec_data
from tests.support.warehouse import STARTED, write_rows, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"


def encoded(chart: Any, channel: str) -> dict[str, Any]:
    """How the first layer of a plot draws a channel."""
    found: dict[str, Any] = chart.to_dict()["layer"][0]["encoding"][channel]
    return found


def test_the_heat_map_counts_followers_by_broker_and_verdict(nights: Path, full: Run) -> None:
    chart = full.heatmap()
    drawn = {(row["cluster_id"], row["broker_id"], row["verdict"]): row["followers"] for row in spec_data(chart)}
    counted = Counter((row["cluster_id"], row["follower_id"], row["verdict"]) for row in rows(nights, "replica_verdicts", run_id=RUNS[1]))
    assert drawn == counted
    worst_first = [str(verdict) for verdict in Verdict]
    assert encoded(chart, "x")["sort"] == sorted({key[2] for key in counted}, key=worst_first.index)
    assert "broker 2: 4 committed_loss" in chart.to_dict()["description"]


def test_the_heat_map_of_one_cluster_names_its_brokers_alone(full: Run) -> None:
    cluster = full.verdicts(topic="billing")["cluster_id"].iloc[0]
    assert {row["broker"] for row in spec_data(full.heatmap(cluster=cluster))} == {"broker 1", "broker 2"}


def test_the_history_counts_followers_by_run_and_verdict(nights: Path, audits: Warehouse) -> None:
    drawn = {(row["run_id"], row["verdict"]): row["followers"] for row in spec_data(audits.history())}
    assert drawn == Counter((row["run_id"], row["verdict"]) for row in rows(nights, "replica_verdicts"))
    assert {run for run, _ in drawn} == set(RUNS)
    assert drawn[RUNS[1], "committed_loss"] == drawn[RUNS[2], "committed_loss"] + 1
    assert [name.split()[-1] for name in encoded(audits.history(), "x")["sort"]] == list(RUNS), "oldest on the left"


def test_lost_records_are_the_sums_of_the_verdicts(nights: Path, audits: Warehouse) -> None:
    drawn = {(row["run_id"], row["measure"]): row["count"] for row in spec_data(audits.lost_over_time())}
    verdicts = rows(nights, "replica_verdicts")
    for run_id in RUNS:
        of_run = [row for row in verdicts if row["run_id"] == run_id]
        assert drawn[run_id, "cut"] == sum(row["removed_records"] or 0 for row in of_run) > 0
        assert drawn[run_id, "committed and lost"] == sum(row["removed_committed"] or 0 for row in of_run) > 0


def test_a_cluster_of_its_own_has_its_own_history(nights: Path, audits: Warehouse) -> None:
    cluster = rows(nights, "replica_verdicts", topic="ledger")[0]["cluster_id"]
    assert {row["run_id"] for row in spec_data(audits.history(cluster=cluster))} == set(RUNS[1:]), "the first night lacks it"
    lost = {(row["run_id"], row["measure"]): row["count"] for row in spec_data(audits.lost_over_time(cluster=cluster))}
    assert lost[RUNS[1], "cut"] == 43
    assert lost[RUNS[1], "committed and lost"] == 43, "by the ISR"
    assert audits.latest(cluster=cluster).run_id == RUNS[2]


def test_a_run_without_losses_is_zero_not_left_out(tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE / "clean-in-sync", run_id="clean")
    audits = open_warehouse(str(tmp_path))
    assert [(row["measure"], row["count"]) for row in spec_data(audits.lost_over_time())] == [("cut", 0), ("committed and lost", 0)]
    assert {row["verdict"] for row in spec_data(audits.history())} == {"consistent", "identical"}


def test_of_many_runs_the_latest_are_drawn_and_the_plot_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MOST_RUNS", 2)
    for night in range(3):
        write_warehouse(tmp_path, SAMPLE / "multi-round", run_id=f"night-{night}", started_at=STARTED + timedelta(days=night))
    chart = open_warehouse(str(tmp_path)).history()
    assert {row["run_id"] for row in spec_data(chart)} == {"night-1", "night-2"}
    assert "the latest 2 of 3 runs" in chart.to_dict()["title"]["subtitle"]


def test_partitions_are_worst_first_with_the_sums_of_their_followers(nights: Path, full: Run) -> None:
    found = full.partitions().to_dict("records")
    by_name: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in rows(nights, "replica_verdicts", run_id=RUNS[1]):
        by_name.setdefault((one["cluster_id"], f"{one['topic']}-{one['partition']}"), []).append(one)
    severities = [str(severity) for severity in Severity]
    assert [severities.index(row["severity"]) for row in found] == sorted(severities.index(row["severity"]) for row in found)
    assert {(row["cluster_id"], row["name"]) for row in found} == set(by_name)
    for row in map(dict, found):
        own = by_name[str(row["cluster_id"]), str(row["name"])]
        assert row["followers"] == len(own)
        assert row["removed_records"] == sum(one["removed_records"] or 0 for one in own)
        assert severities.index(row["severity"]) == min(severities.index(one["severity"]) for one in own)
        assert row["verdict"] in {one["verdict"] for one in own if one["severity"] == row["severity"]}
        assert row["removed_committed"] == sum(one["removed_committed"] or 0 for one in own)
    critical = [row["removed_committed"] for row in found if row["severity"] == "critical"]
    assert critical == sorted(critical, reverse=True)
    assert found[0]["name"] == "ledger-1", "most committed offsets lost"


def test_what_a_warehouse_a_run_and_a_partition_say_of_themselves(nights: Path, audits: Warehouse, full: Run) -> None:
    assert repr(audits) == f"Warehouse {nights / 'warehouse'}: 3 complete runs, the latest is {RUNS[2]}"
    assert "<code>.latest()</code>" in audits._repr_html_()
    assert "replica_verdicts" in audits._repr_html_()
    assert repr(full) == f"Run {RUNS[1]} of 2026-01-03: 7 clusters"
    assert '<code>.partition("ledger-1")</code>' in full._repr_html_()
    partition = full.partition("billing-0")
    assert repr(partition) == f"Partition billing-0 of run {RUNS[1]}: follower 1 committed_loss"
    assert "<code>.lineage()</code>" in partition._repr_html_()


def test_names_from_outside_are_escaped_in_html(tmp_path: Path) -> None:
    warehouse = tmp_path / "<script>alert(1)<"
    write_warehouse(warehouse, SAMPLE / "multi-round", run_id="<i>run</i>")
    audits = open_warehouse(str(warehouse))
    run = audits.latest()
    for shown in (audits._repr_html_(), run._repr_html_(), run.partition("ledger-0")._repr_html_()):
        assert "<script>" not in shown
        assert "<i>" not in shown
    svg = shown_as(run.heatmap())["image/svg+xml"]
    assert "<i>" not in svg


def test_a_warehouse_without_verdicts_is_drawn_empty(tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE / "multi-round", run_id="whole")
    run = {
        "run_id": "empty",
        "cluster_id": "c",
        "status": "complete",
        "started_at": STARTED + timedelta(days=1),
        "run_date": STARTED.date(),
    }
    shutil.rmtree(tmp_path / "replica_verdicts")
    write_rows(tmp_path, {"audit_runs": [run]})
    audits = open_warehouse(str(tmp_path))
    assert spec_data(audits.latest().heatmap()) == []
    assert len(audits.latest().partitions()) == 0
    assert "orders-0" in audits.latest()._repr_html_()
    assert {row["count"] for row in spec_data(audits.lost_over_time())} == {0}
