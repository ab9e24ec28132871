"""The producers of a log from those of its segments."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.model import Producers, ProducerSpan, SequenceGap
from replica_audit.protocol.transactions.producer_spans import expected_sequence, joined, missing_between


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
