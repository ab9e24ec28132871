"""Who wrote a segment, added up while it is read, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.model import BatchHeader, Producers, ProducerSpan, SequenceGap
from replica_audit.protocol.exchange.cuts import records_in
from replica_audit.protocol.transactions.producer_spans import carried_on, continues, joined, of_batch
from replica_audit.protocol.transactions.segment_producers import gap_between

MAX_PRODUCERS = 10_000  # per segment; the batches of those that come later are only counted
MAX_GAPS = 1000  # per segment that are listed; a cleaned one has any number, and there they prove nothing
NO_PRODUCERS = Producers((), (), 0)


class ProducerSums:
    """The producers of one segment so far."""

    def __init__(self) -> None:
        self._spans: dict[int, ProducerSpan] = {}
        self._gaps: list[SequenceGap] = []
        self._untold = 0

    def add_batch(self, batch: BatchHeader) -> None:
        """Count a batch for its producer, if it has one."""
        producer = batch.producer_id
        if producer < 0:
            return
        if batch.crc_valid is False:  # whose batch it was, nobody knows
            self._untold += 1
            return
        if batch.is_control and batch.record_count == 0:  # the cleaner has emptied it (ProducerAppendInfo.append)
            return
        numbers = (batch.base_sequence, batch.base_offset, batch.last_offset, records_in(batch), batch.max_timestamp_ms)
        epoch, kind = batch.producer_epoch, (batch.is_transactional, batch.is_control)
        span = self._spans.get(producer)
        if span is not None and continues(span, producer, epoch, batch.base_sequence, *kind):
            self._spans[producer] = carried_on(span, *numbers)
        else:
            self.add((of_batch(producer, epoch, *numbers, *kind),))

    def add(self, spans: Iterable[ProducerSpan], gaps: Iterable[SequenceGap] = (), untold_batches: int = 0) -> None:
        """Add what follows.

        Args:
            spans: one for each producer id, by first offset.
            gaps: in them, as far as they could be listed: MAX_GAPS at least.
            untold_batches: besides them.
        """
        found = list(gaps)
        for following in spans:
            span = self._spans.get(following.producer_id)
            if span is not None:
                gap = gap_between(span, following)
                if gap is not None:
                    found.append(gap)
                self._spans[following.producer_id] = joined(span, following)
            elif len(self._spans) < MAX_PRODUCERS:
                self._spans[following.producer_id] = following
            else:
                self._untold += following.batch_count + following.marker_count
        self._untold += untold_batches
        if found and len(self._gaps) < MAX_GAPS:
            found.sort(key=lambda one: one.first_offset_after)
            told = [gap for gap in found if gap.producer_id in self._spans]
            self._gaps += told[: MAX_GAPS - len(self._gaps)]

    def producers(self) -> Producers:
        """All that was added."""
        return Producers(tuple(self._spans.values()), tuple(self._gaps), self._untold)
