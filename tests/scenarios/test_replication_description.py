"""The description of the replication protocol, chapter 3: log matching, the lookup, and the cases A to G, record by record.

Its figures give the logs; every record is a batch of its own. The leader's table ends with its own epoch, in which it has written nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.protocol.epochs.epoch_table import end_offset_for, table
from replica_audit.protocol.exchange.replay import OffsetOutOfRange, diverging_epoch, kip_279, truncate_on_fetch
from replica_audit.rows.codes import Protocol
from tests.protocol.logs import Batch, Pairs, state
from tests.scenarios.disks import Audited, Cluster, Disk

Answer = tuple[int, int] | None


def _records(*runs: Batch) -> list[Batch]:
    return [(epoch, offset, offset) for epoch, first, last in runs for offset in range(first, last + 1)]


def _case(root: Path, leader: list[Batch], epochs: Pairs, follower: list[Batch], answer: Answer, cut: int | None) -> None:
    """One case on tables and on files, by truncation on fetch, and by KIP-279's question, which must cut alike."""
    disks = {1: Disk(batches=_records(*leader), epochs=epochs), 2: Disk(batches=_records(*follower))}
    end, last = disks[2].end, follower[-1][0]
    assert diverging_epoch(disks[1].state, end, last) == answer
    assert truncate_on_fetch(disks[1].state, disks[2].state).truncation_offset == cut
    assert kip_279(disks[1].state, disks[2].state).truncation_offset == cut
    found = Cluster(disks=disks, leader_epoch=epochs[-1][0]).audit(root, Protocol.TRUNCATE_ON_FETCH)
    assert found.rounds()[0] == (last, *(answer or (None, None)), cut, True)
    assert len(found.rounds()) == (1 if cut is None else 2), "the next fetch is checked as well"
    assert (found.cut()["truncation_offset"], found.cut()["removed_offsets"]) == (cut, 0 if cut is None else end - cut)
    assert not (found.cut()["still_diverged"] or found.cut()["fetcher_fails"])
    assert found.verdict() == ("lagging" if cut is None else "stale_tail")


# --- 3, 3.1 -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader_watermark", "follower_watermark", "verdict"),
    [
        pytest.param(15, 15, "log_matching_violation", id="the prefixes below both high watermarks differ"),
        pytest.param(10, 10, "stale_tail", id="they differ above"),
        pytest.param(15, 10, "stale_tail", id="above the smaller of both"),
    ],
)
def test_description_log_matching_is_bounded_by_the_smaller_high_watermark(
    tmp_path: Path, leader_watermark: int, follower_watermark: int, verdict: str
) -> None:
    """Of a member of the ISR. What is not stable is truncated, and no violation."""
    disks = {
        1: Disk(batches=[(1, 0, 9), (3, 10, 19)], high_watermark=leader_watermark),
        2: Disk(batches=[(1, 0, 9), (2, 10, 14)], high_watermark=follower_watermark),
    }
    isr = (1, 2) if verdict == "log_matching_violation" else (1,)
    assert Cluster(disks=disks, leader_epoch=3, isr=isr).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH).verdict() == verdict


@pytest.mark.parametrize(
    ("watermark", "verdict"),
    [
        pytest.param(1, "stale_tail", id="1, as in step 3: record B was never committed"),
        pytest.param(2, "committed_loss", id="2, as printed in step 4: nobody but replica 1 can have confirmed it"),
    ],
)
def test_description_3_1_replica_1_removes_offset_1(tmp_path: Path, watermark: int, verdict: str) -> None:
    a_and_b, a = Disk(batches=_records((1, 0, 1)), high_watermark=watermark), Disk(batches=_records((1, 0, 0)))
    leader = Disk(batches=_records((1, 0, 0)), epochs=[(1, 0), (2, 1)])
    found = Cluster(disks={1: a_and_b, 2: leader, 3: a}, leader=2, leader_epoch=2).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    assert found.rounds(1)[0] == (1, 1, 1, 1, True)
    assert (found.verdict(1), found.verdict(3)) == (verdict, "identical")


# --- 3.2 ----------------------------------------------------------------------------------------------------------------------------------


def test_description_figure_1_an_epoch_without_records_starts_at_the_log_end_offset(tmp_path: Path) -> None:
    leader = Disk(batches=_records((1, 0, 1), (2, 2, 3)), epochs=[(1, 0), (2, 2), (3, 4)])
    disks = {1: leader, 2: Disk(batches=_records((1, 0, 1), (2, 2, 3)))}
    found = Cluster(disks=disks, leader_epoch=3).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    assert found.in_effect(1) == [(1, 0), (2, 2), (3, 4)]
    assert found.in_effect(2) == [(1, 0), (2, 2)], "a follower learns it with its first record"
    assert found.verdict() == "identical"


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        pytest.param(4, (4, 20), id="known: its end is the start of the next"),
        pytest.param(5, (4, 20), id="unknown: the highest below"),
        pytest.param(7, (7, 30), id="the latest: the log end offset"),
        pytest.param(1, (1, 10), id="none at or below it: the requested one, the start of the lowest"),
    ],
)
def test_description_end_offset_for_leader_epoch(epoch: int, answer: tuple[int, int]) -> None:
    assert end_offset_for(table([(2, 10), (4, 15), (7, 20)]), epoch, 30) == answer


@pytest.mark.parametrize(
    ("offset", "epoch", "diverged"),
    [
        pytest.param(18, 6, True, id="the epoch of the answer is lower"),
        pytest.param(21, 4, True, id="the end offset of the answer is lower"),
        pytest.param(20, 4, False, id="neither"),
        pytest.param(12, 3, True, id="the epoch alone, the offset is in range"),
    ],
)
def test_description_either_result_indicates_a_diverged_log(offset: int, epoch: int, diverged: bool) -> None:
    leader = state([(2, 0), (4, 15), (7, 20)], 30)
    assert (diverging_epoch(leader, offset, epoch) is not None) is diverged


def test_description_does_not_tell_of_an_epoch_above_the_latest() -> None:
    """Kafka answers OFFSET_OUT_OF_RANGE: the follower is cut to the leader's end, or is refused for ever where it is not longer."""
    leader = state([(1, 0), (3, 12)], 31)
    with pytest.raises(OffsetOutOfRange):
        diverging_epoch(leader, 20, 9)
    assert truncate_on_fetch(leader, state([(1, 0), (3, 12), (9, 31)], 36)).truncation_offset == 31
    assert truncate_on_fetch(leader, state([(1, 0), (9, 10)], 20)).stuck


def test_description_every_fetch_is_checked_not_only_the_first() -> None:
    found = truncate_on_fetch(state([(1, 0), (3, 10), (5, 20)], 30), state([(1, 0), (2, 5), (4, 12)], 25))
    assert [(step.requested_epoch, step.answered_epoch) for step in found.steps] == [(4, 3), (2, 1), (1, None)]
    assert found.effective_cuts == (12, 5)


# --- 3.3 ----------------------------------------------------------------------------------------------------------------------------------


def test_description_case_a_follower_behind_in_the_same_epoch(tmp_path: Path) -> None:
    _case(tmp_path, [(1, 0, 3)], [(1, 0), (2, 4)], [(1, 0, 1)], None, None)


def test_description_case_b_follower_behind_a_higher_epoch(tmp_path: Path) -> None:
    _case(tmp_path, [(1, 0, 1), (2, 2, 3)], [(1, 0), (2, 2), (3, 4)], [(1, 0, 1)], None, None)


def test_description_case_c_follower_ahead_in_the_same_epoch(tmp_path: Path) -> None:
    _case(tmp_path, [(1, 0, 1)], [(1, 0), (2, 2)], [(1, 0, 3)], (1, 2), 2)


def test_description_case_d_follower_ahead_with_a_higher_epoch(tmp_path: Path) -> None:
    """The text calls 1 the requested epoch; requested is 2, answered 1."""
    _case(tmp_path, [(1, 0, 1)], [(1, 0), (3, 2)], [(1, 0, 1), (2, 2, 3)], (1, 2), 2)


def test_description_case_e_fork_with_another_epoch_on_each_side(tmp_path: Path) -> None:
    _case(tmp_path, [(1, 0, 1), (3, 2, 3)], [(1, 0), (3, 2), (4, 4)], [(1, 0, 1), (2, 2, 3)], (1, 2), 2)


def test_description_case_f_fork_where_the_leader_goes_on_in_the_common_epoch(tmp_path: Path) -> None:
    _case(tmp_path, [(1, 0, 1)], [(1, 0), (3, 2)], [(1, 0, 0), (2, 1, 2)], (1, 2), 1)


def test_description_case_g_no_common_epoch_truncates_everything(tmp_path: Path) -> None:
    """The text prints 2 and then 1 for the leader's end of epoch 1, of which it has one record."""
    _case(tmp_path, [(1, 0, 0)], [(1, 0), (3, 1)], [(2, 0, 1)], (1, 1), 0)


@pytest.mark.parametrize("watermark", [0, 1, 2])
def test_description_case_g_does_not_look_at_the_high_watermark(tmp_path: Path, watermark: int) -> None:
    disks = {1: Disk(batches=_records((1, 0, 0)), epochs=[(1, 0), (3, 1)]), 2: Disk(batches=_records((2, 0, 1)), high_watermark=watermark)}
    found: Audited = Cluster(disks=disks, leader_epoch=3).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    assert found.cut()["truncation_offset"] == 0
    assert not found.cut()["falls_back_to_high_watermark"]
    assert found.row()["removed_below_high_watermark"] == watermark
