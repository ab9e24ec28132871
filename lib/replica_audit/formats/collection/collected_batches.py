"""The batches of a collected segment: from its copy or its index; made up from its runs where neither was collected or is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replica_audit.files.locations import located
from replica_audit.formats.collection.broker_folder import log_dir_of
from replica_audit.formats.collection.collected_rows import ForgedError, not_as_written
from replica_audit.formats.collection.collection_manifest import SEGMENTS_FILE
from replica_audit.formats.segment.batch_index import read_index, synthetic
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, BatchRun, SegmentFile
from replica_audit.protocol.epochs.runs import goes_back


def batches(file: SegmentFile, offset: int, runs: Sequence[BatchRun] | None = None) -> Iterator[BatchHeader]:
    """The batches of a collected segment, from its copy or its index; of a segment without one, made up from its runs as `synthetic` does.

    Args:
        file: of the source SOURCE.
        offset: to which the log may be cut: where batches are made up, one begins there.
        runs: what the scan of the segment found; None to look it up, for which the scans of the whole log directory are skipped.

    Raises:
        OSError: the copy, or the index, cannot be read, or no longer holds what the scan found.
    """
    path = _recorded(file)
    if path is not None:
        yield from _as_recorded(file, path, runs)
        return
    if file.batch_index is None:
        return  # there are no batches
    if runs is None:
        runs = log_dir_of(located(file.batch_index)).runs(file.path)  # without an index it names the scans
    yield from synthetic(map(_as_batch, runs), offset)


def _recorded(file: SegmentFile) -> Path | None:
    """The copy of a segment, or its index; None if neither was there when the collection was listed."""
    if file.copy is not None:
        return located(file.copy)
    index = None if file.batch_index is None else located(file.batch_index)
    return index if index is not None and index.name != SEGMENTS_FILE else None


def _as_recorded(file: SegmentFile, path: Path, runs: Sequence[BatchRun] | None) -> Iterator[BatchHeader]:
    last, may_go_back = -1, runs is None or goes_back(runs) is not None
    try:
        changed = None if file.kept_crc32c is None else not_as_written(path, path.stat().st_size, file.kept_crc32c)
        if changed is not None:
            raise ForgedError(changed)
        for item in read_index(path, may_go_back=may_go_back) if file.copy is None else read_batches(path, verify_crc=False):
            if isinstance(item, BatchHeader):
                yield item
                last = item.last_offset
        if runs and last < runs[-1].last_offset:
            raise ForgedError(f"its last batch ends at offset {last}, that of the segment ended at {runs[-1].last_offset}")
    except OSError as error:
        told = error if error.errno or isinstance(error, ForgedError) else ForgedError(error.strerror or str(error))
        told.filename = error.filename or str(path)
        raise told from None


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
