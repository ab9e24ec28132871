"""Transactions that real brokers told to be open, of a cluster that lost markers by an unclean election, and of all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from tests.clusters.test_scenarios import SAMPLE, SHARED, SHARED_SCENARIOS
from tests.support import in_process
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOSS = SHARED / "txn-loss"
Row = dict[str, Any]
needs_shared = pytest.mark.skipif(not LOSS.is_dir(), reason="the shared clusters do not stand beside the project")


def told(moment: str) -> set[tuple[int, int, int, int]]:
    """Partition, producer, epoch and first offset of every open transaction, as DescribeProducers answered."""
    partitions = json.loads((LOSS / "transactions.json").read_text(encoding="utf-8"))[moment]["partition_producers"]
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
@needs_shared
def test_markers_that_an_unclean_election_loses() -> None:
    rows = in_process.audit(LOSS / "before")
    assert found(rows) == told("before")
    assert {row["hangs_because"] for row in rows["open_transactions"]} == {"marker-removed"}
    assert {row["coordinator_state"] for row in rows["open_transactions"]} == {"CompleteCommit", "CompleteAbort"}
    assert {row["transactional_id"] for row in rows["open_transactions"]} == {"straddle-commit", "straddle-abort"}
    where = {(row["partition"], one["broker_id"], one["marker_offset"]) for row in rows["open_transactions"] for one in row["elsewhere"]}
    assert where == {(0, 1, 24), (0, 1, 25), (1, 1, 28), (1, 1, 29), (2, 1, 25), (2, 1, 26)}
    stable = json.loads((LOSS / "transactions.json").read_text(encoding="utf-8"))["read_committed_consumer_reads"]["committed"]
    assert {(row["partition"], row["last_stable_offset"]) for row in rows["open_transactions"]} == {
        (one["partition"], one["offset"]) for one in stable
    }
    said = hanging(rows)
    assert set(said) == {0, 1, 2}
    assert {row["severity"] for row in said.values()} == {"error"}
    assert "abort --topic transfers --partition 1 --start-offset 24" in said[1]["summary"]
    # the other one was aborted anyway
    assert "First save the records of the one from offset 24 (straddle-commit): its coordinator says CompleteCommit" in said[1]["summary"]


@pytest.mark.clusters
@needs_shared
def test_after_the_old_leader_has_truncated() -> None:
    """The coordinator's word is five seconds older than the election: enough for copies of one instant, too little for two clocks."""
    rows = in_process.audit(LOSS / "after")
    assert found(rows) == told("after")
    assert {one["standing"] for row in rows["open_transactions"] for one in row["elsewhere"]} == {"open"}
    assert hanging(rows) == {}
    at_once = in_process.audit(LOSS / "after", settings=Settings(simultaneous_copies=True))
    assert {row["hangs_because"] for row in at_once["open_transactions"]} == {"coordinator-went-on"}
    assert set(hanging(at_once)) == {0, 1, 2}


@pytest.mark.clusters
@pytest.mark.spark
@needs_shared
def test_both_engines_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The states of complete transactions name no partition: Spark brings them together with the producers in a way of its own."""
    inputs = [str(LOSS / "before")]
    assert cli.main(["audit", "--input", *inputs, "--warehouse", str(tmp_path / "w")]) == 1
    assert differing_tables(tmp_path / "w", inputs, Settings()) == []


@pytest.mark.clusters
@pytest.mark.parametrize("root", [*sorted(SAMPLE.iterdir()), *(path / "before" for path in SHARED_SCENARIOS if path != LOSS)], ids=str)
def test_no_other_cluster_has_one(root: Path) -> None:
    rows = in_process.audit(root)
    assert rows["open_transactions"] == []
    assert hanging(rows) == {}
