"""Segments are spread over tasks by their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from replica_audit.engine.spark import SparkEngine
from replica_audit.model import Amounts
from replica_audit.stages.items import Item, Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
GIB = 1 << 30


def _loads(spark: SparkSession, sizes: list[int], tasks: int) -> list[tuple[int, int]]:
    """(bytes, readings) of each task, in the order in which they start."""
    engine, amounts = SparkEngine(spark, tasks), Amounts(segments=1 << 20, size_bytes=sum(sizes))
    frame = engine.given([Item("c", None, number, 1, Reading(()), size_bytes=size) for number, size in enumerate(sizes)])
    placed = engine.spread(frame, amounts).groupBy(F.spark_partition_id().alias("task"))
    found = {
        row["task"]: (row["bytes"], row["readings"])
        for row in placed.agg(F.sum("size_bytes").alias("bytes"), F.count("*").alias("readings")).collect()
    }
    return [found.get(task, (0, 0)) for task in range(tasks)]


def test_one_huge_segment_beside_two_thousand_small_ones(spark: SparkSession) -> None:
    loads = _loads(spark, [GIB] + [100_000] * 2_000, 8)
    assert loads[0][0] > GIB, "the huge one is in the task that starts first"
    small = [readings for _bytes, readings in loads]
    assert sum(small) == 2_001
    assert max(small) < 1.4 * min(small), "and does not keep the others from being spread"


def test_big_segments_are_dealt_out_like_cards(spark: SparkSession) -> None:
    loads = _loads(spark, [GIB - number for number in range(16)] + [10] * 1_000, 8)
    assert {size // (GIB - 100) for size, _readings in loads} == {2}


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0], [5]])
def test_little_or_nothing(spark: SparkSession, sizes: list[int]) -> None:
    assert sum(readings for _bytes, readings in _loads(spark, sizes, 4)) == len(sizes)


def test_where_a_reading_goes_does_not_depend_on_its_payload(spark: SparkSession) -> None:
    """A task that is made again may pack the same value into other bytes."""
    engine, amounts = SparkEngine(spark, 8), Amounts(segments=100, size_bytes=100 * GIB)
    items = [Item("c", None, number, 1, Reading(()), size_bytes=GIB) for number in range(100)]
    others = [item._replace(value=None) for item in items]
    placed = []
    for some in (items, others):
        frame = engine.given(some).withColumn("kind", F.lit("Reading"))
        rows = engine.spread(frame, amounts).select("partition", F.spark_partition_id().alias("task")).collect()
        placed.append(sorted((row["partition"], row["task"]) for row in rows))
    assert placed[0] == placed[1] and len(placed[0]) == 100
