"""Each source is listed by a task of its own."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.spark import source_rows


@pytest.mark.parametrize("brokers", [1, 2, 7, 20])
def test_no_task_lists_two_sources(spark: SparkSession, brokers: int) -> None:
    sources = [("c", None, "/c/cluster-metadata.json", "metadata"), *(("c", n, f"/c/broker-{n}", "broker") for n in range(brokers))]
    found = source_rows(spark, sources)
    assert sorted(map(tuple, found.collect()), key=str) == sorted(sources, key=str)
    tasks = [row["task"] for row in found.select(F.spark_partition_id().alias("task")).collect()]
    assert sorted(tasks) == list(range(brokers + 1)) and found.rdd.getNumPartitions() == brokers + 1


def test_no_source_is_one_empty_task(spark: SparkSession) -> None:
    assert source_rows(spark, []).count() == 0
