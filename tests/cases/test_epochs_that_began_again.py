"""Metadata was lost and epochs began again: low epochs behind higher ones on the live leader are the newer ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.replica_log import began_again, contradiction
from tests.cases.triaged import Seen, seen
from tests.collect.collections import collect_cluster
from tests.partition.test_what_if import _metadata, _write
from tests.protocol import logs

BEFORE = [(2, 0, 49), (5, 50, 89)]
OLD, NEW = [*BEFORE, (5, 90, 99)], [*BEFORE, (0, 90, 119)]
TABLES = {1: {2: 0, 5: 50}, 2: {0: 90}, 3: {0: 90}}
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"


def _cluster(root: Path, *, leader: int = 2, **held: list[logs.Batch]) -> Path:
    """Brokers 2 and 3 went on in epoch 0, broker 1 was away."""
    _write(root, {1: held.get("first", OLD), 2: NEW, 3: NEW}, epochs=TABLES, high_watermarks={1: 100, 2: 120, 3: 120})
    return _metadata(root, leader, epoch=0, brokers=[1, 2, 3], isr=[2, 3], state="up")


def _assert_only_broker_1_differs(found: Seen) -> None:
    assert {follower: verdict for follower, verdict in found.verdicts().items() if follower != 1} == {3: "identical"}
    assert "metadata-outdated" not in found.problems()
    assert {row["leader_source"] for row in found.tables["replica_verdicts"]} == {"cluster-metadata"}
    (row,) = [row for row in found.tables["replica_verdicts"] if row["follower_id"] == 1]
    assert (row["divergence_offset"], row["severity"]) == (90, "critical")
    assert found.exit_code == 1


@pytest.mark.parametrize("collected", [False, True])
def test_the_low_epochs_are_the_newer_ones(tmp_path: Path, *, collected: bool) -> None:
    root = _cluster(tmp_path / "raw")
    root = collect_cluster(root, tmp_path / "collected") if collected else root
    _assert_only_broker_1_differs(seen(root))


def test_a_follower_that_has_nothing_of_its_own_only_lags(tmp_path: Path) -> None:
    found = seen(_cluster(tmp_path, first=BEFORE))
    assert found.verdicts()[3] == "identical"
    assert found.tables["replica_verdicts"][0]["divergence_offset"] is None
    assert "metadata-outdated" not in found.problems()


def test_epochs_that_began_again_and_grew(tmp_path: Path) -> None:
    grown = [*NEW, (1, 120, 129)]
    _write(tmp_path, {1: OLD, 2: grown, 3: grown}, epochs={1: TABLES[1], 2: {0: 90, 1: 120}, 3: {0: 90, 1: 120}}, high_watermarks={2: 130})
    _assert_only_broker_1_differs(seen(_metadata(tmp_path, 2, epoch=1, brokers=[1, 2, 3], isr=[2, 3], state="up")))


def test_without_metadata_a_log_that_began_again_leads(tmp_path: Path) -> None:
    root = _cluster(tmp_path)
    (root / "cluster-metadata.json").unlink()
    found = seen(root)
    assert {row["leader_id"] for row in found.tables["replica_verdicts"]} == {2}
    for row in found.tables["replica_verdicts"]:
        assert "leader-epoch-checkpoint gives epoch 5 at offset 90" not in row["reason"], "the file has one line, 0 90"


def test_metadata_that_is_older_is_still_not_believed(tmp_path: Path) -> None:
    """The same numbers, and no log that goes back."""
    _write(tmp_path, {1: OLD, 2: BEFORE, 3: BEFORE}, high_watermarks={1: 100})
    found = seen(_metadata(tmp_path, 2, epoch=0, brokers=[1, 2, 3], isr=[2, 3], state="up"))
    assert "metadata-outdated" in found.problems()


def test_one_batch_with_a_wrong_epoch_is_none_that_began_again() -> None:
    runs = logs.runs([(2, 0, 49), (1, 50, 59), (2, 60, 99)])
    assert began_again(table([(2, 0)]), runs) is None
    assert contradiction(table([(2, 0)]), runs, 0) is not None
    again = logs.runs(NEW)
    assert began_again(table([(0, 90)]), again) == 90
    assert contradiction(table([(0, 90)]), again, 0) is None
    assert contradiction(table([(0, 95)]), again, 0) is not None


@pytest.mark.skipif(not SHARED.is_dir(), reason="without the cases kept beside the project")
def test_the_case(tmp_path: Path) -> None:
    shutil.copytree(SHARED / "21c-zk-lost", tmp_path / "root")
    _assert_only_broker_1_differs(seen(tmp_path / "root"))
