"""Transaction markers: what the batches of a segment, or text of kafka-dump-log --print-data-log, say of the end of transactions.

Sources: ControlRecordType, EndTransactionMarker, DefaultRecord (clients, 4.2.0). Batches of markers are never compressed and hold one
record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import SegmentError
from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import opened
from replica_audit.formats.coordinator_records.text_records import TextRecord, text_records
from replica_audit.formats.segment.record_batch import V2_HEADER
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.formats.segment.varints import zigzag
from replica_audit.model import BatchHeader, EndMarker, SegmentFile

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
