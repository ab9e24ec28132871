"""What stands in for what other releases of Spark lack gives the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.arrow import arrow_of, frame_of_table
from replica_audit.engine.releases import in_tasks, task_keys
from replica_audit.engine.spark import _BUCKET, _runs

NESTED = pa.table(
    {
        "number": pa.array([1 << 60, None], pa.int64()),
        "bytes": pa.array([b"\x00\xff", None], pa.binary()),
        "pairs": pa.array([[("a", 1), ("b", None)], None], pa.map_(pa.string(), pa.int64())),
        "inner": pa.array(
            [{"names": ["x", None], "of": [("k", {"n": 1})]}, None],
            pa.struct([("names", pa.list_(pa.string())), ("of", pa.map_(pa.string(), pa.struct([("n", pa.int32())])))]),
        ),
    }
)


class Older:
    """A frame of Spark 3.5: it has no `toArrow`."""

    def __init__(self, frame: DataFrame) -> None:
        self.schema, self.collect = frame.schema, frame.collect


@pytest.mark.parametrize("rows", [2, 0])
def test_rows_are_equal_without_arrow(spark: SparkSession, rows: int) -> None:
    table = NESTED.slice(0, rows)
    frame = frame_of_table(spark, table)
    older: Any = Older(frame)
    assert arrow_of(older).to_pylist() == arrow_of(frame).to_pylist() == table.to_pylist()
    assert arrow_of(older).schema.names == NESTED.schema.names


@pytest.mark.parametrize("tasks", [1, 2, 7, 100, 3000])
def test_the_hash_is_that_of_spark(spark: SparkSession, tasks: int) -> None:
    keys = spark.createDataFrame([(place, key) for place, key in enumerate(task_keys(tasks))], "place int, key int")
    assert keys.where(F.pmod(F.hash("key"), F.lit(tasks)) != F.col("place")).count() == 0
    assert keys.count() == tasks


def test_each_row_is_in_the_task_that_it_names(spark: SparkSession) -> None:
    named = [(task, value) for value, task in enumerate([3, 0, 3, 6, 1])]
    placed = in_tasks(spark.createDataFrame(named, "task int, value int"), 7, "task")
    found = placed.select(F.spark_partition_id().alias("task"), "value").collect()
    assert sorted((row["task"], row["value"]) for row in found) == sorted(named)
    assert placed.columns == ["value"] and placed.rdd.getNumPartitions() == 7


def test_rows_of_a_bucket_are_together_however_they_are_cut() -> None:
    keys = [("c", "t", 0, 0)] * 3 + [("c", "t", 0, 1)] + [("c", "t", 1, 1)] * 4 + [("d", "t", 1, 1)]
    columns = dict(zip(_BUCKET, (list(column) for column in zip(*keys, strict=True)), strict=True))
    rows = pa.table(columns | {"place": range(len(keys))})
    expected = [[0, 1, 2], [3], [4, 5, 6, 7], [8]]
    for at_once in range(1, len(keys) + 1):
        batches = [*rows.to_batches(max_chunksize=at_once), *rows.slice(0, 0).to_batches()]
        assert [found["place"].to_pylist() for found in _runs(iter(batches))] == expected, at_once
    assert list(_runs(iter(()))) == []
