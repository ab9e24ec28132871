"""The batches of one replica in a range of offsets, read from the segments themselves: raw, text of kafka-dump-log, or collected."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located, opened
from replica_audit.formats.collection.broker_folder import SOURCE
from replica_audit.formats.collection.collected_batches import batches
from replica_audit.formats.replicas.replica_reader import read_segment, scan_of
from replica_audit.formats.segment.segment_scan import batches_between, read_batches
from replica_audit.model import BatchHeader, Damage, Segment, SegmentFile
from replica_audit.protocol.epochs.replica_log import after_swaps


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
        items = _of_bytes(located(bytes_at), first, before)
    else:
        told = batches(file, first) if file.source == SOURCE else read_segment(file, kept)
        items = _with_some_before(told, first, before)
    for item in items:
        if last is not None and isinstance(item, BatchHeader) and item.base_offset > last:
            return
        yield item


def _of_bytes(path: Path, first: int, before: int) -> Iterator[BatchHeader | Damage]:
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
