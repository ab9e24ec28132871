"""What differs between releases of Spark, and between a session in this process and one of Spark Connect; nothing else asks for either."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.arrow import frame_of

_NOTHING = pa.schema([("none", pa.int32())])
_SEED = 42  # of the hash by which Spark partitions


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: its driver is another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    if hasattr(spark.conf, "getAll"):  # from 4.0 on
        return dict(spark.conf.getAll)
    names = [row["key"] for row in spark.sql("SET").collect()]  # which shows no secrets
    return {name: str(spark.conf.get(name)) for name in names}


def parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at once, as far as it knows."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    tasks = spark.range(1 << 16).select(F.spark_partition_id().alias("task")).distinct().count()
    return max(1, tasks)


def in_threads(spark: SparkSession) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """What lets a call in another thread have this one's tags and group of jobs, and the session as its active one."""
    if not spark.version.startswith("3."):
        return inheritable_thread_target(spark)
    if is_connect(spark):
        return lambda call: call

    def as_here(call: Callable[[], None], /) -> Callable[[], None]:
        def called() -> None:
            make_active(spark)  # else Delta looks for a catalog's tables in another session
            call()

        return inheritable_thread_target(called)

    return as_here


def make_active(spark: SparkSession) -> None:
    """Let a session be this thread's active one, which is whoever made a frame last."""
    frame_of(spark, [], _NOTHING)


def add_tag(spark: SparkSession, tag: str) -> None:
    """Let the jobs of this thread carry a tag."""
    if is_connect(spark):
        spark.addTag(tag)
    else:
        spark.sparkContext.addJobTag(tag)


def remove_tag(spark: SparkSession, tag: str) -> None:
    """Let them carry it no more."""
    if is_connect(spark):
        spark.removeTag(tag)
    else:
        spark.sparkContext.removeJobTag(tag)


def cancel(spark: SparkSession, tag: str) -> None:
    """Cancel the jobs that carry a tag; those of others that use the same Spark go on."""
    if is_connect(spark):
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


def in_tasks(frame: DataFrame, tasks: int, place: str) -> DataFrame:
    """Put each row of a frame into the task of the number that a column has, which is dropped."""
    keys = F.split(F.lit(",".join(map(str, task_keys(tasks)))), ",").cast("array<int>")
    return frame.withColumn(place, F.element_at(keys, F.col(place) + 1)).repartition(tasks, place).drop(place)


@cache
def task_keys(tasks: int) -> tuple[int, ...]:
    """An integer for each task, by its number, that Spark's partitioning by hash puts there: Murmur3 modulo the tasks."""
    tried = 64 * tasks
    while True:
        task, key = np.unique(_murmur3(np.arange(tried, dtype=np.uint32)).astype(np.int32) % tasks, return_index=True)
        if len(task) == tasks:
            return tuple(key.tolist())
        tried *= 2


def _murmur3(values: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    mixed = _rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed = _rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # bytes
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return mixed ^ (mixed >> np.uint32(16))


def _rotated(values: np.ndarray[Any, np.dtype[np.uint32]], bits: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
