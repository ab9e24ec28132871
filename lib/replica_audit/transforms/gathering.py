"""Everything that is known of a partition, in one row: replicas, segments, what metadata says, and who committed offsets of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.formats.log_dir import GROUP_OFFSETS_TOPIC
from replica_audit.tables import COMMITS
from replica_audit.tables.encoding import as_dict
from replica_audit.transforms import consumers
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.clusters import ClusterFacts
from replica_audit.transforms.partitions import PartitionAudit
from replica_audit.transforms.rows import Row, map_rows
from replica_audit.transforms.valid_rows import refuse_with_problem

KEYS = ("cluster_id", "topic", "partition")


def gather(inventory: DataFrame, segments: DataFrame) -> DataFrame:
    """One row per partition, in one shuffle.

    Returns:
        cluster_id, topic, partition, is_audited, and arrays of structs with broker_id: claims (of the shape PARTITION_METADATA; broker_id
        is null for the file beside the brokers), replicas, segments and events (of the shape LOG_EVENT).
    """
    with_broker = {name: F.when(F.col(name).isNotNull(), F.struct("broker_id", name)) for name in ("replica", "metadata", "event")}
    none = F.lit(None)
    of_partitions = F.col("problem").isNull() & F.col("metadata_copy").isNull() & F.col("versions").isNull()
    found = inventory.where(of_partitions).select(
        *KEYS,
        "is_audited",
        with_broker["replica"].alias("replica"),
        with_broker["metadata"].alias("claim"),
        with_broker["event"].alias("event"),
        none.cast(_struct(segments)).alias("segment"),
    )
    scanned = segments.select(
        *KEYS,
        none.cast("boolean").alias("is_audited"),
        none.cast(found.schema["replica"].dataType).alias("replica"),
        none.cast(found.schema["claim"].dataType).alias("claim"),
        none.cast(found.schema["event"].dataType).alias("event"),
        F.struct("broker_id", "segment").alias("segment"),
    )
    return (
        found.unionByName(scanned)
        .groupBy(*KEYS)
        .agg(
            F.first("is_audited", ignorenulls=True).alias("is_audited"),
            F.collect_list("claim").alias("claims"),
            F.collect_list("replica").alias("replicas"),
            F.collect_list("event").alias("events"),
            F.collect_list("segment").alias("segments"),
        )
    )


def _struct(segments: DataFrame) -> str:
    return f"struct<broker_id:int,segment:{segments.schema['segment'].dataType.simpleString()}>"


def commits(gathered: DataFrame, clusters: Mapping[str, ClusterFacts]) -> DataFrame:
    """Every committed offset that the partitions of `__consumer_offsets` hold, and what of them cannot be read.

    Returns:
        Rows of the shape COMMITS: either `commit`, with the topic and partition that it is about, or `problem` is not null.
    """
    of_groups = gathered.where(F.col("topic") == F.lit(GROUP_OFFSETS_TOPIC))
    return of_groups.mapInArrow(map_rows(partial(list_commits, clusters=clusters), COMMITS, refuse_with_problem), spark_schema(COMMITS))


def list_commits(row: Row, clusters: Mapping[str, ClusterFacts]) -> Iterator[Row]:
    """The committed offsets of one partition of `__consumer_offsets`, from its leader or, without it, from the longest readable replica."""
    cluster = row["cluster_id"]
    replica = PartitionAudit(row, clusters[cluster]).best_replica
    if replica is None:
        return
    found, problems = consumers.committed(replica)
    for problem in problems:
        yield {"cluster_id": cluster, "broker_id": replica.broker_id, "problem": as_dict(problem)}
    for commit in found:
        yield {"cluster_id": cluster, "topic": commit.topic, "partition": commit.partition, "commit": consumers.commit_row(commit)}


def with_commits(gathered: DataFrame, found: DataFrame | None) -> DataFrame:
    """The gathered partitions that are audited, each with its committed offsets: `commits`, an array, null where there are none.

    `found` is what `commits` gives, None where no group's offsets are in the input.
    """
    if found is None:
        return gathered.where("is_audited")
    per_partition = found.where(F.col("commit").isNotNull()).groupBy(*KEYS).agg(F.collect_list("commit").alias("commits"))
    return gathered.where("is_audited").join(per_partition, on=list(KEYS), how="left")
