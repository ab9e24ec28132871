"""The batches of a segment, each transaction marker with whether it aborts.

Sources: ControlRecordType, DefaultRecord (clients, 4.2.0). Batches of markers are never compressed and hold one record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from replica_audit.errors import SegmentError
from replica_audit.formats.segment.record_batch import V2_HEADER
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.formats.segment.varints import zigzag
from replica_audit.model import BatchHeader

_KEY = struct.Struct(">hh")
_ABORT = 0
_MOST_BYTES = 64  # of a record up to its key


def batches_with_markers(path: Path) -> Iterator[tuple[BatchHeader, bool | None]]:
    """The batches of a segment in order, up to where it stops being a log; of a marker whether it aborts, None of others.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        for item in read_batches(path, verify_crc=False):
            if not isinstance(item, BatchHeader):
                return
            is_abort = None
            if item.is_control and item.record_count:
                stream.seek(item.position + V2_HEADER.size)
                is_abort = _aborts(stream.read(min(_MOST_BYTES, item.size_bytes - V2_HEADER.size)))
            yield item, is_abort


def _aborts(record: bytes) -> bool | None:
    try:
        _size, at = zigzag(record, 0)
        _timestamp, at = zigzag(record, at + 1)
        _offset, at = zigzag(record, at)
        _key_size, at = zigzag(record, at)
        _version, kind = _KEY.unpack_from(record, at)
    except (IndexError, SegmentError, struct.error):
        return None
    return kind == _ABORT if kind in (0, 1) else None
