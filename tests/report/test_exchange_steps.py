"""The exchange told from table rows is the one that the rules replay."""

from __future__ import annotations

import pytest
from hypothesis import given

from replica_audit.protocol.comparison import Comparison
from replica_audit.protocol.exchange import Protocol, ReplicaState, Request, Step, Truncation
from replica_audit.protocol.truncation import RULES
from replica_audit.report.exchange_steps import Case, Exchange, LogState, OutOfRange, exchange
from replica_audit.report.explained_rows import Round, TruncationPoint
from tests.protocol.lineages import comparisons
from tests.protocol.logs import state


def point(truncation: Truncation) -> TruncationPoint:
    """The row of `truncation_points` that says the same."""
    return TruncationPoint(
        follower_id=2,
        protocol=str(truncation.protocol),
        applies=True,
        truncation_offset=truncation.truncation_offset,
        restart_offset=truncation.restart_offset,
        fetcher_fails=False,
        round_trips=truncation.round_trips,
        rounds=tuple(round_of(step) for step in truncation.steps if is_round(step, truncation.protocol)),
        falls_back_to_high_watermark=truncation.falls_back_to_high_watermark,
        removed_offsets=0,
        still_diverged=False,
    )


def is_round(step: Step, protocol: Protocol) -> bool:
    if step.request is Request.FETCH:
        return step.out_of_range or protocol is Protocol.TRUNCATE_ON_FETCH
    return step.request is Request.OFFSET_FOR_LEADER_EPOCH


def round_of(step: Step) -> Round:
    return Round(
        requested_epoch=None if step.requested_epoch == -1 else step.requested_epoch,
        answered_epoch=None if step.answered_epoch == -1 else step.answered_epoch,
        answered_end_offset=step.answered_end_offset,
        truncate_to=step.truncate_to,
        complete=step.complete,
    )


def log_state(side: ReplicaState) -> LogState:
    return LogState(
        epochs=side.epochs,
        log_start_offset=side.log_start_offset,
        log_end_offset=side.log_end_offset,
        first_segment_base=side.first_segment_base,
    )


def told(protocol: Protocol, leader: ReplicaState, follower: ReplicaState) -> Exchange:
    truncation = RULES[protocol](leader, follower)
    return exchange(point(truncation), log_state(leader), log_state(follower), follower.high_watermark)


@given(comparisons())
def test_it_ends_as_the_rules_say(c: Comparison) -> None:
    leader, follower = c.leader.as_leader(), c.follower.as_follower()
    for rule in RULES.values():
        truncation = rule(leader, follower)
        row = point(truncation)
        said = exchange(row, log_state(leader), log_state(follower), c.follower.high_watermark)
        assert said.fetch_offset == truncation.fetch_offset
        assert said.stuck == truncation.stuck
        assert [(step.truncate_to, step.number) for step in said.steps if step.number] == [
            (answer.truncate_to, number) for number, answer in enumerate(row.rounds, 1)
        ]
        fetches = [step.log_end_offset for step in said.steps if step.fetches]
        asked = [step.fetch_offset for step in truncation.steps if step.request is Request.FETCH]
        if not c.follower.alive:  # whose high watermark is not the file's
            assert fetches == asked[: len(fetches)], "every fetch begins where the rules' fetch does"
        assert sum(step.case is Case.HIGH_WATERMARK for step in said.steps) == truncation.falls_back_to_high_watermark


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
    assert [(step.case, step.truncate_to) for step in told(protocol, leader, follower).steps] == expected


def test_why_an_offset_is_out_of_range() -> None:
    above = told(Protocol.TRUNCATE_ON_FETCH, KIP_279_LEADER, state([(1, 0), (3, 21), (9, 31)], 36))
    below = told(Protocol.TRUNCATE_ON_FETCH, TRIMMED, state([(1, 0), (5, 21)], 36))
    beyond = told(Protocol.HIGH_WATERMARK, state([], 10), state([], 20, high_watermark=20))
    assert [found.steps[0 if found is not beyond else 1].out_of_range for found in (above, below, beyond)] == [
        OutOfRange.EPOCH,
        OutOfRange.BELOW_START,
        OutOfRange.BEYOND_END,
    ]


def test_a_follower_looks_the_answer_up_in_the_table_that_is_left() -> None:
    """KIP-279's third scenario: the second lookup is in a table that the first round has cut."""
    steps = told(Protocol.KIP_279, state([(1, 0), (3, 1)], 2), state([(0, 0), (2, 1)], 2)).steps
    assert [(step.requested_epoch, step.answered_epoch, step.answered_end_offset, step.own_lookup, step.truncate_to) for step in steps] == [
        (2, 1, 1, (0, 1), 1),
        (0, 0, 0, (0, 1), 0),
    ]
