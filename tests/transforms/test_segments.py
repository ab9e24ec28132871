"""Segments are spread over tasks by their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from replica_audit.transforms.segments import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
GIB = 1 << 30


def _loads(spark: SparkSession, sizes: list[int], tasks: int) -> list[tuple[int, int]]:
    """(bytes, files) of each task, in the order in which they start."""
    rows = [((f"/data/{number}.log", size, -1),) for number, size in enumerate(sizes)]
    files = spark.createDataFrame(rows, "file struct<path:string,size_bytes:bigint,byte_start:bigint>")
    placed = spread(files, tasks, sum(sizes)).groupBy(F.spark_partition_id().alias("task"))
    found = {
        row["task"]: (row["bytes"], row["files"])
        for row in placed.agg(F.sum("file.size_bytes").alias("bytes"), F.count("*").alias("files")).collect()
    }
    return [found.get(task, (0, 0)) for task in range(tasks)]


def test_one_huge_segment_beside_ten_thousand_small_ones(spark: SparkSession) -> None:
    loads = _loads(spark, [GIB] + [100_000] * 10_000, 8)
    assert loads[0][0] > GIB, "the huge one is in the task that starts first"
    small = [files for _bytes, files in loads]
    assert sum(small) == 10_001
    assert max(small) < 1.2 * min(small), "and does not keep the others from being spread"


def test_big_segments_are_dealt_out_like_cards(spark: SparkSession) -> None:
    loads = _loads(spark, [GIB - number for number in range(16)] + [10] * 1_000, 8)
    assert {size // (GIB - 100) for size, _files in loads} == {2}


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0], [5]])
def test_little_or_nothing(spark: SparkSession, sizes: list[int]) -> None:
    assert sum(files for _bytes, files in _loads(spark, sizes, 4)) == len(sizes)
