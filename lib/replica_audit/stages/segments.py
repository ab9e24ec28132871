"""Replica directories → one row per segment: its runs of one epoch, read inside tasks by path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from replica_audit.errors import InputError
from replica_audit.files.locations import located
from replica_audit.files.text_files import KeptText
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.collection import broker_folder as collected
from replica_audit.formats.collection.broker_folder import CollectedLogDir, SharedSegments
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.names import ReplicaDirectory
from replica_audit.formats.replicas.replica_reader import scan_of
from replica_audit.formats.segment.segment_scan import scanned
from replica_audit.formats.values import SEGMENTS, Row, producers_row, segment_file
from replica_audit.model import ScannedSegment, Segment, SegmentFile
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.mapping import map_rows, uncollected_batches
from replica_audit.stages.valid_rows import refuse_scan

_OF_BROKER = pa.schema([SEGMENTS.field("cluster_id"), SEGMENTS.field("broker_id")])


def scan_segments(files: Iterator[pa.RecordBatch], *, mode: CompareMode = CompareMode.CONTENT) -> Iterator[pa.RecordBatch]:
    """The segment files of one task as rows of the shape SEGMENTS; a packed text is unpacked once if its parts come in order."""
    with KeptText() as kept:
        yield from map_rows(partial(scan_segment, kept=kept, mode=mode), SEGMENTS, refuse_scan)(files)


def scan_segment(row: Row, kept: KeptText | None = None, *, mode: CompareMode = CompareMode.CONTENT) -> Iterator[Row]:
    """One segment file of a replica as its row of the shape SEGMENTS; `kept` as of `read_segment`.

    Where epochs alone are compared, CRCs are not verified, and there are no digests.
    """
    file, reads_content = segment_file(row["file"]), mode is not CompareMode.EPOCHS
    if not reads_content:
        file = replace(file, beside="")  # indexes are held against batches that match their CRCs
    found, problems, failed = scanned(file, partial(scan_of, kept=kept, verify_crc=reads_content))
    yield {
        **{key: row[key] for key in ("cluster_id", "broker_id", "topic", "partition")},
        "segment": {
            "log_dir": row["log_dir"],
            "directory": row["directory"],
            "file": row["file"],
            "runs": [run._asdict() for run in found.runs],
            "damaged": found.damage is not None,
            "failed": failed,
            "problems": [as_dict(problem) for problem in problems],
            "windows": [window._asdict() for window in found.windows if reads_content],
            "producers": None if failed else producers_row(found.producers),
        },
    }


def collected_scans(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The scans that were made on the brokers, each file of them read once.

    Args:
        places: cluster_id, broker_id, scans (the file), log_dir and directory of every replica that was collected.
    """
    return uncollected_batches(_collected_scans(places))


def _collected_scans(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    wanted: dict[tuple[str, int, str, str], set[str]] = defaultdict(set)
    for row in (row for rows in places for row in rows.to_pylist()):
        wanted[row["cluster_id"], row["broker_id"], row["scans"], row["log_dir"]].add(row["directory"])
    for (cluster_id, broker_id, scans, place), directories in wanted.items():
        keys = {"cluster_id": cluster_id, "broker_id": broker_id}
        try:
            for rows in collected.log_dir_of(located(scans), directories).scans(directories):
                of_broker = pa.RecordBatch.from_pylist([keys] * rows.num_rows, schema=_OF_BROKER)
                yield pa.record_batch([*of_broker.columns, *rows.columns], schema=SEGMENTS)
        except (OSError, InputError) as error:
            unread = [
                {**keys, "topic": name.topic, "partition": name.partition, "segment": _failed_row(scan)}
                for name, scan in _failed(scans, place, directories, error)
            ]
            yield pa.RecordBatch.from_pylist(unread, schema=SEGMENTS)


def collected_segments(
    store: CollectedLogDir, directories: set[str], shared: SharedSegments
) -> Iterator[tuple[ReplicaDirectory, ScannedSegment]]:
    """The same scans as values; what is equal in several replicas is one object."""
    try:
        yield from store.segments(directories, shared)
    except (OSError, InputError) as error:
        yield from _failed(store.rows_path, store.said.path, directories, error)


def _failed(
    scans: str, place: str, directories: Iterable[str], error: OSError | InputError
) -> Iterator[tuple[ReplicaDirectory, ScannedSegment]]:
    """For each replica whose scans cannot be read any more, or not to their end, a segment that cannot be read."""
    problem = cannot_read(located(scans), "collection", error if isinstance(error, OSError) else OSError(0, str(error)))
    for directory in sorted(directories):
        name = log_dir.replica_directory(directory)
        if name is None:
            continue
        file = SegmentFile(path=scans, source=collected.SOURCE, base_offset=0, size_bytes=0)
        segment = Segment(base_offset=0, runs=())
        yield (
            name,
            ScannedSegment(log_dir=place, directory=directory, file=file, segment=segment, failed=True, problems=(problem,)),
        )


def _failed_row(scan: ScannedSegment) -> Row:
    nothing: Row = {"runs": [], "windows": [], "producers": None, "damaged": False}
    known = {"log_dir": scan.log_dir, "directory": scan.directory, "file": as_dict(scan.file), "failed": scan.failed}
    return {**known, **nothing, "problems": [as_dict(problem) for problem in scan.problems]}
