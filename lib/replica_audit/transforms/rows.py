"""Rows between Arrow and the values of `model`: the one place where dictionaries become values and back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict
from operator import itemgetter

import pyarrow as pa

from replica_audit.model import (
    Election,
    IsrChange,
    MinIsrSetting,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
    Run,
    Segment,
    SegmentFile,
    Window,
)
from replica_audit.transforms.valid_rows import Misfit, Refused, encoded
from replica_audit.transforms.valid_rows import Row as Row

MapInArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_ROWS_PER_BATCH = 256
# the values of such rows in the order of the tuples that they become
_RUN, _WINDOW = itemgetter(*Run._fields), itemgetter(*Window._fields)
_CHECKPOINT_ENTRY, _EPOCH_ENTRY = itemgetter("line", "epoch", "start_offset"), itemgetter("epoch", "start_offset")


def never_refused(_row: Row, misfit: Misfit) -> Row:
    """For rows whose values come from typed columns: they fit, or the program is wrong."""
    raise ValueError(f"{misfit.column}: {misfit.reason}")


def map_rows(function: Callable[[Row], Iterator[Row]], schema: pa.Schema, refused: Refused = never_refused) -> MapInArrow:
    """Make a function of one row into one for `DataFrame.mapInArrow`: rows in, any number of rows of `schema` out.

    A row that holds what its columns cannot is replaced by what `refused` makes of it.
    """

    def over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _uncollected(_over_batches(batches))

    def _over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending: list[Row] = []
        for batch in batches:
            for row in batch.to_pylist():
                for made in function(row):
                    pending.append(made)
                    if len(pending) >= _ROWS_PER_BATCH:
                        yield encoded(pending, schema, refused)
                        pending = []
        if pending:
            yield encoded(pending, schema, refused)

    return over_batches


def _uncollected(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make each batch without Python looking for cycles meanwhile: rows are hundreds of thousands of objects that hold none."""
    is_on = gc.isenabled()
    while True:
        gc.disable()
        try:
            batch = next(made, None)
        finally:
            if is_on:
                gc.enable()
        if batch is None:
            return
        yield batch


def replica_row(files: ReplicaFiles) -> Row:
    """`ReplicaFiles` as a row of the shape REPLICA_FILES."""
    row = {name: getattr(files, name) for name in files.__slots__}
    row["segments"] = [{name: getattr(segment, name) for name in SegmentFile.__slots__} for segment in files.segments]
    row["checkpoint"] = [{"line": line, "epoch": epoch, "start_offset": start} for line, epoch, start in files.checkpoint]
    row["epochs"] = [{"epoch": epoch, "start_offset": start} for epoch, start in files.epochs]
    row["problems"] = [asdict(problem) for problem in files.problems]
    return row


def replica_files(row: Row) -> ReplicaFiles:
    """A row of the shape REPLICA_FILES as a value."""
    values = dict(row)
    values["segments"] = tuple(SegmentFile(**segment) for segment in row["segments"])
    values["checkpoint"] = tuple(map(_CHECKPOINT_ENTRY, row["checkpoint"]))
    values["epochs"] = tuple(map(_EPOCH_ENTRY, row["epochs"]))
    values["problems"] = tuple(Problem(**problem) for problem in row["problems"])
    return ReplicaFiles(**values)


def metadata_row(partition: PartitionMetadata) -> Row:
    """`PartitionMetadata` as a row of the shape PARTITION_METADATA, with its topic and partition."""
    row = {name: getattr(partition, name) for name in partition.__slots__}
    for name in ("elections", "isr_changes", "min_isr"):
        row[name] = [entry._asdict() for entry in row[name]]
    return row


def partition_metadata(topic: str, partition: int, row: Row) -> PartitionMetadata:
    """A row of the shape PARTITION_METADATA as a value."""
    values = {**row, **{name: tuple(row[name]) for name in ("replicas", "isr", "elr", "last_known_elr", "ever_replicas")}}
    values["elections"] = tuple(
        Election(**{**election, **{name: tuple(election[name]) for name in ("isr", "elr", "electable")}}) for election in row["elections"]
    )
    values["isr_changes"] = tuple(IsrChange(**{**change, "isr": tuple(change["isr"])}) for change in row["isr_changes"])
    values["min_isr"] = tuple(MinIsrSetting(**setting) for setting in row["min_isr"])
    return PartitionMetadata(topic=topic, partition=partition, **values)


def segment_file(row: Row) -> SegmentFile:
    """A row of the shape SEGMENT_FILE as a value."""
    return SegmentFile(**row)


def segment(row: Row) -> Segment:
    """A row of the shape SEGMENT_SCAN as the segment that was scanned."""
    file = row["file"]
    return Segment(
        base_offset=file["base_offset"],
        swap=file["swap"],
        damaged=row["damaged"],
        runs=tuple(map(Run._make, map(_RUN, row["runs"]))),
        windows=tuple(map(Window._make, map(_WINDOW, row["windows"] or ()))),
    )
