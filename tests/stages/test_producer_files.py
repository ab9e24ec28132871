"""Producer snapshots and indexes of aborted transactions beside a log: what contradicts it is reported, what cannot be compared is not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from replica_audit.model import AbortedTransaction, ProducerState
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats.test_producer_snapshots import index, snapshot
from tests.support import in_process
from tests.support.in_process import Row

SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/clusters is not beside the project")
REAL = [SHARED / "clean-in-sync" / "stopped", SHARED / "clean-in-sync" / "after", SHARED / "txn-loss" / "after"]
STATE = ProducerState(7, 0, 6, 6, 1, 1, -1, -1)


def cluster(tmp_path: Path, *, epochs: tuple[tuple[int, int], ...] = ((0, 0),)) -> Path:
    """One replica of two segments, 0 to 4 and 5 to 6, that producer 7 wrote."""
    data = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data")
    first = kf.batch(0, 0, deltas=range(5), producer=(7, 0, 0))
    replica = kf.replica(data, "orders-0", batches=[first], epochs=epochs)
    kf.segment(replica, 5, kf.batch(5, 0, deltas=range(2), producer=(7, 0, 5)))
    (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 7)]))
    return replica


def problems(replica: Path) -> list[Row]:
    found = in_process.audit(replica.parents[2])
    assert len(found["replica_logs"]) == 1
    return [row for row in found["input_errors"] if row["kind"] in ("producer-snapshot", "transaction-index")]


def write(replica: Path, offset: int, content: bytes, suffix: str = "snapshot") -> Path:
    path = replica / f"{offset:020d}.{suffix}"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("offset", "state"), [(7, STATE), (5, STATE._replace(last_sequence=4, last_offset=4))])
def test_a_snapshot_that_agrees(tmp_path: Path, offset: int, state: ProducerState) -> None:
    """At the log end, as a clean stop leaves it, and at the base of the newest segment."""
    replica = cluster(tmp_path)
    write(replica, offset, snapshot(state))
    assert problems(replica) == []


@pytest.mark.parametrize("offset", [7, 5])
def test_a_snapshot_that_contradicts(tmp_path: Path, offset: int) -> None:
    replica = cluster(tmp_path)
    path = write(replica, offset, snapshot(STATE._replace(last_sequence=2)))
    (row,) = problems(replica)
    assert (row["path"], row["code"], row["byte_offset"], row["broker_id"]) == (str(path), "contradicts-log", 10, 1)
    assert "producer 7: its last record has sequence 2" in row["detail"]
    assert "move this file away" in row["remedy"]


def test_the_newest_that_can_be_compared_counts(tmp_path: Path) -> None:
    """One newer than the copy of the log and one inside a segment say nothing."""
    replica = cluster(tmp_path)
    wrong = snapshot(STATE._replace(producer_epoch=9))
    for offset in (6, 9):
        write(replica, offset, wrong)
    assert problems(replica) == []
    write(replica, 7, wrong)
    assert [row["code"] for row in problems(replica)] == ["contradicts-log"]


@pytest.mark.parametrize(
    ("content", "byte_offset", "detail"),
    [(snapshot(STATE)[:-1] + b"?", 2, "CRC"), (snapshot(version=4), 0, "version 4"), (b"", 0, "0 bytes")],
)
def test_a_damaged_snapshot(tmp_path: Path, content: bytes, byte_offset: int, detail: str) -> None:
    replica = cluster(tmp_path)
    write(replica, 7, content)
    (row,) = problems(replica)
    assert (row["code"], row["byte_offset"], detail in row["detail"]) == ("malformed", byte_offset, True)


def test_a_snapshot_that_is_a_folder(tmp_path: Path) -> None:
    replica = cluster(tmp_path)
    (replica / f"{7:020d}.snapshot").mkdir()
    assert problems(replica) == []


def test_a_compacted_log_is_not_compared(tmp_path: Path) -> None:
    replica = cluster(tmp_path)
    write(replica, 7, snapshot(STATE._replace(producer_epoch=9)))
    (replica.parent / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 0)]))
    assert problems(replica) == []


def test_retention_cut_the_log(tmp_path: Path) -> None:
    """A producer whose records are gone is still known."""
    replica = cluster(tmp_path, epochs=((0, 5),))
    (replica / f"{0:020d}.log").unlink()
    write(replica, 7, snapshot(STATE, ProducerState(9, 0, 3, 3, 0, 1, -1, -1)))
    assert problems(replica) == []


def aborted(tmp_path: Path) -> Path:
    """One segment with a transaction of producer 7 that ends in an ABORT marker at offset 5."""
    data = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data")
    first = kf.batch(0, 0, deltas=range(5), producer=(7, 0, 0), transactional=True)
    replica = kf.replica(data, "orders-0", batches=[first, rf.control_batch(5, rf.ABORT, producer_id=7)])
    (data / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("orders", 0, 6)]))
    return replica


def test_an_index(tmp_path: Path) -> None:
    replica = aborted(tmp_path)
    path = write(replica, 0, index(AbortedTransaction(7, 0, 5, 6)), "txnindex")
    assert problems(replica) == []
    path.write_bytes(index(AbortedTransaction(7, 0, 5, 6)) + struct.pack(">h", 0))
    (row,) = problems(replica)
    assert (row["kind"], row["code"], row["byte_offset"]) == ("transaction-index", "malformed", 34)


def test_an_index_that_contradicts(tmp_path: Path) -> None:
    replica = aborted(tmp_path)
    path = write(replica, 0, index(AbortedTransaction(8, 0, 5, 6)), "txnindex")
    (row,) = problems(replica)
    assert (row["kind"], row["code"], row["path"]) == ("transaction-index", "misleading-index", str(path))
    assert "producer 8 aborted at offset 5, where the log has no ABORT marker of it" in row["detail"]


@needs_shared
@pytest.mark.clusters
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_brokers_never_contradict_themselves(path: Path) -> None:
    assert [row for row in in_process.audit(path)["input_errors"] if row["kind"] in ("producer-snapshot", "transaction-index")] == []


@needs_shared
@pytest.mark.clusters
def test_a_changed_snapshot_of_a_real_broker_does(tmp_path: Path) -> None:
    """The same files with the sequence of each producer one higher."""
    from shutil import copytree

    from replica_audit.formats.producer_files import producer_states

    root = copytree(REAL[0], tmp_path / "copy", copy_function=_copied)
    changed = 0
    for path in root.rglob("txn-*/*.snapshot"):
        states = producer_states(path.read_bytes())
        if states:
            path.write_bytes(snapshot(*(state._replace(producer_epoch=state.producer_epoch + 1) for state in states)))
            changed += 1
    rows = [row for row in in_process.audit(root)["input_errors"] if row["kind"] == "producer-snapshot"]
    assert changed
    assert len(rows) == changed
    assert {row["code"] for row in rows} == {"contradicts-log"}


def _copied(source: str, target: str) -> str:
    Path(target).write_bytes(Path(source).read_bytes())
    return target


BATCH = (
    "baseOffset: {0} lastOffset: {1} count: {2} baseSequence: {3} lastSequence: {4} producerId: 7 producerEpoch: 0 partitionLeaderEpoch: 0 "
    "isTransactional: true isControl: {5} deleteHorizonMs: OptionalLong.empty position: {6} CreateTime: 5 size: 100 magic: 2 "
    "compresscodec: none crc: 1 isvalid: true\n"
)
DATA = "| offset: {} CreateTime: 5 keySize: -1 valueSize: 1 sequence: {} headerKeys: [] payload: v\n"
OF_MARKER = "| offset: 5 CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: {} coordinatorEpoch: 3\n"
LOG = BATCH.format(0, 4, 5, 0, 4, "false", 0) + "".join(DATA.format(n, n) for n in range(5)) + BATCH.format(5, 5, 1, -1, -1, "true", 100)
SNAPSHOT = (
    "producerId: 7 producerEpoch: {} coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 5 firstSequence: 0 "
    "lastSequence: 4 lastOffset: 4 offsetDelta: 4 timestamp: 5\n"
)
ENTRY = "version: 0 producerId: {} firstOffset: 0 lastOffset: 5 lastStableOffset: 6\n"


def pasted(tmp_path: Path, name: str, content: str, *, log: str = LOG + OF_MARKER.format("ABORT")) -> list[Row]:
    """What is wrong with the files about producers of a replica that is all text, in one paste after the other."""
    folder = tmp_path / "cluster" / "broker-1" / "orders-0"
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text(f"Dumping /data/orders-0/{0:020d}.log\nLog starting offset: 0\n{log}")
    (folder / "pasted.txt").write_text(f"$ kafka-dump-log.sh --files {name}\nDumping /data/orders-0/{name}\n{content}\n$ \n")
    found = in_process.audit(tmp_path / "cluster")
    assert len(found["replica_logs"]) == 1
    assert not any(row["kind"] == "dump" for row in found["problems"])
    return [row for row in found["input_errors"] if row["kind"] in ("producer-snapshot", "transaction-index")]


@pytest.mark.parametrize("offset", [6, 3], ids=["at the log end", "inside the segment"])
def test_text_of_a_snapshot_that_agrees(tmp_path: Path, offset: int) -> None:
    assert pasted(tmp_path, f"{offset:020d}.snapshot", SNAPSHOT.format(0 if offset == 6 else 9)) == []


def test_text_of_a_snapshot_that_contradicts(tmp_path: Path) -> None:
    (row,) = pasted(tmp_path, f"{6:020d}.snapshot", "\n" + SNAPSHOT.format(2))
    assert (row["code"], row["line"], row["byte_offset"], row["broker_id"]) == ("contradicts-log", 4, None, 1)
    assert f"{6:020d}.snapshot contradicts the log below its offset: producer 7: its epoch is 2, by the log 0" in row["detail"]


@pytest.mark.parametrize("name", [f"{6:020d}.snapshot", f"{0:020d}.txnindex"])
@pytest.mark.parametrize("content", ["producerId: 7", "... (40 lines omitted)", "version: 1 producerId: 7"])
def test_text_that_cannot_be_read(tmp_path: Path, name: str, content: str) -> None:
    (row,) = pasted(tmp_path, name, content)
    assert (row["code"], row["line"], row["detail"].startswith(f"{name}: ")) == ("malformed", 3, True)
    assert "dump that file again" in row["remedy"]


def test_text_of_an_index(tmp_path: Path) -> None:
    assert pasted(tmp_path, f"{0:020d}.txnindex", ENTRY.format(7)) == []


@pytest.mark.parametrize(("marker", "producer", "what"), [("ABORT", 8, "no ABORT marker"), ("COMMIT", 7, "a COMMIT marker")])
def test_text_of_an_index_that_contradicts(tmp_path: Path, marker: str, producer: int, what: str) -> None:
    (row,) = pasted(tmp_path, f"{0:020d}.txnindex", ENTRY.format(producer), log=LOG + OF_MARKER.format(marker))
    assert row["code"] == "misleading-index"
    assert f"{0:020d}.txnindex contradicts its segment: producer {producer} aborted at offset 5, where the log has {what}" in row["detail"]


def test_text_of_a_log_without_records_does_not_show_markers(tmp_path: Path) -> None:
    """Without --print-data-log a marker may be either."""
    bare = "".join(line for line in LOG.splitlines(keepends=True) if not line.startswith("|"))
    assert pasted(tmp_path, f"{0:020d}.txnindex", ENTRY.format(8), log=bare) == []


def test_text_of_a_replica_whose_log_is_not_there(tmp_path: Path) -> None:
    folder = kf.log_dir(tmp_path / "cluster" / "broker-1" / "data", "other-0") / "orders-0"
    folder.mkdir()
    (folder / "pasted.txt").write_text(f"Dumping /data/orders-0/{6:020d}.snapshot\n{SNAPSHOT.format(0)}")
    found = in_process.audit(tmp_path / "cluster")
    assert [row["code"] for row in found["problems"] if row["kind"] == "dump"] == ["dump-of-no-log"]


def test_text_beside_the_raw_log(tmp_path: Path) -> None:
    replica = aborted(tmp_path)
    text = replica / "pasted.txt"
    text.write_text(f"Dumping {replica}/{6:020d}.snapshot\n{SNAPSHOT.format(0)}Dumping {replica}/{0:020d}.txnindex\n{ENTRY.format(8)}")
    (row,) = problems(replica)
    assert (row["path"], row["kind"], row["code"]) == (str(text), "transaction-index", "misleading-index")
