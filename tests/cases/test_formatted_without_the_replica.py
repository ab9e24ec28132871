"""A formatted log directory without a replica that the metadata assigns: the broker makes an empty log, which is known, not missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replica_audit.partition.known.log_directories import WholeBroker, whole_brokers
from replica_audit.partition.replicas.known_empty import MADE_EMPTY
from tests.cases.triaged import seen
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files
from tests.formats.log_directories import log_directory
from tests.partition.test_what_if import COMMON, _metadata, _write

MORE = [*COMMON, (1, 10, 14)]
CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")


def _formatted(root: Path, broker: int, *, named: bool = False, checkpoints: tuple[str, ...] = CHECKPOINTS) -> Path:
    """A log directory of a new disk, which its broker has used; `named`: its checkpoints name the replica."""
    log_dir = root / f"broker-{broker}" / "data-0"
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").write_bytes(kafka_files.meta_properties(broker))
    for name in checkpoints:
        (log_dir / name).write_bytes(kafka_files.checkpoint([("t", 0, 10)] if named else []))
    return log_dir


def _of_three(root: Path, leader: int, *, isr: tuple[int, ...] = (1, 2, 3), **formatted: Any) -> Path:
    """Brokers 1 and 2 hold the partition, and 3 has a new disk."""
    _write(root, {1: MORE, 2: MORE}, high_watermarks={1: 15, 2: 15})
    _formatted(root, 3, **formatted)
    return _metadata(root, leader, epoch=1, brokers=[1, 2, 3], isr=isr)


def test_the_leader_lost_its_disk(tmp_path: Path) -> None:
    found = seen(_of_three(tmp_path, 3), what_if_leaders=True)
    assert (found.exit_code, found.verdicts()) == (1, {1: "committed_loss", 2: "committed_loss"})
    for row in found.tables["replica_verdicts"]:
        assert (row["truncation_offset"], row["removed_records"], row["removed_committed"]) == (0, 15, 15)
        assert row["reason"].endswith(f"broker 3: {MADE_EMPTY}")
    choices = {row["candidate_id"]: (row["log_end_offset"], row["lost_records"]) for row in found.tables["what_if_leaders"]}
    assert choices == {1: (15, 0), 2: (15, 0), 3: (0, 15)}
    assert "not in the input" not in found.text
    logs = {row["broker_id"]: (row["log_end_offset"], row["directory"]) for row in found.tables["replica_logs"]}
    assert logs[3] == (0, "t-0")


def test_a_follower_lost_its_disk(tmp_path: Path) -> None:
    found = seen(_of_three(tmp_path, 1, isr=(1, 2)))
    assert (found.exit_code, found.verdicts()) == (0, {2: "identical", 3: "lagging"})
    assert "unread" not in found.text


def test_a_member_of_the_isr_lost_its_disk(tmp_path: Path) -> None:
    """It can be elected cleanly, and then all is gone."""
    found = seen(_of_three(tmp_path, 1))
    assert (found.exit_code, found.verdicts()[3]) == (1, "lagging")
    assert ("ends_below_high_watermark", "error", 3) in found.findings()


def test_nobody_leads_and_one_disk_is_new(tmp_path: Path) -> None:
    root = _of_three(tmp_path, -1)
    found = seen(root)
    (offline,) = [row for row in found.tables["findings"] if row["code"] == "offline_partition"]
    lost = {one["candidate_id"]: (one["lost_records"], one["unread_replicas"]) for one in offline["candidates"]}
    assert lost == {1: (0, 0), 2: (0, 0), 3: (15, 0)}


@pytest.mark.parametrize("leader", [1, 3])
def test_a_collection_says_the_same(tmp_path: Path, leader: int) -> None:
    root = _of_three(tmp_path / "raw", leader)
    assert seen(collect_cluster(root, tmp_path / "collected")).verdicts() == seen(root).verdicts()


@pytest.mark.parametrize(
    "formatted",
    [
        pytest.param({"named": True}, id="its checkpoints name the replica, so the copy lacks it"),
        pytest.param({"checkpoints": ()}, id="nothing but meta.properties"),
        pytest.param({"checkpoints": ("cleaner-offset-checkpoint",)}, id="no file that names every replica"),
    ],
)
@pytest.mark.parametrize("leader", [1, 3])
def test_in_doubt_it_is_not_collected(tmp_path: Path, formatted: dict[str, Any], leader: int) -> None:
    found = seen(_of_three(tmp_path, leader, **formatted))
    assert found.exit_code == 3
    assert "inconclusive" in found.verdicts().values()


def test_another_directory_of_the_broker_may_hold_it(tmp_path: Path) -> None:
    """A directory with other replicas may be one of several of its broker."""
    root = _of_three(tmp_path, 1)
    kafka_files.replica(root / "broker-3" / "data-0", "other-0")
    assert seen(root).verdicts()[3] == "inconclusive"


def test_a_broker_that_runs_has_a_directory(tmp_path: Path) -> None:
    root = _of_three(tmp_path, 1)
    _metadata(root, 1, epoch=1, brokers=[1, 2, 3], isr=[1, 2, 3], state="up")
    assert seen(root).verdicts()[3] == "inconclusive"


def test_the_ids_that_a_broker_registered_with() -> None:
    """KIP-858: all are there, or a new disk takes the place of one that is not."""
    full, new = log_directory("a", directory_id="A", replicas=3), log_directory("b", directory_id="B", without_directory=("u-1",))
    assert whole_brokers([(1, full)], {1: ["A"]}) == {1: WholeBroker("a", ())}
    assert not whole_brokers([(1, full)], {1: ["A", "C"]})
    assert whole_brokers([(1, full), (1, new)], {1: ["A", "C"]}) == {1: WholeBroker("b", ("u-1",))}
    assert not whole_brokers([(1, full), (1, new)], {1: ["A", "C", "D"]})
    assert not whole_brokers([(1, full)], {})
    assert not whole_brokers([(1, new._replace(is_whole=False))], {})
