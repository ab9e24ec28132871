"""Records that a start removes, by transaction: the tables say what a salvage of the same cut finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replica_audit.partition.pairs import second_read
from replica_audit.past.run import PastRun
from replica_audit.rows.columns import hints_of
from replica_audit.rows.pairs import RecordsByTransaction
from tests.collect.collections import collect_cluster
from tests.formats import record_files as rf
from tests.salvage.made import FOLLOWER, audited, replica, rows, saved, with_epoch
from tests.salvage.test_made_logs import COMMON, diverged

ROOT = Path(__file__).resolve().parents[1] / "data"
TAIL = (
    rf.batch(10, (b"a", b"1"), (b"b", b"2"), producer_id=1),
    rf.batch(12, (b"c", b"3")),
    rf.batch(13, (b"d", b"4"), producer_id=2),
    rf.control_batch(14, rf.COMMIT, producer_id=1),
    rf.batch(15, (b"e", b"5"), producer_id=1),
    rf.control_batch(16, rf.ABORT, producer_id=2),
    rf.batch(17, (b"f", b"6")),
)
SPLIT = {"committed": 2, "plain": 2, "aborted": 1, "open": 1, "markers": 2, "unknown": 0}


def _kind(transaction: str) -> str:
    return "plain" if transaction == "none" else transaction


def splits(run: PastRun, table: str = "replica_verdicts", broker: str = "follower_id") -> dict[tuple[str, int, int], dict[str, int]]:
    found: list[dict[str, Any]] = run.tables.arrow(table).to_pylist()  # type: ignore[union-attr]
    return {(row["topic"], row["partition"], row[broker]): row["lost_by_transaction"] for row in found if row["lost_by_transaction"]}


def of_salvage(run: PastRun, output: Path) -> dict[tuple[str, int, int], Counter[str]]:
    """What a salvage finds of the records that the leader does not have, where its log starts below the cut."""
    found: dict[tuple[str, int, int], Counter[str]] = {}
    for one in saved(run, output).cuts:
        found[one.cut.topic, one.cut.partition, one.cut.broker_id] = Counter(markers=one.control_count)
    saved_rows = rows(output)
    for row in saved_rows:
        if row["on_leader"] != "same":
            found[row["topic"], row["partition"], row["broker_id"]][_kind(row["transaction"])] += 1
    above = {(row["topic"], row["partition"], row["broker_id"]) for row in saved_rows if row["on_leader"] == "below-log-start"}
    return {place: counts for place, counts in found.items() if place not in above}


def held_against_salvage(root: Path, output: Path) -> Counter[str]:
    """Compare what the tables and a salvage say of each cut; returns how many records there are of each kind."""
    run, total = audited(root), Counter[str]()
    mine, theirs = splits(run), of_salvage(run, output)
    assert {place for place in mine if place in theirs} == {place for place, found in theirs.items() if +found}
    for place, found in theirs.items():
        assert +Counter(mine.get(place, {})) == +found, place
        total += found
    lost = {
        (row["topic"], row["partition"], row["follower_id"]): row["lost_records"]
        for row in run.tables.arrow("replica_verdicts").to_pylist()  # type: ignore[union-attr]
        if row["lost_records"]
    }
    assert {place: sum(found.values()) for place, found in mine.items()} == lost, "each record is counted once"
    return total


@pytest.mark.parametrize("root", sorted((ROOT / "sample").iterdir()), ids=lambda path: path.name)
def test_the_sample(root: Path, tmp_path: Path) -> None:
    held_against_salvage(root, tmp_path / "out")


def test_every_kind(tmp_path: Path) -> None:
    diverged(tmp_path / "in", *TAIL)
    assert held_against_salvage(tmp_path / "in", tmp_path / "out") == +Counter(SPLIT)
    run = audited(tmp_path / "in")
    assert splits(run, "replica_starts", "broker_id") == {("orders", 0, FOLLOWER): SPLIT}
    assert {row["broker_id"]: row["lost_by_transaction"] for row in run.tables.arrow("broker_starts").to_pylist()} == {  # type: ignore[union-attr]
        1: None,
        FOLLOWER: SPLIT,
    }


def test_a_marker_in_another_segment_counts(tmp_path: Path) -> None:
    diverged(tmp_path / "made")
    replica(tmp_path / "in", FOLLOWER, "orders", [(0, 0), (1, 10)], COMMON, *([one] for one in with_epoch(1, *TAIL)))
    (tmp_path / "made" / "broker-1").rename(tmp_path / "in" / "broker-1")
    assert held_against_salvage(tmp_path / "in", tmp_path / "out") == +Counter(SPLIT)


def test_a_collection_has_no_markers_and_says_so(tmp_path: Path) -> None:
    diverged(tmp_path / "in", *TAIL)
    ended = SPLIT["committed"] + SPLIT["aborted"]
    expected = SPLIT | {"committed": 0, "aborted": 0, "unknown": ended}
    assert splits(audited(collect_cluster(tmp_path / "in", tmp_path / "collected"))) == {("orders", 0, FOLLOWER): expected}


def test_too_many_batches_are_not_read_and_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_read, "MOST_BATCHES", 6)
    diverged(tmp_path / "in", *TAIL)
    nothing = dict.fromkeys(hints_of(RecordsByTransaction), 0)
    assert splits(audited(tmp_path / "in")) == {("orders", 0, FOLLOWER): nothing | {"unknown": 8}}
    diverged(tmp_path / "plain", *(rf.batch(at, (b"k", b"v")) for at in range(10, 20)))
    assert splits(audited(tmp_path / "plain")) == {("orders", 0, FOLLOWER): nothing | {"plain": 10}}, "the scan has seen no transaction"
