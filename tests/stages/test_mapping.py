"""How rows go through a task: few of them are Python objects at a time, however many Spark hands over at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from replica_audit.formats.values import Row
from replica_audit.stages.mapping import map_rows

IN, OUT = pa.schema([("number", pa.int64()), ("parts", pa.list_(pa.int64()))]), pa.schema([("number", pa.int64()), ("total", pa.int64())])


def _summed(row: Row) -> Iterator[Row]:
    if row["number"] % 3:
        yield {"number": row["number"], "total": sum(row["parts"])}


def _batch(rows: int) -> pa.RecordBatch:
    parts = pa.ListArray.from_arrays(pa.array(range(0, 200 * rows + 1, 200), pa.int32()), pa.array(range(200 * rows)))
    return pa.record_batch([pa.array(range(rows)), parts], schema=IN)


def _most_memory(batch: pa.RecordBatch) -> tuple[int, list[Row]]:
    tracemalloc.start()
    try:
        found = [row for made in map_rows(_summed, OUT)(iter([batch])) for row in made.to_pylist()]
        return tracemalloc.get_traced_memory()[1], found
    finally:
        tracemalloc.stop()


def test_a_large_batch_is_mapped_as_its_rows_are() -> None:
    batch = _batch(1_000)
    expected = [made for row in batch.to_pylist() for made in _summed(row)]
    assert _most_memory(batch)[1] == expected and len(expected) == 666
    assert list(map_rows(_summed, OUT)(iter([batch.slice(0, 0)]))) == []


def test_memory_does_not_grow_with_the_rows_that_are_handed_over_at_once() -> None:
    few, many = _most_memory(_batch(300))[0], _most_memory(_batch(6_000))[0]
    assert many < 3 * few


@pytest.mark.parametrize(("weight", "expected"), [(1, [4_000]), (16, [256] * 15 + [160])])
def test_small_rows_are_many_to_a_batch(weight: int, expected: list[int]) -> None:
    made = map_rows(_summed, OUT, weight=lambda _row: weight)(iter([_batch(6_000)]))
    assert [batch.num_rows for batch in made] == expected
