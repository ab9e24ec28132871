"""Columns of `truncation_points` that keep the exchange as it was decided: every round, the fallback, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.frozen import made_quickly
from replica_audit.protocol.comparison.afterwards import learnt_epochs
from replica_audit.protocol.comparison.pair import Effect
from replica_audit.protocol.epochs.once import once
from replica_audit.protocol.exchange.replay import Protocol, Step, Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import EpochRequest
from replica_audit.rows.pair_structs import AddedTableEntry, ExchangeRound, HighWatermarkFallback


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeColumns:
    """The columns of the same names."""

    round_trips: int
    rounds: tuple[ExchangeRound, ...]
    falls_back_to_high_watermark: bool
    fallback: HighWatermarkFallback | None
    fetch_offset: int
    stuck: bool


@once
def exchange_columns(truncation: Truncation, *, in_memory: bool) -> ExchangeColumns:
    """The exchange of a follower under one protocol; `in_memory`: the high watermark that it falls back to was."""
    return ExchangeColumns(
        round_trips=truncation.round_trips,
        rounds=tuple(_round(step) for step in truncation.steps if _is_round(step, truncation.protocol)),
        falls_back_to_high_watermark=truncation.falls_back_to_high_watermark,
        fallback=_fallback(truncation, in_memory=in_memory),
        fetch_offset=truncation.fetch_offset,
        stuck=truncation.stuck,
    )


def learnt_epochs_column(leader: Replica, effect: Effect) -> tuple[AddedTableEntry, ...]:
    """The entries that the follower's table gets with what it fetches."""
    found = learnt_epochs(leader.as_leader(), effect)
    return tuple(AddedTableEntry(epoch=entry.epoch, start_offset=entry.start_offset) for entry in found)


def _is_round(step: Step, protocol: Protocol) -> bool:
    """An answer of the leader; ListOffsets belongs to the out-of-range answer, the clean fetch counts where the fetch is the question."""
    if step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH:
        return True
    return step.request is EpochRequest.FETCH and (step.out_of_range is not None or protocol is Protocol.TRUNCATE_ON_FETCH)


def _round(step: Step) -> ExchangeRound:
    def known(epoch: int | None) -> int | None:
        return None if epoch is None or epoch < 0 else epoch

    own = step.own_lookup
    return ExchangeRound(
        requested_epoch=known(step.requested_epoch),
        answered_epoch=known(step.answered_epoch),
        answered_end_offset=step.answered_end_offset,
        truncate_to=step.truncate_to,
        complete=step.complete,
        request=step.request,
        decided_by=step.case,
        log_end_offset=step.log_end_offset,
        own_epoch=None if own is None else own.epoch,
        own_end_offset=None if own is None else own.start_offset,
        out_of_range=step.out_of_range,
        restart_offset=step.restart_offset,
        dropped_epochs=tuple(step.dropped_epochs),
    )


def _fallback(truncation: Truncation, *, in_memory: bool) -> HighWatermarkFallback | None:
    found = truncation.fallback
    if found is None:
        return None
    return HighWatermarkFallback(
        because=found.because,
        after_round=sum(_is_round(step, truncation.protocol) for step in truncation.steps[: found.after_step]),
        high_watermark=found.high_watermark,
        in_memory=in_memory,
        log_end_offset=found.log_end_offset,
        truncate_to=found.truncate_to,
    )
