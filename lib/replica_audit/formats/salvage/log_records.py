"""The records of a part of a log in order, each batch with its header; and a cursor that finds the record at an offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import numpy as np

from replica_audit.errors import SegmentError
from replica_audit.files.locations import located, opened
from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, OFFSET, TIMESTAMP, KeyedRecords
from replica_audit.formats.replicas.replica_reader import batches_in, scan_of
from replica_audit.formats.segment.record_batch import LEGACY_AT, V2_AT, zigzag
from replica_audit.formats.segment.records import APPEND_TIME, MARKER, Budget, Record, Rows, UnreadableRecords, hashed, read_batch
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage, SegmentFile
from replica_audit.model.salvage import AuditedRun, AuditedSegment, LeaderLog
from replica_audit.protocol.salvage import LeadersKey

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


# What the leader wrote where its log differs, as far as it concerns some records: newer records of their keys, and retries of them.

_FOLLOWING = 3  # segments in which the end of a transaction is looked for
_NONE = -1


class KeysOnLeader:
    """The newest record of each key that some records have, from an offset of the leader's log on.

    A key takes 32 bytes, however long it is. What the leader's producers aborted does not count; what is open there does.
    """

    def __init__(self, segment: AuditedSegment, end_offset: int) -> None:
        """Take the keys of a segment's records below an offset.

        Raises:
            OSError: it cannot be read.
        """
        parts = [rows[:, (HIGH, LOW)] for rows in _rows_of(segment, (), end_offset)]
        keys = np.unique(np.concatenate(parts), axis=0) if parts else np.empty((0, 2), np.int64)
        self._high, self._low = keys[:, 0].copy(), keys[:, 1].copy()
        self._offsets = np.full(len(keys), _NONE, np.int64)
        self._timestamps = np.full(len(keys), _NONE, np.int64)
        self._epochs: list[tuple[int, int]] = []  # first offset and epoch, ascending

    def look_through(self, leader: LeaderLog) -> None:
        """Look for the keys in the leader's log.

        Raises:
            OSError: it cannot be read.
        """
        self._epochs = sorted((run.first_offset, run.leader_epoch) for segment in leader.segments for run in segment.runs or ())
        if not len(self._high):
            return
        paths = [bytes_at(segment.file) or segment.file.path for segment in leader.segments]
        for place, segment in enumerate(leader.segments):
            for rows in _rows_of(segment, paths[place + 1 : place + 1 + _FOLLOWING], leader.log_end_offset):
                rows = rows[rows[:, OFFSET] >= leader.from_offset]
                rows = rows[np.argsort(rows[:, OFFSET], kind="stable")]  # of a key that comes twice the later one stays
                places = self._places(rows)
                is_known = places >= 0
                places, rows = places[is_known], rows[is_known]
                is_later = rows[:, OFFSET] > self._offsets[places]
                self._offsets[places[is_later]] = rows[is_later, OFFSET]
                self._timestamps[places[is_later]] = rows[is_later, TIMESTAMP]

    def of(self, records: Sequence[Record]) -> list[LeadersKey | None]:
        """For each record what the leader has of its key."""
        if not len(self._high):
            return [None] * len(records)
        places = self._places(hashed(records))
        return [
            self._found(place) if record.key is not None and place >= 0 else None for place, record in zip(places, records, strict=True)
        ]

    def _found(self, place: int) -> LeadersKey | None:
        offset = int(self._offsets[place])
        if offset < 0:
            return None
        at = bisect_right(self._epochs, (offset, 1 << 31)) - 1
        return LeadersKey(offset=offset, leader_epoch=self._epochs[at][1] if at >= 0 else -1, timestamp_ms=int(self._timestamps[place]))

    def _places(self, rows: Rows) -> Rows:
        """Where the key of each row is among the known ones; -1: nowhere."""
        places = np.searchsorted(self._high, rows[:, HIGH])
        places[places == len(self._high)] = 0
        found: Rows = np.where((self._high[places] == rows[:, HIGH]) & (self._low[places] == rows[:, LOW]), places, _NONE)
        return found


def _rows_of(segment: AuditedSegment, following: Sequence[str], end_offset: int) -> Iterable[Rows]:
    path = located(bytes_at(segment.file) or segment.file.path)
    for rows in KeyedRecords((), end_offset).read(path, [located(one) for one in following]):
        yield rows[(rows[:, FLAGS] & MARKER) == 0]


class Resent:
    """Which records the leader got again from their producer: those of the same producer id, epoch and sequence."""

    def __init__(self) -> None:
        """Nothing is wanted yet."""
        self._wanted: dict[tuple[int, int], tuple[int, int]] = {}
        self._found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def want(self, batch: BatchHeader) -> None:
        """Look for the records of a batch."""
        if batch.producer_id < 0 or batch.base_sequence < 0 or batch.is_control:
            return
        producer, last = (batch.producer_id, batch.producer_epoch), sequence_of(batch, batch.last_offset)
        if last >= batch.base_sequence:  # beyond the largest sequence nothing is recognised
            lowest, highest = self._wanted.get(producer, (batch.base_sequence, last))
            self._wanted[producer] = (min(lowest, batch.base_sequence), max(highest, last))

    def look_through(self, leader: LeaderLog) -> None:
        """Look for them in the leader's log.

        Raises:
            OSError: it cannot be read.
        """
        for segment in leader.segments if self._wanted else ():
            for batch in read_batches(located(bytes_at(segment.file) or segment.file.path), verify_crc=False):
                if isinstance(batch, Damage):
                    continue  # the last one, or offsets go back at the next
                if batch.base_offset >= leader.log_end_offset:
                    break
                producer = (batch.producer_id, batch.producer_epoch)
                if batch.base_offset < leader.from_offset or producer not in self._wanted or batch.is_control:
                    continue
                lowest, highest = self._wanted[producer]
                last = sequence_of(batch, batch.last_offset)
                if batch.base_sequence >= 0 and batch.base_sequence <= highest and last >= lowest:
                    self._found.setdefault(producer, []).append((batch.base_sequence, last, batch.base_offset))
        for spans in self._found.values():
            spans.sort()

    def offset_of(self, batch: BatchHeader, offset: int) -> int | None:
        """The offset at which the leader has a record of a batch again; None if it does not."""
        spans = self._found.get((batch.producer_id, batch.producer_epoch))
        if not spans or batch.base_sequence < 0:
            return None
        sequence = sequence_of(batch, offset)
        place = bisect_right(spans, (sequence, 1 << 62, 0)) - 1
        if place < 0 or not spans[place][0] <= sequence <= spans[place][1]:
            return None
        return spans[place][2] + sequence - spans[place][0]


# Whether a segment is still what was audited, by the headers of its batches.


def changed_since(segment: AuditedSegment) -> str | None:
    """Why a segment is not the one that was audited, by the headers of its batches; None if it is.

    Raises:
        OSError: it cannot be read.
    """
    if segment.runs is None or segment.file.source != "raw":
        return None
    found: list[AuditedRun] = []
    for run in scan_of(segment.file, verify_crc=False).runs:
        of_run = AuditedRun(*run[:8])
        if found and found[-1].leader_epoch == of_run.leader_epoch:
            found[-1] = _joined(found[-1], of_run)
        else:
            found.append(of_run)
    if tuple(found) == segment.runs:
        return None
    held = _told(found), _told(segment.runs)
    return f"{segment.file.path} holds {held[0]}, when it was audited it held {held[1]}"


def _joined(run: AuditedRun, following: AuditedRun) -> AuditedRun:
    return AuditedRun(
        run.leader_epoch,
        run.first_offset,
        following.last_offset,
        run.batch_count + following.batch_count,
        run.record_count + following.record_count,
        run.size_bytes + following.size_bytes,
        min(run.min_timestamp_ms, following.min_timestamp_ms),
        max(run.max_timestamp_ms, following.max_timestamp_ms),
    )


def _told(runs: Sequence[AuditedRun]) -> str:
    if not runs:
        return "no batch"
    size = sum(run.size_bytes for run in runs)
    return f"offsets {runs[0].first_offset}..{runs[-1].last_offset} in {size} bytes and epochs up to {runs[-1].leader_epoch}"
