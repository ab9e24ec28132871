"""The replication notes: high watermark and log end offset, the flaws that leader epochs mend, and unclean leader election."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.protocol.epochs.epoch_table import end_offset_for, table
from replica_audit.protocol.exchange.replay import high_watermark
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.protocol import logs
from tests.scenarios.disks import Cluster, Disk

EPOCHS_ASKED = [Protocol.KIP_101, Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH]


def test_notes_high_watermark_is_the_next_offset_so_its_own_is_not_committed(tmp_path: Path) -> None:
    """The notes: committed is what is at or below it. Kafka: what is below."""
    leader = Disk(batches=[(2, 0, 4)], high_watermark=5)
    for watermark, lost in ((0, 0), (1, 1), (2, 2)):
        follower = Disk(batches=[(1, 0, 0), (1, 1, 1)], high_watermark=watermark)
        found = Cluster(disks={1: leader, 2: follower}, leader_epoch=2).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
        assert found.row()["removed_below_high_watermark"] == lost
        assert found.verdict() == ("committed_loss" if lost else "stale_tail")


def test_notes_a_followers_high_watermark_is_at_most_its_log_end_offset(tmp_path: Path) -> None:
    """It is the smaller of its log end offset and the leader's high watermark; a file that says more is of before the tail was lost."""
    batches = [(1, 0, 19)]
    assert logs.replica(2, batches, high_watermark=30).as_follower().high_watermark == 20
    disks = {1: Disk(batches=[*batches, (1, 20, 39)], high_watermark=40), 2: Disk(batches=batches, high_watermark=30)}
    found = Cluster(disks=disks, leader_epoch=1).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut()["truncation_offset"], found.verdict()) == (None, "lagging")


def test_notes_a_follower_lags_one_round_behind_the_leaders_high_watermark(tmp_path: Path) -> None:
    """It has fetched message 2 and not yet been told that it is committed: a restart drops what every replica holds."""
    disks = {1: Disk(batches=[(1, 0, 0), (1, 1, 1)], high_watermark=2), 2: Disk(batches=[(1, 0, 0), (1, 1, 1)], high_watermark=1)}
    found = Cluster(disks=disks, leader_epoch=1).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert found.cut()["truncation_offset"] == 1


# --- data loss ----------------------------------------------------------------------------------------------------------------------------


def test_notes_data_loss_scenario_truncates_m2_before_a_becomes_leader(tmp_path: Path) -> None:
    """The follower's high watermark is 0."""
    both = [(0, 0, 0), (0, 1, 1)]
    disks = {1: Disk(batches=both, high_watermark=0), 2: Disk(batches=both, high_watermark=2)}
    found = Cluster(disks=disks, leader=2, leader_epoch=0).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut(1)["truncation_offset"], found.cut(1)["removed_offsets"]) == (0, 2)
    assert high_watermark(disks[2].state, disks[1].state).falls_back_to_high_watermark


def test_notes_data_loss_scenario_with_epochs_is_answered_2_and_loses_nothing(tmp_path: Path) -> None:
    both = [(0, 0, 0), (0, 1, 1)]
    disks = {1: Disk(batches=both, high_watermark=0), 2: Disk(batches=both, high_watermark=2)}
    found = Cluster(disks=disks, leader=2, leader_epoch=0).audit(tmp_path, Protocol.KIP_101)
    assert found.rounds(1) == [(0, None, 2, None, True)]
    assert found.verdict(1) == "identical"


def test_notes_a_follower_that_lags_by_more_than_one_epoch_gets_the_start_of_the_first_larger_one() -> None:
    """Not of its own epoch + 1, which the leader may never have had."""
    leader = table([(0, 0), (4, 12), (7, 20)])
    assert end_offset_for(leader, 0, 30) == (0, 12)
    assert end_offset_for(leader, 5, 30) == (4, 20)


# --- divergence ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
def test_notes_divergence_scenario_drops_the_orphan_m2_at_the_first_offset_of_epoch_1(tmp_path: Path, protocol: Protocol) -> None:
    """Both brokers lost power; B came up first with m1 alone and accepted m3 in epoch 1."""
    disks = {
        1: Disk(batches=[(0, 0, 0), (0, 1, 1)], high_watermark=1, clean=False),
        2: Disk(batches=[(0, 0, 0), (1, 1, 1)], high_watermark=2),
    }
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, protocol)
    assert found.rounds(1)[0][2:4] == (1, 1)
    assert (found.cut(1)["still_diverged"], found.verdict(1)) == (False, "stale_tail")


def test_notes_divergence_scenario_stays_by_the_high_watermark(tmp_path: Path) -> None:
    disks = {
        1: Disk(batches=[(0, 0, 0), (0, 1, 1)], high_watermark=2, clean=False),
        2: Disk(batches=[(0, 0, 0), (1, 1, 1)], high_watermark=2),
    }
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut(1)["truncation_offset"], found.verdict(1)) == (None, "log_matching_violation")


def test_notes_compressed_sets_that_overlap_keep_a_replica_from_making_progress(tmp_path: Path) -> None:
    """The offset of the one points into the middle of the other: the fetcher fails."""
    disks = {
        1: Disk(batches=[(0, 0, 4), (0, 5, 7)], high_watermark=8, codec=kf.GZIP),
        2: Disk(batches=[(0, 0, 4), (1, 5, 14)], high_watermark=15, codec=kf.GZIP),
    }
    found = Cluster(disks=disks, leader=2, leader_epoch=1).audit(tmp_path, Protocol.HIGH_WATERMARK)
    assert (found.cut(1)["fetcher_fails"], found.cut(1)["still_diverged"]) == (True, True)


# --- unclean leader election --------------------------------------------------------------------------------------------------------------

IN_SYNC = Disk(batches=[(1, 0, 4), (1, 5, 9)], high_watermark=10)


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
def test_notes_waiting_for_a_replica_of_the_isr_loses_nothing(tmp_path: Path, protocol: Protocol) -> None:
    waited = Disk(batches=[*IN_SYNC.batches, (3, 10, 11)], high_watermark=12)
    found = Cluster(disks={1: waited, 2: Disk(batches=[(1, 0, 4)], high_watermark=5)}, leader_epoch=3).audit(tmp_path, protocol)
    assert found.verdict() == "lagging"


@pytest.mark.parametrize("protocol", EPOCHS_ASKED)
def test_notes_the_first_replica_that_comes_back_loses_what_it_did_not_have(tmp_path: Path, protocol: Protocol) -> None:
    """Its log becomes the truth, though it lacks 5..9, which were committed."""
    first = Disk(batches=[(1, 0, 4), (3, 5, 6)], high_watermark=7)
    found = Cluster(disks={1: first, 2: IN_SYNC}, leader_epoch=3).audit(tmp_path, protocol)
    assert found.cut()["truncation_offset"] == 5
    assert (found.verdict(), found.row()["removed_below_high_watermark"]) == ("committed_loss", 5)


@pytest.mark.parametrize(("up", "longest", "told"), [((), 20, True), ((), 25, False), ((1,), 20, False)])
def test_what_no_replica_holds_any_more_is_told_by_its_high_watermark_alone(
    tmp_path: Path, up: tuple[int, ...], longest: int, told: bool
) -> None:
    """Where every log lost the same, none differs; of a broker that runs the file may be newer than the copy of the log."""
    disks = {1: Disk(batches=[(1, 0, 19)], high_watermark=20), 2: Disk(batches=[(1, 0, 19)], high_watermark=25)}
    disks[3] = Disk(batches=[(1, 0, longest - 1)], high_watermark=20)
    problems = ("high-watermark-beyond-log-end",) if told else ()
    found = Cluster(disks=disks, leader=3, leader_epoch=1, up=up, problems=problems).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    if told:
        (problem,) = found.tables["input_errors"]
        assert (problem["broker_id"], "offsets 20..24 had been committed and are gone" in problem["detail"]) == (2, True)
