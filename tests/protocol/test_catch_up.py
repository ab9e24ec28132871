"""Followers replayed until they have caught up: which leader's table sends one back for good, and which does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.exchange.rejoin import FETCH_BYTES
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Verdict, judge
from replica_audit.rows.codes import Protocol
from replica_audit.rows.pairs import WrongCheckpointLine
from tests.protocol.lineages import Partition, partitions
from tests.protocol.logs import compare, replica

DOWN: dict[str, Any] = {"alive": False}
UP: dict[str, Any] = {"alive": True}
LOG = [(6, 0, 1799), (7, 1800, 1849)]
LACKING = [(6, 0), (8, 1850)]  # the line `7 1800` is missing
LAGS = replica(2, [(6, 0, 1699)], **DOWN)


def _segmented(found: Replica, *bases: int, size_bytes: int = 100) -> Replica:
    """The replica with segments at these offsets, its runs of this size."""
    runs = tuple(run._replace(size_bytes=size_bytes) for run in found.log.runs)
    return replace(found, log=replace(found.log, segment_bases=bases, runs=runs))


# --- the case seen in production: the checkpoint lacks the last epoch of its own log ------------------------------------------------------


def test_a_line_that_the_leaders_checkpoint_lacks() -> None:
    found = compare(replica(1, LOG, epochs=LACKING, **UP), LAGS, leader_epoch=8)
    judged = judge(found)
    assert judged.verdict is Verdict.CANNOT_REJOIN
    assert "leader 1's leader-epoch-checkpoint lacks the line `7 1800`" in judged.reason
    assert found.effect.truncation.truncation_offset is None, "it cuts nothing, and its first fetch brings records"
    assert found.cannot_rejoin
    assert found.cannot_rejoin.lines == (WrongCheckpointLine(epoch=7, start_offset=1800, found_offset=None),)
    refused = found.cannot_rejoin.refusal
    assert (refused.fetch_offset, refused.requested_epoch) == (1850, 7)
    assert (refused.answered_epoch, refused.answered_end_offset, refused.back_to_offset) == (6, 1850, 1800)
    assert not refused.before_records
    assert found.cannot_rejoin.refusal.fresh_replica_too, "to move the follower's directory away does not help"


def test_with_the_line_it_catches_up() -> None:
    found = compare(replica(1, LOG, epochs=[(6, 0), (7, 1800), (8, 1850)], **UP), LAGS, leader_epoch=8)
    assert found.cannot_rejoin is None
    assert judge(found).verdict is Verdict.LAGGING


@pytest.mark.parametrize("follower_end", [1799, 1819, 1849])
def test_a_follower_inside_the_epoch_or_at_its_end_is_sent_back_as_well(follower_end: int) -> None:
    batches = [(6, 0, min(follower_end, 1799)), *([(7, 1800, follower_end)] if follower_end > 1799 else [])]
    found = compare(replica(1, LOG, epochs=LACKING, **UP), replica(2, batches, **DOWN), leader_epoch=8)
    assert judge(found).verdict is Verdict.CANNOT_REJOIN
    assert found.cannot_rejoin
    assert found.cannot_rejoin.refusal.back_to_offset == 1800


@pytest.mark.parametrize("protocol", [Protocol.HIGH_WATERMARK, Protocol.KIP_101, Protocol.KIP_279])
def test_without_epochs_in_fetches_nobody_is_sent_back(protocol: Protocol) -> None:
    found = compare(replica(1, LOG, epochs=LACKING, **UP), replace(LAGS, high_watermark=1700), leader_epoch=8, protocol=protocol)
    assert found.cannot_rejoin is None
    assert judge(found).verdict is Verdict.EPOCH_TABLE_ONLY


# --- OFFSET_OUT_OF_RANGE for ever ---------------------------------------------------------------------------------------------------------


def test_an_epoch_above_all_that_a_running_leader_knows() -> None:
    found = compare(replica(1, LOG, epochs=[(6, 0)], **UP), LAGS, leader_epoch=7, simultaneous=True)
    assert judge(found).verdict is Verdict.CANNOT_REJOIN
    assert found.cannot_rejoin
    assert found.cannot_rejoin.refusal.answered_end_offset is None
    assert "OFFSET_OUT_OF_RANGE" in judge(found).reason


@pytest.mark.parametrize(
    ("follower", "leader_epoch", "expected"),
    [
        pytest.param({"alive": True}, 7, Verdict.CANNOT_REJOIN, id="a running follower stays out of the ISR"),
        pytest.param({"alive": False}, 7, Verdict.LAGGING, id="a dead one proves nothing: the file may be older than the log"),
        pytest.param({"alive": True}, 6, Verdict.LAGGING, id="nor does one while the metadata is older than the epoch"),
        pytest.param({"alive": True, "in_isr": True}, 7, Verdict.LAGGING, id="one in the ISR fetches"),
    ],
)
def test_a_running_leaders_file_that_lacks_the_newest_epoch(follower: dict[str, Any], leader_epoch: int, expected: Verdict) -> None:
    """Files of a running broker are copied one after the other: its table is completed from its batches, unless a follower knows better."""
    leader = replica(1, LOG, epochs=[(6, 0), (7, 1800)], **UP)
    leader = replace(leader, log=replace(leader.log, epochs_on_disk=leader.log.epochs[:1]))
    found = compare(leader, replica(2, [(6, 0, 1699)], **follower), leader_epoch=leader_epoch)
    assert judge(found).verdict is expected


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        pytest.param([(6, 0)], Verdict.CANNOT_REJOIN, id="of two epochs it knows the older: its next epoch ends that"),
        pytest.param([], Verdict.EPOCH_TABLE_ONLY, id="it knows none: what is older than its next epoch is taken as known"),
    ],
)
@pytest.mark.parametrize("alive", [False, None])
def test_a_leader_that_does_not_run_enters_a_new_epoch(epochs: list[tuple[int, int]], expected: Verdict, alive: bool | None) -> None:
    found = compare(replica(1, LOG, epochs=epochs, alive=alive), LAGS)
    assert judge(found).verdict is expected


def test_a_follower_that_runs_in_the_isr_has_nothing_to_rejoin() -> None:
    follower = replica(2, [(6, 0, 1699)], alive=True, in_isr=True)
    found = compare(replica(1, LOG, epochs=LACKING, **UP), follower, leader_epoch=8)
    assert judge(found).verdict is Verdict.EPOCH_TABLE_ONLY


# --- an epoch that lies before others -----------------------------------------------------------------------------------------------------

LONGER = [*LOG, (8, 1850, 1999)]


@pytest.mark.parametrize(
    ("bases", "size_bytes", "expected"),
    [
        pytest.param((0,), 100, Verdict.EPOCH_TABLE_ONLY, id="one fetch reaches beyond it"),
        pytest.param((0, 1850), 100, Verdict.CANNOT_REJOIN, id="no fetch reaches into the next segment"),
        pytest.param((0, 1800), 100, Verdict.EPOCH_TABLE_ONLY, id="it begins a segment that goes on"),
        pytest.param((0,), FETCH_BYTES, Verdict.CANNOT_REJOIN, id="it is larger than a fetch"),
        pytest.param((0,), FETCH_BYTES // 2, Verdict.EPOCH_TABLE_ONLY, id="it and the next batch fill a fetch"),
        pytest.param((0,), FETCH_BYTES // 2 + 1, Verdict.CANNOT_REJOIN, id="the next batch does not fit"),
    ],
)
def test_whether_one_fetch_reaches_beyond_the_epoch(bases: tuple[int, ...], size_bytes: int, expected: Verdict) -> None:
    leader = _segmented(replica(1, LONGER, epochs=LACKING, **UP), *bases, size_bytes=size_bytes)
    assert judge(compare(leader, LAGS, leader_epoch=8)).verdict is expected


def test_a_follower_behind_the_epoch_is_not_concerned() -> None:
    follower = replica(2, [*LOG, (8, 1850, 1899)], **DOWN)
    leader = _segmented(replica(1, LONGER, epochs=LACKING, **UP), 0, 1850)
    found = compare(leader, follower, leader_epoch=8)
    assert found.cannot_rejoin is None
    assert judge(found).verdict is Verdict.EPOCH_TABLE_ONLY


def test_an_entry_that_begins_before_the_epoch_before_it_ends() -> None:
    leader = _segmented(replica(1, LONGER, epochs=[(6, 0), (7, 1800), (8, 1830)], **UP), 0, 1850)
    found = compare(leader, LAGS, leader_epoch=8)
    assert judge(found).verdict is Verdict.CANNOT_REJOIN
    assert found.cannot_rejoin
    assert found.cannot_rejoin.lines == (WrongCheckpointLine(epoch=8, start_offset=1850, found_offset=1830),)
    assert "has the line `8 1830` where its batches have `8 1850`" in judge(found).reason


def test_an_entry_of_which_the_log_has_no_batch() -> None:
    leader = replica(1, LOG, epochs=[(5, 0), (6, 0), (7, 1800), (9, 1820)], **UP)
    found = compare(replace(leader, log=replace(leader.log, epochs=leader.log.epochs[1:])), LAGS, simultaneous=True)
    assert found.cannot_rejoin
    assert found.cannot_rejoin.lines == (WrongCheckpointLine(epoch=9, start_offset=None, found_offset=1820),)
    apart = compare(replace(leader, log=replace(leader.log, epochs=leader.log.epochs[1:])), LAGS)
    assert apart.cannot_rejoin is None, "the table of a running leader may be newer than the copy of its log"


def test_a_leaders_table_that_was_copied_after_its_log_was_cut() -> None:
    leader = replica(1, [(6, 0, 1849), (8, 1850, 1999)], epochs=[(6, 0), (9, 1850)], **UP)
    follower = replica(2, [(6, 0, 1799)], **UP)
    assert compare(leader, follower).cannot_rejoin is None
    assert judge(compare(leader, follower)).verdict is Verdict.LAGGING
    assert judge(compare(leader, follower, simultaneous=True)).verdict is Verdict.CANNOT_REJOIN
    below = replica(1, [(6, 0, 1799), (7, 1800, 1849), (8, 1850, 1999)], epochs=[(6, 0), (9, 1850)], **UP)
    assert judge(compare(below, follower)).verdict is Verdict.CANNOT_REJOIN, "7 began below, where nothing was cut"


# --- before the first records -------------------------------------------------------------------------------------------------------------


def test_a_line_of_the_followers_own() -> None:
    leader = replica(1, [(6, 0, 1999)], epochs=[(6, 0)], **UP)
    follower = replica(2, [(6, 0, 999)], epochs=[(6, 0), (9, 500)], **DOWN)
    found = compare(leader, follower, leader_epoch=6)
    assert judge(found).verdict is Verdict.CANNOT_REJOIN
    assert found.cannot_rejoin
    assert found.cannot_rejoin.refusal.before_records
    assert (found.cannot_rejoin.broker_id, found.cannot_rejoin.lines) == (
        2,
        (WrongCheckpointLine(epoch=9, start_offset=None, found_offset=500),),
    )
    assert not found.cannot_rejoin.refusal.fresh_replica_too, "fetching anew helps"
    right = replica(2, [(6, 0, 999)], epochs=[(6, 0)], **DOWN)
    assert judge(compare(leader, right, leader_epoch=6)).verdict is Verdict.LAGGING


# --- its place ----------------------------------------------------------------------------------------------------------------------------


def test_what_was_committed_and_is_lost_comes_first() -> None:
    leader = replica(1, [(6, 0, 1799), (8, 1800, 1849)], epochs=[(6, 0), (9, 1850)], **UP)
    lost = replica(2, [(6, 0, 1799), (7, 1800, 1819)], high_watermark=1810, **DOWN)
    assert judge(compare(leader, lost, leader_epoch=9)).verdict is Verdict.COMMITTED_LOSS
    unknown = judge(compare(leader, replace(lost, high_watermark=1700), leader_epoch=9))
    assert unknown.verdict is Verdict.CANNOT_REJOIN
    assert "it truncates to 1800: offsets 1800..1819 are removed" in unknown.reason


# --- on real lineages ---------------------------------------------------------------------------------------------------------------------


def _pairs(partition: Partition, leader: Replica) -> list[Comparison]:
    followers = (partition.replicas[broker].replica(broker) for broker in partition.followers)
    return [compare(leader, follower, leader_epoch=partition.epoch) for follower in followers]


@given(partitions(retention=True), st.sampled_from([True, False, None]))
def test_a_follower_of_an_honest_leader_always_catches_up(partition: Partition, alive: bool | None) -> None:
    leader = partition.replicas[partition.leader].replica(partition.leader, alive=alive)
    assert not [found for found in _pairs(partition, leader) if found.cannot_rejoin]


@given(partitions(), st.sampled_from([True, False]))
def test_an_omitted_last_epoch_is_found(partition: Partition, alive: bool) -> None:
    log = partition.replicas[partition.leader]
    assume(log.batches)
    epoch = log.batches[-1][0]
    told = [entry for entry in log.table.items() if entry[0] != epoch]
    assume(told and told[0][0] < epoch)
    leader = replica(partition.leader, log.batches, epochs=told, start=log.start, end=log.end, alive=alive)
    for found in _pairs(partition, leader):
        if found.effect.fetcher_fails or found.still_diverged:
            continue  # it fails before, or is taken for equal where it is not
        if alive and told[-1][0] < epoch:
            found = replace(found, context=replace(found.context, simultaneous=True))
        assert found.cannot_rejoin
        assert found.cannot_rejoin.lines == (WrongCheckpointLine(epoch=epoch, start_offset=log.table[epoch], found_offset=None),)
        assert found.cannot_rejoin.refusal.fresh_replica_too
