"""Segments are spread over tasks by their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from replica_audit.engine.spark import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
GIB = 1 << 30
FILES = "file struct<path:string,size_bytes:bigint,byte_start:bigint,unpacked_bytes:bigint>"


def _loads(spark: SparkSession, sizes: list[int], tasks: int) -> list[tuple[int, int]]:
    """(bytes, files) of each task, in the order in which they start."""
    rows = [((f"/data/{number}.log", size, -1, 0),) for number, size in enumerate(sizes)]
    placed = spread(spark.createDataFrame(rows, FILES), tasks, sum(sizes)).groupBy(F.spark_partition_id().alias("task"))
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


def _tasks_of_sections(spark: SparkSession, texts: list[tuple[str, int, bool]], tasks: int) -> dict[str, dict[int, list[int]]]:
    """Of every text, by its name, number of sections and whether it is packed: the numbers of its sections by task, as they come there."""
    rows = [((name, 100, 100 * i, 100 * count * packed),) for name, count, packed in texts for i in reversed(range(count))]
    placed = spread(spark.createDataFrame(rows, FILES), tasks, 100 * len(rows)).withColumn("task", F.spark_partition_id())
    found: dict[str, dict[int, list[int]]] = {name: {} for name, _count, _packed in texts}
    for row in placed.collect():
        found[row["file"]["path"]].setdefault(row["task"], []).append(row["file"]["byte_start"] // 100)
    return found


def test_sections_of_a_packed_text_stay_together_in_their_order(spark: SparkSession) -> None:
    found = _tasks_of_sections(spark, [("a.gz", 500, True), ("b.gz", 5, True), ("c.txt", 400, False), ("d.gz", 300, True)], 8)
    for name, count in (("a.gz", 500), ("b.gz", 5), ("d.gz", 300)):
        assert list(found[name].values()) == [list(range(count))], name
    assert len(found["c.txt"]) == 8, "a plain text is spread"
    assert all(numbers == sorted(numbers) for numbers in found["c.txt"].values())


def test_big_packed_texts_are_dealt_out_like_cards(spark: SparkSession) -> None:
    found = _tasks_of_sections(spark, [(f"{number}.gz", 50 - number, True) for number in range(8)] + [("small", 50, False)], 8)
    assert [[*found[f"{number}.gz"]] for number in range(8)] == [[number] for number in range(8)]
