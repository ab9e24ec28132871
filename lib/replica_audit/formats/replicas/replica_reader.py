"""Reading the batches of a replica, wherever they are told: raw segments, text of kafka-dump-log, or what `collect` took from a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from xxhash import xxh3_128_digest

from replica_audit.files.locations import located, opened
from replica_audit.files.text_files import KeptText, open_text
from replica_audit.formats.collection.broker_folder import SOURCE, batches
from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_log import scan_section
from replica_audit.formats.producer_files import batches_with_markers, marker_in_text, marker_of, markers_in_text
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.record_batch import V2_CRC_FROM, V2_HEADER, checksum
from replica_audit.formats.segment.records import Record, UnreadableRecords, records_of
from replica_audit.formats.segment.segment_fold import Scan, read_columns
from replica_audit.formats.segment.segment_scan import BUFFER, batches_between, read_batches, scan
from replica_audit.model import (
    BatchBody,
    BatchHeader,
    BatchRun,
    Damage,
    EndMarker,
    HashedRecord,
    Segment,
    SegmentFile,
    StoredBatch,
    StoredDamage,
    StoredHeader,
)
from replica_audit.protocol.epochs.replica_log import after_swaps


def read_segment(file: SegmentFile, kept: KeptText | None = None, *, verify_crc: bool = True) -> Iterator[BatchHeader | Damage]:
    """The batches of one segment in order; a `Damage` comes last if reading stops early.

    Args:
        file: the segment.
        kept: where the text is read of one that is text, and stays open; None to open it for this segment alone.
        verify_crc: whether to, in a raw file.

    Raises:
        OSError: the file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    if file.source == "raw":
        yield from read_batches(located(file.path), verify_crc=verify_crc)
        return
    with _text(file, kept) as stream:
        yield from dump_log.batches(stream, _section(file))


def _text(file: SegmentFile, kept: KeptText | None) -> AbstractContextManager[BinaryIO]:
    path = located(file.path)
    return open_text(path) if kept is None else kept.at(path)


def _section(file: SegmentFile) -> dump_log.DumpSection:
    return dump_log.DumpSection(
        path="",
        log_dir="",
        directory="",
        segment_base_offset=file.base_offset,
        first_line=file.first_line,
        byte_start=file.byte_start,
        byte_end=file.byte_end,
        stops_early=file.stops_early,
    )


def scan_of(file: SegmentFile, kept: KeptText | None = None, *, verify_crc: bool = True) -> Scan:
    """The scan of one segment: natively where that is worth it.

    Args:
        file: the segment.
        kept: as of `read_segment`.
        verify_crc: whether to, in a raw file; if not, headers are read only.

    Raises:
        OSError: the file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    if file.source == "raw":
        return scan_file(located(file.path), verify_crc=verify_crc, beside=file.beside.split())
    if file.source == "dump":
        with _text(file, kept) as stream:
            return scan_section(stream, _section(file))
    return scan(read_segment(file))


def batches_from(
    files: Iterable[SegmentFile], offset: int, runs: Mapping[SegmentFile, Sequence[BatchRun]] | None = None
) -> Iterator[BatchHeader]:
    """The batches of a replica from the segment that holds `offset` on, headers only.

    Args:
        files: the segments that make up the log, in any order.
        offset: the lowest offset of interest; earlier batches of its segment come too.
        runs: what the scans of collected segments found, which tell their batches where no index does; None to look them up.
    """
    ordered = sorted(files, key=lambda file: file.base_offset)
    first = max((i for i, file in enumerate(ordered) if file.base_offset <= offset), default=0)
    with KeptText() as kept:
        for file in ordered[first:]:
            if file.source == SOURCE:
                yield from batches(file, offset, None if runs is None else runs.get(file))
                continue
            for item in read_segment(file, kept, verify_crc=False):
                if isinstance(item, BatchHeader):
                    yield item


# The batches of one replica in a range of offsets, read from the segments themselves: raw, text of kafka-dump-log, or collected.


class Located(NamedTuple):
    """A batch, or where reading stopped, and the file that it was read from.

    Of a collected segment `path` is where it lay on the broker.
    """

    path: str
    item: BatchHeader | Damage


def batches_in(files: Sequence[SegmentFile], first: int = 0, last: int | None = None, *, before: int = 0) -> Iterator[Located]:
    """The batches that hold any offset of a range, in order, their CRCs verified where the bytes are there.

    Only headers are read of batches before the range, and nothing of segments that lie outside of it.

    Args:
        files: the segments of the replica, in any order; what a finished `.swap` replaces is left out (LogLoader.load).
        first: the lowest offset of interest, inclusive.
        last: the highest one, inclusive; None for the end of the log.
        before: how many batches before the range are wanted besides, as far as its first segment holds them.

    Yields:
        Each batch; a `Damage` where a segment stops being a log inside the range.

    Raises:
        OSError: a file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
        MetadataError: the manifest of a collection cannot be understood.
    """
    ordered = files_in_log(files)
    with KeptText() as kept:
        for place, file in enumerate(ordered):
            following = ordered[place + 1].base_offset if place + 1 < len(ordered) else None
            if (following is not None and following <= first) or (last is not None and file.base_offset > last):
                continue
            for item in _items(file, kept, first, last, before):
                yield Located(file.path, item)


def files_in_log(files: Sequence[SegmentFile]) -> list[SegmentFile]:
    """The segments that make up a log, ascending by base offset: those that a finished `.swap` replaces are left out (LogLoader.load).

    Raises:
        OSError: one has to be looked into, and cannot be read.
    """
    ordered = sorted(files, key=lambda file: file.base_offset)
    if not any(file.swap for file in ordered):
        return ordered
    named = {(file.base_offset, file.swap): file for file in ordered}
    scanned = [Segment(base_offset=file.base_offset, runs=scan_of(file).runs, swap=file.swap) for file in ordered]
    return [named[segment.base_offset, segment.swap] for segment in after_swaps(scanned)]


def _items(file: SegmentFile, kept: KeptText, first: int, last: int | None, before: int) -> Iterator[BatchHeader | Damage]:
    """The batches of one segment from some before the first offset up to the last one."""
    bytes_at = file.path if file.source == "raw" else file.copy
    if bytes_at is not None:
        items = _verified_from(located(bytes_at), first, before)
    else:
        told = batches(file, first) if file.source == SOURCE else read_segment(file, kept)
        items = _with_some_before(told, first, before)
    for item in items:
        if last is not None and isinstance(item, BatchHeader) and item.base_offset > last:
            return
        yield item


def _verified_from(path: Path, first: int, before: int) -> Iterator[BatchHeader | Damage]:
    """Headers alone up to the range, then batches with their CRCs verified."""
    found = next(_with_some_before(read_batches(path, verify_crc=False), first, before), None)
    if isinstance(found, BatchHeader):
        with opened(path) as stream:
            yield from batches_between(stream, path.stat().st_size, found.position, found.base_offset, verify_crc=True)
    elif found is not None:
        yield found


def _with_some_before(items: Iterable[BatchHeader | Damage], first: int, before: int) -> Iterator[BatchHeader | Damage]:
    """The items from the batch that holds an offset on, with so many batches before it; of damage before it, that alone."""
    kept: deque[BatchHeader | Damage] = deque(maxlen=before)
    remaining = iter(items)
    for item in remaining:
        is_wanted = not item.goes_on if isinstance(item, Damage) else item.last_offset >= first
        if is_wanted:
            yield from (*kept, item)
            yield from remaining
            return
        kept.append(item)


# The batches of a whole segment, each transaction marker with whether it aborts, wherever the input shows that.


def marked_batches(file: SegmentFile) -> Iterator[tuple[BatchHeader, bool | None]] | None:
    """The batches in order, up to where the segment stops being a log; of a marker whether it aborts, None of others.

    Returns:
        None where the input does not have the records of all markers: of a collected segment, or text without --print-data-log.

    Raises:
        OSError: the file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    if file.source == "raw":
        return batches_with_markers(located(file.path))
    if file.source != "dump":
        return None
    markers = markers_in_text(file)
    if any(batch.is_control and batch.record_count != 0 and batch.base_offset not in markers for batch in _batches(file)):
        return None
    return _marked(file, markers)


def _batches(file: SegmentFile) -> Iterator[BatchHeader]:
    return (item for item in read_segment(file, verify_crc=False) if isinstance(item, BatchHeader))


def _marked(file: SegmentFile, markers: Mapping[int, EndMarker]) -> Iterator[tuple[BatchHeader, bool | None]]:
    for batch in _batches(file):
        marker = markers.get(batch.base_offset) if batch.is_control else None
        yield batch, None if marker is None else not marker.is_commit


# The batches of a replica with all their bytes at hand, for the few that have to be looked at closely.

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
