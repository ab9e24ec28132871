"""Index files of brokers that run, were stopped or crashed: what misleads a broker is an input error, in directories and collections."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.formats.log_dir.names import CLEAN_SHUTDOWN
from replica_audit.model import AbortedTransaction
from tests.cases.ran import ran
from tests.collect.collections import collect_cluster
from tests.formats import index_files as made
from tests.formats import kafka_files as kf
from tests.formats.index_files import Stored
from tests.formats.test_producer_snapshots import index as transaction_index
from tests.formats.test_segment_indexes import of_transactions
from tests.support import in_process
from tests.support.in_process import Row

KINDS = ("offset-index", "time-index", "transaction-index")
BASES = (0, 20, 40)


def stored(batches: list[bytes], base: int) -> list[Stored]:
    """Batches of five records, one behind the other."""
    found, position = [], 0
    for number, batch in enumerate(batches):
        first = base + 5 * number
        found.append(Stored(position, len(batch), first, first + 4, 1_000 + first + 4))
        position += len(batch)
    return found


def cluster(tmp_path: Path, state: str, *, policy: str = "delete") -> Path:
    """One replica of three segments, the first of which has a wrong entry in each index; its broker was stopped, runs or crashed.

    The recovery point of one that crashed is the base of the newest segment, where `state` does not say otherwise.
    """
    data = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data")
    replica = kf.replica(data, "orders-0", batches=[])
    for base in BASES:
        batches = [kf.batch(base + 5 * n, 0, deltas=range(5), timestamp=1_000 + base + 5 * n) for n in range(4)]
        path = kf.segment(replica, base, *batches)
        made.write_indexes(path, base, *made.entries_of(stored(batches, base)))
    (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 60)]))
    (data / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 60)] if policy == "compact" else []))
    if state == "stopped":
        (data / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":5}')
    else:
        point = 0 if state == "crashed before" else 40
        (data / "recovery-point-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, point)]))
    if state == "runs":
        topic: dict[str, object] = {"topic": "orders", "topic_id": kf.TOPIC_ID, "configs": {"cleanup.policy": policy}}
        topic["partitions"] = [{"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}]
        document = {"version": 1, "cluster_id": kf.CLUSTER_ID, "brokers": [{"id": 1, "state": "up"}], "topics": [topic]}
        (tmp_path / "cluster" / "cluster-metadata.json").write_text(json.dumps(document))
    return replica


def spoil(replica: Path, base: int, entry: int, suffix: str = ".index") -> Path:
    """Move the position, or the timestamp, of an entry."""
    path = replica / f"{base:020d}{suffix}"
    content = bytearray(path.read_bytes())
    if suffix == ".index":
        (position,) = struct.unpack_from(">i", content, 8 * entry + 4)
        struct.pack_into(">i", content, 8 * entry + 4, position + 1)
    else:
        (timestamp,) = struct.unpack_from(">q", content, 12 * entry)
        struct.pack_into(">q", content, 12 * entry, timestamp - 10)
    path.write_bytes(content)
    return path


def told(replica: Path, collected: Path | None = None) -> list[Row]:
    """The rows about indexes of an audit of the directory, or of a collection of it."""
    root = replica.parents[2]
    found = in_process.audit(root if collected is None else collect_cluster(root, collected))
    return [row for row in found["input_errors"] if row["kind"] in KINDS]


@pytest.mark.parametrize("is_collected", [False, True])
@pytest.mark.parametrize("state", ["stopped", "runs", "crashed"])
@pytest.mark.parametrize(("suffix", "at"), [(".index", 8), (".timeindex", 12)])
def test_an_older_segment(tmp_path: Path, state: str, suffix: str, at: int, is_collected: bool) -> None:
    replica = cluster(tmp_path, state)
    assert told(replica, tmp_path / "healthy" if is_collected else None) == []
    path = spoil(replica, 0, 1, suffix)
    (row,) = told(replica, tmp_path / "collected" if is_collected else None)
    assert (row["path"], row["code"], row["byte_offset"], row["broker_id"]) == (str(path), "misleading-index", at, 1)
    assert "move this file and the .index of the same segment away" in row["remedy"]


@pytest.mark.parametrize("is_collected", [False, True])
@pytest.mark.parametrize(("state", "is_told"), [("stopped", True), ("runs", False), ("crashed", False)])
def test_the_newest_segment(tmp_path: Path, state: str, is_told: bool, is_collected: bool) -> None:
    """A running broker leaves behind its entries what it truncated; one that crashed makes the index again."""
    replica = cluster(tmp_path, state)
    spoil(replica, 40, 0)
    assert bool(told(replica, tmp_path / "collected" if is_collected else None)) is is_told


@pytest.mark.parametrize(("state", "is_told"), [("stopped", True), ("runs", False), ("crashed", False)])
def test_a_last_entry_may_be_of_another_moment(tmp_path: Path, state: str, is_told: bool) -> None:
    replica = cluster(tmp_path, state)
    spoil(replica, 0, 2)
    assert bool(told(replica)) is is_told


def test_what_is_recovered_is_not_told(tmp_path: Path) -> None:
    replica = cluster(tmp_path, "crashed before")
    spoil(replica, 20, 0)
    assert told(replica) == []


@pytest.mark.parametrize(("state", "is_told"), [("stopped", True), ("runs", False)])
def test_a_compacted_log(tmp_path: Path, state: str, is_told: bool) -> None:
    """The cleaner of a running broker may replace log and index between the copies of both."""
    replica = cluster(tmp_path, state, policy="compact")
    spoil(replica, 0, 0)
    assert bool(told(replica)) is is_told


def test_below_the_log_start(tmp_path: Path) -> None:
    """No broker reads there."""
    replica = cluster(tmp_path, "stopped")
    spoil(replica, 0, 0)
    (replica.parent / "log-start-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 20)]))
    assert told(replica) == []


def test_a_replica_that_is_deleted(tmp_path: Path) -> None:
    replica = cluster(tmp_path, "stopped")
    spoil(replica, 0, 0)
    kf.replica(replica.parent, "orders-1")
    replica.rename(replica.with_name("orders-0.e26ee4fcb8e7462ab3cb0f6f6cb9bf8c-delete"))
    assert told(replica) == []


def test_epochs_alone_read_no_index(tmp_path: Path) -> None:
    replica = cluster(tmp_path, "stopped")
    spoil(replica, 0, 0)
    found = in_process.audit(replica.parents[2], settings=Settings(compare="epochs"))
    assert [row for row in found["input_errors"] if row["kind"] in KINDS] == []


@pytest.mark.parametrize("is_collected", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_an_aborted_transaction_that_no_index_tells(tmp_path: Path, is_there: bool, is_collected: bool) -> None:
    """Told once, though the whole log shows it, too."""
    data = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data")
    replica = kf.replica(data, "orders-0", batches=[])
    path = of_transactions(replica)
    made.write_indexes(path, 0, [], [])
    (data / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":5}')
    index = path.with_suffix(".txnindex")
    if is_there:
        index.write_bytes(transaction_index(AbortedTransaction(9, 0, 3, 4)))
    (row,) = told(replica, tmp_path / "collected" if is_collected else None)
    assert (row["path"], row["kind"], row["code"]) == (str(index), "transaction-index", "misleading-index")


def test_an_index_that_misleads_is_no_all_clear(tmp_path: Path) -> None:
    """The verdict stays."""
    replica = cluster(tmp_path, "stopped")
    other = tmp_path / "cluster" / "broker-2" / "data"
    shutil.copytree(replica.parent, other)
    (other / "meta.properties").write_bytes(kf.meta_properties(2))
    topic: dict[str, object] = {"topic": "orders", "topic_id": kf.TOPIC_ID, "configs": {"cleanup.policy": "delete"}}
    topic["partitions"] = [{"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1, 2]}]
    document = {"version": 1, "cluster_id": kf.CLUSTER_ID, "topics": [topic]}
    document["brokers"] = [{"id": broker, "state": "down"} for broker in (1, 2)]
    (tmp_path / "cluster" / "cluster-metadata.json").write_text(json.dumps(document))
    healthy = ran(replica.parents[2])
    path = spoil(replica, 0, 1)
    found = ran(replica.parents[2])
    assert found.verdicts == healthy.verdicts
    assert set(found.verdicts.values()) == {"identical"}
    assert (healthy.exit_code, found.exit_code) == (0, 3)
    assert f"an index misleads whoever reads from the broker (misleading-index; {path})" in found.last_line
    spoil(replica, 20, 1)
    assert "2 indexes mislead whoever reads from the broker (misleading-index; " in ran(replica.parents[2]).last_line
