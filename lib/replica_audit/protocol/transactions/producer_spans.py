"""What batches say of their producers, how that adds up along a log, and what snapshots and indexes say against it.

Sources: KIP-98 (sequences, transaction markers), ProducerAppendInfo.append and DefaultRecordBatch.incrementSequence (4.2.0). As a broker
that loads a log, or replicates one, these rules do not look at epochs to end a transaction: every marker of its producer id does.

Written so that the same functions take numbers of Python and of compiled code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica_audit.model import AbortedTransaction, BatchHeader, Producers, ProducerSpan, ProducerState, SequenceGap

LAST_SEQUENCE = (1 << 31) - 1  # behind it comes 0
_BACK = 1 << 30  # sequences further ahead than this are taken for ones that went back


def of_batch(
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    base_offset: int,
    last_offset: int,
    record_count: int,
    timestamp_ms: int,
    is_transactional: int,
    is_marker: int,
) -> ProducerSpan:
    """One batch as a span of its own.

    Args:
        producer_id: not negative.
        producer_epoch: of it.
        base_sequence: of the first record, -1 if it has none.
        base_offset: inclusive.
        last_offset: inclusive.
        record_count: of the batch.
        timestamp_ms: its max timestamp.
        is_transactional: whether its records belong to a transaction (0 or 1).
        is_marker: whether it is a control batch (0 or 1); one that the cleaner has emptied counts for nothing and is not a span.
    """
    last_sequence = (base_sequence + last_offset - base_offset) & LAST_SEQUENCE if base_sequence >= 0 else -1
    opens = is_transactional != 0 and is_marker == 0
    return ProducerSpan(
        producer_id,
        base_offset,
        last_offset,
        0 if is_marker else 1,
        0 if is_marker else record_count,
        timestamp_ms,
        timestamp_ms,
        -1 if is_marker else base_offset,
        -1 if is_marker else producer_epoch,
        -1 if is_marker else base_sequence,
        -1 if is_marker else timestamp_ms,
        -1 if is_marker else last_offset,
        -1 if is_marker else producer_epoch,
        -1 if is_marker else last_sequence,
        -1 if is_marker else timestamp_ms,
        0,
        0,
        1 if is_marker else 0,
        base_offset if is_marker else -1,
        base_offset if is_marker else -1,
        producer_epoch if is_marker else -1,
        base_offset if opens else -1,
        timestamp_ms if opens else -1,
    )


def continues(span: ProducerSpan, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: int, is_marker: int) -> bool:
    """Whether a batch only carries a span on, as nearly all do: records in sequence, and none that begin or end a transaction."""
    return (
        producer_id == span.producer_id
        and is_marker == 0
        and span.last_sequence >= 0
        and base_sequence == (span.last_sequence + 1) & LAST_SEQUENCE
        and producer_epoch == span.last_epoch
        and (is_transactional == 0 or span.open_first_offset >= 0)
    )


def carried_on(span: ProducerSpan, base_sequence: int, base_offset: int, last_offset: int, record_count: int, time: int) -> ProducerSpan:
    """The same as `joined` gives with a batch that `continues` it, in a tenth of the time."""
    return ProducerSpan(
        span.producer_id,
        span.first_offset,
        last_offset,
        span.batch_count + 1,
        span.record_count + record_count,
        min(span.min_timestamp_ms, time),
        max(span.max_timestamp_ms, time),
        span.first_data_offset,
        span.first_epoch,
        span.first_sequence,
        span.first_timestamp_ms,
        last_offset,
        span.last_epoch,
        (base_sequence + last_offset - base_offset) & LAST_SEQUENCE,
        time,
        span.gap_count,
        span.missing_count,
        span.marker_count,
        span.first_marker_offset,
        span.last_marker_offset,
        span.last_marker_epoch,
        span.open_first_offset,
        span.open_timestamp_ms,
    )


def expected_sequence(span: ProducerSpan, following: ProducerSpan) -> int:
    """The sequence that the next batch of records has to begin with; -1 where either of them has none."""
    if span.last_sequence < 0 or following.first_sequence < 0:
        return -1
    return (span.last_sequence + 1) & LAST_SEQUENCE if span.last_epoch == following.first_epoch else 0


def missing_between(expected: int, found: int) -> int:
    """How many sequences are missing before one that was found; 0 where it went back."""
    ahead = (found - expected) & LAST_SEQUENCE
    return ahead if ahead < _BACK else 0


def joined(span: ProducerSpan, following: ProducerSpan) -> ProducerSpan:
    """Two spans of one producer id as one, the second of which lies behind the first in the log."""
    expected = expected_sequence(span, following)
    is_gap = expected >= 0 and expected != following.first_sequence
    missing = missing_between(expected, following.first_sequence) if is_gap else 0
    first = span if span.batch_count > 0 else following
    last = following if following.batch_count > 0 else span
    marked = following if following.marker_count > 0 else span
    opened = following if following.marker_count > 0 or span.open_first_offset < 0 else span
    return ProducerSpan(
        span.producer_id,
        span.first_offset,
        following.last_offset,
        span.batch_count + following.batch_count,
        span.record_count + following.record_count,
        min(span.min_timestamp_ms, following.min_timestamp_ms),
        max(span.max_timestamp_ms, following.max_timestamp_ms),
        first.first_data_offset,
        first.first_epoch,
        first.first_sequence,
        first.first_timestamp_ms,
        last.last_data_offset,
        last.last_epoch,
        last.last_sequence,
        last.last_timestamp_ms,
        span.gap_count + following.gap_count + (1 if is_gap else 0),
        span.missing_count + following.missing_count + missing,
        span.marker_count + following.marker_count,
        span.first_marker_offset if span.marker_count > 0 else following.first_marker_offset,
        marked.last_marker_offset,
        marked.last_marker_epoch,
        opened.open_first_offset,
        opened.open_timestamp_ms,
    )


# The producers of a log from those of its segments.


def gap_between(span: ProducerSpan, following: ProducerSpan) -> SequenceGap | None:
    """The gap between the sequences of two spans of one producer id; None if there is none, or either has no sequences."""
    expected = expected_sequence(span, following)
    if expected < 0 or expected == following.first_sequence:
        return None
    return SequenceGap(
        producer_id=span.producer_id,
        last_offset_before=span.last_data_offset,
        first_offset_after=following.first_data_offset,
        producer_epoch_before=span.last_epoch,
        producer_epoch=following.first_epoch,
        expected_sequence=expected,
        found_sequence=following.first_sequence,
        missing_count=missing_between(expected, following.first_sequence),
        timestamp_before_ms=span.last_timestamp_ms,
        timestamp_after_ms=following.first_timestamp_ms,
    )


def producers_of_log(segments: Iterable[Producers | None]) -> Producers | None:
    """The producers of a log, whose segments come in order.

    Returns:
        Its spans by first offset and its gaps by the offset behind them, those between segments too; None if of any segment nothing is
        known. Gaps that a segment does not list are not listed here either, but counted by the spans.
    """
    spans: dict[int, ProducerSpan] = {}
    gaps: list[SequenceGap] = []
    untold = 0
    for producers in segments:
        if producers is None:
            return None
        found = list(producers.gaps)
        for following in producers.spans:
            span = spans.get(following.producer_id)
            if span is None:
                spans[following.producer_id] = following
                continue
            gap = gap_between(span, following)
            if gap is not None:
                found.append(gap)
            spans[following.producer_id] = joined(span, following)
        gaps += sorted(found, key=lambda one: one.first_offset_after)
        untold += producers.untold_batches
    return Producers(tuple(spans.values()), tuple(gaps), untold)


# A producer snapshot against the log below its offset.
# Sources: ProducerStateEntry.addBatch, update and maybeUpdateProducerEpoch, ProducerAppendInfo.appendDataBatch and appendEndTxnMarker,
# ProducerStateManager.loadFromSnapshot (storage, 4.2.0). A producer that the log has and the snapshot has not proves nothing: its state may
# have expired, or the snapshot was made empty after an upgrade.


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


# An index of aborted transactions against the segment beside which it lies.
# Sources: LogSegment.updateTxnIndex and recover, ProducerAppendInfo.appendEndTxnMarker (storage, 4.2.0): an entry is written for each ABORT
# marker that ends a transaction with records. A read_committed consumer is told of aborted records by this index alone.

_Aborts = dict[int, tuple[int, int | None]]  # by offset of the marker: producer id, first offset; None: it began below the log start


def index_contradictions(
    entries: Sequence[AbortedTransaction],
    batches: Iterable[tuple[BatchHeader, bool | None]],
    open_before: Mapping[int, int],
    *,
    log_start_offset: int,
    is_sealed: bool,
) -> Iterator[str]:
    """Where an index contradicts the log.

    Args:
        entries: of the index.
        batches: of its segment, whole, each with whether it is a marker that aborts (None: no marker). It was never compacted.
        open_before: by producer id the first offset of each transaction that is open where the segment begins.
        log_start_offset: where the log begins.
        is_sealed: whether a segment follows, so that nothing can have been added to this one after the index was copied.
    """
    aborts, other, end = _aborts(batches, open_before)
    for entry in entries:
        if entry.last_offset >= end:
            continue  # the copy of the log is older
        producer, first = aborts.get(entry.last_offset, (None, None))
        if producer != entry.producer_id:
            what = "a COMMIT marker" if other.get(entry.last_offset) == entry.producer_id else "no ABORT marker"
            yield f"producer {entry.producer_id} aborted at offset {entry.last_offset}, where the log has {what} of it"
        elif first is not None and first != entry.first_offset and entry.first_offset >= log_start_offset:
            yield (
                f"the transaction of producer {entry.producer_id} that aborted at offset {entry.last_offset} began at offset "
                f"{entry.first_offset}, by the log at {first}"
            )
    known = {entry.last_offset for entry in entries}
    for offset, (producer, first) in aborts.items():
        is_told = offset in known or first is None
        if not is_told and (is_sealed or any(later > offset for later in known)):
            yield f"the transaction of producer {producer} that aborted at offset {offset} is not in it: its records are read as committed"


def _aborts(batches: Iterable[tuple[BatchHeader, bool | None]], open_before: Mapping[int, int]) -> tuple[_Aborts, Mapping[int, int], int]:
    """The aborted transactions, the producers of the other markers by offset, and the offset behind the last batch."""
    opened, aborts, other, end = dict(open_before), _Aborts(), dict[int, int](), 0
    for batch, is_abort in batches:
        end = batch.last_offset + 1
        if is_abort is not None:
            first = opened.pop(batch.producer_id, None)
            if is_abort:
                aborts[batch.base_offset] = (batch.producer_id, first)
            else:
                other[batch.base_offset] = batch.producer_id
        elif batch.is_transactional and not batch.is_control:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return aborts, other, end
