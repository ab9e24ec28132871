"""Transactions that real brokers told to be open, of a cluster that lost markers by an unclean election, and of all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from tests.clusters.test_scenarios import SAMPLE, SHARED, SHARED_SCENARIOS
from tests.support import in_process
from tests.support.shares import by_day

LOSS = SAMPLE.parent / "transactions"  # the files of real brokers (4.2.0), and what they answered
AFTER = SHARED / "txn-loss" / "after"
Row = dict[str, Any]
needs_shared = pytest.mark.skipif(not AFTER.is_dir(), reason="the shared clusters do not stand beside the project")


def told(moment: str) -> set[tuple[int, int, int, int]]:
    """Partition, producer, epoch and first offset of every open transaction, as DescribeProducers answered."""
    partitions = json.loads((LOSS / "described.json").read_text(encoding="utf-8"))[moment]["partition_producers"]
    return {
        (int(partition), one["producer_id"], one["epoch"], one["open_txn_start_offset"])
        for partition, producers in partitions.items()
        for one in producers
        if "open_txn_start_offset" in one
    }


def found(rows: dict[str, list[Row]]) -> set[tuple[int, int, int, int]]:
    assert {row["topic"] for row in rows["open_transactions"]} == {"transfers"}
    return {(row["partition"], row["producer_id"], row["producer_epoch"], row["first_offset"]) for row in rows["open_transactions"]}


def hanging(rows: dict[str, list[Row]]) -> dict[int, Row]:
    return {row["partition"]: row for row in rows["found"] if row["code"] == "hanging_transaction"}


@pytest.mark.clusters
def test_markers_that_an_unclean_election_loses() -> None:
    rows = in_process.audit(LOSS / "before")
    assert found(rows) == told("before")
    assert {row["hangs_because"] for row in rows["open_transactions"]} == {"marker-removed"}
    assert {row["coordinator_state"] for row in rows["open_transactions"]} == {"CompleteCommit", "CompleteAbort"}
    assert {row["transactional_id"] for row in rows["open_transactions"]} == {"straddle-commit", "straddle-abort"}
    others = [(row["partition"], one) for row in rows["open_transactions"] for one in row["elsewhere"]]
    where = {(partition, one["broker_id"], one["marker_offset"], one["outcome"]) for partition, one in others}
    assert where == {
        *((0, 1, 24, "committed"), (0, 1, 25, "aborted"), (1, 1, 28, "committed")),
        *((1, 1, 29, "aborted"), (2, 1, 25, "committed"), (2, 1, 26, "aborted")),
    }
    assert {row["abort_form"] for row in rows["open_transactions"]} == {"start-offset"}
    stable = json.loads((LOSS / "described.json").read_text(encoding="utf-8"))["read_committed_consumer_reads"]["committed"]
    assert {(row["partition"], row["last_stable_offset"]) for row in rows["open_transactions"]} == {
        (one["partition"], one["offset"]) for one in stable
    }
    said = hanging(rows)
    assert set(said) == {0, 1, 2}
    assert {row["severity"] for row in said.values()} == {"error"}
    assert "2 transactions hang, from offsets 24 (producer 1001, epoch 0), 26 (producer 2001, epoch 0)" in said[1]["summary"]
    assert {(one["first_offset"], one["may_be_committed"]) for one in said[1]["hanging"]} == {(24, True), (26, False)}


def test_what_a_person_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary, the explanation, the page and the JSON of one triage name the same commands."""
    page, document = tmp_path / "page.html", tmp_path / "run.json"
    assert cli.main(["triage", "--input", str(LOSS / "before"), "--html", str(page), "--json", str(document)]) == 1
    out = capsys.readouterr().out
    said = " ".join(out.split())
    command = "kafka-transactions.sh --bootstrap-server BROKER:PORT abort --topic transfers --partition 1 --start-offset"
    assert f"to end the one from offset 26, and the plan has the others:\n      {command} 26\n" in out, "on one line; it was aborted anyway"
    assert "save first: a producer takes its records for committed" in said
    assert f"<code>{command} 26</code>\n" in page.read_text(encoding="utf-8"), "on one line"
    listed = json.loads(document.read_text(encoding="utf-8"))["open_transactions"]
    assert [(row["partition"], row["first_offset"]) for row in listed] == [(0, 18), (0, 21), (1, 24), (1, 26), (2, 15), (2, 20)]
    assert cli.main(["triage", "--input", str(LOSS / "before"), "--partition", "transfers-1"]) == 1
    text = capsys.readouterr().out
    told = " ".join(text[text.index("Open transactions") :].split())
    assert told.startswith("Open transactions The last stable offset is 24: consumers with read_committed do not get beyond it.")
    assert "Offsets 24..25: straddle-commit (producer 1001, epoch 0), since 2026-11-21 06:03:11 UTC" in told
    assert "Its coordinator says CompleteCommit, producer epoch 1, timeout 120000 ms; broker 1: committed by a marker at offset 28" in told
    assert f"    {command} 26\n" in text
    assert f"{command} 24\n" not in text, "its records have to be saved first"


@pytest.mark.clusters
@needs_shared
def test_after_the_old_leader_has_truncated() -> None:
    """The coordinator's word is five seconds older than the election: enough for copies of one instant, too little for two clocks."""
    rows = in_process.audit(AFTER)
    assert found(rows) == told("after")
    assert {one["standing"] for row in rows["open_transactions"] for one in row["elsewhere"]} == {"open"}
    assert hanging(rows) == {}
    at_once = in_process.audit(AFTER, settings=Settings(simultaneous_copies=True))
    assert {row["hangs_because"] for row in at_once["open_transactions"]} == {"coordinator-went-on"}
    assert set(hanging(at_once)) == {0, 1, 2}


@pytest.mark.clusters
@pytest.mark.parametrize(
    "root", by_day([*sorted(SAMPLE.iterdir()), *(path / "before" for path in SHARED_SCENARIOS if path != AFTER.parent)]), ids=str
)
def test_no_other_cluster_has_one(root: Path) -> None:
    rows = in_process.audit(root)
    assert rows["open_transactions"] == []
    assert hanging(rows) == {}
