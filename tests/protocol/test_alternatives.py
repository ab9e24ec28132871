"""The rejected alternatives of KIP-279 beside what was built: the KIP's own numbers, and what holds for every history."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from replica_audit.protocol.exchange import alternatives as alt
from replica_audit.protocol.exchange.alternatives import epoch_sequence_exchange, high_watermark_epoch, unknown_offset_rounds
from replica_audit.protocol.exchange.replay import RULES as PROTOCOLS
from replica_audit.protocol.exchange.replay import high_watermark, kip_101, kip_279, truncate_on_fetch
from replica_audit.protocol.exchange.replica import ReplicaState
from tests.protocol.lineages import Partition, partitions
from tests.protocol.logs import Pairs, state

A = state([(1, 0), (3, 21)], 31)
KIP_101_SCENARIO = state([(1, 0)], 21), state([(1, 0)], 21, high_watermark=11)
FAST_FAIL_OVER = state([(1, 0), (3, 1)], 2)


def _b(n: int) -> ReplicaState:
    return state([(1, 0), (2, 11)], n + 1, high_watermark=11)


def _interleaved(watermark: int) -> ReplicaState:
    return state([(0, 0), (2, 1)], 2, high_watermark=watermark)


def _numbers(found: alt.AlternativeOutcome) -> tuple[int | None, int, int, int, bool]:
    return found.truncation_offset, found.round_trips, found.request_bytes, found.response_bytes, found.falls_back_to_high_watermark


# --- what is counted ----------------------------------------------------------------------------------------------------------------------


def test_the_accepted_answer_is_32_bits_longer_per_partition() -> None:
    assert alt.traffic(kip_101(A, _b(15))) == alt.Traffic(requests=1, request_bytes=8, response_bytes=14)
    assert alt.traffic(kip_279(A, _b(15))) == (1, 8, 14 + 32 // 8)
    assert alt.traffic(kip_279(FAST_FAIL_OVER, _interleaved(0))) == alt.Traffic(requests=2, request_bytes=16, response_bytes=36)


def test_a_fetch_counts_where_it_is_answered_with_an_epoch() -> None:
    """With what Fetch 12 added: an INT32 that asks, an INT32 and an INT64 that answer. By the high watermark nothing is asked."""
    assert alt.traffic(truncate_on_fetch(A, _b(25))) == alt.Traffic(requests=1, request_bytes=4, response_bytes=12)
    assert alt.traffic(truncate_on_fetch(FAST_FAIL_OVER, _interleaved(0))) == alt.Traffic(requests=2, request_bytes=8, response_bytes=24)
    assert alt.traffic(high_watermark(A, _b(25))) == alt.traffic(truncate_on_fetch(*KIP_101_SCENARIO)) == (0, 0, 0)


def test_list_offsets_are_not_counted() -> None:
    found = kip_279(state([(5, 50)], 80, start=50), state([(1, 0)], 36, high_watermark=36))
    assert (found.round_trips, alt.traffic(found).requests) == (4, 1)


def test_alternative_2_sends_64_to_160_bits_more_than_one_epoch() -> None:
    for follower, pairs, more_bits in ((KIP_101_SCENARIO[1], 1, 64), (_b(20), 2, 160)):
        found = epoch_sequence_exchange(A, follower)
        assert found.request_bytes == 4 + pairs * 12 == 8 + more_bits // 8
        assert (found.round_trips, found.response_bytes) == (1, 14)


# --- scenarios ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [15, 20, 25])
def test_scenario_1(n: int) -> None:
    assert _numbers(unknown_offset_rounds(A, _b(n))) == (11, 2, 16, 28, False)
    assert _numbers(epoch_sequence_exchange(A, _b(n))) == (11, 1, 28, 14, False)
    assert _numbers(high_watermark_epoch(A, _b(n))) == (11, 1, 8, 14, False)


def test_the_documentation_shows_all_rules_side_by_side() -> None:
    scenarios = (A, _b(20)), KIP_101_SCENARIO, (FAST_FAIL_OVER, _interleaved(2)), (FAST_FAIL_OVER, _interleaved(0))
    text = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([a-z0-9-]+)` ((?:\| (?:none|\d+); \d+; \d+ \+ \d+ ){4})\|$", text, re.MULTILINE))
    found: dict[str, str] = {}
    for leader, follower in scenarios:
        accepted = [rule(leader, follower) for rule in PROTOCOLS.values()]
        cells = [(str(one.protocol), one.truncation_offset, *alt.traffic(one)) for one in accepted]
        cells += [(str(outcome.alternative), *_numbers(outcome)[:4]) for outcome in alt.what_if(leader, follower)]
        for name, cut, requests, asked, answered in cells:
            found[name] = f"{found.get(name, '')}| {'none' if cut is None else cut}; {requests}; {asked} + {answered} "
    assert shown == found


@pytest.mark.parametrize(("watermark", "cut"), [(0, 0), (1, 1), (2, None)])
def test_scenario_3_exhausts_alternative_1_and_leaves_the_high_watermark(watermark: int, cut: int | None) -> None:
    """As built, KIP-279 answers (0, 0) to the second request: the cut does not depend on a high watermark."""
    assert _numbers(unknown_offset_rounds(FAST_FAIL_OVER, _interleaved(watermark))) == (cut, 2, 16, 28, True)
    assert kip_279(FAST_FAIL_OVER, _interleaved(watermark)).truncation_offset == 0


def test_scenario_3_under_alternative_2_is_counted_for_two_high_watermarks_at_once() -> None:
    """The KIP sends a sequence of one epoch, that of high watermark 2, and a longer one, then cuts by that of 0. No follower has both."""
    found = epoch_sequence_exchange(FAST_FAIL_OVER, _interleaved(0), sequence_start=2)
    assert _numbers(found) == (0, 2, 2 * 4 + 3 * 12, 28, True)
    assert _numbers(epoch_sequence_exchange(FAST_FAIL_OVER, _interleaved(2))) == (None, 2, 44, 28, True)
    assert _numbers(epoch_sequence_exchange(FAST_FAIL_OVER, _interleaved(0))) == (0, 1, 28, 14, True)


def test_one_more_fail_over_is_where_alternative_2_needs_fewer_round_trips() -> None:
    leader, follower = state([(1, 0), (3, 1), (5, 2)], 3), state([(0, 0), (2, 1), (4, 2)], 3, high_watermark=3)
    rejected = [rule(leader, follower).round_trips for rule in (unknown_offset_rounds, epoch_sequence_exchange)]
    assert (alt.traffic(kip_279(leader, follower)).requests, rejected) == (3, [3, 2])


@pytest.mark.parametrize(("watermark", "cut", "falls_back"), [(2, 1, False), (1, 1, True), (0, 0, True)])
def test_scenario_3_is_beyond_the_epoch_at_the_high_watermark(watermark: int, cut: int, falls_back: bool) -> None:
    """Epoch 2 is unknown to the leader: KIP-101's answer leaves offset 0 diverged. Epoch 0 lies below its first: undefined."""
    assert _numbers(high_watermark_epoch(FAST_FAIL_OVER, _interleaved(watermark))) == (cut, 1, 8, 14, falls_back)


# --- where nothing can be asked, or nothing answered --------------------------------------------------------------------------------------


def test_a_follower_without_epochs_asks_nothing() -> None:
    *alternatives, as_kip_101 = alt.what_if(A, state([], 20, high_watermark=7))
    for outcome in alternatives:
        assert _numbers(outcome) == (7, 0, 0, 0, True)
    assert as_kip_101.truncation_offset == 7


def test_a_leader_without_epochs_is_asked_once() -> None:
    leader, follower = state([], 40), state([(1, 0), (2, 11), (4, 15)], 31, high_watermark=5)
    assert _numbers(unknown_offset_rounds(leader, follower)) == (5, 1, 8, 14, True)
    assert _numbers(epoch_sequence_exchange(leader, follower, sequence_start=31)) == (5, 1, 16, 14, True)
    assert _numbers(high_watermark_epoch(leader, follower)) == (5, 1, 8, 14, True)


def test_what_follows_the_cut_is_what_follows_every_cut() -> None:
    """A log still longer than the leader's is cut to its end; one that ends below the leader's start begins anew, which is no cut."""
    assert _numbers(unknown_offset_rounds(A, state([(2, 0)], 40, high_watermark=35))) == (31, 1, 8, 14, True)
    assert _numbers(unknown_offset_rounds(state([(5, 50)], 80, start=50), state([(1, 0)], 36, high_watermark=36)))[0] is None


def test_the_first_sequence_begins_with_the_epoch_that_ends_at_the_high_watermark() -> None:
    """KIP-279's own clean example sends (1, 11) at high watermark 11. The newest epoch is sent wherever the sequence should begin."""
    assert epoch_sequence_exchange(A, _b(20)).round_trips == 1
    assert epoch_sequence_exchange(A, replace(_b(20), high_watermark=12)).round_trips == 2
    assert _numbers(epoch_sequence_exchange(A, _b(20), sequence_start=99)) == (11, 2, 2 * 4 + 3 * 12, 28, False)


def test_a_high_watermark_that_was_not_persisted_at_a_leader_change_costs_every_later_epoch() -> None:
    """The KIP's reason against approach 1: equal logs, and the follower drops what may be committed."""
    same: Pairs = [(0, 0), (1, 10), (2, 20)]
    sides = state(same, 30), state(same, 30, high_watermark=5)
    assert high_watermark_epoch(*sides).truncation_offset == 10
    assert {rule(*sides).truncation_offset for rule in (unknown_offset_rounds, epoch_sequence_exchange, kip_279)} == {None}


def test_reasons_name_what_decided() -> None:
    first, second, third, fourth = alt.what_if(A, _b(15))
    assert first.reason == "epoch 1 is the newest that both know, it ends at 21 on the leader"
    assert second.reason == "epoch 1 is the newest that both know, it ends at 21 on the leader and at 11 here"
    assert third.reason == "the high watermark 11 is in epoch 1, which ends at 21 on the leader"
    assert fourth.reason == "the elections are unknown, and so is what this would have changed"
    first, second, third, _ = alt.what_if(FAST_FAIL_OVER, _interleaved(2))
    assert first.reason == second.reason == "no epoch that both know: the high watermark 2 decides"
    assert third.reason == "the high watermark 2 is in epoch 2, which the leader does not know: 1 is where a later one begins"
    assert high_watermark_epoch(FAST_FAIL_OVER, _interleaved(0)).reason.endswith("whose end the leader does not know")


# --- leaving the ISR on a preferred election ----------------------------------------------------------------------------------------------


def _e(epoch: int, leader: int, *, preferred: bool = False, caught_up: tuple[int, ...] | None = ()) -> alt.PreferredElection:
    return alt.PreferredElection(leader_epoch=epoch, leader_id=leader, preferred=preferred, isr=(1, 2), caught_up=caught_up)


FIRST, PREFERRED, AGAIN = _e(1, 1), _e(2, 2, preferred=True), _e(3, 1)


@pytest.mark.parametrize(("n", "cut"), [(15, None), (20, None), (25, 21)])
def test_scenario_1_could_not_have_been_elected_cleanly(n: int, cut: int | None) -> None:
    """The exchange stays KIP-101's, and so does its cut; what changes is that nobody would have had to ask it."""
    found = alt.leave_isr_on_preferred_election(A, _b(n), [FIRST, PREFERRED, AGAIN])
    assert found is not None
    assert (_numbers(found), found.election_is_clean) == ((cut, 1, 8, 14, False), False)
    assert found.reason == "broker 1 would have left the ISR in epoch 2 and not caught up: its election in epoch 3 would have been unclean"


@pytest.mark.parametrize(
    ("elections", "clean"),
    [
        pytest.param([FIRST, replace(PREFERRED, caught_up=(1,)), AGAIN], True, id="it had caught up before it was elected again"),
        pytest.param([FIRST, replace(PREFERRED, preferred=False), AGAIN], True, id="it was deposed by a failure"),
        pytest.param([FIRST, AGAIN], True, id="it follows itself"),
        pytest.param([_e(0, 1), _e(3, 2)], True, id="it never led"),
        pytest.param([FIRST, replace(AGAIN, isr=(2,))], False, id="the election was unclean anyway"),
        pytest.param([FIRST, replace(PREFERRED, caught_up=None), AGAIN], False, id="the tables prove that it did not follow"),
        pytest.param([FIRST, PREFERRED, _e(3, 3, caught_up=(1,)), _e(4, 1)], True, id="it had caught up with a later leader"),
        pytest.param([FIRST, PREFERRED, _e(3, -1), _e(4, 1)], False, id="nobody led in between"),
    ],
)
def test_whether_the_election_would_have_been_clean(elections: list[alt.PreferredElection], clean: bool) -> None:
    found = alt.leave_isr_on_preferred_election(A, _b(15), elections)
    assert found is not None
    assert found.election_is_clean is clean


@pytest.mark.parametrize(
    "elections",
    [
        pytest.param([], id="no history"),
        pytest.param([FIRST, _e(3, 2, preferred=True, caught_up=None), _e(4, 1)], id="of an epoch without records no table tells"),
        pytest.param([PREFERRED, AGAIN], id="who led before the first known election is unknown"),
        pytest.param([AGAIN], id="only the last election is known"),
        pytest.param([FIRST, PREFERRED], id="the history ends before the leader's latest epoch"),
        pytest.param([FIRST, PREFERRED, _e(3, -1)], id="nobody was elected"),
    ],
)
def test_what_the_history_does_not_tell_is_not_answered(elections: list[alt.PreferredElection]) -> None:
    found = alt.leave_isr_on_preferred_election(A, _b(15), elections)
    assert (found.election_is_clean, found.truncation_offset) == (None, kip_101(A, _b(15)).truncation_offset)
    assert "unknown" in found.reason or "do not show" in found.reason


@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        pytest.param(state([(1, 0), (3, 11)], 31), _b(15), id="its older epochs end where the follower begins epoch 2: it may have cut"),
        pytest.param(state([(1, 0), (2, 11), (3, 16)], 31), _b(15), id="it has records of epoch 2: it followed, how far is unknown"),
        pytest.param(A, state([(1, 0)], 16), id="the follower knows nothing of epoch 2"),
    ],
)
def test_tables_that_do_not_prove_whether_it_followed(leader: ReplicaState, follower: ReplicaState) -> None:
    found = alt.leave_isr_on_preferred_election(leader, follower, [FIRST, replace(PREFERRED, caught_up=None), AGAIN])
    assert found.election_is_clean is None


def test_all_alternatives_in_the_order_of_the_kip() -> None:
    found = alt.what_if(A, _b(15), [FIRST, PREFERRED, AGAIN])
    assert [outcome.alternative for outcome in found] == list(alt.Alternative)
    assert [outcome.election_is_clean for outcome in found] == [None, None, None, False]


# --- real lineages ------------------------------------------------------------------------------------------------------------------------


def _sides(partition: Partition) -> list[tuple[ReplicaState, ReplicaState]]:
    leader = partition.replicas[partition.leader].replica(partition.leader).as_leader()
    return [(leader, partition.replicas[broker].replica(broker).as_follower()) for broker in partition.followers]


def _share_an_epoch(leader: ReplicaState, follower: ReplicaState) -> bool:
    return bool({entry.epoch for entry in leader.epochs} & {entry.epoch for entry in follower.epochs})


@given(partitions(elections="elect_cleanly"))
def test_after_clean_elections_both_alternatives_cut_where_kip_279_cuts(partition: Partition) -> None:
    for sides in _sides(partition):
        assert unknown_offset_rounds(*sides).truncation_offset == kip_279(*sides).truncation_offset
        assert epoch_sequence_exchange(*sides).truncation_offset == kip_279(*sides).truncation_offset


@given(partitions())
def test_after_any_elections_they_do_where_an_epoch_is_shared_and_else_the_high_watermark_decides(partition: Partition) -> None:
    for leader, follower in _sides(partition):
        found = unknown_offset_rounds(leader, follower)
        assert found.falls_back_to_high_watermark != _share_an_epoch(leader, follower)
        if found.falls_back_to_high_watermark:
            expected = high_watermark(leader, follower)
            assert kip_279(leader, follower).fetch_offset == 0, "nothing is shared"
        else:
            expected = kip_279(leader, follower)
        assert found.truncation_offset == expected.truncation_offset


@given(partitions())
def test_alternative_2_cuts_as_alternative_1_in_at_most_as_many_round_trips(partition: Partition) -> None:
    for sides in _sides(partition):
        rounds, sequences = unknown_offset_rounds(*sides), epoch_sequence_exchange(*sides)
        assert sequences.truncation_offset == rounds.truncation_offset
        assert sequences.falls_back_to_high_watermark == rounds.falls_back_to_high_watermark
        assert sequences.round_trips <= min(2, rounds.round_trips)


@given(partitions())
def test_alternative_1_never_takes_fewer_round_trips_than_kip_279(partition: Partition) -> None:
    for sides in _sides(partition):
        found = unknown_offset_rounds(*sides)
        assert found.round_trips >= alt.traffic(kip_279(*sides)).requests
        assert (found.request_bytes, found.response_bytes) == (8 * found.round_trips, 14 * found.round_trips)


@given(partitions(elections="elect_cleanly"))
def test_after_clean_elections_the_epoch_at_the_high_watermark_is_right_where_one_is(partition: Partition) -> None:
    """It keeps what is committed and no conflict; of a follower that knows nothing as committed see the test after this one."""
    leader = partition.replicas[partition.leader].records
    for broker, sides in zip(partition.followers, _sides(partition), strict=True):
        found = high_watermark_epoch(*sides)
        end = sides[1].log_end_offset if found.truncation_offset is None else found.truncation_offset
        assert sides[1].high_watermark <= end
        kept = {offset: epoch for offset, epoch in partition.replicas[broker].records.items() if offset < end}
        assert kept.items() <= leader.items() or sides[1].high_watermark == 0


def test_after_clean_elections_with_nothing_committed_the_first_epoch_may_be_unknown_to_the_leader() -> None:
    """Three leaders in a row, none of whose records was replicated: KIP-101's answer is of another epoch, and offset 0 stays diverged."""
    leader, follower = state([(6, 0), (8, 1)], 1), state([(7, 0)], 1)
    assert _numbers(high_watermark_epoch(leader, follower)) == (None, 1, 8, 14, False)
    assert kip_279(leader, follower).truncation_offset == 0
