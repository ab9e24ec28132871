"""Records that producers wrote and that are gone: on built logs, as they are and collected, and on every real cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.support import in_process
from tests.support.in_process import Row
from tests.support.shares import by_day

SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"
CLUSTERS = sorted(path for path in SHARED.glob("*/*") if path.name in ("before", "after", "stopped"))
Batch = tuple[int, int, int, int]  # producer id, epoch, first sequence, records
HOLE = [(7, 0, 0, 5), (8, 0, 0, 3), (7, 0, 9, 2)]
WHOLE = [(7, 0, 0, 5), (8, 0, 0, 3), (7, 0, 5, 6)]


def batches(written: Sequence[Batch], *, base: int = 0, age_ms: int = 60_000) -> list[bytes]:
    """The batches of a log, written so long before now."""
    made, offset, at = [], base, time.time_ns() // 1_000_000 - age_ms
    for producer_id, epoch, sequence, count in written:
        made.append(kf.batch(offset, 0, deltas=range(count), timestamp=at, producer=(producer_id, epoch, sequence)))
        offset += count
    return made


def cluster(tmp_path: Path, logs: Mapping[int, Sequence[bytes]], *, cleaned: bool = False) -> Path:
    root = tmp_path / "cluster"
    for broker, log in logs.items():
        data = kf.log_dir(root / f"broker-{broker}" / "data", broker_id=broker)
        kf.replica(data, "orders-0", batches=log)
        (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 1)]))
        if cleaned:
            (data / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 0)]))
    return root


def audited(tmp_path: Path, root: Path) -> dict[str, list[Row]]:
    """When the copies were taken is known of a collection."""
    return in_process.audit(collect_cluster(root, tmp_path / "collected"))


def findings(tables: Mapping[str, list[Row]]) -> list[Row]:
    return [row for row in tables["found"] if row["code"] == "sequence_gap"]


def test_records_that_no_replica_has(tmp_path: Path) -> None:
    tables = audited(tmp_path, cluster(tmp_path, {1: batches(HOLE), 2: batches(HOLE)}))
    (row,) = tables["sequence_gaps"]
    shown = (
        "producer_id",
        "producer_epoch",
        "sequence_before",
        "sequence_after",
        "missing_records",
        "last_offset_before",
        "first_offset_after",
    )
    assert [row[name] for name in shown] == [7, 0, 4, 9, 4, 4, 8]
    assert (row["is_certain"], row["doubt"], row["held_by"]) == (True, None, [])
    assert None not in (row["written_after"], row["written_before"])
    (found,) = findings(tables)
    assert (found["finding_key"], found["severity"], found["about"], found["broker_id"]) == (
        "sequence_gap:orders-0",
        "error",
        "partition",
        -1,
    )
    assert "4 records are missing in 1 place" in found["summary"]
    assert "Producer 7 (epoch 0) jumps from sequence 4 to sequence 9 between offsets 4 and 8" in found["summary"]


def test_a_log_in_sequence_has_none(tmp_path: Path) -> None:
    tables = audited(tmp_path, cluster(tmp_path, {1: batches(WHOLE), 2: batches(WHOLE)}))
    assert (tables["sequence_gaps"], findings(tables)) == ([], [])


def test_without_a_time_it_is_not_certain(tmp_path: Path) -> None:
    """Log directories as they are: when the later batch was appended, nobody knows."""
    tables = in_process.audit(cluster(tmp_path, {1: batches(HOLE)}))
    assert [(row["doubt"], row["is_certain"]) for row in tables["sequence_gaps"]] == [("time-unknown", False)]
    assert findings(tables) == []


DOUBTS: dict[str, tuple[list[bytes], str]] = {
    "old": (batches(HOLE, age_ms=90_000_000), "state-expired"),
    "first": (batches([(7, 0, 5, 2)]), "first-in-log"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_doubts(tmp_path: Path, name: str) -> None:
    log, doubt = DOUBTS[name]
    tables = audited(tmp_path, cluster(tmp_path, {1: log}))
    assert [(row["doubt"], row["is_certain"]) for row in tables["sequence_gaps"]] == [(doubt, False)]
    assert findings(tables) == []


def test_what_a_follower_still_has(tmp_path: Path) -> None:
    """The follower ends behind the leader; it has the records that are missing there."""
    behind = batches([(7, 0, 0, 5), (8, 0, 0, 1), (7, 0, 5, 1)])
    tables = audited(tmp_path, cluster(tmp_path, {1: batches(HOLE), 2: behind}))
    assert [(row["held_by"], row["is_certain"]) for row in tables["sequence_gaps"]] == [([2], False)]
    assert findings(tables) == []


def test_a_log_start_that_moved(tmp_path: Path) -> None:
    """DeleteRecords moved it between the two batches."""
    root = cluster(tmp_path, {1: batches(HOLE)})
    (root / "broker-1" / "data" / "log-start-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 5)]))
    assert [row["doubt"] for row in audited(tmp_path, root)["sequence_gaps"]] == ["log-start-moved"]


def test_a_compacted_log_is_not_looked_at(tmp_path: Path) -> None:
    assert audited(tmp_path, cluster(tmp_path, {1: batches(HOLE)}, cleaned=True))["sequence_gaps"] == []


def test_a_log_that_was_damaged_is_not_looked_at(tmp_path: Path) -> None:
    log = batches(HOLE)
    tables = audited(tmp_path, cluster(tmp_path, {1: [log[0], log[1][:-1] + b"?", log[2]]}))
    assert (tables["sequence_gaps"], findings(tables)) == ([], [])


def test_two_segments(tmp_path: Path) -> None:
    """The gap lies between them."""
    root = cluster(tmp_path, {1: batches(HOLE[:2])})
    kf.segment(root / "broker-1" / "data" / "orders-0", 8, *batches(HOLE[2:], base=8, age_ms=1_000))
    assert [(row["missing_records"], row["is_certain"]) for row in audited(tmp_path, root)["sequence_gaps"]] == [(4, True)]


@pytest.mark.clusters
@pytest.mark.parametrize("path", by_day(CLUSTERS), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_none_on_any_real_cluster(path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = in_process.audit(path)
    assert tables["sequence_gaps"] == []
