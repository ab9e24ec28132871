"""The newest record of each key in one segment, as hashes: what is left of it once older records of the same keys are dropped.

Records of aborted transactions are left out, and those of a transaction whose marker is not in the segment are marked PENDING. Each
transaction marker is a row of its own, and so is each transaction that is open: MARKER and PENDING, at the offset of its last record.
Sources: DefaultRecordBatch, ControlRecordType, Cleaner (4.2.0).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from replica_audit.errors import SegmentError
from replica_audit.files.locations import opened
from replica_audit.formats.native import native_code
from replica_audit.formats.segment.record_batch import LAST_OFFSET, V2_HEADER
from replica_audit.formats.segment.records import (
    APPEND_TIME,
    BROKER_TIME,
    KIND,
    MARKER,
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    NO_KEY,
    PENDING,
    ROW,
    TOMBSTONE,
    Budget,
    Rows,
    UnreadableRecords,
    decompressed_within,
    hashed,
    read_batch,
)
from replica_audit.formats.segment.segment_scan import BUFFER, read_batches
from replica_audit.model import BatchHeader, Damage
from replica_audit.protocol.comparison.compaction import (
    MOST_KEYS,
    NOTHING,
    CompactionCause,
    ComparedLogs,
    DifferingKey,
    DifferingKeys,
    KeyDifference,
    KeyRecord,
    KeyState,
    key_difference,
    marker_difference,
)

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


# The keys of two replicas side by side, as hashes: those that are equal pass as columns of numbers, of the others the protocol decides.

_Key = tuple[int, int]


def compare_keys(logs: ComparedLogs, leader: Rows, follower: Rows) -> list[DifferingKeys]:
    """The keys in which a pair differs.

    Args:
        logs: the pair.
        leader: rows (`hashed_records.ROW`) of the leader, all that there are of the keys that are compared.
        follower: those of the follower.
    """
    sides = [rows[rows[:, OFFSET] < log.end_offset] for rows, log in ((leader, logs.leader), (follower, logs.follower))]
    is_marker = [rows[:, FLAGS] & MARKER != 0 for rows in sides]
    markers, records = ([rows[wanted] for rows, wanted in zip(sides, which, strict=True)] for which in (is_marker, [~m for m in is_marker]))
    kept = [_without_undecided(own, other, logs.end_offset) for own, other in (records, records[::-1])]
    differences = (*_of_keys(logs, *kept), *_of_markers(logs, *markers))
    counts: Counter[tuple[CompactionCause | None, int]] = Counter()
    found: defaultdict[tuple[CompactionCause | None, int], list[DifferingKey]] = defaultdict(list)
    for key, one in differences:
        counts[one.cause, one.broker_id] += 1
        found[one.cause, one.broker_id].append(DifferingKey(*key, one.leader, one.follower))
        if len(found[one.cause, one.broker_id]) > 10 * MOST_KEYS:
            found[one.cause, one.broker_id] = nsmallest(MOST_KEYS, found[one.cause, one.broker_id], key=attrgetter("offset"))
    return [
        DifferingKeys(*why, counts[why], tuple(nsmallest(MOST_KEYS, keys, key=attrgetter("offset")) if why[0] else ()))
        for why, keys in found.items()
    ]


def _without_undecided(own: Rows, other: Rows, end_offset: int) -> Rows:
    """Without the records of transactions whose end was not found, except those that the other replica holds, too.

    There the other segment tells how the transaction ended, or neither does: then they are the same on both. Those beyond the end of the
    comparison stay as well: such a record may have replaced an older one of its key.
    """
    undecided = own[:, FLAGS] & PENDING != 0
    return own[~undecided | (own[:, OFFSET] >= end_offset) | np.isin(own[:, OFFSET], other[:, OFFSET])] if undecided.any() else own


def _of_keys(logs: ComparedLogs, leader: Rows, follower: Rows) -> Iterator[tuple[_Key, KeyDifference]]:
    bounds = np.array([logs.end_offset], np.int64)
    sides = [newest(rows, bounds) for rows in (leader, follower)]
    below = [rows[rows[:, OFFSET] < logs.end_offset] for rows in sides]
    differing = _differing_keys(*below)
    states = [_states(rows[np.isin(_mixed(rows), differing)], logs.end_offset) for rows in sides]
    for key in sorted({*states[0], *states[1]}):
        found = key_difference(logs, states[0].get(key, NOTHING), states[1].get(key, NOTHING))
        if found is not None:
            yield key, found


def _mixed(rows: Rows) -> Rows:
    """64 bits of each key's hash, enough to choose rows by."""
    mixed: Rows = rows[:, HIGH] ^ rows[:, LOW] * 31
    return mixed


def _differing_keys(left: Rows, right: Rows) -> Rows:
    """Of two tables that hold each key once the keys whose rows are not the same in both."""
    rows = np.concatenate([left, right])
    rows = rows[by_key(rows)]
    rows[:, FLAGS] &= TOMBSTONE
    same = np.ones(max(len(rows) - 1, 0), bool)
    for column in (HIGH, LOW, OFFSET, VALUE, FLAGS):
        same &= rows[1:, column] == rows[:-1, column]
    alone = np.ones(len(rows), bool)
    alone[1:] &= ~same
    alone[:-1] &= ~same
    return np.unique(_mixed(rows[alone]))


def _states(rows: Rows, end: int) -> dict[_Key, KeyState]:
    """The rows of few keys, each of which has one below the end at most, and one above."""
    found: dict[_Key, KeyState] = {}
    for row in rows.tolist():
        key, before = (row[HIGH], row[LOW]), found.get((row[HIGH], row[LOW]), NOTHING)
        record = _record(row)
        newest_of_all = record if before.newest is None or record.offset > before.newest.offset else before.newest
        found[key] = KeyState(newest_of_all, record if record.offset < end else before.below_end)
    return found


def _record(row: list[int]) -> KeyRecord:
    return KeyRecord(row[OFFSET], row[TIMESTAMP], bool(row[FLAGS] & TOMBSTONE), row[VALUE], bool(row[FLAGS] & BROKER_TIME))


def _of_markers(logs: ComparedLogs, leader: Rows, follower: Rows) -> Iterator[tuple[_Key, KeyDifference]]:
    opened, markers = ([rows[(rows[:, FLAGS] & PENDING != 0) == wanted] for rows in (leader, follower)] for wanted in (True, False))
    for leads, rows, others, theirs in ((True, *markers, opened[1]), (False, *markers[::-1], opened[0])):
        for row in sorted(rows[~np.isin(rows[:, OFFSET], others[:, OFFSET])].tolist(), key=lambda row: row[OFFSET]):
            record, holds = _record(row), _holds_records(row, others, theirs)
            found = marker_difference(logs, *((record, None) if leads else (None, record)), holds_records=holds)
            if found is not None:
                yield (row[HIGH], row[LOW]), found


def _holds_records(marker: list[int], others: Rows, opened: Rows) -> bool:
    """Whether a replica that lacks a marker holds records that only this one ended: its producer's, with no other marker between."""
    before = opened[(opened[:, HIGH] == marker[HIGH]) & (opened[:, OFFSET] < marker[OFFSET])]
    if not len(before):
        return False
    last = before[:, OFFSET].max()
    return not ((others[:, HIGH] == marker[HIGH]) & (others[:, OFFSET] > last) & (others[:, OFFSET] < marker[OFFSET])).any()
