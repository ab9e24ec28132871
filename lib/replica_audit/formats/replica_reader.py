"""Reading the batches of a replica, wherever they are told: raw segments, text of kafka-dump-log, or what `collect` took from a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from replica_audit.formats import collected, dump_log
from replica_audit.formats.segment_scan import Scan, read_batches, scan, scan_file
from replica_audit.model import BatchHeader, Damage, SegmentFile


def read_segment(file: SegmentFile, *, verify_crc: bool = True) -> Iterator[BatchHeader | Damage]:
    """The batches of one segment in order; a `Damage` comes last if reading stops early.

    Raises:
        OSError: the file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    path = Path(file.path)
    if file.source == "raw":
        yield from read_batches(path, verify_crc=verify_crc)
        return
    section = dump_log.DumpSection(
        path="",
        log_dir="",
        directory="",
        segment_base_offset=file.base_offset,
        first_line=file.first_line,
        byte_start=file.byte_start,
        byte_end=file.byte_end,
    )
    with path.open("rb") as stream:
        yield from dump_log.batches(stream, section)


def scan_of(file: SegmentFile) -> Scan:
    """The scan of one segment: natively of a raw file, batch by batch of a text.

    Raises:
        OSError: the file cannot be read.
        DumpLogError: the text is of a kind that does not tell batches.
    """
    return scan_file(Path(file.path)) if file.source == "raw" else scan(read_segment(file))


def batches_from(files: Iterable[SegmentFile], offset: int) -> Iterator[BatchHeader]:
    """The batches of a replica from the segment that holds `offset` on, headers only.

    Args:
        files: the segments that make up the log, in any order.
        offset: the lowest offset of interest; earlier batches of its segment come too.
    """
    ordered = sorted(files, key=lambda file: file.base_offset)
    first = max((i for i, file in enumerate(ordered) if file.base_offset <= offset), default=0)
    for file in ordered[first:]:
        if file.source == collected.SOURCE:
            yield from collected.batches(file, offset)
            continue
        for item in read_segment(file, verify_crc=False):
            if isinstance(item, BatchHeader):
                yield item
