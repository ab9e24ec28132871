"""Columns of `truncation_points` that keep the exchange as it was decided: every round, and what the follower learns."""

from __future__ import annotations

from replica_audit.protocol.comparison.pair import Effect, learnt_epochs
from replica_audit.protocol.epochs.once import once
from replica_audit.protocol.exchange.replay import Step, Truncation, is_round
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.pairs import AddedTableEntry, ExchangeRound


@once
def rounds(truncation: Truncation) -> tuple[ExchangeRound, ...]:
    """Return the leader's answers of an exchange, in order."""
    return tuple(_round(step) for step in truncation.steps if is_round(step, truncation.protocol))


def learnt_epochs_column(leader: ReplicaState, effect: Effect) -> tuple[AddedTableEntry, ...]:
    """The entries that the follower's table gets with what it fetches."""
    found = learnt_epochs(leader, effect)
    return tuple(AddedTableEntry(epoch=entry.epoch, start_offset=entry.start_offset) for entry in found)


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
