"""The batches of a whole segment, each transaction marker with whether it aborts, wherever the input shows that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replica_audit.files.locations import located
from replica_audit.formats.replicas.replica_reader import read_segment
from replica_audit.formats.transactions.markers import batches_with_markers, markers_in_text
from replica_audit.model import BatchHeader, EndMarker, SegmentFile


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
