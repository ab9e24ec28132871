"""Each source is listed by a task of its own."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from replica_audit.engine.spark import SparkEngine
from replica_audit.stages.items import Source
from tests.support.items import source


@pytest.mark.parametrize("brokers", [1, 2, 7, 20])
def test_no_task_lists_two_sources(spark: SparkSession, brokers: int) -> None:
    sources = [source("/c/cluster-metadata.json", None, "metadata"), *(source(f"/c/broker-{number}", number) for number in range(brokers))]
    engine = SparkEngine(spark, None)
    found = engine.given(sources)
    assert sorted(engine.collect(found, [Source]), key=str) == sorted(sources, key=str)
    tasks = [row["task"] for row in found.select(F.spark_partition_id().alias("task")).collect()]
    assert sorted(tasks) == list(range(brokers + 1)) and found.rdd.getNumPartitions() == brokers + 1


def test_no_source_is_one_empty_task(spark: SparkSession) -> None:
    assert SparkEngine(spark, None).given([]).count() == 0
