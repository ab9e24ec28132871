"""The shared shape of an exchange: the leader's check, the follower's step, what a truncation does to a replica's offsets and table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.epochs.epoch_table import UNDEFINED, EpochEntry
from replica_audit.protocol.exchange.replay import (
    RULES,
    OffsetOutOfRange,
    Replay,
    diverging_epoch,
    follower_step,
    kip_279,
    truncate_on_fetch,
)
from replica_audit.protocol.exchange.replica import ReplicaState, restarted, truncated
from replica_audit.rows.codes import Case, EpochRequest, Protocol
from tests.protocol.lineages import tables
from tests.protocol.logs import state

LEADER = state([(0, 0), (3, 2), (4, 8), (7, 13), (9, 14), (10, 17)], 17)
TRIMMED = state([(3, 5), (4, 8), (7, 13), (9, 14), (10, 17)], 17, start=5)


@pytest.mark.parametrize(
    ("leader", "offset", "epoch", "answer"),
    [
        pytest.param(LEADER, 2, 0, None, id="at the end of its epoch"),
        pytest.param(LEADER, 5, 2, (0, 2), id="unknown epoch: the floor"),
        pytest.param(LEADER, 6, 6, (4, 13), id="below the answered end: the epoch alone decides"),
        pytest.param(LEADER, 9, 4, None, id="inside its epoch"),
        pytest.param(LEADER, 14, 4, (4, 13), id="beyond the end of its epoch"),
        pytest.param(LEADER, 17, 10, None, id="at the log end in the latest epoch"),
        pytest.param(LEADER, 18, 10, (10, 17), id="beyond the log end in the latest epoch"),
        pytest.param(TRIMMED, 8, 2, (2, 5), id="below the first epoch: echoed with the first start"),
        pytest.param(TRIMMED, 5, 3, None, id="at the log start"),
        pytest.param(TRIMMED, 5, 0, None, id="at the log start, of an epoch that the log no longer holds"),
    ],
)
def test_the_leader_checks_the_last_fetched_epoch(leader: ReplicaState, offset: int, epoch: int, answer: tuple[int, int] | None) -> None:
    assert diverging_epoch(leader, offset, epoch) == answer


@pytest.mark.parametrize(
    ("leader", "offset", "epoch"),
    [
        pytest.param(LEADER, 5, 11, id="an epoch above the latest"),
        pytest.param(LEADER, 5, -1, id="an undefined epoch"),
        pytest.param(state([], 17), 5, 3, id="a leader without epochs"),
        pytest.param(TRIMMED, 4, 3, id="below the log start"),
        pytest.param(TRIMMED, 4, 8, id="below the log start and diverging: out of range wins"),
    ],
)
def test_out_of_range_instead_of_an_answer(leader: ReplicaState, offset: int, epoch: int) -> None:
    with pytest.raises(OffsetOutOfRange):
        diverging_epoch(leader, offset, epoch)


@pytest.mark.parametrize(
    ("answer", "own", "fetch_offset", "expected"),
    [
        pytest.param((-1, -1), UNDEFINED, 37, (37, True, Case.UNDEFINED), id="rule 1: undefined, where the follower stands"),
        pytest.param((4, -1), (4, 90), 999, (999, True, Case.UNDEFINED), id="rule 1: not capped here"),
        pytest.param((-1, 155), (3, 120), 0, (155, True, Case.NO_EPOCH), id="rule 2: no epoch in the answer, own lookup not used"),
        pytest.param((-1, 255), (3, 120), 0, (200, True, Case.NO_EPOCH), id="rule 2: never above the own end"),
        pytest.param((9, 150), UNDEFINED, 0, (150, True, Case.LATER_EPOCH), id="rule 3: answered epoch above all own"),
        pytest.param((9, 202), UNDEFINED, 0, (200, True, Case.LATER_EPOCH), id="rule 3: never above the own end"),
        pytest.param((3, 130), (2, 129), 200, (129, False, Case.UNKNOWN_EPOCH), id="rule 4: answered epoch unknown, its offset is ignored"),
        pytest.param((3, 101), (2, 129), 200, (129, False, Case.UNKNOWN_EPOCH), id="rule 4: ignored also where it is lower"),
        pytest.param((3, 101), (2, 250), 200, (200, False, Case.UNKNOWN_EPOCH), id="rule 4: never above the own end"),
        pytest.param((5, 156), (5, 200), 0, (156, True, Case.COMMON_EPOCH), id="rule 5: the leader's end is lower"),
        pytest.param((5, 180), (5, 170), 0, (170, True, Case.COMMON_EPOCH), id="rule 5: the own end is lower"),
        pytest.param((5, 230), (5, 220), 0, (200, True, Case.COMMON_EPOCH), id="rule 5: never above the own end"),
    ],
)
def test_the_follower_decides_on_an_answer(
    answer: tuple[int, int], own: tuple[int, int], fetch_offset: int, expected: tuple[int, bool, Case]
) -> None:
    assert follower_step(EpochEntry(*answer), EpochEntry(*own), 200, fetch_offset) == expected


def test_a_truncation_shortens_log_table_and_high_watermark() -> None:
    before = state([(1, 0), (2, 10), (3, 20)], 30, high_watermark=25)
    assert truncated(before, 20) == state([(1, 0), (2, 10)], 20, high_watermark=20)
    assert truncated(before, 28) == state([(1, 0), (2, 10), (3, 20)], 28, high_watermark=25)


@pytest.mark.parametrize("offset", [30, 31])
def test_a_truncation_at_or_above_the_log_end_only_drops_entries_without_records(offset: int) -> None:
    before = state([(1, 0), (4, 30)], 30, high_watermark=30)
    assert truncated(before, offset) == state([(1, 0)], 30, high_watermark=30)


def test_a_truncation_below_the_log_start_inside_the_first_segment_lowers_the_log_start() -> None:
    before = state([(1, 20), (3, 25)], 36, start=20, first_segment_base=10, high_watermark=30)
    assert truncated(before, 15) == state([], 15, start=15, first_segment_base=10, high_watermark=15)
    older = state([(1, 0), (3, 25)], 36, start=20, first_segment_base=10)
    assert truncated(older, 10) == state([(1, 0)], 10, start=10), "at the base of the first segment it is no restart: the table stays"


def test_a_truncation_below_the_first_segment_restarts_the_log() -> None:
    before = state([(1, 20), (3, 25)], 36, start=20, high_watermark=30)
    assert truncated(before, 8) == restarted(before, 8) == state([], 8, start=8, high_watermark=8)


def test_a_step_records_what_was_asked_and_answered() -> None:
    found = truncate_on_fetch(state([(1, 0), (3, 21)], 31), state([(1, 0), (2, 11)], 16))
    first, last = found.steps
    assert (first.request, first.fetch_offset, first.requested_epoch) == (EpochRequest.FETCH, 16, 2)
    assert (first.answered_epoch, first.answered_end_offset, first.truncate_to, first.complete) == (1, 21, 11, True)
    assert (last.fetch_offset, last.requested_epoch, last.answered_epoch, last.truncate_to) == (11, 1, None, None)
    assert found.round_trips == 1
    assert found.cuts == ((11, True),)


def test_a_cut_that_is_ordered_but_shortens_nothing_is_no_cut() -> None:
    found = kip_279(state([(1, 0), (2, 20)], 25), state([(1, 0)], 20))
    assert found.cuts == ((20, True),)
    assert found.effective_cuts == ()
    assert found.truncation_offset is None
    assert found.steps[0].truncate_to is None
    assert found.round_trips == 1


def test_out_of_range_is_followed_by_questions_for_the_leaders_ends() -> None:
    restart = truncate_on_fetch(state([(5, 50), (6, 70)], 80, start=50), state([(1, 0), (3, 21)], 36))
    assert [step.request for step in restart.steps] == [
        EpochRequest.FETCH,
        EpochRequest.LIST_OFFSETS_LATEST,
        EpochRequest.LIST_OFFSETS_EARLIEST,
        EpochRequest.FETCH,
    ]
    assert [bool(step.out_of_range) for step in restart.steps] == [True, False, False, False]
    assert [step.answered_end_offset for step in restart.steps] == [80, 80, 50, None]
    assert restart.steps[0].truncate_to is None
    assert restart.round_trips == 3
    longer = truncate_on_fetch(state([(1, 0), (3, 21)], 31), state([(1, 0), (3, 21), (9, 31)], 36))
    assert [step.request for step in longer.steps[:2]] == [EpochRequest.FETCH, EpochRequest.LIST_OFFSETS_LATEST]
    assert longer.steps[0].truncate_to == 31


def test_a_loop_without_end_stops_at_the_first_state_that_comes_again() -> None:
    found = truncate_on_fetch(state([(1, 0), (3, 12)], 31), state([(1, 0), (9, 10)], 20))
    assert found.stuck
    assert [bool(step.out_of_range) for step in found.steps if step.request is EpochRequest.FETCH] == [True]
    assert found.round_trips == len(found.steps)
    assert found.fetch_offset == 20
    assert not found.steps[0].complete


@pytest.mark.parametrize(
    "leader",
    [
        pytest.param(state([], 20), id="the leader ends where the follower does"),
        pytest.param(state([], 30, start=20), id="the leader starts where the follower ends"),
    ],
)
def test_out_of_range_keeps_a_log_that_reaches_the_leaders_start_and_is_not_longer(leader: ReplicaState) -> None:
    found = truncate_on_fetch(leader, state([(1, 0)], 20, high_watermark=7))
    assert (found.stuck, found.cuts, found.restart_offset, found.fetch_offset) == (True, (), None, 20)
    assert [step.request for step in found.steps] == [
        EpochRequest.FETCH,
        EpochRequest.LIST_OFFSETS_LATEST,
        EpochRequest.LIST_OFFSETS_EARLIEST,
    ]
    assert not found.steps[0].complete


def test_an_exchange_starts_without_history() -> None:
    replay = Replay(Protocol.KIP_279, LEADER, TRIMMED)
    replay.fall_back(17)
    assert replay.fallback is not None
    assert replay.fallback.truncate_to is None, "it cuts nothing at the log end"


@st.composite
def _states(draw: st.DrawFn) -> ReplicaState:
    start = draw(st.integers(0, 12))
    end = start + draw(st.integers(0, 20))
    return state(
        draw(tables()), end, start=start, high_watermark=draw(st.integers(start, end)), first_segment_base=draw(st.integers(0, start))
    )


@given(_states(), _states(), st.sampled_from(list(Protocol)))
def test_whatever_the_two_sides_hold_cuts_only_ever_lower_the_log_end(
    leader: ReplicaState, follower: ReplicaState, protocol: Protocol
) -> None:
    found = RULES[protocol](leader, follower)
    effective = [follower.log_end_offset, *found.effective_cuts]
    assert effective == sorted(set(effective), reverse=True)
    if found.truncation_offset is not None:
        assert found.truncation_offset < follower.log_end_offset
    if found.restart_offset is None:
        assert found.fetch_offset == min([follower.log_end_offset, *(offset for offset, _ in found.cuts)])
    else:
        assert found.fetch_offset >= found.restart_offset == leader.log_start_offset
    assert found.falls_back_to_high_watermark or found.high_watermark_cut is None
    assert [step.truncate_to for step in found.steps if step.truncate_to is not None] == list(found.effective_cuts)
    if not found.stuck:
        assert leader.log_start_offset <= found.fetch_offset <= leader.log_end_offset
        assert not found.steps[-1].out_of_range


@given(_states(), _states())
def test_the_leaders_answer_does_not_depend_on_the_followers_high_watermark(leader: ReplicaState, follower: ReplicaState) -> None:
    """A follower with epochs asks them alone in the current generation."""
    if follower.epochs:
        lower = state(
            follower.epochs,
            follower.log_end_offset,
            start=follower.log_start_offset,
            high_watermark=follower.log_start_offset,
            first_segment_base=follower.first_segment_base,
        )
        assert truncate_on_fetch(leader, follower).steps == truncate_on_fetch(leader, lower).steps
