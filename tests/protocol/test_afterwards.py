"""What becomes of a follower once its exchange is over."""

from __future__ import annotations

import pytest
from hypothesis import given

from replica_audit.protocol.comparison.pair import (
    Comparison,
    conflicts,
    differences,
    ends_with_election,
    learnt_epochs,
    restarts_once_failed,
)
from replica_audit.protocol.epochs.epoch_table import assign
from replica_audit.protocol.epochs.lineage import Piece, differ
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.verdict.verdict import Judgement, Verdict, judge
from replica_audit.rows.codes import Cause, Protocol
from tests.protocol.lineages import comparisons
from tests.protocol.logs import compare, replica


@given(comparisons())
def test_conflicts_are_all_that_survives_beginning_with_the_first(c: Comparison) -> None:
    found = list(conflicts(c))
    if c.divergence_offset is None:
        assert found == list(differences(c)) == []
    else:
        assert found[:1] == ([] if c.surviving_difference is None else [c.surviving_difference])
        assert all(one.first_offset < one.end_offset for one in found)
    assert all(differ(one) for one in differences(c))


@given(comparisons())
def test_what_is_learnt_can_be_assigned_to_what_is_left(c: Comparison) -> None:
    learnt = learnt_epochs(c.leader.as_leader(), c.effect)
    kept = c.effect.truncation.follower_after.epochs
    grown = kept
    for epoch, start in learnt:
        grown = assign(grown, epoch, start)
    assert grown == (*kept, *learnt), "each goes behind the others"
    if c.effect.fetcher_fails or c.effect.truncation.stuck:
        assert not learnt


def test_a_hole_that_stays_and_where_both_differ() -> None:
    """KIP-279's scenario 1 under KIP-101, n = 25 in one batch: the cut at 21 takes 11..25 away, and 11..20 never come back."""
    leader = replica(1, [(1, 0, 10), (1, 11, 20), (3, 21, 30)], high_watermark=31)
    follower = replica(2, [(1, 0, 10), (2, 11, 25)], high_watermark=11, alive=False)
    batches = {"leader_batches": [(1, 0, 10), (1, 11, 20), (3, 21, 30)], "follower_batches": [(1, 0, 10), (2, 11, 25)]}
    c = compare(leader, follower, protocol=Protocol.KIP_101, **batches)
    assert list(differences(c)) == [Piece(11, 21, 1, 2), Piece(21, 26, 3, 2)]
    assert list(conflicts(c)) == [Piece(11, 21, 1, None)]
    assert list(conflicts(compare(leader, follower, protocol=Protocol.KIP_101, compacted=True, **batches))) == [], "the cleaner may have"
    assert list(conflicts(compare(leader, follower, protocol=Protocol.KIP_279))) == [], "which cuts at 11"
    assert learnt_epochs(leader.as_leader(), c.effect) == [(3, 21)]


def test_a_fetcher_that_fails_below_the_leaders_log_start_is_healed_by_a_restart() -> None:
    batches = {"leader_batches": [(4, 20, 24), (4, 25, 34)], "follower_batches": [(2, 0, 30)]}
    follower = replica(2, [(2, 0, 30)], high_watermark=22, alive=False)
    below = compare(replica(1, [(4, 20, 34)]), follower, protocol=Protocol.HIGH_WATERMARK, **batches)
    assert (below.effect.fetcher_fails, below.effect.physical_offset) == (True, 0)
    assert restarts_once_failed(below.leader, below.effect)
    whole = {"leader_batches": [(4, 0, 4), (4, 5, 34)], "follower_batches": [(2, 0, 30)]}
    inside = compare(replica(1, [(4, 0, 34)]), follower, protocol=Protocol.HIGH_WATERMARK, **whole)
    assert inside.effect.fetcher_fails
    assert not restarts_once_failed(inside.leader, inside.effect), "its files end at the leader's log start, not below it"


@pytest.mark.parametrize(("alive", "ends"), [(False, True), (None, True), (True, False)])
def test_an_exchange_without_end_ends_where_the_leader_has_yet_to_be_elected(alive: bool | None, ends: bool) -> None:
    """The leader does not know the follower's epoch, and ends where the follower does: OFFSET_OUT_OF_RANGE, again and again."""
    leader = replica(1, [(0, 0, 9)], alive=alive)
    follower = replica(2, [(0, 0, 4), (3, 5, 8)], alive=False)
    truncation = RULES[Protocol.TRUNCATE_ON_FETCH](leader.as_leader(), follower.as_follower())
    assert truncation.stuck
    assert ends_with_election(leader, follower, truncation, 3) == ends
    clean = RULES[Protocol.TRUNCATE_ON_FETCH](leader.as_leader(), replica(2, [(0, 0, 4)]).as_follower())
    assert not ends_with_election(leader, follower, clean, 3), "it has an end by itself"


def test_nothing_is_inconclusive_without_a_cause_and_nothing_else_has_one() -> None:
    with pytest.raises(ValueError, match="inconclusive with cause None"):
        Judgement(verdict=Verdict.INCONCLUSIVE, reason="x")
    with pytest.raises(ValueError, match="identical with cause no epochs"):
        Judgement(verdict=Verdict.IDENTICAL, reason="x", cause=Cause.NO_EPOCHS)


@given(comparisons())
def test_what_a_verdict_is_about_is_there_as_values(c: Comparison) -> None:
    judged = judge(c)
    assert (judged.cause is not None) == (judged.verdict is Verdict.INCONCLUSIVE)
    assert (judged.wrong_epoch is not None) == (judged.verdict is Verdict.EPOCH_TABLE_ONLY)
    if judged.cause is not None:
        assert judged.reason.startswith(f"{judged.cause}: ")
    if judged.wrong_epoch is not None:
        assert f" {judged.wrong_epoch.broker_id}'s leader-epoch-checkpoint" in judged.reason
        assert f"at offset {judged.wrong_epoch.offset}," in judged.reason
