"""The exchange of one truncation point, step by step, each with the case of Kafka's rule that decided it.

The rounds are the table's. What the follower looked up in its own table, and hence which case it was, is worked out again from the epoch
tables of both sides, cut as the rounds cut them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epoch_table import EMPTY, UNDEFINED, EpochEntry, EpochTable, end_offset_for, truncate_from_end
from replica_audit.protocol.exchange import Protocol
from replica_audit.report.explained_rows import Round, TruncationPoint


class Case(StrEnum):
    """What decides a step: a case of AbstractFetcherThread.getOffsetTruncationState, or what stands in its place."""

    RECORDS = "records"
    COMMON_EPOCH = "common-epoch"
    UNKNOWN_EPOCH = "unknown-epoch"
    LATER_EPOCH = "later-epoch"
    NO_EPOCH = "no-epoch"
    UNDEFINED = "undefined"
    HIGH_WATERMARK = "high-watermark"
    OUT_OF_RANGE_LONGER = "out-of-range-longer"
    OUT_OF_RANGE_RESTART = "out-of-range-restart"
    OUT_OF_RANGE_AGAIN = "out-of-range-again"


class OutOfRange(StrEnum):
    """Why a leader answers OFFSET_OUT_OF_RANGE."""

    EPOCH = "epoch"
    BELOW_START = "below-start"
    BEYOND_END = "beyond-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """One side's log as the exchange sees it: its table in effect, and its offsets. `first_segment_base`: a cut below it restarts."""

    epochs: EpochTable
    log_start_offset: int
    log_end_offset: int
    first_segment_base: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request, its answer and what the follower does.

    `number` counts the leader's answers from 1; None for the fallback to the high watermark, which is none.
    `log_end_offset` is the follower's before the step. `own_lookup` is what its own table says of the answered epoch.
    `truncate_to` is None where nothing is cut; `offset` where the fallback points, or the leader's log starts.
    """

    case: Case
    log_end_offset: int
    number: int | None = None
    fetches: bool = False
    requested_epoch: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    own_lookup: EpochEntry = UNDEFINED
    out_of_range: OutOfRange | None = None
    truncate_to: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """All steps of one protocol. `fetch_offset` is where records flow at last; `stuck`: they never do."""

    steps: tuple[Step, ...]
    fetch_offset: int
    stuck: bool


def exchange(point: TruncationPoint, leader: LogState, follower: LogState, high_watermark: int | None) -> Exchange:
    """Replay a truncation point.

    Args:
        point: a row of `truncation_points`.
        leader: the leader's side.
        follower: the follower's side, before.
        high_watermark: the follower's persisted one.
    """
    replay = _Replay(point, leader, follower, high_watermark)
    steps = tuple(replay.steps())
    return Exchange(steps=steps, fetch_offset=replay.end, stuck=_is_stuck(point))


def _is_stuck(point: TruncationPoint) -> bool:
    """A loop without end stops at the first state that comes again: its last answer brings no records and settles nothing."""
    if not point.rounds:
        return False
    last = point.rounds[-1]
    if point.protocol == Protocol.TRUNCATE_ON_FETCH:
        return last.answered_end_offset is not None
    return not last.complete


class _Replay:
    """The follower's side while the rounds are gone through."""

    def __init__(self, point: TruncationPoint, leader: LogState, follower: LogState, high_watermark: int | None) -> None:
        self.point, self.leader, self.follower = point, leader, follower
        self.table, self.end = follower.epochs, follower.log_end_offset
        self.high_watermark = min(max(high_watermark or 0, follower.log_start_offset), follower.log_end_offset)

    def steps(self) -> Iterator[Step]:
        """Every step in order."""
        fallback_is_due = self.point.falls_back_to_high_watermark
        if fallback_is_due and not any(map(self._is_undefined, self.point.rounds)):
            yield self._fall_back()
            fallback_is_due = False
        for number, answer in enumerate(self.point.rounds, 1):
            yield self._step(number, answer)
            if fallback_is_due and self._is_undefined(answer):
                yield self._fall_back()
                fallback_is_due = False

    def _is_undefined(self, answer: Round) -> bool:
        return answer.answered_end_offset == UNDEFINED_EPOCH_OFFSET

    def _fall_back(self) -> Step:
        # The table does not say what the fallback cut, but what was cut at last. A running follower's high watermark is newer than the
        # file's: then it cuts nothing.
        later = next((answer.truncate_to for answer in self.point.rounds if answer.truncate_to is not None), None)
        cuts = self.point.truncation_offset == self.high_watermark if later is None else later < self.high_watermark
        target = self.high_watermark if cuts and self.high_watermark < self.end else None
        return self._apply(Step(case=Case.HIGH_WATERMARK, log_end_offset=self.end, truncate_to=target, offset=self.high_watermark))

    def _step(self, number: int, answer: Round) -> Step:
        epoch, end = answer.answered_epoch, answer.answered_end_offset
        own = UNDEFINED if epoch is None else end_offset_for(self.table, epoch, self.end)
        fetches = self._is_fetch(number, answer)
        case = self._case_of_fetch(answer, own) if fetches else _case_of_lookup(answer, own)
        restarts = case is Case.OUT_OF_RANGE_RESTART
        return self._apply(
            Step(
                case=case,
                log_end_offset=self.end,
                number=number,
                fetches=fetches,
                requested_epoch=answer.requested_epoch,
                answered_epoch=epoch,
                answered_end_offset=end,
                own_lookup=own,
                out_of_range=self._why(answer) if case.startswith("out-of-range") else None,
                truncate_to=answer.truncate_to,
                offset=self.point.restart_offset if restarts else None,
            )
        )

    def _is_fetch(self, number: int, answer: Round) -> bool:
        """Whether the question was a fetch: the only one of two protocols, and what comes out of range after the lookups of the others."""
        match self.point.protocol:
            case Protocol.KIP_101:
                return number > 1
            case Protocol.KIP_279:
                return answer.requested_epoch is None
            case _:
                return True

    def _case_of_fetch(self, answer: Round, own: EpochEntry) -> Case:
        if answer.answered_epoch is not None:
            return _case_of_lookup(answer, own)
        if answer.answered_end_offset is None:
            return Case.RECORDS
        if answer.truncate_to is not None:
            return Case.OUT_OF_RANGE_LONGER
        return Case.OUT_OF_RANGE_RESTART if answer.complete else Case.OUT_OF_RANGE_AGAIN

    def _why(self, answer: Round) -> OutOfRange:
        asked = answer.requested_epoch
        if asked is not None and end_offset_for(self.leader.epochs, asked, self.leader.log_end_offset) == UNDEFINED:
            return OutOfRange.EPOCH
        return OutOfRange.BELOW_START if self.end < self.leader.log_start_offset else OutOfRange.BEYOND_END

    def _apply(self, step: Step) -> Step:
        if step.case is Case.OUT_OF_RANGE_RESTART and step.offset is not None:
            self.table, self.end = EMPTY, step.offset
        elif step.truncate_to is not None:
            below_all = step.truncate_to < self.follower.first_segment_base
            self.table = EMPTY if below_all else truncate_from_end(self.table, step.truncate_to)
            self.end = step.truncate_to
        return step


def _case_of_lookup(answer: Round, own: EpochEntry) -> Case:
    if answer.answered_end_offset in (None, UNDEFINED_EPOCH_OFFSET):
        return Case.UNDEFINED
    if answer.answered_epoch is None:
        return Case.NO_EPOCH
    if not answer.complete:
        return Case.UNKNOWN_EPOCH
    return Case.LATER_EPOCH if own == UNDEFINED else Case.COMMON_EPOCH
