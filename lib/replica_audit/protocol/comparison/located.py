"""Where the batches of two logs first differ, down to the record, and what kind of difference it is.

The rule is the product's own. A follower appends its leader's batches byte by byte (UnifiedLog.appendAsFollower): it neither splits, joins
nor compresses anything anew, whatever its version. A leader converts only for a follower of an older format (`message.format.version`,
until 4.0), and the cleaner writes batches anew only below its checkpoint; neither is compared here. So other batches never come of
replication alone. But if the records in them are equal, offset by offset, no consumer can tell the two logs apart, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import BatchBody, BatchHeader, HashedRecord, StoredBatch, StoredDamage

MOST_RECORDS = 200_000  # that are decoded of each log: a second or two
MOST_BYTES = 64 << 20  # of batches, likewise
_SEQUENCES = 1 << 31  # after which an idempotent producer counts from 0 again (DefaultRecordBatch.incrementSequence)


class MismatchKind(StrEnum):
    """How two logs differ that have equal offsets and epochs."""

    OTHER_RECORDS = "other_records"  # a record is not the same, or only one of them has it
    OTHER_BATCHING = "other_batching"  # the same records, in other batches
    OTHER_ENCODING = "other_encoding"  # the same records in the same batches, compressed otherwise
    NOT_READ = "not_read"  # records could not be compared


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
    """The first record that is not the same; None for a side that does not have it."""

    offset: int
    parts: tuple[RecordPart, ...]
    leader: HashedRecord | None
    follower: HashedRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDifference:
    """The first batches that are not the same, None for a side that has none there, and the first such record.

    `compared_end_offset`: all records below it were compared or stand in equal batches. `whole`: so were all that both logs must hold.
    `unread`: why records could not be compared from there on.
    """

    kind: MismatchKind
    leader: StoredBatch | None
    follower: StoredBatch | None
    record: DifferingRecord | None = None
    compared_end_offset: int | None = None
    whole: bool = False
    unread: str | None = None

    @property
    def has_equal_records(self) -> bool:
        """Whether it is proven that both logs hold the same records."""
        return self.whole and self.kind in (MismatchKind.OTHER_BATCHING, MismatchKind.OTHER_ENCODING)


class _UnreadError(Exception):
    """Records cannot be had, or are too many."""


class _Cursor:
    """One log, batch by batch or record by record."""

    def __init__(self, batches: Iterator[StoredBatch | StoredDamage], first: int, end: int, name: str) -> None:
        self._batches, self._first, self._end, self._name = batches, first, end, name
        self._records: tuple[HashedRecord, ...] | None = None
        self._at = self._decoded = self._bytes = 0
        self.head: StoredBatch | None = None
        self.next_batch()

    @property
    def is_between_batches(self) -> bool:
        return self._records is None

    def next_batch(self) -> None:
        """Pass over the batch."""
        self._records, self.head = None, None
        for item in self._batches:
            if isinstance(item, StoredDamage):
                if item.next_offset >= self._end:
                    return
                raise _UnreadError(f"{self._name}: {item.path} stops being a log at byte {item.damage.byte_offset}")
            if item.header.last_offset < self._first:
                continue
            if _begins(item.header) < self._end:
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
            raise _UnreadError(f"of {self._name} the input has the headers of batches only, no records")
        if self._decoded > MOST_RECORDS or self._bytes > MOST_BYTES:
            raise _UnreadError(f"no more than {MOST_RECORDS} records or {MOST_BYTES >> 20} MiB are compared")
        body: BatchBody = batch.read()
        if body.unreadable is not None:
            raise _UnreadError(f"{self._name}: {body.unreadable}")
        return body.records


def locate(
    leader: Iterator[StoredBatch | StoredDamage], follower: Iterator[StoredBatch | StoredDamage], first: int, end: int
) -> LocatedDifference:
    """Find the first difference of two logs.

    Args:
        leader: its batches, from one that begins at or before `first` on.
        follower: the same.
        first: the offset of the first batch that is known to differ, inclusive.
        end: up to where both logs must hold the same, exclusive.
    """
    heads: list[StoredBatch | None] = [None, None]
    sides: list[_Cursor] = []
    record: DifferingRecord | None = None
    unread, other_batches, compared = None, False, first
    try:
        sides = [_Cursor(leader, first, end, "the leader"), _Cursor(follower, first, end, "the follower")]
        heads = _at_first(sides)
        while True:
            left, right = sides
            if left.is_between_batches and right.is_between_batches and left.head is not None and right.head is not None:
                if _identity(left.head.header) == _identity(right.head.header):
                    compared = left.head.header.last_offset + 1
                    left.next_batch()
                    right.next_batch()
                    continue
                other_batches |= _bounds(left.head.header) != _bounds(right.head.header)
            else:
                other_batches |= left.is_between_batches != right.is_between_batches or (left.head is None) != (right.head is None)
            ours, theirs = left.record(), right.record()
            if ours is None and theirs is None:
                compared = end
                break
            record = _difference(ours, theirs, left.head, right.head)
            if record is not None:
                compared = record.offset
                break
            compared = ours.offset + 1 if ours else compared
            left.next_record()
            right.next_record()
    except _UnreadError as error:
        unread = str(error)
    kind = MismatchKind.OTHER_BATCHING if other_batches else MismatchKind.OTHER_ENCODING
    if unread is not None:
        kind = MismatchKind.NOT_READ
    elif record is not None:
        kind = MismatchKind.OTHER_RECORDS
    return LocatedDifference(
        kind=kind,
        leader=heads[0],
        follower=heads[1],
        record=record,
        compared_end_offset=compared,
        whole=unread is None and record is None,
        unread=unread,
    )


def _at_first(sides: list[_Cursor]) -> list[StoredBatch | None]:
    """The batches at the lowest offset that any begins with."""
    begin = min((_begins(side.head.header) for side in sides if side.head is not None), default=0)
    return [side.head if side.head is not None and _begins(side.head.header) == begin else None for side in sides]


def _begins(header: BatchHeader) -> int:
    return header.base_offset if header.magic == 2 else header.last_offset


def _bounds(header: BatchHeader) -> tuple[int, int]:
    return _begins(header), header.last_offset


def _identity(header: BatchHeader) -> tuple[int, int, int]:
    return (*_bounds(header), header.crc)


def _difference(
    leader: HashedRecord | None, follower: HashedRecord | None, left: StoredBatch | None, right: StoredBatch | None
) -> DifferingRecord | None:
    if leader is None or follower is None or leader.offset != follower.offset or left is None or right is None:
        offset = min(one.offset for one in (leader, follower) if one is not None)
        held = [one if one is not None and one.offset == offset else None for one in (leader, follower)]
        return DifferingRecord(offset=offset, parts=(RecordPart.PRESENCE,), leader=held[0], follower=held[1])
    parts = []
    if (leader.key_bytes, leader.key) != (follower.key_bytes, follower.key):
        parts.append(RecordPart.KEY)
    if (leader.value_bytes, leader.value) != (follower.value_bytes, follower.value):
        parts.append(RecordPart.VALUE)
    if leader.headers != follower.headers:
        parts.append(RecordPart.HEADERS)
    if leader.timestamp_ms != follower.timestamp_ms:
        parts.append(RecordPart.TIMESTAMP)
    if _producer(left.header, leader.offset) != _producer(right.header, leader.offset):
        parts.append(RecordPart.PRODUCER)
    return DifferingRecord(offset=leader.offset, parts=tuple(parts), leader=leader, follower=follower) if parts else None


def _producer(header: BatchHeader, offset: int) -> tuple[int, int, int, bool, bool]:
    """The producer of a record, its sequence number, and what kind of batch it is in."""
    sequence = (header.base_sequence + offset - header.base_offset) % _SEQUENCES if header.base_sequence >= 0 else -1
    return header.producer_id, header.producer_epoch, sequence, header.is_transactional, header.is_control
