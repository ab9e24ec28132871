"""What a KRaft broker sets aside when it starts, by version; and strays, moves and deletions that hold what no current replica holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from replica_audit.protocol.cluster.leadership import nothing_known
from replica_audit.protocol.cluster.topic_ids import AtStart, SetAsideBecause, at_start, set_aside_because
from tests.cases.triaged import Seen, seen
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files
from tests.partition.test_what_if import COMMON, OTHER_TOPIC_ID, _metadata, _write

MORE = [*COMMON, (1, 10, 14)]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
UUID = "0123456789abcdef0123456789abcdef"
NO_ID, UNKNOWN_ID, NOT_ASSIGNED = SetAsideBecause


def _pair(root: Path, *, leader: int = 1, isr: tuple[int, ...] = (1,), version: str = "4.1.0", state: str = "down", **changed: Any) -> Path:
    """Broker 1 has everything, broker 2 lags."""
    _write(root, {1: MORE, 2: COMMON}, high_watermarks={1: 15, 2: 10})
    _metadata(root, leader, epoch=1, brokers=[1, 2], isr=isr, state=state)
    return _with(root, kafka_version=version, **changed)


def _with(root: Path, **changed: Any) -> Path:
    path = root / "cluster-metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    return root


def _without_id(root: Path, *brokers: int) -> Path:
    for broker in brokers:
        (root / f"broker-{broker}" / "data-0" / "t-0" / "partition.metadata").unlink()
    return root


def _strays(found: Seen) -> set[tuple[str, str, int]]:
    return {one for one in found.findings() if "stray" in one[0]}


@pytest.mark.parametrize("collected", [False, True])
def test_the_leader_has_no_topic_id(tmp_path: Path, *, collected: bool) -> None:
    root = _without_id(_pair(tmp_path / "raw"), 1)
    found = seen(collect_cluster(root, tmp_path / "collected") if collected else root)
    assert (found.exit_code, _strays(found)) == (1, {("will_become_stray", "error", 1)})
    (start,) = [one for one in found.tables["broker_starts"] if one["broker_id"] == 1]
    assert start["outcome"] == "repair-first"
    assert (start["lost_records"], start["lost_by_transaction"]["plain"]) == (5, 5)
    (row,) = [row for row in found.tables["findings"] if row["code"] == "will_become_stray"]
    assert "leads with it: the others truncate theirs" in row["summary"]
    assert "alone holds offsets 10..14 of epoch 1" in row["summary"]
    (log,) = row["set_aside"]
    assert (log["because"], log["at_start"], log["log_end_offset"], log["held_alone_offsets"]) == ("no-topic-id", "sets-aside", 15, 5)


def test_every_replica_has_none(tmp_path: Path) -> None:
    found = seen(_without_id(_pair(tmp_path, isr=(1, 2)), 1, 2))
    assert (found.exit_code, _strays(found)) == (1, {("will_become_stray", "error", 1), ("will_become_stray", "error", 2)})


def test_a_follower_that_is_behind_fetches_all_again(tmp_path: Path) -> None:
    found = seen(_without_id(_pair(tmp_path), 2))
    assert (found.exit_code, _strays(found)) == (0, {("will_become_stray", "warning", 2)})


def test_a_follower_in_the_isr_may_be_elected_with_an_empty_log(tmp_path: Path) -> None:
    assert _strays(seen(_without_id(_pair(tmp_path, isr=(1, 2)), 2))) == {("will_become_stray", "error", 2)}


def test_a_broker_that_runs_does_it_at_its_next_start(tmp_path: Path) -> None:
    found = seen(_without_id(_pair(tmp_path, state="up"), 1))
    assert ("will_become_stray", "error", 1) in _strays(found)
    assert "at its next start the broker sets it aside" in found.text


@pytest.mark.parametrize(
    ("version", "does"),
    [("3.6.1", None), ("3.7.0", "does-not-start"), ("3.7.1", "sets-aside"), ("3.9.0", "sets-aside"), ("4.1.0", "sets-aside")],
)
def test_by_version(tmp_path: Path, version: str, does: str | None) -> None:
    found = seen(_without_id(_pair(tmp_path, version=version, features={}), 1))
    assert [log["at_start"] for row in found.tables["findings"] for log in row["set_aside"] or ()] == ([] if does is None else [does])


def test_zookeeper_brokers_set_nothing_aside(tmp_path: Path) -> None:
    root = _without_id(_pair(tmp_path, version="3.5.0", features={}, inter_broker_protocol_version="3.5"), 1)
    for broker in (1, 2):
        (root / f"broker-{broker}" / "data-0" / "meta.properties").write_bytes(kafka_files.meta_properties(broker, version=0))
    assert not _strays(seen(root))


@pytest.mark.parametrize(
    "changed",
    [{"kafka_version": "5.5.1-ccs"}, {"kafka_version": "2.8.1"}, {"kafka_version": None, "inter_broker_protocol_version": "3.5"}],
)
def test_what_the_cluster_runs_counts_more_than_what_formatted_a_directory(tmp_path: Path, changed: dict[str, Any]) -> None:
    root = _without_id(_pair(tmp_path, features={}), 1)
    assert not _strays(seen(_with(root, **changed)))


def test_without_any_topic_id_in_the_input_the_copy_may_have_left_them_out(tmp_path: Path) -> None:
    root = _without_id(_pair(tmp_path, isr=(1,)), 1, 2)
    topics = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))["topics"]
    found = seen(_with(root, topics=[{**topic, "topic_id": None} for topic in topics]))
    assert (found.exit_code, _strays(found)) == (3, {("will_become_stray", "warning", 1), ("will_become_stray", "warning", 2)})
    assert "2 replicas lack their partition.metadata" in " ".join(found.text.split())


def test_small_files_that_nobody_copied(tmp_path: Path) -> None:
    root = _without_id(_pair(tmp_path), 1, 2)
    for broker in (1, 2):
        (root / f"broker-{broker}" / "data-0" / "t-0" / "leader-epoch-checkpoint").unlink()
    assert not _strays(seen(root))


@pytest.mark.parametrize(("held", "severity"), [(MORE, "error"), (COMMON, "warning")])
def test_a_replica_that_is_not_assigned(tmp_path: Path, held: list[Any], severity: str) -> None:
    """It is left of a reassignment while its broker was down: harmless, unless it alone has records."""
    _write(tmp_path, {1: COMMON, 2: COMMON, 3: held}, high_watermarks={1: 10, 2: 10, 3: 10})
    root = _metadata(tmp_path, 1, epoch=0, brokers=[1, 2], isr=[1, 2])
    path = root / "cluster-metadata.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["brokers"].append({"id": 3, "state": "down"})
    document["topics"][0]["partitions"][0]["leader_epoch"] = 1
    path.write_text(json.dumps(document), encoding="utf-8")
    found = seen(root)
    assert ("will_become_stray", severity, 3) in _strays(found)
    document["brokers"][2]["state"] = "up"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert not _strays(seen(root)), "a broker that runs has what it is assigned"


def test_a_log_of_an_earlier_topic(tmp_path: Path) -> None:
    """The topic was made again while broker 2 was down: it sets the old log aside, and nothing is lost."""
    _write(tmp_path, {1: MORE, 2: COMMON}, topic_ids={2: OTHER_TOPIC_ID}, high_watermarks={1: 15})
    found = seen(_metadata(tmp_path, 1, epoch=1, brokers=[1, 2], isr=[1]))
    assert _strays(found) == {("will_become_stray", "warning", 2)}


def test_healthy_replicas_are_silent(tmp_path: Path) -> None:
    assert not _strays(seen(_pair(tmp_path, isr=(1, 2))))


# --- what is set aside already ------------------------------------------------------------------------------------------------------------


def _aside(root: Path, broker: int, state: str, *, topic_id: str | None = None) -> Path:
    """The broker's replica of t-0, renamed."""
    log_dir = root / f"broker-{broker}" / "data-0"
    (log_dir / "t-0").rename(log_dir / f"t-0.{UUID}-{state}")
    if topic_id is not None:
        (log_dir / f"t-0.{UUID}-{state}" / "partition.metadata").write_bytes(kafka_files.partition_metadata(topic_id))
    return root


@pytest.mark.parametrize(("state", "severity"), [("stray", "error"), ("delete", "error"), ("future", "warning")])
def test_what_no_current_replica_holds(tmp_path: Path, state: str, severity: str) -> None:
    found = seen(_aside(_pair(tmp_path, leader=2, isr=(2,)), 1, state))
    assert _strays(found) == {("stray_holds_records", severity, 1)}
    (row,) = [row for row in found.tables["findings"] if row["code"] == "stray_holds_records"]
    assert f"topic id {kafka_files.TOPIC_ID}, offsets 0..14" in row["summary"]
    assert "holds offsets 10..14 of epoch 1" in row["summary"]


def test_what_another_replica_holds_is_not_listed(tmp_path: Path) -> None:
    assert not _strays(seen(_aside(_pair(tmp_path), 2, "stray")))


@pytest.mark.parametrize(("state", "broker_state", "found"), [("stray", "up", 1), ("delete", "up", 0), ("delete", "down", 1)])
def test_of_a_topic_that_is_gone(tmp_path: Path, state: str, broker_state: str, found: int) -> None:
    """A warning: it was deleted on purpose, or by mistake. A broker that runs deletes such a log within a minute."""
    root = _aside(_pair(tmp_path, leader=2, isr=(2,), state=broker_state), 1, state, topic_id=OTHER_TOPIC_ID)
    assert _strays(seen(root)) == ({("stray_holds_records", "warning", 1)} if found else set())


def test_all_that_is_left_of_a_partition_is_a_stray(tmp_path: Path) -> None:
    """The brokers began with empty logs, and the leader with them."""
    root = _aside(_aside(_pair(tmp_path), 1, "stray"), 2, "stray")
    found = seen(root)
    assert {("stray_holds_records", "error", 1), ("stray_holds_records", "error", 2)} <= _strays(found)
    assert found.exit_code == 1


def test_rules_by_release() -> None:
    assert set_aside_because(1, None, None, is_whole=False) is NO_ID
    assert set_aside_because(1, "T", None, is_whole=False) is None, "a file need not name every topic"
    assert set_aside_because(1, "T", None, is_whole=True) is UNKNOWN_ID
    assert set_aside_because(1, "T", nothing_known("t", 0), is_whole=True) is None
    assert [at_start(because, "3.6.2") for because in SetAsideBecause] == [None, AtStart.DELETES, AtStart.DELETES]
    assert [at_start(because, "3.7.0") for because in SetAsideBecause] == [AtStart.DOES_NOT_START, AtStart.SETS_ASIDE, AtStart.SETS_ASIDE]
    assert [at_start(because, None) for because in SetAsideBecause] == [AtStart.SETS_ASIDE] * 3


@pytest.mark.skipif(not SHARED.is_dir(), reason="without the cases kept beside the project")
def test_the_cases(tmp_path: Path) -> None:
    shutil.copytree(SHARED / "07-no-partition-metadata", tmp_path / "07")
    assert _strays(seen(tmp_path / "07")) == {("will_become_stray", "error", 1)}
    shutil.copytree(SHARED / "06c-stray-delete", tmp_path / "06c")
    assert _strays(seen(tmp_path / "06c")) == {("stray_holds_records", "error", 2), ("stray_holds_records", "warning", 2)}
