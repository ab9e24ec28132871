"""Functions of one row, made into functions of Arrow batches that Spark maps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow as pa

from replica_audit.formats.values import Row
from replica_audit.garbage import uncollected
from replica_audit.stages.valid_rows import Misfit, Refused, encoded

T = TypeVar("T")
MapInArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_ROWS_PER_BATCH = 256
LARGE = 16  # the weight of a row that may be large
Weight = Callable[[T], int]


def never_refused(_row: Row, misfit: Misfit) -> Row:
    """For rows whose values come from typed columns: they fit, or the program is wrong."""
    raise ValueError(f"{misfit.column}: {misfit.reason}")


def as_large(_row: object) -> int:
    """The weight of rows all of which may be large."""
    return LARGE


def map_rows(
    function: Callable[[Row], Iterator[Row]], schema: pa.Schema, refused: Refused = never_refused, weight: Weight[Row] = as_large
) -> MapInArrow:
    """Make a function of one row into one for `DataFrame.mapInArrow`: rows in, any number of rows of `schema` out.

    A row that holds what its columns cannot is replaced by what `refused` makes of it. `weight` as of `mapped`.
    """
    return mapped(function, partial(encoded, schema=schema, refused=refused), weight)


def mapped(function: Callable[[Row], Iterator[T]], encode: Callable[[list[T]], pa.RecordBatch], weight: Weight[T] = as_large) -> MapInArrow:
    """Make a function of one row into one for `DataFrame.mapInArrow`; `encode` makes a batch of what it gives of several.

    A batch has large rows, or many more small ones: with many columns each batch takes as long as a hundred small rows.
    """

    def over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return uncollected_batches(_over_batches(batches))

    def _over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending, weighs = list[T](), 0
        for batch in batches:
            for row in _rows_of(batch):
                for made in function(row):
                    pending.append(made)
                    weighs += weight(made)
                    if weighs >= _ROWS_PER_BATCH * LARGE:
                        yield encode(pending)
                        pending, weighs = [], 0
        if pending:
            yield encode(pending)

    return over_batches


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch, of which there may be ten thousand and each a whole partition: few of them are Python's at a time."""
    for first in range(0, batch.num_rows, _ROWS_PER_BATCH):
        yield from batch.slice(first, _ROWS_PER_BATCH).to_pylist()


def uncollected_batches(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make each batch, in a worker of Spark's, without the collector, which runs again while Spark takes it.

    It leaves alone for good what there is then: making rows leaves no cycles, and in a task each pass over a worker's modules and rows is
    time lost.
    """
    while True:
        with uncollected():
            batch = next(made, None)
        gc.freeze()
        if batch is None:
            return
        yield batch
