"""Where the transactions of a part of a log begin and how they end, by its batches and markers in order.

Sources: ProducerStateManager, ControlRecordType (storage, clients, 4.2.0): a marker ends its producer's open transaction, and a producer
has one at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from replica_audit.model import BatchHeader
from replica_audit.protocol.salvage.replay_choice import TransactionOutcome

UNKNOWN_OFFSET = -1
_OPEN, _COMMITTED, _ABORTED, _UNKNOWN = range(4)
_OUTCOMES = (TransactionOutcome.OPEN, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED, TransactionOutcome.UNKNOWN)
_OF_MARKER = {True: _ABORTED, False: _COMMITTED, None: _UNKNOWN}


class TransactionSpan(NamedTuple):
    """A transaction: the offset of its first record, UNKNOWN_OFFSET if not known; of its marker, UNKNOWN_OFFSET if there is none."""

    first_offset: int
    marker_offset: int
    outcome: TransactionOutcome


NO_TRANSACTION = TransactionSpan(UNKNOWN_OFFSET, UNKNOWN_OFFSET, TransactionOutcome.NONE)


class _OfProducer:
    """The transactions of one producer, ascending: eight bytes for each fact, for a segment may hold millions."""

    def __init__(self) -> None:
        self.seen, self.first, self.marker, self.outcome = array("q"), array("q"), array("q"), array("b")

    @property
    def is_open(self) -> bool:
        return bool(self.outcome) and self.outcome[-1] == _OPEN


class TransactionEnds:
    """Takes the batches of a log in order, then says of which transaction a record is."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._producers: defaultdict[int, _OfProducer] = defaultdict(_OfProducer)
        self._known: set[int] = set()  # producers of which an end was seen, so that the next one begins where it seems to

    def add(self, batch: BatchHeader, is_abort: bool | None) -> TransactionOutcome | None:
        """Take a batch, and return how it ends a transaction; None if it ends none.

        Args:
            batch: the next one of the log.
            is_abort: of a marker whether it aborts, None if that cannot be read; None of others.
        """
        if not batch.is_transactional:
            return None
        one = self._producers[batch.producer_id]
        if not batch.is_control:
            if not one.is_open:
                one.seen.append(batch.base_offset)
                is_start = batch.producer_id in self._known or batch.base_sequence == 0
                one.first.append(batch.base_offset if is_start else UNKNOWN_OFFSET)
                one.marker.append(UNKNOWN_OFFSET)
                one.outcome.append(_OPEN)
            return None
        self._known.add(batch.producer_id)
        if not one.is_open:
            return None
        one.marker[-1] = batch.base_offset
        one.outcome[-1] = _OF_MARKER[is_abort]
        return _OUTCOMES[one.outcome[-1]]

    @property
    def open_producers(self) -> set[int]:
        """The producers whose last transaction has no marker yet."""
        return {producer for producer, one in self._producers.items() if one.is_open}

    @property
    def unknown_starts(self) -> set[int]:
        """The producers whose first transaction may have begun before what was taken."""
        return {producer for producer, one in self._producers.items() if one.first and one.first[0] == UNKNOWN_OFFSET}

    def first_seen(self, producer_id: int) -> int:
        """The offset of the first record that was taken of a producer's first transaction."""
        return self._producers[producer_id].seen[0]

    def settle_starts(self, started: Callable[[int], int | None]) -> None:
        """Give the first transaction of those producers its beginning; `started` gives it, None: not known."""
        for producer in self.unknown_starts:
            found = started(producer)
            if found is not None:
                self._producers[producer].first[0] = found

    def of(self, producer_id: int, offset: int) -> TransactionSpan:
        """The transaction of a record of a batch that is transactional."""
        one = self._producers.get(producer_id)
        place = -1 if one is None else bisect_right(one.seen, offset) - 1
        if one is None or place < 0:
            return TransactionSpan(UNKNOWN_OFFSET, UNKNOWN_OFFSET, TransactionOutcome.OPEN)
        return TransactionSpan(one.first[place], one.marker[place], _OUTCOMES[one.outcome[place]])


class EarlierStarts:
    """Looks for the beginnings of transactions in earlier segments, the nearest first; the batches of each are taken in order."""

    def __init__(self, producers: set[int]) -> None:
        """Look for the transactions of some producers that are open where the looking begins."""
        self.wanted = set(producers)
        self.found: dict[int, int] = {}
        self._here: dict[int, int | None] = {}

    def add(self, batch: BatchHeader) -> None:
        """Take a batch of the segment."""
        if batch.is_transactional and batch.producer_id in self.wanted:
            if batch.is_control:
                self._here[batch.producer_id] = None
            elif self._here.get(batch.producer_id, None) is None:
                self._here[batch.producer_id] = batch.base_offset if batch.producer_id in self._here else ~batch.base_offset

    def end_segment(self) -> None:
        """Conclude a segment: what ended in it is settled, what it continues is looked for further down."""
        for producer, first in self._here.items():
            if first is None:  # its last marker is here, and nothing of it is behind
                self.wanted.discard(producer)
            elif first >= 0:
                self.found[producer] = first
                self.wanted.discard(producer)
            else:
                self.found[producer] = ~first
        self._here = {}
