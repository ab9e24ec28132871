"""Who wrote a segment, added up while it is read, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from replica_audit.formats.segment.record_batch import CONTROL, TRANSACTIONAL
from replica_audit.model import BatchHeader, BatchRun, Producers, ProducerSpan, SequenceGap
from replica_audit.protocol.exchange.cuts import records_in
from replica_audit.protocol.transactions.producer_spans import (
    LAST_SEQUENCE,
    carried_on,
    continues,
    gap_between,
    joined,
    missing_between,
    of_batch,
)

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


# The producers of many batches at once, as columns: what `producer_spans.joined` makes of them one by one.

_Numbers: TypeAlias = np.ndarray[Any, Any]


def producers_of(each: BatchRun, headers: _Numbers, crc_valid: _Numbers | None) -> Producers:
    """Who wrote some batches.

    Args:
        each: every batch as a run of its own, the fields of which are columns.
        headers: their attributes, and what they say of their producers.
        crc_valid: whether each matches its CRC; None where that is not known.
    """
    ids = headers["producer_id"].astype(np.int64)
    named = ids >= 0
    if not named.any():
        return Producers((), (), 0)
    untold = 0
    if crc_valid is not None:
        untold = int(np.count_nonzero(named & ~crc_valid))
        named &= crc_valid
    is_marker = (headers["attributes"] & CONTROL) != 0
    counts: _Numbers = np.asarray(each.record_count)
    named &= ~(is_marker & (counts == 0))
    where = np.flatnonzero(named)
    if not len(where):
        return Producers((), (), untold)
    return _Grouped(where[np.argsort(ids[where], kind="stable")], ids, each, headers, is_marker).producers(untold)


class _Grouped:
    """The batches sorted by producer id, those of each in the order of the log."""

    def __init__(self, order: _Numbers, ids: _Numbers, each: Any, headers: _Numbers, is_marker: _Numbers) -> None:
        self.ids, self.marker = ids[order], is_marker[order]
        self.base, self.last, self.count, self.time = (
            np.asarray(column)[order] for column in (each.first_offset, each.last_offset, each.record_count, each.max_timestamp_ms)
        )
        self.epoch, self.sequence = (headers[name][order].astype(np.int64) for name in ("producer_epoch", "base_sequence"))
        self.opens = ((headers["attributes"][order] & TRANSACTIONAL) != 0) & ~self.marker
        self.end = np.where(self.sequence < 0, -1, (self.sequence + self.last - self.base) & LAST_SEQUENCE)
        self.starts = np.flatnonzero(np.append(True, self.ids[1:] != self.ids[:-1]))

    def _first(self, mask: _Numbers) -> _Numbers:
        """For each producer where the first batch is of some, -1 if there is none."""
        places = np.where(mask, np.arange(len(mask)), len(mask))
        found = np.minimum.reduceat(places, self.starts)
        return np.where(found == len(mask), -1, found)

    def _last(self, mask: _Numbers) -> _Numbers:
        return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), self.starts)

    def producers(self, untold: int) -> Producers:
        """All of them, and the gaps between their sequences."""
        before, after, expected, missing = self._gaps()
        firsts, lasts = self._first(~self.marker), self._last(~self.marker)
        markers, last_markers = self._first(self.marker), self._last(self.marker)
        number = np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.ids))))
        opening = self._first(self.opens & (np.arange(len(self.ids)) > last_markers[number]))
        of_gap, sums = number[after], np.zeros((2, len(self.starts)), np.int64)
        np.add.at(sums[0], of_gap, 1)
        np.add.at(sums[1], of_gap, missing)
        columns = (
            self.ids[self.starts],
            self.base[self.starts],
            self.last[np.append(self.starts[1:], len(self.ids)) - 1],
            np.add.reduceat((~self.marker).astype(np.int64), self.starts),
            np.add.reduceat(np.where(self.marker, 0, self.count), self.starts),
            np.minimum.reduceat(self.time, self.starts),
            np.maximum.reduceat(self.time, self.starts),
            *(_at(column, firsts) for column in (self.base, self.epoch, self.sequence, self.time)),
            *(_at(column, lasts) for column in (self.last, self.epoch, self.end, self.time)),
            *sums,
            np.add.reduceat(self.marker.astype(np.int64), self.starts),
            _at(self.base, markers),
            *(_at(column, last_markers) for column in (self.base, self.epoch)),
            *(_at(column, opening) for column in (self.base, self.time)),
        )
        spans = sorted(
            map(ProducerSpan._make, zip(*(column.tolist() for column in columns), strict=True)), key=lambda span: span.first_offset
        )
        first_gaps = np.argsort(self.base[after], kind="stable")[:MAX_GAPS]
        b, a = before[first_gaps], after[first_gaps]
        told = (self.ids[a], self.last[b], self.base[a], self.epoch[b], self.epoch[a], expected[first_gaps], self.sequence[a])
        gaps = zip(*(column.tolist() for column in (*told, missing[first_gaps], self.time[b], self.time[a])), strict=True)
        return Producers(tuple(spans), tuple(map(SequenceGap._make, gaps)), untold)

    def _gaps(self) -> tuple[_Numbers, _Numbers, _Numbers, _Numbers]:
        """Places of the batches before and after each gap, the sequence expected, and how many are missing."""
        data = np.flatnonzero(~self.marker)
        before, after = data[:-1], data[1:]
        expected = np.where(self.epoch[before] == self.epoch[after], (self.end[before] + 1) & LAST_SEQUENCE, 0)
        found = self.sequence[after]
        is_gap = (self.ids[before] == self.ids[after]) & (self.end[before] >= 0) & (found >= 0) & (found != expected)
        missing = [missing_between(*pair) for pair in zip(expected[is_gap].tolist(), found[is_gap].tolist(), strict=True)]
        return before[is_gap], after[is_gap], expected[is_gap], np.array(missing, np.int64)


def _at(column: _Numbers, places: _Numbers) -> _Numbers:
    """The values at some places; -1 where a place is -1."""
    return np.where(places < 0, -1, column[places])
