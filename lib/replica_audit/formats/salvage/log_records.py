"""The records of a part of a log in order, each batch with its header; and a cursor that finds the record at an offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from replica_audit.errors import SegmentError
from replica_audit.files.locations import located, opened
from replica_audit.formats.replicas.batch_range import batches_in
from replica_audit.formats.segment.record_batch import LEGACY_AT, V2_AT
from replica_audit.formats.segment.records import APPEND_TIME, Budget, Record, UnreadableRecords, read_batch
from replica_audit.formats.segment.varints import zigzag
from replica_audit.model import Damage, SegmentFile
from replica_audit.model.batches import BatchHeader

CREATE, APPEND, NO_TIMESTAMP = "create", "append", "none"


class ReadBatch(NamedTuple):
    """A batch whose records could be had. `timestamp_type` is create, append (the broker's clock) or none (magic 0)."""

    header: BatchHeader
    timestamp_type: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A segment stops being a log inside of what was asked for: nothing of it can be read from `next_offset` on."""

    damage: Damage
    next_offset: int


def bytes_at(file: SegmentFile) -> str | None:
    """Where the bytes of a segment are; None if the input does not hold them."""
    return file.path if file.source == "raw" else file.copy


def read_range(file: SegmentFile, first: int, end: int) -> Iterator[ReadBatch | UnreadableRecords | LogEnds]:
    """The batches of a segment that hold any offset of a range, with their records, one at a time.

    Args:
        file: a segment whose bytes are in the input.
        first: the lowest offset of interest, inclusive.
        end: behind the highest one.

    Raises:
        OSError: the file cannot be read.
    """
    budget, next_offset = Budget(), max(first, file.base_offset)
    with opened(located(bytes_at(file) or file.path)) as stream:
        for _path, item in batches_in([file], first, end - 1):
            if isinstance(item, Damage) and item.goes_on:
                continue
            if isinstance(item, Damage):
                yield LogEnds(item, next_offset)
                return
            next_offset = item.last_offset + 1
            found = read_batch(stream, item, budget)
            yield found if isinstance(found, UnreadableRecords) else ReadBatch(item, _timestamp_type(stream, item), found[1])


def _timestamp_type(stream: BinaryIO, header: BatchHeader) -> str:
    if header.magic == 0:
        return NO_TIMESTAMP
    stream.seek(header.position + (V2_AT["attributes"] + 1 if header.magic == 2 else LEGACY_AT["attributes"]))
    return APPEND if stream.read(1)[0] & APPEND_TIME else CREATE


def sequence_of(header: BatchHeader, offset: int) -> int:
    """The sequence of a record; -1: its batch has none (DefaultRecordBatch.incrementSequence: after 2³¹ − 1 comes 0)."""
    return -1 if header.base_sequence < 0 else (header.base_sequence + offset - header.base_offset) & 0x7FFFFFFF


def headers_of(record: Record) -> list[tuple[bytes, bytes | None]]:
    """A record's headers, in order.

    Raises:
        SegmentError: they are no headers; those of a record that was read are.
    """
    if not record.headers:
        return []
    found: list[tuple[bytes, bytes | None]] = []
    count, at = zigzag(record.headers, 0)
    for _ in range(count):
        name, at = _bytes(record.headers, at)
        value, at = _bytes(record.headers, at)
        if name is None:
            raise SegmentError("a header without a key")
        found.append((name, value))
    return found


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = zigzag(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


class AtOffset(NamedTuple):
    """What a log has at an offset: a record with its epoch; neither where there is none. `is_unread`: nobody can tell."""

    record: Record | None
    leader_epoch: int
    is_unread: bool = False


_NOTHING, _UNREAD = AtOffset(None, -1), AtOffset(None, -1, is_unread=True)


class LogCursor:
    """Goes over a log, forwards: asked for ascending offsets it reads each batch once, and holds one."""

    def __init__(self, files: Sequence[SegmentFile], first: int, end: int) -> None:
        """Begin at an offset; nothing is read yet."""
        self._batches = self._read(sorted(files, key=lambda file: file.base_offset), first, end)
        self._first, self._last, self._epoch = -1, -1, -1
        self._records: dict[int, Record] | None = {}
        self._is_over = False

    @staticmethod
    def _read(files: Sequence[SegmentFile], first: int, end: int) -> Iterator[ReadBatch | UnreadableRecords | LogEnds]:
        for place, file in enumerate(files):
            following = files[place + 1].base_offset if place + 1 < len(files) else end
            if following > first and file.base_offset < end:
                yield from read_range(file, first, min(end, following))

    def at(self, offset: int) -> AtOffset:
        """What is at an offset that is not below the one before.

        Raises:
            OSError: a file cannot be read.
        """
        while not self._is_over and self._last < offset:
            found = next(self._batches, None)
            if found is None:
                self._is_over = True
                self._first, self._records = offset, {}
            elif isinstance(found, LogEnds):
                continue
            else:
                self._first, self._last, self._epoch = found.header.base_offset, found.header.last_offset, found.header.leader_epoch
                unread = isinstance(found, UnreadableRecords)
                self._records = None if unread else {record.offset: record for record in found.records}  # type: ignore[union-attr]
        if self._is_over or offset < self._first:
            return _NOTHING
        if self._records is None:
            return _UNREAD
        record = self._records.get(offset)
        return _NOTHING if record is None else AtOffset(record, self._epoch)
