"""The batches of a replica with all their bytes at hand, for the few that have to be looked at closely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_128_digest

from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located, opened
from replica_audit.formats.collection.broker_folder import SOURCE
from replica_audit.formats.collection.collected_batches import batches
from replica_audit.formats.replicas.replica_reader import read_segment
from replica_audit.formats.segment.batch_columns import read_columns
from replica_audit.formats.segment.record_batch import V2_CRC_FROM, V2_HEADER, checksum
from replica_audit.formats.segment.records import Record, UnreadableRecords, records_of
from replica_audit.formats.segment.segment_scan import BUFFER, batches_between
from replica_audit.formats.transactions.markers import marker_in_text, marker_of
from replica_audit.model import (
    BatchBody,
    BatchHeader,
    BatchRun,
    Damage,
    EndMarker,
    HashedRecord,
    SegmentFile,
    StoredBatch,
    StoredDamage,
    StoredHeader,
)

_NOTHING = b""


def stored_batches(
    files: Sequence[SegmentFile], offset: int, runs: Mapping[SegmentFile, Sequence[BatchRun]] | None = None
) -> Iterator[StoredBatch | StoredDamage]:
    """The batches of a replica from the segment that holds an offset on, in order; CRCs are not looked at until a body is read.

    Args:
        files: the segments that make up the log, ascending by base offset.
        offset: the lowest offset of interest; earlier batches of its segment may come, too.
        runs: what the scans of collected segments found, as of `batches_from`.

    Yields:
        Each batch; a `StoredDamage` where a raw segment stops being a log. Reading goes on in the next segment.

    Raises:
        OSError: a file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    first = max((i for i, file in enumerate(files) if file.base_offset <= offset), default=0)
    with KeptText() as kept:
        for file in files[first:]:
            bytes_at = file.path if file.source == "raw" else file.copy
            if bytes_at is not None:
                yield from _of_bytes(file, located(bytes_at), offset)
                continue
            found = None if runs is None else runs.get(file)
            for item in batches(file, offset, found) if file.source == SOURCE else read_segment(file, kept):
                if isinstance(item, BatchHeader):
                    yield StoredBatch(file.path, item, None, _in_text(file, item))


def _of_bytes(file: SegmentFile, path: Path, offset: int) -> Iterator[StoredBatch | StoredDamage]:
    with opened(path, BUFFER) as stream:
        size = path.stat().st_size
        position, next_offset = _before(stream, size, file.base_offset, offset)
        for item in batches_between(stream, size, position, next_offset, verify_crc=False):
            if isinstance(item, Damage):
                yield StoredDamage(file.path, item, position, next_offset, _fields(stream, position))
                continue  # the last one, or offsets go back at the next
            marker = partial(marker_of, stream, item) if item.is_control else None
            yield StoredBatch(file.path, item, partial(_body, stream, item), marker, partial(_keys, stream, item))
            position, next_offset = item.position + item.size_bytes, item.last_offset + 1


def _in_text(file: SegmentFile, batch: BatchHeader) -> Callable[[], EndMarker | None] | None:
    return partial(marker_in_text, file, batch.base_offset) if batch.is_control and file.source == "dump" else None


def _before(stream: BinaryIO, size: int, next_offset: int, offset: int) -> tuple[int, int]:
    """A position at or before the batch that holds an offset, and the least offset there: sound batches are skipped, many at a time."""
    position = 0
    while True:
        found = read_columns(stream, size, position, next_offset, verify_crc=False)
        runs = found.runs() if len(found) else ()
        if not runs or any(run.last_offset >= offset for run in runs):
            return position, next_offset
        position, next_offset = position + sum(run.size_bytes for run in runs), runs[-1].last_offset + 1


def _fields(stream: BinaryIO, position: int) -> StoredHeader | None:
    stream.seek(position)
    head = stream.read(V2_CRC_FROM)
    if len(head) < V2_CRC_FROM:
        return None
    base, length, epoch, magic, crc = V2_HEADER.unpack(head.ljust(V2_HEADER.size, b"\0"))[:5]
    return StoredHeader(base, length, epoch, magic, crc)


def _body(stream: BinaryIO, header: BatchHeader) -> BatchBody:
    stream.seek(header.position)
    computed = checksum(stream, header, stream.read(min(V2_HEADER.size, header.size_bytes)))
    found = records_of(stream, header)
    if isinstance(found, UnreadableRecords):
        return BatchBody(computed, (), found.detail)
    return BatchBody(computed, tuple(map(_hashed, found)))


def _keys(stream: BinaryIO, header: BatchHeader) -> dict[int, bytes | None]:
    found = records_of(stream, header)
    return {} if isinstance(found, UnreadableRecords) else {record.offset: record.key for record in found}


def _hashed(record: Record) -> HashedRecord:
    key, value = record.key, record.value
    return HashedRecord(
        record.offset,
        record.timestamp_ms,
        None if key is None else len(key),
        None if value is None else len(value),
        xxh3_128_digest(key or _NOTHING),
        xxh3_128_digest(value or _NOTHING),
        xxh3_128_digest(record.headers),
    )
