"""The newest record of each key in one segment, as hashes: what is left of it once older records of the same keys are dropped.

Records of aborted transactions are left out, and those of a transaction whose marker is not in the segment are marked PENDING. Each
transaction marker is a row of its own, and so is each transaction that is open: MARKER and PENDING, at the offset of its last record.
Sources: DefaultRecordBatch, ControlRecordType, Cleaner (4.2.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from replica_audit.errors import SegmentError
from replica_audit.files.locations import opened
from replica_audit.formats.native import native_code
from replica_audit.formats.segment.hashed_records import BROKER_TIME, KIND, MARKER, NO_KEY, PENDING, ROW, Rows, hashed
from replica_audit.formats.segment.record_batch import LAST_OFFSET, V2_HEADER
from replica_audit.formats.segment.records import (
    APPEND_TIME,
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    Budget,
    UnreadableRecords,
    decompressed_within,
    read_batch,
)
from replica_audit.formats.segment.segment_scan import BUFFER, read_batches
from replica_audit.model import BatchHeader, Damage

HIGH, LOW, OFFSET, TIMESTAMP, VALUE, FLAGS = range(len(ROW))
_MOST = 1 << 19  # rows that are gathered before older records are dropped: some 25 MB
_COMMIT, _ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"  # version and type of a marker

_decoded = 0  # records, by this process


class KeyedRecords:
    """Reads the records of a segment. `unreadable`: its batches whose records cannot be had."""

    def __init__(self, bounds: Sequence[int], end_offset: int = LAST_OFFSET) -> None:
        """Keep the newest record of each key below each of the bounds and the newest of all, of batches that begin below an offset."""
        self.unreadable: list[UnreadableRecords] = []
        self._bounds, self._end_offset = np.array(sorted(bounds), np.int64), end_offset
        self._budget = Budget()
        self._parts: list[Rows] = [NO_ROWS]
        self._gathered = 0
        self._open: defaultdict[int, list[Rows]] = defaultdict(list)  # by producer
        self._undecided, self._most_undecided = 0, _MOST  # rows of open transactions
        self._markers: list[Rows] = []

    def read(self, path: Path, following: Sequence[Path] = ()) -> Iterator[Rows]:
        """Yield the rows (`ROW`) of a segment, in no order; a key may come again in the next part.

        Args:
            path: of the segment.
            following: later segments, in which the markers of transactions are looked for that are open at its end.

        Raises:
            OSError: the file cannot be read.
        """
        with opened(path, BUFFER) as stream:
            for header in read_batches(path, verify_crc=False):
                if isinstance(header, Damage):
                    continue  # of a log that is damaged inside nothing is compared
                if header.base_offset >= self._end_offset:
                    break
                if header.record_count != 0:
                    self._add(stream, header)
                if self._gathered > _MOST:
                    self._drop_older()
                    if self._gathered > _MOST // 2:
                        yield self._taken()
        self._look_ahead(following)
        self._drop_older()
        for producer, parts in self._open.items():
            for rows in filter(len, parts):
                rows[:, FLAGS] |= PENDING
                self._parts.append(rows)
            last = max((int(rows[:, OFFSET].max()) for rows in parts if len(rows)), default=-1)
            if last >= 0:
                self._markers.append(np.array([[producer, last, last, -1, 0, MARKER | PENDING]], np.int64))
        yield self._taken()

    def _look_ahead(self, following: Sequence[Path]) -> None:
        """End transactions by the markers of the next segments, whose own rows these are, as are their problems."""
        markers, unreadable = self._markers, self.unreadable
        self._markers, self.unreadable = [], []
        for path in following:
            if not any(map(len, chain.from_iterable(self._open.values()))):
                break
            with suppress(OSError), opened(path, BUFFER) as stream:
                for header in read_batches(path, verify_crc=False):
                    if isinstance(header, Damage):
                        continue
                    if header.base_offset >= self._end_offset:
                        break
                    if header.is_control and header.record_count and header.producer_id in self._open:
                        self._end(stream, header)
        self._markers, self.unreadable = markers, unreadable

    def _taken(self) -> Rows:
        found = np.concatenate([*self._parts, *self._markers])
        self._parts, self._markers, self._gathered = [NO_ROWS], [], 0
        return found

    def _add(self, stream: BinaryIO, header: BatchHeader) -> None:
        if header.is_control:
            self._end(stream, header)
            return
        rows = self._rows(stream, header)
        without_key = rows[:, FLAGS] & NO_KEY
        if without_key.any():  # a compacted topic takes none, and its cleaner drops them
            rows = rows[without_key == 0]
        if header.is_transactional:
            self._open[header.producer_id].append(rows)
            self._undecided += len(rows)
            if self._undecided > self._most_undecided:
                self._drop_older_undecided()
        else:
            self._keep(rows)

    def _keep(self, rows: Rows) -> None:
        self._parts.append(rows)
        self._gathered += len(rows)

    def _drop_older(self) -> None:
        self._parts = [newest(np.concatenate(self._parts), self._bounds)]
        self._gathered = len(self._parts[0])

    def _drop_older_undecided(self) -> None:
        """Of an open transaction only the newest record of each key can count, however it ends."""
        self._open = defaultdict(
            list, {producer: [newest(np.concatenate(parts), self._bounds)] for producer, parts in self._open.items() if parts}
        )
        self._undecided = sum(len(rows) for parts in self._open.values() for rows in parts)
        self._most_undecided = max(_MOST, 2 * self._undecided)  # each time that they doubled, so that it takes no more than their number

    def _end(self, stream: BinaryIO, header: BatchHeader) -> None:
        """A marker ends its producer's transaction; other control records are none of a transaction's."""
        found = read_batch(stream, header, self._budget)
        if isinstance(found, UnreadableRecords):
            self.unreadable.append(found)
            return
        for record in found[1]:
            if record.key not in (_COMMIT, _ABORT):
                continue
            for rows in self._open.pop(header.producer_id, []):
                self._undecided -= len(rows)
                if record.key == _COMMIT:
                    self._keep(rows)
            kind = int(record.key == _COMMIT)
            self._markers.append(
                np.array([[header.producer_id, record.offset, record.offset, record.timestamp_ms, kind, MARKER | BROKER_TIME]], np.int64)
            )

    def _rows(self, stream: BinaryIO, header: BatchHeader) -> Rows:
        global _decoded
        _decoded += header.record_count or 0
        decode = native_code.record_decoder(_decoded)
        if decode is not None and header.magic == 2 and header.size_bytes <= MAX_BATCH_BYTES and (header.record_count or 0) <= MAX_RECORDS:
            left = self._budget.left
            rows = self._natively(decode, stream, header)
            if rows is not None:
                return rows
            self._budget.left = left
        found = read_batch(stream, header, self._budget)
        if isinstance(found, UnreadableRecords):
            self.unreadable.append(found)
            return NO_ROWS
        rows = hashed(found[1])
        if _is_of_broker(stream, header):
            rows[:, FLAGS] |= BROKER_TIME
        return rows

    def _natively(self, decode: native_code.RecordDecoder, stream: BinaryIO, header: BatchHeader) -> Rows | None:
        """The rows of a batch; None for one that Python has to look at."""
        stream.seek(header.position)
        content = stream.read(header.size_bytes)
        if len(content) < header.size_bytes:
            return None
        try:
            data = decompressed_within(content[V2_HEADER.size :], header, self._budget)
        except SegmentError:
            return None
        count = header.record_count or 0
        if count > len(data):
            return None
        held = np.frombuffer(data, np.uint8)
        rows = np.empty((count, len(ROW)), np.int64)
        attributes, base_timestamp = V2_HEADER.unpack_from(content)[5:8:2]
        place = (held.ctypes.data, len(held), count, header.base_offset, base_timestamp, header.last_offset)
        if not decode(*place, rows.view(KIND).ravel()):
            return None
        if attributes & APPEND_TIME:
            rows[:, TIMESTAMP] = header.max_timestamp_ms
            rows[:, FLAGS] |= BROKER_TIME
        return rows


def _is_of_broker(stream: BinaryIO, header: BatchHeader) -> bool:
    """Whether a batch has the time at which its leader appended it; of the formats before v2 that is not looked at."""
    stream.seek(header.position)
    return header.magic == 2 and bool(V2_HEADER.unpack(stream.read(V2_HEADER.size))[5] & APPEND_TIME)


NO_ROWS: Rows = np.empty((0, len(ROW)), np.int64)


def newest(rows: Rows, bounds: Rows) -> Rows:
    """Of each key the row with the highest offset below each bound, and with the highest of all; `bounds` ascend.

    Of keys whose hashes begin alike a row more may be kept. The rows found are in the order of their offsets: so they need no sorting again
    once newer ones are put behind them.
    """
    if not len(rows):
        return rows
    offsets = rows[:, OFFSET]
    if (offsets[1:] < offsets[:-1]).any():
        rows = rows[np.argsort(offsets, kind="stable")]
    order = by_key(rows)
    found: Rows = rows[np.sort(order[_ends(rows, order, bounds)])]
    return found


def by_key(rows: Rows) -> Rows:
    """The places of rows in the order of the first bits of their keys' hashes, and, of those that are equal, as they are.

    Place and bits are sorted as one number: that takes a tenth of the time of sorting places by their keys.
    """
    bits = len(rows).bit_length()
    places = np.arange(len(rows))
    found: Rows = np.sort(rows[:, HIGH] >> bits << bits | places) & ((1 << bits) - 1)
    return found


def _ends(rows: Rows, order: Rows, bounds: Rows) -> Rows:
    """Which rows, in an order by keys, the next one does not replace."""
    high, low = rows[order, HIGH], rows[order, LOW]
    is_replaced = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    if len(bounds):
        part = np.searchsorted(bounds, rows[order, OFFSET], side="right")
        is_replaced &= part[1:] == part[:-1]
    ends: Rows = np.append(~is_replaced, True)
    return ends
