"""Replicas on the move between log directories: a real one, and built ones, against the current replica of the same broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.protocol.cluster.versions import protocol_of_moves
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files
from tests.protocol import logs
from tests.support import in_process
from tests.support.in_process import Row

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "clusters"
JBOD = [path for when in ("before", "after") if (path := SHARED / "jbod-and-leftovers" / when).is_dir()]
UNIQUE = "dde8959402554c4280bc3dd70f347d58"
EARLIER_TOPIC_ID = "of0c-xKGRRmD8aklHRJqwg"
HELD: list[logs.Batch] = [(0, 0, 4), (0, 5, 9), (2, 10, 14)]


def _replica(
    log_dir: Path,
    name: str,
    batches: Sequence[logs.Batch],
    *,
    start: int = 0,
    high_watermark: int = 0,
    topic_id: str = kafka_files.TOPIC_ID,
    broker_id: int = 1,
) -> Path:
    directory = log_dir / name
    kafka_files.segment(directory, start, *(kafka_files.batch(base, epoch, deltas=range(last - base + 1)) for epoch, base, last in batches))
    (directory / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint(logs.first_of_each_epoch(batches)))
    (directory / "partition.metadata").write_bytes(kafka_files.partition_metadata(topic_id))
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker_id))
    # the entry of a future replica stands in the directory that it moves to, under the partition's plain name
    (log_dir / "replication-offset-checkpoint").write_bytes(kafka_files.checkpoint([("t", 0, high_watermark)]))
    return directory


def _move(
    root: Path,
    future: Sequence[logs.Batch],
    *,
    current: Sequence[logs.Batch] | None = HELD,
    of_current: dict[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """A broker on which t-0 moves from data-0 to data-1."""
    if current is not None:
        _replica(root / "broker-1" / "data-0", "t-0", current, **(of_current or {}))
    _replica(root / "broker-1" / "data-1", f"t-0.{UNIQUE}-future", future, **fields)
    return root


def _metadata(root: Path, **partition: Any) -> Path:
    written = {
        "version": 1,
        "cluster_id": kafka_files.CLUSTER_ID,
        "kafka_version": "4.2.0",
        "features": {"metadata.version": 29},
        "brokers": [{"id": broker, "state": "up"} for broker in (1, 2)],
        "topics": [
            {
                "topic": "t",
                "topic_id": kafka_files.TOPIC_ID,
                "partitions": [{"partition": 0, "leader": 1, "leader_epoch": 2, "replicas": [1], "isr": [1], **partition}],
            }
        ],
    }
    (root / "cluster-metadata.json").write_text(json.dumps(written), encoding="utf-8")
    return root


def _audited(root: Path, **options: Any) -> tuple[Row, dict[str, list[Row]]]:
    tables = in_process.audit(root, **options)
    (row,) = tables["future_replicas"]
    assert not tables["replica_verdicts"], "a future replica is nobody's follower"
    assert not tables["truncation_points"]
    return row, tables


# --- a real move --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.clusters
@pytest.mark.parametrize("path", JBOD, ids=lambda path: path.name)
def test_a_real_move_lags_behind(path: Path) -> None:
    """alterReplicaLogDirs of mover-0 on broker 1, throttled to 64 B/s: 40 and then 60 of 150 records were copied."""
    tables = in_process.audit(path)
    (row,) = tables["future_replicas"]
    copied = {"before": 40, "after": 60}[path.name]
    assert (row["topic"], row["partition"], row["broker_id"], row["directory"]) == ("mover", 0, 1, f"mover-0.{UNIQUE}-future")
    assert (Path(row["log_dir"]).name, Path(row["future_log_dir"]).name) == ("data-0", "data-1")
    assert (row["log_end_offset"], row["lag_offsets"]) == (copied, 150 - copied)
    assert (row["verdict"], row["severity"], row["protocol"]) == ("lagging", "none", "kip-279")
    assert (row["divergence_offset"], row["truncation_offset"], row["restart_offset"], row["removed_records"]) == (None, None, None, 0)


@pytest.mark.clusters
@pytest.mark.parametrize("path", JBOD, ids=lambda path: path.name)
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "no metadata"])
def test_leftovers_are_listed_and_never_compared(path: Path, metadata: bool) -> None:
    """Deleted and stray directories, and the future one: rows in replica_logs and in nothing that compares."""
    tables = in_process.audit(path, metadata=metadata, settings=Settings(what_if_leaders=True))
    left = [row for row in tables["replica_logs"] if row["state"] != "current"]
    suffixes = {"deleted": "-delete", "stray": "-stray", "future": "-future"}
    assert {row["state"] for row in left} == set(suffixes)
    assert all(row["directory"].endswith(suffixes[row["state"]]) for row in left)
    current = {(row["topic"], row["partition"], row["broker_id"]) for row in tables["replica_logs"] if row["state"] == "current"}
    only_left = {(row["topic"], row["partition"], row["broker_id"]) for row in left} - current
    # both earlier lives of ghost on broker 3, doomed everywhere, vanished
    assert {"doomed", "ghost", "vanished"} <= {topic for topic, _, _ in only_left}
    compared = {(row["topic"], row["partition"], row["follower_id"]) for row in tables["replica_verdicts"]}
    compared |= {(row["topic"], row["partition"], row["leader_id"]) for row in tables["replica_verdicts"]}
    compared |= {(row["topic"], row["partition"], row["candidate_id"]) for row in tables["what_if_leaders"]}
    assert compared
    assert not compared & only_left
    assert {row["broker_id"] for row in tables["epoch_start_offsets"] if row["topic"] == "ghost"} == {1, 2}
    assert not [row for row in tables["epoch_start_offsets"] if row["topic"] in ("doomed", "vanished")]
    # ghost's current directories are of the second life of the topic, all of it the same
    ghost = [row for row in tables["replica_verdicts"] if row["topic"] == "ghost"]
    assert {row["verdict"] for row in ghost} == {"identical"}
    assert {row["candidate_id"] for row in tables["what_if_leaders"] if row["topic"] == "ghost"} == {1, 2}


# --- built moves --------------------------------------------------------------------------------------------------------------------------


def test_behind(tmp_path: Path) -> None:
    row, _tables = _audited(_move(tmp_path, HELD[:1], high_watermark=5))
    assert (row["verdict"], row["severity"], row["log_end_offset"], row["lag_offsets"]) == ("lagging", "none", 5, 10)
    assert (row["divergence_offset"], row["truncation_offset"], row["removed_records"]) == (None, None, 0)


def test_level(tmp_path: Path) -> None:
    row, _tables = _audited(_move(tmp_path, HELD, high_watermark=15))
    assert (row["verdict"], row["severity"], row["lag_offsets"]) == ("identical", "none", 0)


def test_empty(tmp_path: Path) -> None:
    row, _tables = _audited(_move(tmp_path, []))
    assert (row["verdict"], row["severity"], row["log_end_offset"], row["lag_offsets"]) == ("lagging", "none", 0, 15)


@pytest.mark.parametrize("high_watermark", [0, 14])
def test_diverged(tmp_path: Path, high_watermark: int) -> None:
    """The current replica was cut to 10 and fetched again, the future one still has what was cut. Its copy is nobody's record."""
    row, _tables = _audited(_move(tmp_path, [*HELD[:2], (0, 10, 11), (0, 12, 13)], high_watermark=high_watermark))
    assert (row["divergence_offset"], row["truncation_offset"], row["restart_offset"], row["removed_records"]) == (10, 10, None, 4)
    assert (row["log_end_offset"], row["lag_offsets"]) == (14, 1)
    assert row["verdict"] not in ("identical", "lagging")
    assert row["severity"] == "warning", "never worse: the current replica serves its own version"


def test_ahead(tmp_path: Path) -> None:
    """The current replica lost its tail within its epoch."""
    row, _tables = _audited(_move(tmp_path, [*HELD, (2, 15, 19)]))
    assert (row["truncation_offset"], row["removed_records"], row["lag_offsets"], row["divergence_offset"]) == (15, 5, 0, 15)
    assert row["severity"] == "warning"


def test_the_current_replicas_log_start_has_moved_past_it(tmp_path: Path) -> None:
    """ReplicaAlterLogDirsThread starts again at the current replica's log start."""
    row, _tables = _audited(_move(tmp_path, HELD[:1], current=[(2, 10, 14)], of_current={"start": 10}))
    assert (row["restart_offset"], row["truncation_offset"]) == (10, None)
    assert row["verdict"] not in ("identical", "lagging")
    assert row["severity"] == "warning"


def test_without_epochs_it_is_cut_to_its_own_high_watermark(tmp_path: Path) -> None:
    root = _move(tmp_path, HELD[:2], high_watermark=5)
    (root / "broker-1" / "data-1" / f"t-0.{UNIQUE}-future" / "leader-epoch-checkpoint").write_bytes(kafka_files.checkpoint([]))
    (root / "broker-1" / "data-1" / ".kafka_cleanshutdown").touch()  # else recovery learns the epochs from the batches
    row, _tables = _audited(root)
    assert (row["truncation_offset"], row["removed_records"], row["divergence_offset"]) == (5, 5, None)
    assert row["severity"] == "warning"


def test_unreadable(tmp_path: Path) -> None:
    root = _move(tmp_path, HELD[:2])
    (root / "broker-1" / "data-1" / f"t-0.{UNIQUE}-future" / "leader-epoch-checkpoint").write_bytes(b"garbled\n")
    row, tables = _audited(root)
    assert (row["verdict"], row["severity"]) == ("unreadable", "warning")
    assert (row["truncation_offset"], row["removed_records"]) == (None, None)
    assert any(UNIQUE in problem["path"] for problem in tables["input_errors"])


def test_the_current_replica_is_unreadable(tmp_path: Path) -> None:
    root = _move(tmp_path, HELD[:2])
    (root / "broker-1" / "data-0" / "t-0" / "leader-epoch-checkpoint").write_bytes(b"garbled\n")
    tables = in_process.audit(root)
    (row,) = tables["future_replicas"]
    assert (row["verdict"], row["severity"], row["removed_records"]) == ("inconclusive", "warning", None)
    assert "current replica" in row["reason"]
    assert {verdict["verdict"] for verdict in tables["replica_verdicts"]} == {"unreadable"}, "the current replica's own"


def test_without_a_current_replica(tmp_path: Path) -> None:
    row, _tables = _audited(_move(tmp_path, HELD[:2], current=None))
    assert (row["verdict"], row["severity"], row["log_dir"]) == ("inconclusive", "warning", None)
    assert (row["removed_records"], row["lag_offsets"]) == (None, None)
    assert "not in the input" in row["reason"]


def test_another_brokers_replica_is_not_its_current_one(tmp_path: Path) -> None:
    root = _move(tmp_path, HELD[:2], current=None)
    _replica(root / "broker-2" / "data-0", "t-0", HELD, broker_id=2)
    tables = in_process.audit(root)
    (row,) = tables["future_replicas"]
    assert (row["verdict"], row["log_dir"]) == ("inconclusive", None)
    assert not [verdict for verdict in tables["replica_verdicts"] if 1 in (verdict["leader_id"], verdict["follower_id"])]


def test_of_another_topic(tmp_path: Path) -> None:
    """Two lives of one name have nothing in common: whatever offsets they share is chance."""
    row, _tables = _audited(_move(tmp_path, [(5, 0, 29)], topic_id=EARLIER_TOPIC_ID))
    assert (row["verdict"], row["severity"]) == ("stale_topic_id", "warning")
    assert EARLIER_TOPIC_ID in row["reason"]
    told = {
        column: row[column] for column in ("lag_offsets", "divergence_offset", "truncation_offset", "restart_offset", "removed_records")
    }
    assert told == dict.fromkeys(told), "nothing of it may be compared"


def test_it_never_changes_what_is_said_of_followers(tmp_path: Path) -> None:
    """Not as a leader, not as a witness, not as a candidate: its high watermark and records are a copy's."""
    held = {"broker-1": HELD, "broker-2": HELD[:2]}
    for name, batches in held.items():
        for root in ("with", "without"):
            _replica(tmp_path / root / name / "data-0", "t-0", batches, high_watermark=10, broker_id=int(name[-1]))
    longer = [*HELD[:2], (0, 10, 19)]
    _replica(tmp_path / "with" / "broker-2" / "data-1", f"t-0.{UNIQUE}-future", longer, high_watermark=20, broker_id=2)
    asked = Settings(what_if_leaders=True)
    tables = {}
    for root in ("with", "without"):
        _metadata(tmp_path / root, replicas=[1, 2], isr=[1, 2])
        tables[root] = in_process.audit(tmp_path / root, settings=asked)
    for table in ("replica_verdicts", "truncation_points", "epoch_end_offsets", "what_if_leaders", "epoch_start_offsets"):
        said = [json.dumps(tables[root][table], default=str).replace(f"/{root}/", "/") for root in ("with", "without")]
        assert said[0] == said[1], table
    assert len(tables["with"]["future_replicas"]) == 1
    assert not tables["without"]["future_replicas"]


def test_several_moves_of_one_partition(tmp_path: Path) -> None:
    """Each broker moves its own replica."""
    root = _move(tmp_path, HELD[:1])
    _replica(root / "broker-2" / "data-0", "t-0", HELD[:2], broker_id=2)
    _replica(root / "broker-2" / "data-1", f"t-0.{UNIQUE[::-1]}-future", HELD[:2], broker_id=2)
    rows = {row["broker_id"]: row for row in in_process.audit(root)["future_replicas"]}
    assert {broker: (row["lag_offsets"], row["verdict"]) for broker, row in rows.items()} == {1: (10, "lagging"), 2: (0, "identical")}


@pytest.mark.parametrize(
    ("future", "leader_epoch", "cut"),
    [
        pytest.param([(0, 0, 4), (1, 5, 7)], 2, 5, id="an epoch that both know"),
        pytest.param([(0, 0, 4), (1, 5, 7)], 3, 5, id="elected after it was stopped"),
        pytest.param([*HELD, (3, 15, 17)], 2, 15, id="the future one knows a later epoch than the metadata"),
    ],
)
def test_whom_the_cluster_elected_is_no_matter_between_two_directories(
    tmp_path: Path, future: Sequence[logs.Batch], leader_epoch: int, cut: int
) -> None:
    """The broker was stopped cleanly: its current replica cannot be of before an election and the future one of after it."""
    root = _metadata(_move(tmp_path, future, high_watermark=cut), leader_epoch=leader_epoch)
    for log_dir in ("data-0", "data-1"):
        (root / "broker-1" / log_dir / ".kafka_cleanshutdown").touch()
    row, _tables = _audited(root)
    assert (row["verdict"], row["severity"]) == ("stale_tail", "warning")
    assert (row["divergence_offset"], row["truncation_offset"], row["removed_records"]) == (cut, cut, 3)


# --- the rule of moves --------------------------------------------------------------------------------------------------------------------


def test_the_rule_of_moves_is_never_truncate_on_fetch() -> None:
    """isTruncationOnFetchSupported is false for the local leader in every version (2.8 to 4.2)."""
    assert protocol_of_moves(Protocol.TRUNCATE_ON_FETCH) is Protocol.KIP_279
    assert protocol_of_moves(Protocol.KIP_279) is Protocol.KIP_279
    assert protocol_of_moves(Protocol.KIP_101) is Protocol.KIP_101


def test_the_rule_of_moves_always_asks_for_an_epoch() -> None:
    """Moves came with 1.1 (KIP-113), whose ReplicaAlterLogDirsThread asks for the epoch whatever inter.broker.protocol.version is."""
    assert protocol_of_moves(Protocol.HIGH_WATERMARK) is Protocol.KIP_101


def test_the_rule_of_moves_goes_by_the_brokers_version(tmp_path: Path) -> None:
    """Nothing is sent, so inter.broker.protocol.version does not matter: the local answer has an epoch from 2.0 on."""
    root = _metadata(_move(tmp_path, [(1, 0, 10), (2, 11, 20)], current=[(1, 0, 10), (1, 11, 20), (3, 21, 30)]))
    written = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))
    written |= {"kafka_version": "2.4.1", "inter_broker_protocol_version": "1.1-IV0", "features": {}}
    (root / "cluster-metadata.json").write_text(json.dumps(written), encoding="utf-8")
    row, _tables = _audited(root)
    assert (row["protocol"], row["truncation_offset"]) == ("kip-279", 11)


@pytest.mark.parametrize(("protocol", "cut"), [("kip-101", None), ("truncate-on-fetch", 11)])
def test_a_move_goes_by_the_rule_of_the_cluster(tmp_path: Path, protocol: Any, cut: int | None) -> None:
    """KIP-279's scenario 1, n = 20, between two directories of one broker."""
    current = [(1, 0, 10), (1, 11, 20), (3, 21, 30)]
    row, _tables = _audited(_move(tmp_path, [(1, 0, 10), (2, 11, 20)], current=current), settings=Settings(protocol=protocol))
    assert row["truncation_offset"] == cut
    assert row["divergence_offset"] == 11
    assert row["severity"] == "warning"
