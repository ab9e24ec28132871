"""The batches of a collected segment: as its copy or its index tells them, else made up from its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import log_dir_of
from replica_audit.formats.collection.collection_manifest import SEGMENTS_FILE
from replica_audit.formats.segment.batch_index import read_index, synthetic
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, BatchRun, SegmentFile


def batches(file: SegmentFile, offset: int, runs: Sequence[BatchRun] | None = None) -> Iterator[BatchHeader]:
    """The batches of a collected segment, from its copy or its index; without one, made up from its runs as `synthetic` does.

    Args:
        file: of the source SOURCE.
        offset: to which the log may be cut: where batches are made up, one begins there.
        runs: what the scan of the segment found; None to look it up, for which the scans of the whole log directory are skipped.
    """
    next_offset = 0
    for recorded in _recorded(file):
        try:
            for batch in recorded:
                yield batch
                next_offset = batch.last_offset + 1
            return
        except OSError:
            continue  # gone or damaged; what it did not tell is made up
    if file.batch_index is None and file.copy is None:
        return  # there are no batches
    if runs is None:
        runs = log_dir_of(_store_of(file)).runs(file.path)
    rest = (run for run in synthetic(map(_as_batch, runs), next_offset) if run.base_offset >= next_offset)
    yield from synthetic(rest, offset)


def _recorded(file: SegmentFile) -> Iterator[Iterable[BatchHeader]]:
    """The batches as they were copied or indexed, if they were."""
    if file.copy is not None:
        yield (item for item in read_batches(located(file.copy), verify_crc=False) if isinstance(item, BatchHeader))
    elif file.batch_index is not None and located(file.batch_index).name != SEGMENTS_FILE:
        yield read_index(located(file.batch_index))


def _store_of(file: SegmentFile) -> Path:
    """The `segments.parquet` that a segment has its row in."""
    if file.copy is not None:
        return located(file.copy).parents[1] / SEGMENTS_FILE
    path = located(file.batch_index or "")
    return path if path.name == SEGMENTS_FILE else path.parents[2] / SEGMENTS_FILE


def _as_batch(run: BatchRun) -> BatchHeader:
    return BatchHeader(
        position=-1,
        base_offset=run.first_offset,
        last_offset=run.last_offset,
        size_bytes=run.size_bytes,
        magic=run.magic,
        leader_epoch=run.leader_epoch,
        record_count=run.record_count,
        max_timestamp_ms=run.max_timestamp_ms,
        crc=0,
        crc_valid=None,
        codec="none",
        is_transactional=False,
        is_control=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
