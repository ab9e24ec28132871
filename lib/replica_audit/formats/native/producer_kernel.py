"""The producers of batches, for numba to compile: a row of a table for each, at the place that its id is hashed to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from replica_audit.formats.segment import content_digest
from replica_audit.model import ProducerSpan
from replica_audit.protocol.transactions import producer_spans as protocol

_ID, _BATCHES, _MARKERS = (ProducerSpan._fields.index(name) for name in ("producer_id", "batch_count", "marker_count"))
_RULES: Any = (protocol.continues, protocol.carried_on, protocol.of_batch, protocol.joined)
for rule in (*_RULES, protocol.expected_sequence, protocol.missing_between):
    register_jitable(forceinline=True)(rule)  # the same that Python calls


@njit
def store(table: Any, number: int, row: Any) -> None:
    """Write a row of a table, unless it is none: number -1."""
    if number >= 0:
        for place, value in enumerate(row):
            table[number, place] = value


@njit
def row_at(table: Any, slot: int) -> ProducerSpan:
    """The span in a row of the table of producers, all zeros if there is none."""
    row = table[slot]
    return ProducerSpan(
        *(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11]),
        *(row[12], row[13], row[14], row[15], row[16], row[17], row[18], row[19], row[20], row[21], row[22]),
    )


@njit(forceinline=True)
def is_next(slot: int, span: ProducerSpan, batch: Any, intact: int) -> bool:
    """Whether a batch, as `producer_spans.of_batch` takes it, only carries on the span of the last producer; `slot` is -1 before the first.

    This and what follows from it take no table: each use of one costs numba a count of references.
    """
    return slot >= 0 and intact != 0 and protocol.continues(span, batch[0], batch[1], batch[2], batch[7], batch[8])


@njit(forceinline=True)
def carried_on(span: ProducerSpan, batch: Any) -> ProducerSpan:
    """The span with that batch."""
    return protocol.carried_on(span, batch[2], batch[3], batch[4], batch[5], batch[6])


@njit
def _changed(state: Any, producers: Any, slot: int, span: ProducerSpan, producer_id: int) -> int:
    """Write the span of the last producer; the place of another one, which is noted if it is new."""
    store(producers, slot, span)
    mask = len(producers) - 1
    found = int(np.int64(content_digest.mixed(np.uint64(producer_id)))) & mask
    while producers[found, _BATCHES] + producers[found, _MARKERS] > 0:
        if producers[found, _ID] == producer_id:
            return found
        found = (found + 1) & mask
    producers[state.producer_count, producers.shape[1] - 1] = found
    state.producer_count += 1
    return found


@njit
def joined(state: Any, producers: Any, gaps: Any, slot: int, span: ProducerSpan, batch: Any, intact: int) -> tuple[int, ProducerSpan]:
    """Place and content of the last producer's span once any batch is in it or in that of another one."""
    producer, epoch, sequence, base, last, count, time, transactional, marker = batch
    if intact == 0:
        state.untold_batches += 1
    if intact == 0 or (marker and count == 0):  # or it is a marker that the cleaner has emptied
        return slot, span
    if slot < 0 or producer != span.producer_id:
        slot = _changed(state, producers, slot, span, producer)
        span = row_at(producers, slot)
        if span.batch_count + span.marker_count == 0:
            return slot, protocol.of_batch(producer, epoch, sequence, base, last, count, time, transactional, marker)
        if is_next(slot, span, batch, intact):
            return slot, carried_on(span, batch)
    one = protocol.of_batch(producer, epoch, sequence, base, last, count, time, transactional, marker)
    expected, found = protocol.expected_sequence(span, one), one.first_sequence
    if expected >= 0 and expected != found and state.gap_count < len(gaps):
        epochs, places = (span.last_epoch, one.first_epoch), (span.last_data_offset, one.first_data_offset)
        missing, times = protocol.missing_between(expected, found), (span.last_timestamp_ms, one.first_timestamp_ms)
        store(gaps, state.gap_count, (span.producer_id, *places, *epochs, expected, found, missing, *times))
        state.gap_count += 1
    return slot, protocol.joined(span, one)
