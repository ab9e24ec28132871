"""Which of the records that a truncation removes are worth a replay, by how their transactions ended."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import BatchHeader, Producers
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.cuts import RecordsWithin
from replica_audit.rows.pairs import RecordsByTransaction

# Which of the records that a cut removes are for a replay: those that nobody has, was told of, or has replaced.


class OnLeader(StrEnum):
    """What the leader's log has of a removed record."""

    SAME = "same"  # the same record at its offset: the follower fetches it again
    RESENT = "resent"  # the producer's retry of it: same producer id, epoch and sequence
    OTHER = "other"  # another record at its offset
    MISSING = "missing"  # nothing at its offset
    BELOW_LOG_START = "below-log-start"  # its log starts above: retention has passed, or somebody deleted records
    UNKNOWN = "unknown"  # its records cannot be read


class TransactionOutcome(StrEnum):
    """How the transaction of a record ended, by the markers in the log that holds it."""

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"  # by a marker that cannot be read


class KeptBack(StrEnum):
    """Why a saved record is not in the replay file."""

    ON_LEADER = "on-leader"
    ABORTED = "aborted"
    OPEN = "open"
    BELOW_LOG_START = "below-log-start"
    LEADER_UNKNOWN = "leader-unknown"
    NEWER_ON_LEADER = "newer-on-leader"


# a record that the leader has would only be there twice
ON_REQUEST = tuple(reason for reason in KeptBack if reason is not KeptBack.ON_LEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersKey:
    """The newest record of a key in the part of the leader's log that differs. An epoch or timestamp of -1: the format has none."""

    offset: int
    leader_epoch: int
    timestamp_ms: int


def is_newer(key: LeadersKey, leader_epoch: int, timestamp_ms: int) -> bool:
    """Whether the leader's record of a key was written after a removed one.

    A leader of a higher epoch wrote later, whatever clocks say. Within one epoch, or without epochs, timestamps tell; where there are none,
    the leader's counts as newer: a replay must not roll a value back.

    Args:
        key: the leader's newest record.
        leader_epoch: of the removed record; -1: none.
        timestamp_ms: of the removed record; -1: none.
    """
    if leader_epoch >= 0 and key.leader_epoch >= 0 and leader_epoch != key.leader_epoch:
        return key.leader_epoch > leader_epoch
    return timestamp_ms < 0 or key.timestamp_ms < 0 or key.timestamp_ms >= timestamp_ms


def kept_back(on_leader: OnLeader, transaction: TransactionOutcome, *, has_newer_key: bool) -> KeptBack | None:
    """Why a record is not for the replay file; None if it is.

    Args:
        on_leader: what the leader has of it.
        transaction: how its transaction ended.
        has_newer_key: the leader holds a newer record of its key.
    """
    if on_leader in (OnLeader.SAME, OnLeader.RESENT):
        return KeptBack.ON_LEADER
    if transaction is TransactionOutcome.ABORTED:
        return KeptBack.ABORTED
    if transaction in (TransactionOutcome.OPEN, TransactionOutcome.UNKNOWN):
        return KeptBack.OPEN
    if on_leader is OnLeader.BELOW_LOG_START:
        return KeptBack.BELOW_LOG_START
    if on_leader is OnLeader.UNKNOWN:
        return KeptBack.LEADER_UNKNOWN
    return KeptBack.NEWER_ON_LEADER if has_newer_key else None


# Where the transactions of a part of a log begin and how they end, by its batches and markers in order.
# Sources: ProducerStateManager, ControlRecordType (storage, clients, 4.2.0): a marker ends its producer's open transaction, and a producer
# has one at a time.

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


# The records of a part of a log by how their transactions ended, according to the log itself.


def may_have_transactions(producers: Producers | None, first_offset: int) -> bool:
    """Whether a log may hold records or markers of transactions from an offset on; `producers`: of the whole log, None if not known."""
    if producers is None or producers.untold_batches:
        return True
    return any(one.last_offset >= first_offset and (one.marker_count or one.open_first_offset >= 0) for one in producers.spans)


def records_by_transaction(
    batches: Iterable[tuple[BatchHeader, bool | None]], spans: Sequence[Span], end_offset: int, *, is_end_known: bool
) -> RecordsByTransaction:
    """Count the records that lie in spans of a log.

    Args:
        batches: of the log, in order, from the one that holds the first offset of the spans or any earlier one on, each with what
            `TransactionEnds.add` takes.
        spans: ascending and disjoint. Of a batch that lies in them in part as many records count as offsets.
        end_offset: of the log, exclusive: what lies behind it does not count.
        is_end_known: whether the log ends there. Else nobody knows how a transaction ends of which no marker was read.
    """
    ends, within = TransactionEnds(), RecordsWithin(spans)
    found: Counter[TransactionOutcome] = Counter()
    pending: Counter[int] = Counter()  # by producer id, until a marker tells
    markers = 0
    for batch, is_abort in batches:
        if batch.base_offset >= end_offset:
            break
        records, _ = within.of(batch)
        if within.is_behind and not pending:
            break
        ended = ends.add(batch, is_abort)
        if ended is not None:
            found[ended] += pending.pop(batch.producer_id, 0)
        if batch.is_control:
            markers += records
        elif not batch.is_transactional:
            found[TransactionOutcome.NONE] += records
        elif records:
            pending[batch.producer_id] += records
    found[TransactionOutcome.OPEN if is_end_known else TransactionOutcome.UNKNOWN] += pending.total()
    return RecordsByTransaction(
        committed=found[TransactionOutcome.COMMITTED],
        plain=found[TransactionOutcome.NONE],
        aborted=found[TransactionOutcome.ABORTED],
        open=found[TransactionOutcome.OPEN],
        markers=markers,
        unknown=found[TransactionOutcome.UNKNOWN],
    )
