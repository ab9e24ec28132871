"""Reading the batches of a replica, wherever they are told: raw segments, text of kafka-dump-log, or what `collect` took from a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.files.packed_text import open_text
from replica_audit.formats.collection.broker_folder import SOURCE
from replica_audit.formats.collection.collected_batches import batches
from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_scan import scan_section
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import read_batches, scan
from replica_audit.model import BatchHeader, BatchRun, Damage, SegmentFile


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
