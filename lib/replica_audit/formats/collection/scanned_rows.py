"""Rows of a `segments.parquet` as scans of segments, as an audit has them of segments that it reads itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.collection.collected_rows import ForgedError, check_scan, runs_fit, tells_that_offsets_go_back, without_claims
from replica_audit.formats.shapes import SEGMENT_FILE, SEGMENT_SCAN
from replica_audit.model import SegmentFile
from replica_audit.rows.arrow import INT, STRING, struct

# what of ROWS is handed on by the scan of a segment
SCANNED = pa.schema(list(struct(topic=STRING, partition=INT, segment=SEGMENT_SCAN)))


def scanned(
    rows: pa.RecordBatch, made: Sequence[Mapping[str, Any]], files: Sequence[SegmentFile], log_dir: str, store: Path
) -> pa.RecordBatch:
    """Rows as SCANNED; those that are no scans without what they claim, and with a problem.

    Args:
        rows: of the columns that an audit reads.
        made: the same but for the runs, which are most of a row.
        files: the segment of each.
        log_dir: path of the log directory on the broker.
        store: the `segments.parquet`.
    """
    unfit = {}
    has_runs = runs_fit(cast("pa.ListArray[Any]", rows["runs"]), list(map(tells_that_offsets_go_back, made)))
    for number, (row, fits) in enumerate(zip(made, has_runs, strict=True)):
        try:
            check_scan(row, has_runs=fits)
        except ForgedError as error:
            unfit[number] = asdict(cannot_read(store, "collection", error))
    if unfit:
        rows = without_claims(rows, unfit)
    columns = {field.name: pa.array([getattr(file, field.name) for file in files], field.type) for field in SEGMENT_FILE}
    file = pa.StructArray.from_arrays(list(columns.values()), fields=list(SEGMENT_FILE))
    known = {"file": file, "log_dir": pa.array([log_dir] * rows.num_rows, STRING)}
    segment = [known[field.name] if field.name in known else rows[field.name].cast(field.type) for field in SEGMENT_SCAN]
    segments = pa.StructArray.from_arrays(segment, fields=list(SEGMENT_SCAN))
    return pa.record_batch([rows["topic"], rows["partition"], segments], schema=SCANNED)
