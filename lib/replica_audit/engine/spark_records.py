"""The comparison of records as Spark runs it: segments are read by tasks, and what comes of them is shuffled by key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import map_files, spark_schema
from replica_audit.engine.spark import of_partition
from replica_audit.engine.spreading import spread
from replica_audit.formats.values import KEYS_OF_PARTITION, RECORDS, WANTED
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.stages.commits import KEYS
from replica_audit.stages.mapping import map_rows
from replica_audit.stages.records import compared_bucket, list_wanted, read_wanted


def with_keys(gathered: DataFrame, clusters: dict[str, ClusterFacts], tasks: int, total_bytes: int) -> DataFrame:
    """The gathered partitions with `keys`: what comparing their records gave, rows of the shape COMPARED_KEYS; empty where that is nothing.

    Args:
        gathered: partitions that are audited; they are judged twice, so they should be persisted.
        clusters: the facts of each.
        tasks: over how many the segments are spread.
        total_bytes: the size of all segments, the others among them.
    """
    wanted = map_files(gathered, map_rows(of_partition(list_wanted, clusters), WANTED), WANTED)
    files = wanted.where(F.col("file").isNotNull())
    records = map_files(spread(files, tasks, total_bytes), read_wanted, RECORDS)
    pairs = wanted.where(F.col("pairs").isNotNull()).withColumn("bucket", F.explode(F.sequence(F.lit(0), F.col("buckets") - 1)))
    by_key = (*KEYS, "bucket")
    compared = records.groupBy(*by_key).cogroup(pairs.groupBy(*by_key)).applyInArrow(compared_bucket, spark_schema(KEYS_OF_PARTITION))
    found = compared.groupBy(*KEYS).agg(F.collect_list("keys").alias("found_keys"))
    kind = found.schema["found_keys"].dataType
    keys = F.coalesce(F.col("found_keys"), F.array().cast(kind)).alias("keys")
    return gathered.join(found, on=list(KEYS), how="left").select(*gathered.columns, keys)
