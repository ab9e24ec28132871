"""The exchange as a report has it is the one that the rules replayed: recorded round by round, and read back, never replayed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from replica_audit.partition.pairs.pair import rounds
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.exchange.replay import RULES, Truncation
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.report.facts.explanation import ExplainedStep, exchange_steps
from replica_audit.rows.codes import Case, EpochRequest, FallsBack, OutOfRange, Protocol
from replica_audit.rows.encoding import as_dict, row_of
from replica_audit.rows.pairs import TruncationPoint
from tests.protocol.lineages import comparisons
from tests.protocol.logs import state
from tests.report.audited import exchange_row


def point(truncation: Truncation, **changed: Any) -> TruncationPoint:
    """The row of `truncation_points` that an audit makes of it."""
    row = {
        "follower_id": 2,
        "protocol": str(truncation.protocol),
        "applies": True,
        "truncation_offset": truncation.truncation_offset,
        "restart_offset": truncation.restart_offset,
        "fetcher_fails": False,
        "removed_offsets": 0,
        "still_diverged": False,
    }
    return row_of(TruncationPoint, row | exchange_row(truncation) | changed, of_any_version=True)


def told(protocol: Protocol, leader: ReplicaState, follower: ReplicaState) -> list[ExplainedStep]:
    return list(exchange_steps(point(RULES[protocol](leader, follower))))


@given(comparisons())
def test_it_goes_as_the_rules_say(c: Comparison) -> None:
    for rule in RULES.values():
        truncation = rule(c.leader.as_leader(), c.follower.as_follower())
        row = point(truncation)
        said = list(exchange_steps(row))
        assert (row.fetch_offset, row.stuck) == (truncation.fetch_offset, truncation.stuck)
        answered = [step for step in said if step.number is not None]
        assert [step.number for step in answered] == list(range(1, len(row.rounds or ()) + 1))
        asked = [step for step in truncation.steps if step.request in (EpochRequest.FETCH, EpochRequest.OFFSET_FOR_LEADER_EPOCH)]
        for step, by_rule in zip(answered, asked, strict=False):
            assert (step.case, step.truncate_to, step.log_end_offset) == (by_rule.case, by_rule.truncate_to, by_rule.log_end_offset)
            assert step.fetches == (by_rule.request is EpochRequest.FETCH)
            own = None if step.own_epoch is None else (step.own_epoch, step.own_end_offset)
            assert own == by_rule.own_lookup
            assert (step.out_of_range is not None) == step.case.startswith("out-of-range")
        ends = [step.log_end_offset for step in said]
        cuts = [step.offset if step.case is Case.OUT_OF_RANGE_RESTART else step.truncate_to for step in said]
        for before, cut, after in zip(ends, cuts, ends[1:], strict=False):
            assert after == (before if cut is None else cut), "a step begins where the one before ended"
        assert sum(step.case is Case.HIGH_WATERMARK for step in said) == truncation.falls_back_to_high_watermark


@given(comparisons())
def test_a_cut_takes_the_entries_that_are_gone_afterwards(c: Comparison) -> None:
    follower = c.follower.as_follower()
    for rule in RULES.values():
        truncation = rule(c.leader.as_leader(), follower)
        if truncation.fallback is None and truncation.restart_offset is None:
            dropped = [epoch for step in exchange_steps(point(truncation)) for epoch in step.dropped_epochs]
            kept = [entry.epoch for entry in truncation.follower_after.epochs]
            assert sorted(kept + dropped) == [entry.epoch for entry in follower.epochs if truncation.effective_cuts or entry.epoch in kept]


def test_a_run_of_an_older_version_has_no_steps_and_nothing_is_replayed() -> None:
    truncation = RULES[Protocol.KIP_279](KIP_279_LEADER, state([(1, 0), (2, 11)], 26, high_watermark=11))
    older = [{name: None for name in round_} | {"complete": True} for round_ in map(as_dict, rounds(truncation))]
    row = point(truncation, rounds=older, fetch_offset=None, stuck=None, fallback=None)
    assert not row.is_recorded
    assert not list(exchange_steps(row))


KIP_279_LEADER = state([(1, 0), (3, 21)], 31)
TRIMMED = state([(5, 50), (6, 70)], 80, start=50)


@pytest.mark.parametrize(
    ("protocol", "leader", "follower", "expected"),
    [
        # reference, 5.5: KIP-279 scenario 1, n = 25
        (Protocol.KIP_279, KIP_279_LEADER, state([(1, 0), (2, 11)], 26, high_watermark=11), [(Case.COMMON_EPOCH, 11)]),
        (Protocol.KIP_101, KIP_279_LEADER, state([(1, 0), (2, 11)], 26, high_watermark=11), [(Case.NO_EPOCH, 21)]),
        (Protocol.KIP_101, KIP_279_LEADER, state([(1, 0), (2, 11)], 21, high_watermark=11), [(Case.NO_EPOCH, None)]),
        (Protocol.HIGH_WATERMARK, KIP_279_LEADER, state([(1, 0), (2, 11)], 26, high_watermark=11), [(Case.HIGH_WATERMARK, 11)]),
        # four interleaved epochs
        (
            Protocol.KIP_279,
            state([(1, 0), (3, 10), (5, 20), (7, 30), (9, 40)], 40),
            state([(1, 0), (2, 5), (4, 12), (6, 25), (8, 33)], 44),
            [(Case.UNKNOWN_EPOCH, 33), (Case.UNKNOWN_EPOCH, 25), (Case.UNKNOWN_EPOCH, 12), (Case.COMMON_EPOCH, 5)],
        ),
        # the follower's last epoch is above the leader's
        (
            Protocol.KIP_279,
            KIP_279_LEADER,
            state([(1, 0), (3, 21), (9, 31)], 36, high_watermark=11),
            [(Case.UNDEFINED, None), (Case.HIGH_WATERMARK, 11)],
        ),
        (
            Protocol.TRUNCATE_ON_FETCH,
            KIP_279_LEADER,
            state([(1, 0), (3, 21), (9, 31)], 36, high_watermark=11),
            [(Case.OUT_OF_RANGE_LONGER, 31), (Case.RECORDS, None)],
        ),
        (
            Protocol.TRUNCATE_ON_FETCH,
            state([(1, 0), (3, 12)], 31),
            state([(1, 0), (9, 10)], 20, high_watermark=10),
            [(Case.OUT_OF_RANGE_AGAIN, None)],
        ),
        # the follower ends below the leader's log start
        (
            Protocol.TRUNCATE_ON_FETCH,
            TRIMMED,
            state([(1, 0), (3, 21)], 36),
            [(Case.OUT_OF_RANGE_RESTART, None), (Case.RECORDS, None)],
        ),
        # no epochs at all on the follower
        (
            Protocol.TRUNCATE_ON_FETCH,
            state([(2, 0)], 30),
            state([], 20, high_watermark=12),
            [(Case.HIGH_WATERMARK, 12), (Case.RECORDS, None)],
        ),
        # no common epoch: the answered one is above all that the follower has
        (Protocol.KIP_279, state([(1, 0), (3, 1)], 1), state([(2, 0)], 2), [(Case.COMMON_EPOCH, 0)]),
    ],
)
def test_each_step_has_its_case(
    protocol: Protocol, leader: ReplicaState, follower: ReplicaState, expected: list[tuple[Case, int | None]]
) -> None:
    assert [(step.case, step.truncate_to) for step in told(protocol, leader, follower)] == expected


def test_why_an_offset_is_out_of_range() -> None:
    above = told(Protocol.TRUNCATE_ON_FETCH, KIP_279_LEADER, state([(1, 0), (3, 21), (9, 31)], 36))
    below = told(Protocol.TRUNCATE_ON_FETCH, TRIMMED, state([(1, 0), (5, 21)], 36))
    beyond = told(Protocol.HIGH_WATERMARK, state([], 10), state([], 20, high_watermark=20))
    assert [found[0 if found is not beyond else 1].out_of_range for found in (above, below, beyond)] == [
        OutOfRange.EPOCH,
        OutOfRange.BELOW_START,
        OutOfRange.BEYOND_END,
    ]


def test_a_follower_looks_the_answer_up_in_the_table_that_is_left() -> None:
    """KIP-279's third scenario: the second lookup is in a table that the first round has cut."""
    steps = told(Protocol.KIP_279, state([(1, 0), (3, 1)], 2), state([(0, 0), (2, 1)], 2))
    assert [
        (step.requested_epoch, step.answered_epoch, step.answered_end_offset, step.own_epoch, step.own_end_offset, step.truncate_to)
        for step in steps
    ] == [
        (2, 1, 1, 0, 1, 1),
        (0, 0, 0, 0, 1, 0),
    ]


@pytest.mark.parametrize(
    ("protocol", "leader", "follower", "because"),
    [
        (Protocol.HIGH_WATERMARK, KIP_279_LEADER, state([(1, 0)], 26, high_watermark=11), FallsBack.ASKS_NOTHING),
        (Protocol.KIP_101, KIP_279_LEADER, state([(9, 0)], 26, high_watermark=11), FallsBack.UNDEFINED),
        (Protocol.KIP_279, KIP_279_LEADER, state([(9, 0)], 26, high_watermark=11), FallsBack.UNDEFINED),
        (Protocol.KIP_279, KIP_279_LEADER, state([], 26, high_watermark=11), FallsBack.NO_EPOCHS),
        (Protocol.TRUNCATE_ON_FETCH, KIP_279_LEADER, state([], 26, high_watermark=11), FallsBack.NO_EPOCHS),
    ],
)
def test_why_it_falls_back(protocol: Protocol, leader: ReplicaState, follower: ReplicaState, because: FallsBack) -> None:
    steps = told(protocol, leader, follower)
    place = next(place for place, step in enumerate(steps) if step.number is None)
    assert (steps[place].because, steps[place].truncate_to, steps[place].offset) == (because, 11, 11)
    assert place == (1 if because is FallsBack.UNDEFINED else 0), "behind the answer that could not tell"
