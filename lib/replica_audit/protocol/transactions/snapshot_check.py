"""A producer snapshot against the log below its offset.

Sources: ProducerStateEntry.addBatch, update and maybeUpdateProducerEpoch, ProducerAppendInfo.appendDataBatch and appendEndTxnMarker,
ProducerStateManager.loadFromSnapshot (storage, 4.2.0). A producer that the log has and the snapshot has not proves nothing: its state may
have expired, or the snapshot was made empty after an upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replica_audit.model import Producers, ProducerSpan, ProducerState


class Contradiction(NamedTuple):
    """What a snapshot says of the producer at a place in it, counted from 0, and the log does not."""

    place: int
    detail: str


def contradictions(states: Sequence[ProducerState], below: Producers, log_start_offset: int) -> Iterator[Contradiction]:
    """Where a snapshot contradicts the log.

    Args:
        states: of the snapshot, in its order.
        below: the producers of the log up to the snapshot's offset, which was never compacted.
        log_start_offset: where that log begins: what is below it was written, and is not known.
    """
    if below.untold_batches:
        return
    spans = {span.producer_id: span for span in below.spans}
    for place, state in enumerate(states):
        detail = _differs(state, spans.get(state.producer_id), log_start_offset)
        if detail:
            yield Contradiction(place, f"producer {state.producer_id}: {detail}")


def _differs(state: ProducerState, span: ProducerSpan | None, log_start_offset: int) -> str | None:
    if span is None:
        written = max(state.last_offset, state.open_first_offset)
        return f"it wrote at offset {written}, where the log has nothing of it" if written >= log_start_offset else None
    return (
        _epoch_differs(state, span) or _last_record_differs(state, span, log_start_offset) or _open_differs(state, span, log_start_offset)
    )


def _epoch_differs(state: ProducerState, span: ProducerSpan) -> str | None:
    epoch = span.last_marker_epoch if span.last_marker_offset > span.last_data_offset else span.last_epoch
    return None if state.producer_epoch == epoch else f"its epoch is {state.producer_epoch}, by the log {epoch}"


def _last_record_differs(state: ProducerState, span: ProducerSpan, log_start_offset: int) -> str | None:
    if span.batch_count == 0:
        is_in_log = state.last_offset >= log_start_offset
        return f"its last record is at offset {state.last_offset}, where the log has none of it" if is_in_log else None
    if state.last_offset < 0 and span.last_marker_offset > span.last_data_offset:
        return None  # a marker of a new epoch empties what is known of the last records
    if (state.last_offset, state.last_sequence) == (span.last_data_offset, span.last_sequence):
        return None
    return (
        f"its last record has sequence {state.last_sequence} at offset {state.last_offset}, by the log {span.last_sequence} at offset "
        f"{span.last_data_offset}"
    )


def _open_differs(state: ProducerState, span: ProducerSpan, log_start_offset: int) -> str | None:
    if state.open_first_offset == span.open_first_offset:
        return None
    began_below = 0 <= state.open_first_offset < log_start_offset
    if began_below and (span.marker_count == 0 or span.last_marker_offset < log_start_offset):
        return None
    snapshot, log = (f"open since offset {at}" if at >= 0 else "not open" for at in (state.open_first_offset, span.open_first_offset))
    return f"its transaction is {snapshot}, by the log {log}"
