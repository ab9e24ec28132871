"""The first draft of KIP-320: truncation seen by consumers, and zombies; what of it Kafka has, and what it has instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.cluster.fencing import Belief, FencingError, ReplicaStanding, Standing, fetch_error, standings
from replica_audit.protocol.consumers import Validation, validate_position
from replica_audit.protocol.epochs.epoch_table import EpochTable, table
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import tables
from tests.scenarios.disks import Cluster, Disk

# --- consumers ----------------------------------------------------------------------------------------------------------------------------


def _unclean(root: Path, *written_since: tuple[int, int, int]) -> tuple[EpochTable, int]:
    """Broker 1 held 0..19 in epoch 1; broker 2, which had 0..9, was elected uncleanly. Its table and log end, from its files."""
    disks = {
        1: Disk(batches=[(1, 0, 9), (1, 10, 19)], high_watermark=20),
        2: Disk(batches=[(1, 0, 9), *written_since], epochs=[(1, 0), (3, 10)]),
    }
    found = Cluster(disks=disks, leader=2, leader_epoch=3).audit(root, Protocol.TRUNCATE_ON_FETCH)
    assert (found.verdict(1), found.cut(1)["truncation_offset"]) == ("committed_loss", 10)
    return table(found.in_effect(2)), found.log(2)["log_end_offset"]


def test_kip_320_a_position_beyond_the_new_end_is_truncated_not_out_of_range(tmp_path: Path) -> None:
    leader, end = _unclean(tmp_path, (3, 10, 12))
    found = validate_position(leader, end, 20, 1)
    assert (found.result, found.reset_offset, found.reset_epoch) == (Validation.TRUNCATED, 10, 1)


def test_kip_320_a_position_that_new_records_have_covered_is_truncated_too(tmp_path: Path) -> None:
    """The consumer would otherwise miss what was written at 10..19."""
    leader, end = _unclean(tmp_path, (3, 10, 40))
    found = validate_position(leader, end, 20, 1)
    assert (found.result, found.reset_offset) == (Validation.TRUNCATED, 10)


def test_kip_320_a_position_below_the_truncation_stays(tmp_path: Path) -> None:
    leader, end = _unclean(tmp_path, (3, 10, 40))
    assert validate_position(leader, end, 10, 1).result is Validation.VALID


@pytest.mark.parametrize("epoch", [None, -1])
def test_kip_320_without_an_epoch_nothing_is_validated(tmp_path: Path, epoch: int | None) -> None:
    leader, end = _unclean(tmp_path, (3, 10, 40))
    assert validate_position(leader, end, 20, epoch).result is Validation.NOT_VALIDATED


def test_kip_320_epoch_0_is_an_epoch() -> None:
    assert validate_position(table([(0, 0), (1, 10)]), 30, 20, 0).result is Validation.TRUNCATED


def test_kip_320_a_leader_that_knows_nothing_as_new_defines_no_offset() -> None:
    """The draft: UNKNOWN_LEADER_EPOCH at the fetch. Kafka: the request for the end offset is answered (-1, -1), and the policy decides."""
    found = validate_position(table([(1, 0), (3, 10)]), 40, 20, 4)
    assert (found.result, found.reset_offset) == (Validation.UNDEFINED, None)


def _draft_says_truncated(leader: EpochTable, offset: int, epoch: int) -> bool:
    """The draft's check at the leader: a larger epoch begins at a smaller offset than the fetch offset."""
    return any(entry.epoch > epoch and entry.start_offset < offset for entry in leader)


def _draft_seeks_to(leader: EpochTable, epoch: int) -> int:
    """The draft's seekToNearest, once the log is truncated: the first offset of the next larger epoch."""
    return next(entry.start_offset for entry in leader if entry.epoch > epoch)


@given(tables(), st.integers(0, 12), st.integers(0, 40))
def test_kip_320_validation_finds_what_the_drafts_log_truncation_error_would(pairs: list[tuple[int, int]], epoch: int, offset: int) -> None:
    """And sends the consumer to where the draft would, wherever a larger epoch is known at all."""
    leader = table(pairs)
    if not any(entry.epoch > epoch for entry in leader):
        return
    found = validate_position(leader, 40, offset, epoch)
    assert (found.result is Validation.TRUNCATED) == _draft_says_truncated(leader, offset, epoch)
    if found.result is Validation.TRUNCATED:
        assert found.reset_offset == _draft_seeks_to(leader, epoch)


def test_kip_320_in_the_latest_epoch_only_the_log_end_tells() -> None:
    """The draft compares with larger epochs alone; Kafka also answers the log end of its latest one."""
    leader = table([(1, 0), (3, 10)])
    assert not _draft_says_truncated(leader, 50, 3)
    assert validate_position(leader, 40, 50, 3).reset_offset == 40


def test_kip_320_seek_to_nearest_would_skip_records_that_validation_reads() -> None:
    """Offset 15 exists, but not in epoch 2: the draft seeks to epoch 3 at 20. Kafka compares no epochs, and the consumer reads 15..19."""
    leader = table([(1, 0), (3, 20)])
    assert validate_position(leader, 40, 15, 2).result is Validation.VALID
    assert _draft_seeks_to(leader, 2) == 20


# --- fencing ------------------------------------------------------------------------------------------------------------------------------

LEADER = Belief(broker_id=1, leader_epoch=5, leader_id=1)


def test_kip_320_a_zombie_that_missed_the_election_is_fenced() -> None:
    """KAFKA-6880: broker 3 lost its session and follows broker 2 in epoch 4. The draft's FENCED_REPLICA is FENCED_LEADER_EPOCH."""
    zombie = Belief(broker_id=3, leader_epoch=4, leader_id=2)
    assert standings([LEADER, zombie], 5, 1)[1] == ReplicaStanding(3, Standing.ZOMBIE_FOLLOWER)
    assert fetch_error(4, 5, True) is FencingError.FENCED_LEADER_EPOCH


def test_kip_320_a_zombie_is_fenced_by_a_deposed_leader_that_knows_it() -> None:
    assert fetch_error(4, 5, False) is FencingError.FENCED_LEADER_EPOCH


def test_kip_320_a_zombie_leader_and_its_zombie_follower_go_on_in_their_epoch() -> None:
    """Fencing compares two brokers, not the cluster: where neither knows better, the fetch is served."""
    found = standings([LEADER, Belief(broker_id=2, leader_epoch=4, leader_id=2), Belief(broker_id=3, leader_epoch=4, leader_id=2)], 5, 1)
    assert [one.standing for one in found] == [Standing.LEADER, Standing.ZOMBIE_LEADER, Standing.ZOMBIE_FOLLOWER]
    assert fetch_error(4, 4, True) is None


def test_kip_320_a_follower_that_heard_first_waits_for_its_leader() -> None:
    """The request that makes broker 1 the leader is delayed: UNKNOWN_LEADER_EPOCH is retried until it has arrived."""
    late = Belief(broker_id=1, leader_epoch=4, leader_id=2)
    found = standings([late, Belief(broker_id=3, leader_epoch=5, leader_id=1)], 5, 1)
    assert [one.standing for one in found] == [Standing.ZOMBIE_FOLLOWER, Standing.AHEAD]
    assert fetch_error(5, 4, False) is FencingError.UNKNOWN_LEADER_EPOCH
    assert fetch_error(5, 5, True) is None


def test_kip_320_consumers_that_send_no_epoch_are_not_fenced() -> None:
    assert fetch_error(-1, 5, True) is None


def test_kip_320_truncating_by_a_stale_leader_diverges_where_it_is_not_fenced(tmp_path: Path) -> None:
    """Broker 2 asks the leader of epoch 3, which was deposed: it cuts at 20 and keeps 10..19, which the leader of epoch 4 has otherwise."""
    follower = Disk(batches=[(1, 0, 9), (2, 10, 19), (2, 20, 24)], high_watermark=10)
    stale = Disk(batches=[(1, 0, 9), (2, 10, 19)], epochs=[(1, 0), (2, 10), (3, 20)])
    true = Disk(batches=[(1, 0, 9), (4, 10, 29)], high_watermark=30)
    by_stale = Cluster(disks={1: stale, 2: follower}, leader_epoch=3).audit(tmp_path, Protocol.KIP_279)
    by_true = Cluster(disks={1: true, 2: follower}, leader_epoch=4).audit(tmp_path, Protocol.KIP_279)
    assert (by_stale.cut()["truncation_offset"], by_true.cut()["truncation_offset"]) == (20, 10)
    assert fetch_error(4, 3, True) is FencingError.UNKNOWN_LEADER_EPOCH
