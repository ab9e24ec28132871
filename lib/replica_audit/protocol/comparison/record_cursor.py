"""Two logs side by side, batch by batch and record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import BatchBody, BatchHeader, HashedRecord, StoredBatch, StoredDamage

UNLIMITED = 1 << 62
_SEQUENCES = 1 << 31  # after which an idempotent producer counts from 0 again (DefaultRecordBatch.incrementSequence)


class RecordPart(StrEnum):
    """What of a record is not the same."""

    PRESENCE = "presence"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    PRODUCER = "producer"  # id, epoch, sequence, or whether it is transactional


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRecord:
    """A record that is not the same; None for a side that does not have it."""

    offset: int
    parts: tuple[RecordPart, ...]
    leader: HashedRecord | None
    follower: HashedRecord | None


class UnreadRecordsError(Exception):
    """Records cannot be had, or are too many."""


class RecordCursor:
    """One log, batch by batch or record by record."""

    def __init__(
        self,
        batches: Iterator[StoredBatch | StoredDamage],
        first: int,
        end: int,
        name: str,
        *,
        most_records: int = UNLIMITED,
        most_bytes: int = UNLIMITED,
    ) -> None:
        """Begin at the first batch that reaches `first`, inclusive; `end` is exclusive. Limits are of what is decoded."""
        self._batches, self._first, self._end, self.name = batches, first, end, name
        self._most_records, self._most_bytes = most_records, most_bytes
        self._records: tuple[HashedRecord, ...] | None = None
        self._at = self._decoded = self._bytes = 0
        self.head: StoredBatch | None = None
        self.reached = first  # how far batches were read, exclusive
        self.next_batch()

    @property
    def is_between_batches(self) -> bool:
        """Whether no record of the batch was looked at."""
        return self._records is None

    def next_batch(self) -> None:
        """Pass over the batch."""
        self._records, self.head = None, None
        for item in self._batches:
            if isinstance(item, StoredDamage):
                if item.next_offset >= self._end:
                    self.reached = item.next_offset
                    return
                raise UnreadRecordsError(f"{self.name}: {item.path} is not readable as a log from byte {item.damage.byte_offset}")
            self.reached = max(self.reached, item.header.last_offset + 1)
            if item.header.last_offset < self._first:
                continue
            if item.header.base_offset < self._end:
                self.head = item
            return

    def record(self) -> HashedRecord | None:
        """The record that is next; None at the end."""
        while self.head is not None:
            if self._records is None:
                self._records, self._at = self._read(self.head), 0
            while self._at < len(self._records) and self._records[self._at].offset < self._first:
                self._at += 1
            if self._at < len(self._records):
                found = self._records[self._at]
                return found if found.offset < self._end else None
            self.next_batch()
        return None

    def next_record(self) -> None:
        """Pass over the record, and over its batch if it was the last one."""
        self._at += 1
        if self._records is not None and self._at >= len(self._records):
            self.next_batch()

    def _read(self, batch: StoredBatch) -> tuple[HashedRecord, ...]:
        self._decoded += batch.header.record_count or 1
        self._bytes += batch.header.size_bytes
        if batch.read is None:
            raise UnreadRecordsError(f"of {self.name} the input has the headers of batches only, no records")
        if self._decoded > self._most_records or self._bytes > self._most_bytes:
            raise UnreadRecordsError(f"no more than {self._most_records} records or {self._most_bytes >> 20} MiB are compared")
        body: BatchBody = batch.read()
        if body.unreadable is not None:
            raise UnreadRecordsError(f"{self.name}: {body.unreadable}")
        return body.records


def begins(header: BatchHeader) -> int:
    """The first offset of a batch; of an entry of the formats before v2 its last one, because only that is known."""
    return header.base_offset if header.magic == 2 else header.last_offset


def bounds(header: BatchHeader) -> tuple[int, int]:
    """Where a batch begins, and its last offset, inclusive."""
    return begins(header), header.last_offset


def identity(header: BatchHeader) -> tuple[int, int, int]:
    """What equal batches have in common: their bounds and their CRC."""
    return (*bounds(header), header.crc)


def record_difference(
    leader: HashedRecord | None, follower: HashedRecord | None, left: StoredBatch | None, right: StoredBatch | None
) -> DifferingRecord | None:
    """How the next records of two logs differ, each with its batch; None if they do not. Of two offsets the lower one is alone.

    A batch that was converted to an older format has lost what that cannot hold: before v2 headers and producers, in v0 the timestamp
    (RecordsUtil.downConvert).
    """
    if leader is None or follower is None or leader.offset != follower.offset or left is None or right is None:
        offset = min(one.offset for one in (leader, follower) if one is not None)
        held = [one if one is not None and one.offset == offset else None for one in (leader, follower)]
        return DifferingRecord(offset=offset, parts=(RecordPart.PRESENCE,), leader=held[0], follower=held[1])
    parts = []
    if (leader.key_bytes, leader.key) != (follower.key_bytes, follower.key):
        parts.append(RecordPart.KEY)
    if (leader.value_bytes, leader.value) != (follower.value_bytes, follower.value):
        parts.append(RecordPart.VALUE)
    is_converted, older = left.header.magic != right.header.magic, min(left.header.magic, right.header.magic)
    if leader.headers != follower.headers and not is_converted:
        parts.append(RecordPart.HEADERS)
    if leader.timestamp_ms != follower.timestamp_ms and not (is_converted and older == 0):
        parts.append(RecordPart.TIMESTAMP)
    if not is_converted and _producer(left.header, leader.offset) != _producer(right.header, leader.offset):
        parts.append(RecordPart.PRODUCER)
    return DifferingRecord(offset=leader.offset, parts=tuple(parts), leader=leader, follower=follower) if parts else None


def _producer(header: BatchHeader, offset: int) -> tuple[int, int, int, bool, bool]:
    """The producer of a record, its sequence number, and what kind of batch it is in."""
    sequence = (header.base_sequence + offset - header.base_offset) % _SEQUENCES if header.base_sequence >= 0 else -1
    return header.producer_id, header.producer_epoch, sequence, header.is_transactional, header.is_control


# Every record of which two logs of one history do not hold the same, from the first difference on: counted, and the first ones kept.
# What counts is what a consumer can tell apart, and who wrote it: see `record_cursor`. Batches that are equal are skipped unread.

FIRST_ONES = 100  # records that are kept of a pair


class DifferingRecordCount(NamedTuple):
    """How many records differ in a part, and in none that comes before it in `RecordPart`; of presence, the replica that lacks them."""

    part: RecordPart
    lacking_id: int | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRecords:
    """What comparing all records gave.

    `counts`: of every record that differs below `compared_end_offset`, exclusive, each record once. `first_ones`: those of the lowest
    offsets. `unread`: why records were not compared from there on; None if all were.
    """

    counts: tuple[DifferingRecordCount, ...]
    first_ones: tuple[DifferingRecord, ...]
    compared_end_offset: int
    unread: str | None = None


def differing_records(
    leader: Iterator[StoredBatch | StoredDamage],
    follower: Iterator[StoredBatch | StoredDamage],
    first: int,
    end: int,
    *,
    brokers: tuple[int, int],
) -> DifferingRecords:
    """Compare the records of two logs.

    Args:
        leader: its batches, from one that begins at or before `first` on.
        follower: the same.
        first: the offset to begin at, inclusive.
        end: up to where both logs must hold the same, exclusive.
        brokers: the ids of both.
    """
    counts: Counter[tuple[RecordPart, int | None]] = Counter()
    first_ones: list[DifferingRecord] = []
    compared, unread = first, None
    try:
        sides = RecordCursor(leader, first, end, "the leader"), RecordCursor(follower, first, end, "the follower")
        while True:
            found, compared = _next(*sides, end)
            if found is None:
                if compared >= end:
                    break
                continue
            counts[found.parts[0], _lacking(found, brokers)] += 1
            if len(first_ones) < FIRST_ONES:
                first_ones.append(found)
    except UnreadRecordsError as error:
        unread = str(error)
    order = list(RecordPart)
    counted = sorted(counts.items(), key=lambda one: (order.index(one[0][0]), one[0][1] or 0))
    return DifferingRecords(
        counts=tuple(DifferingRecordCount(part, lacking, number) for (part, lacking), number in counted),
        first_ones=tuple(first_ones),
        compared_end_offset=compared,
        unread=unread,
    )


def _next(left: RecordCursor, right: RecordCursor, end: int) -> tuple[DifferingRecord | None, int]:
    """Go on by a batch or a record: how it differs, None if it does not, and how far both were compared, exclusive."""
    if left.is_between_batches and right.is_between_batches and left.head is not None and right.head is not None:
        header = left.head.header
        if identity(header) == identity(right.head.header):
            left.next_batch()
            right.next_batch()
            return None, min(header.last_offset + 1, end)
    ours, theirs = left.record(), right.record()
    for side, record in ((left, ours), (right, theirs)):
        if record is None and side.reached < end:
            raise UnreadRecordsError(f"{side.name} ends at offset {side.reached}, earlier than during the scan")
    if ours is None and theirs is None:
        return None, end
    found = record_difference(ours, theirs, left.head, right.head)
    offset = min(one.offset for one in (ours, theirs) if one is not None)
    if ours is not None and ours.offset == offset:
        left.next_record()
    if theirs is not None and theirs.offset == offset:
        right.next_record()
    return found, offset + 1


def _lacking(found: DifferingRecord, brokers: tuple[int, int]) -> int | None:
    if found.leader is not None and found.follower is not None:
        return None
    return brokers[0] if found.leader is None else brokers[1]
