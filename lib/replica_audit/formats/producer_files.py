"""Transaction markers, producer snapshots and indexes of aborted transactions: from their bytes, or text of kafka-dump-log."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import crc32c

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.files.locations import located, opened
from replica_audit.files.text_files import KeptText, TextLines, open_text
from replica_audit.formats.coordinators.records import TextRecord, text_records
from replica_audit.formats.dump import pasted_text
from replica_audit.formats.log_dir.small_files import LIST_LIMIT, TooLargeError
from replica_audit.formats.segment.record_batch import V2_HEADER, zigzag
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import AbortedTransaction, BatchHeader, EndMarker, ProducerState, ProducerText, SegmentFile

# Transaction markers: what the batches of a segment, or text of kafka-dump-log --print-data-log, say of the end of transactions.
# Sources: ControlRecordType, EndTransactionMarker, DefaultRecord (clients, 4.2.0). Batches of markers are never compressed and hold one
# record.

_KEY, _VALUE = struct.Struct(">hh"), struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
_COMMITS = {"COMMIT": True, "ABORT": False}
MOST_BYTES = 64  # of a record up to the end of its value


def batches_with_markers(path: Path) -> Iterator[tuple[BatchHeader, bool | None]]:
    """The batches of a segment in order, up to where it stops being a log; of a marker whether it aborts, None of others.

    Raises:
        OSError: the file cannot be read.
    """
    with opened(path) as stream:
        for item in read_batches(path, verify_crc=False):
            if not isinstance(item, BatchHeader):
                return
            marker = marker_of(stream, item)
            yield item, None if marker is None else not marker.is_commit


def marker_of(stream: BinaryIO, batch: BatchHeader) -> EndMarker | None:
    """Which marker a batch is; None if it is none, the cleaner has emptied it, or its record cannot be read.

    Raises:
        OSError: the file cannot be read.
    """
    if not batch.is_control or not batch.record_count:
        return None
    stream.seek(batch.position + V2_HEADER.size)
    return marker_in(stream.read(min(MOST_BYTES, batch.size_bytes - V2_HEADER.size)))


def marker_in(record: bytes) -> EndMarker | None:
    """Which marker a record of a control batch is, from its first MOST_BYTES bytes; None if it is none, or cannot be read."""
    try:
        _size, at = zigzag(record, 0)
        _timestamp, at = zigzag(record, at + 1)
        _offset, at = zigzag(record, at)
        key_size, at = zigzag(record, at)
        _version, kind = _KEY.unpack_from(record, at)
    except (IndexError, SegmentError, struct.error):
        return None
    if key_size < _KEY.size or kind not in (_ABORT, _COMMIT):
        return None
    return EndMarker(kind == _COMMIT, _coordinator_epoch(record, at + key_size))


def _coordinator_epoch(record: bytes, at: int) -> int | None:
    try:
        size, at = zigzag(record, at)
        _version, epoch = _VALUE.unpack_from(record, at)
    except (IndexError, SegmentError, struct.error):
        return None
    return int(epoch) if size >= _VALUE.size else None


def markers_in_text(file: SegmentFile) -> dict[int, EndMarker]:
    """By offset, the markers that text of kafka-dump-log shows; none without --print-data-log.

    Raises:
        OSError: the file cannot be read.
    """
    with KeptText() as kept:
        records = (record for record in text_records(file, kept, ()) if isinstance(record, TextRecord))
        return {one.offset: EndMarker(_COMMITS[one.end_of_txn], one.coordinator_epoch) for one in records if one.end_of_txn in _COMMITS}


def marker_in_text(file: SegmentFile, offset: int) -> EndMarker | None:
    """Which marker text of kafka-dump-log shows at an offset; None if it shows none, as without --print-data-log.

    Raises:
        OSError: the file cannot be read.
    """
    with KeptText() as kept:
        for record in text_records(file, kept, ()):
            if isinstance(record, TextRecord) and record.offset == offset and record.end_of_txn in _COMMITS:
                return EndMarker(_COMMITS[record.end_of_txn], record.coordinator_epoch)
            if isinstance(record, TextRecord) and record.offset > offset:
                break
    return None


# Producer snapshots (`%020d.snapshot`): what a broker knew of the producers of a partition below an offset.
# Sources: ProducerStateManager.readSnapshot, ProducerSnapshot.json (storage, 4.2.0).

VERSION = 1
_HEAD, _PRODUCER = struct.Struct(">hIi"), struct.Struct(">qhiqiqiq")
_CRC_FROM = 6  # the first byte that the CRC covers


def producer_states(data: bytes) -> tuple[ProducerState, ...]:
    """The producers in a snapshot, in its order. Bytes behind them are covered by the CRC and do not matter, as they do not to Kafka.

    Raises:
        SegmentError: Kafka would not load it; its `byte_offset` is that of the field.
    """
    if len(data) < _HEAD.size:
        raise SegmentError(f"a snapshot of {len(data)} bytes, which is less than its head has", byte_offset=len(data))
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SegmentError(f"version {version} of a producer snapshot is not known, only {VERSION} is", byte_offset=0)
    if not 0 <= count * _PRODUCER.size <= len(data) - _HEAD.size:
        raise SegmentError(f"{count} producers in {len(data) - _HEAD.size} bytes", byte_offset=_CRC_FROM)
    computed: int = crc32c.crc32c(data[_CRC_FROM:])
    if computed != crc:
        raise SegmentError(f"the snapshot does not match its CRC: it stores {crc}, its bytes come to {computed}", byte_offset=2)
    entries = (_PRODUCER.unpack_from(data, _HEAD.size + place * _PRODUCER.size) for place in range(count))
    return tuple(_state(*entry) for entry in entries)


def entry_at(place: int) -> int:
    """The byte at which the entry of a producer begins, the first of which is at place 0."""
    return _HEAD.size + place * _PRODUCER.size


def _state(
    producer_id: int, epoch: int, sequence: int, offset: int, delta: int, timestamp: int, coordinator_epoch: int, open_first: int
) -> ProducerState:
    """As a broker takes it: without an offset there is no last batch, below 0 there is no transaction."""
    last = (sequence, offset, delta) if offset >= 0 else (-1, -1, 0)
    return ProducerState(producer_id, epoch, *last, timestamp, coordinator_epoch, max(open_first, -1))


# What kafka-dump-log prints of producer snapshots and of indexes of aborted transactions.
# Source: DumpLogSegments.dumpProducerIdSnapshot and dumpTxnIndex (0.11 to 4.3). Up to 2.3 the last batch comes before the epoch of the
# coordinator, and of a producer without one as -1; later it is left out, up to 3.2 with the time.

_PAIR = re.compile(r"(\w{1,40}): (\S{1,40})")
_OPTIONAL = re.compile(r"(?:Some\(|OptionalLong\[)(\d{1,19})[)\]]")
_NONE = ("None", "OptionalLong.empty")
_ABORTED = re.compile(
    r"version: (\d{1,5}) producerId: (-?\d{1,19}) firstOffset: (\d{1,19}) lastOffset: (\d{1,19}) lastStableOffset: (\d{1,19})"
)


def producer_states_in_text(text: ProducerText) -> tuple[tuple[ProducerState, int], ...]:
    """The producers that a text shows of a snapshot, each with its line.

    Raises:
        DumpLogError: a line cannot be read, or some were left out.
        OSError: the text cannot be read, or is larger than such a file can be.
    """
    return tuple((_state_in_text(line, number), number) for line, number in _lines(text))


def aborted_transactions_in_text(text: ProducerText) -> tuple[AbortedTransaction, ...]:
    """The entries that a text shows of an index; errors as of `producer_states_in_text`."""
    return tuple(_aborted(line, number) for line, number in _lines(text))


def _lines(text: ProducerText) -> Iterator[tuple[str, int]]:
    """The lines behind the `Dumping` line, with their numbers, except what people paste along."""
    if text.byte_end - text.byte_start > LIST_LIMIT:
        raise TooLargeError(LIST_LIMIT)
    with open_text(located(text.path)) as stream:
        stream.seek(text.byte_start)
        lines = TextLines(stream, text.byte_start, text.byte_end, text.first_line)
        lines.take()
        while line := lines.take():
            number = lines.number - 1
            if pasted_text.leaves_out(line):
                raise DumpLogError("lines were left out here", line=number)
            if not pasted_text.may_precede(line):
                yield line.decode("utf-8", "replace").strip(), number


def _state_in_text(line: str, number: int) -> ProducerState:
    told = dict(_PAIR.findall(line))
    open_first = told.get("currentTxnFirstOffset", "")
    is_open = _OPTIONAL.fullmatch(open_first)
    try:
        if not line.startswith("producerId: ") or (is_open is None and open_first not in _NONE):
            raise ValueError
        has_batch = int(told.get("lastOffset", -1)) >= 0
        return ProducerState(
            producer_id=int(told["producerId"]),
            producer_epoch=int(told["producerEpoch"]),
            last_sequence=int(told["lastSequence"]) if has_batch else -1,
            last_offset=int(told["lastOffset"]) if has_batch else -1,
            offset_delta=int(told["offsetDelta"]) if has_batch else 0,
            timestamp_ms=int(told.get("lastTimestamp") or told.get("timestamp", -1)),
            coordinator_epoch=int(told["coordinatorEpoch"]),
            open_first_offset=-1 if is_open is None else int(is_open[1]),
        )
    except (KeyError, ValueError):
        raise DumpLogError("a line that is not one of a producer snapshot", line=number) from None


def _aborted(line: str, number: int) -> AbortedTransaction:
    match = _ABORTED.fullmatch(line)
    if match is None or int(match[1]) > 0:
        raise DumpLogError("a line that is not one of an index of aborted transactions", line=number)
    return AbortedTransaction(*map(int, match.groups()[1:]))


# Indexes of aborted transactions (`%020d.txnindex`), one beside each segment that holds markers of such.
# Sources: TransactionIndex, AbortedTxn (storage, 4.2.0), of whose version Kafka looks at the first byte only.

_ENTRY = struct.Struct(">bxqqqq")
ENTRY_BYTES = _ENTRY.size


def aborted_transactions(data: bytes, base_offset: int) -> tuple[tuple[AbortedTransaction, ...], SegmentError | None]:
    """The entries of an index in order, and what ends the reading before the end of the file, if anything does.

    Args:
        data: the bytes of the file.
        base_offset: of its segment: no marker lies below it (TransactionIndex.sanityCheck).
    """
    found: list[AbortedTransaction] = []
    for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        version, *values = _ENTRY.unpack_from(data, at)
        entry = AbortedTransaction(*values)
        reason = _refused(version, entry, base_offset, found[-1].last_offset if found else -1)
        if reason:
            return tuple(found), SegmentError(reason, byte_offset=at)
        found.append(entry)
    left = len(data) % ENTRY_BYTES
    torn = SegmentError(f"{left} bytes behind the last entry of {ENTRY_BYTES}", byte_offset=len(data) - left) if left else None
    return tuple(found), torn


def _refused(version: int, entry: AbortedTransaction, base_offset: int, last: int) -> str | None:
    if version > 0:
        return f"version {version} of an aborted transaction is not known, only 0 is"
    if entry.last_offset < base_offset:
        return f"a transaction that ends at offset {entry.last_offset}, below the segment's base offset {base_offset}"
    if entry.last_offset <= last:
        return f"a transaction that ends at offset {entry.last_offset} behind one that ends at {last}"
    return None
