"""The exchange of one truncation point, step by step, as the run recorded it: each with the case of Kafka's rule that decided it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.rows.codes import Case, EpochRequest, FallsBack, OutOfRange
from replica_audit.rows.pair_structs import ExchangeRound, HighWatermarkFallback
from replica_audit.rows.pairs import TruncationPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """One request, its answer and what the follower does; or its fallback to the high watermark.

    `number` counts the leader's answers from 1; None for the fallback, which is none, and happens `because` of something.
    `log_end_offset` is the follower's before the step. `own_epoch` and `own_end_offset` are what its own table says of the answered epoch.
    `truncate_to` is None where nothing is cut; `offset` where the fallback points, or the leader's log starts. `in_memory`: it points to
    the high watermark of a broker that runs.
    """

    case: Case
    log_end_offset: int
    number: int | None = None
    fetches: bool = False
    requested_epoch: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    own_epoch: int | None = None
    own_end_offset: int | None = None
    out_of_range: OutOfRange | None = None
    truncate_to: int | None = None
    offset: int | None = None
    dropped_epochs: tuple[int, ...] = ()
    because: FallsBack | None = None
    in_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """All steps of one protocol. `fetch_offset` is where records flow at last; `stuck`: they never do.

    A run of an older version did not record them: then there are no steps, `fetch_offset` is None, and nothing is said of `stuck`.
    """

    steps: tuple[ExplainedStep, ...]
    fetch_offset: int | None
    stuck: bool


def exchange(point: TruncationPoint) -> Exchange:
    """What the run recorded of the exchange."""
    return Exchange(steps=tuple(_steps(point)), fetch_offset=point.fetch_offset, stuck=bool(point.stuck))


def _steps(point: TruncationPoint) -> Iterator[ExplainedStep]:
    fallback = point.fallback
    if fallback is not None and not fallback.after_round:
        yield _falls_back(fallback)
    for number, answer in enumerate(point.rounds, 1):
        yield from _step(number, answer)
        if fallback is not None and fallback.after_round == number:
            yield _falls_back(fallback)


def _falls_back(fallback: HighWatermarkFallback) -> ExplainedStep:
    return ExplainedStep(
        case=Case.HIGH_WATERMARK,
        log_end_offset=fallback.log_end_offset,
        truncate_to=fallback.truncate_to,
        offset=fallback.high_watermark,
        because=fallback.because,
        in_memory=fallback.in_memory,
    )


def _step(number: int, answer: ExchangeRound) -> Iterator[ExplainedStep]:
    if answer.decided_by is None or answer.log_end_offset is None:
        return
    yield ExplainedStep(
        case=answer.decided_by,
        log_end_offset=answer.log_end_offset,
        number=number,
        fetches=answer.request is EpochRequest.FETCH,
        requested_epoch=answer.requested_epoch,
        answered_epoch=answer.answered_epoch,
        answered_end_offset=answer.answered_end_offset,
        own_epoch=answer.own_epoch,
        own_end_offset=answer.own_end_offset,
        out_of_range=answer.out_of_range,
        truncate_to=answer.truncate_to,
        offset=answer.restart_offset,
        dropped_epochs=answer.dropped_epochs or (),
    )
