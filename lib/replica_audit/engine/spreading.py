"""Files spread over tasks by their bytes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_BIG = 4  # a file of more than this part of a task's share is placed by its size, the others by a hash


def spread(files: DataFrame, tasks: int, total_bytes: int) -> DataFrame:
    """Give every task about as many bytes; the tasks that start first get the biggest files, so that none of them is left to the end.

    The parts of a packed text are one file here, because its beginning has to be unpacked to read its end.

    Args:
        files: rows with a struct `file` of the shape SEGMENT_FILE.
        tasks: partitions of the result.
        total_bytes: the sum of the sizes.

    Returns:
        The rows of every task ordered by path, those of a text by their place in it.
    """
    is_packed = F.col("file.unpacked_bytes") > 0
    size = F.when(is_packed, F.col("file.unpacked_bytes")).otherwise(F.col("file.size_bytes"))
    begin = F.when(is_packed, 0).otherwise(F.col("file.byte_start"))
    # at most a few files for each task, so that ranking them in one place costs nothing
    is_big = size * _BIG >= F.lit(max(1, total_bytes // tasks))
    by_size = Window.orderBy(size.desc(), "file.path", begin)
    big = files.where(is_big).withColumn("task", F.pmod(F.dense_rank().over(by_size) - 1, F.lit(tasks)))
    small = files.where(~is_big).withColumn("task", F.pmod(F.xxhash64("file.path", begin), F.lit(tasks)).cast("int"))
    return big.unionByName(small).repartitionById(tasks, "task").sortWithinPartitions("file.path", "file.byte_start").drop("task")
