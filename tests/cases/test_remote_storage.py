"""A follower that ends below the local log of a leader with remote storage (KIP-405): the whole log counts, by its epoch table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replica_audit.rows.codes import Protocol
from tests.cases.test_truncated_is_not_lost import home_of
from tests.scenarios.disks import Disk, Version
from tests.support import in_process

REMOTE = {"remote.storage.enable": "true", "cleanup.policy": "delete"}
LEADER = Disk(batches=[(5, 50, 54), (5, 55, 59)], epochs=[(0, 0), (2, 18), (5, 40)], high_watermark=60, log_start=0)


def follower(end: int, high_watermark: int) -> Disk:
    return Disk(
        batches=[(2, 30, 34), (2, 35, 39), (2, 40, 44)][: (end - 30) // 5],
        epochs=[(0, 0), (2, 18)],
        high_watermark=high_watermark,
        log_start=0,
    )


def row(root: Path, disk: Disk, configs: dict[str, str] | None = None, leader: Disk = LEADER) -> dict[str, Any]:
    version = Version("3.9.0", None, 21)
    home = home_of(root, {1: leader, 2: disk}, Protocol.TRUNCATE_ON_FETCH, version=version, configs=REMOTE if configs is None else configs)
    (found,) = in_process.audit(home, anew=True)["replica_verdicts"]
    return found


def test_what_the_leader_never_had_is_lost(tmp_path: Path) -> None:
    found = row(tmp_path, follower(45, 40))
    assert (found["verdict"], found["truncation_offset"], found["restart_offset"], found["divergence_offset"]) == ("stale_tail", 40, 50, 40)
    assert (found["removed_records"], found["lost_records"]) == (15, 5)


def test_what_was_committed_of_it_is_a_committed_loss(tmp_path: Path) -> None:
    found = row(tmp_path, follower(45, 45))
    assert (found["verdict"], found["removed_committed"], found["lost_records"]) == ("committed_loss", 5, 5)


def test_a_follower_behind_is_lagging(tmp_path: Path) -> None:
    found = row(tmp_path, follower(40, 40))
    assert (found["verdict"], found["truncation_offset"], found["restart_offset"]) == ("lagging", None, 50)
    assert (found["removed_records"], found["lost_records"]) == (10, 0)
    assert "starts again at 50" in found["reason"]


@pytest.mark.parametrize("configs", [{}, {"remote.storage.enable": "false"}])
def test_without_remote_storage_nothing_is_known_below_the_local_log(tmp_path: Path, configs: dict[str, str]) -> None:
    found = row(tmp_path, follower(40, 40), configs, Disk(batches=LEADER.batches, epochs=[(5, 50)], high_watermark=60, log_start=50))
    assert (found["verdict"], found["cause"]) == ("inconclusive", "no common range")


def test_below_the_start_of_the_whole_log_nothing_is_known_either(tmp_path: Path) -> None:
    leader = Disk(batches=LEADER.batches, epochs=[(5, 45)], high_watermark=60, log_start=45)
    found = row(tmp_path, follower(40, 40), leader=leader)
    assert (found["verdict"], found["cause"]) == ("inconclusive", "no common range")
