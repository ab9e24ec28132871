"""The stages of an audit as Spark runs them: rows are spread over tasks, grouped by partition and judged there.

Nothing about the protocol is decided here. Each stage maps a function of `stages` over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replica_audit.engine.arrow import frame_of, map_files, spark_schema
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.formats.values import (
    COMMITS,
    INVENTORY,
    KEYS_OF_PARTITION,
    RECORDS,
    SEGMENTS,
    TRANSACTIONS,
    WANTED,
    Row,
    log_directory,
    metadata_copy,
)
from replica_audit.model import LogDirectory, LoggedVersions, MetadataCopy
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.rows import COUNTED, AuditedPartition
from replica_audit.rows.arrow import AUDITED, INT, OUTCOMES, STRING, WrittenFile, struct
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.inventory import list_source, weight
from replica_audit.stages.judged import judged
from replica_audit.stages.mapping import map_rows, mapped
from replica_audit.stages.partitions import known_partition
from replica_audit.stages.records import compared_bucket, list_wanted, read_wanted
from replica_audit.stages.segments import collected_scans, scan_segments
from replica_audit.stages.transactions import KEYS, PRODUCER_IDS, list_commits, list_transactions
from replica_audit.stages.valid_rows import encoded_audits, outcomes, refuse_with_problem

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


_SOURCES = pa.schema(list(struct(cluster_id=STRING, broker_id=INT, path=STRING, kind=STRING, task=INT)))


class RowFiles(Protocol):
    """What takes the rows of tables that a task makes."""

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Take rows of a table, without `run_id`."""

    def finish(self) -> Sequence[WrittenFile]:
        """Have all of them in files; nothing is added afterwards."""


OfRow = Callable[[Row], Iterator[Row]]
OpenFiles = Callable[[], AbstractContextManager[RowFiles]]


def source_rows(spark: SparkSession, sources: Sequence[tuple[str, int | None, str, str]]) -> DataFrame:
    """Sources, as of `Root.sources`, as rows of `cluster_id`, `broker_id`, `path` and `kind`, each in a task of its own.

    `repartition` puts several into one task and none into others; the listing of a broker is one task, and takes as long as any.
    """
    numbered = [(*source, task) for task, source in enumerate(sources)]
    return frame_of(spark, numbered, _SOURCES).repartitionById(max(1, len(sources)), "task").drop("task")


def inventory(sources: DataFrame, topics: str = "") -> DataFrame:
    """List every source inside tasks.

    Args:
        sources: one row per broker folder, cluster-metadata.json, or server.log that lies in no broker's folder (`kind` is broker, metadata
            or server-log), as of `source_rows`.
        topics: as the setting.

    Returns:
        Rows of the shape INVENTORY: one of `replica`, `metadata`, `metadata_copy`, `event`, `versions`, `log_directory` and `problem` is
        not null. The replicas of `__consumer_offsets` and `__transaction_state` are listed even where `topics` leaves them out, since they
        show who reads and writes the others: `is_audited` is then false.
    """
    listing = partial(list_source, topics=topics)
    return map_files(sources, map_rows(listing, INVENTORY, refuse_with_problem, weight), INVENTORY)


def metadata_copies(inventory: DataFrame) -> dict[str, list[MetadataCopy]]:
    """For each cluster the copies of its metadata log, one of each broker and controller; one small collect."""
    found: dict[str, list[MetadataCopy]] = {}
    for row in inventory.where(F.col("metadata_copy").isNotNull()).select("cluster_id", "metadata_copy").collect():
        found.setdefault(row["cluster_id"], []).append(metadata_copy(row["metadata_copy"].asDict(recursive=True)))
    return found


def logged_versions(inventory: DataFrame) -> dict[str, list[LoggedVersions]]:
    """For each cluster the versions that its brokers' own logs tell, each combination once; one small collect."""
    told = inventory.where(F.col("versions").isNotNull()).select("cluster_id", "versions").distinct()
    found: dict[str, list[LoggedVersions]] = {}
    for row in told.collect():
        found.setdefault(row["cluster_id"], []).append(LoggedVersions(**row["versions"].asDict()))
    return found


def log_directories(inventory: DataFrame) -> dict[str, list[tuple[int, LogDirectory]]]:
    """For each cluster its brokers' log directories, each with its broker; one small collect."""
    found: dict[str, list[tuple[int, LogDirectory]]] = {}
    told = inventory.where(F.col("log_directory").isNotNull()).select("cluster_id", "broker_id", "log_directory")
    for row in told.collect():
        found.setdefault(row["cluster_id"], []).append((row["broker_id"], log_directory(row["log_directory"].asDict())))
    return found


def segments(
    inventory: DataFrame, tasks: int, total_bytes: int, *, has_collections: bool, has_logs: bool = True, compare: str = "content"
) -> DataFrame:
    """Scan every segment.

    Args:
        inventory: rows of the shape INVENTORY.
        tasks: over how many tasks the segments are spread, by bytes.
        total_bytes: the sum of the segments' sizes.
        has_collections: whether any replica was scanned on its broker; if none was, nothing is started to look for such scans.
        has_logs: whether any was not; if all were, nothing is started to scan segments.
        compare: how closely replicas are compared, a `CompareMode`.

    Returns:
        Rows of the shape SEGMENTS, one per segment file.
    """
    replicas = inventory.where(F.col("replica").isNotNull())
    made = []
    if has_logs or not has_collections:
        made.append(_scanned_here(replicas, tasks, total_bytes, CompareMode(compare)))
    if has_collections:
        made.append(_scanned_on_brokers(replicas))
    return reduce(DataFrame.unionByName, made)


def _scanned_on_brokers(replicas: DataFrame) -> DataFrame:
    is_collected = F.col("replica.scans").isNotNull()
    places = replicas.where(is_collected).select("cluster_id", "broker_id", "replica.scans", "replica.log_dir", "replica.directory")
    # the replicas of a broker's folder come from one task, so each file of scans is read by one
    return map_files(places, collected_scans, SEGMENTS)


def _scanned_here(replicas: DataFrame, tasks: int, total_bytes: int, mode: CompareMode) -> DataFrame:
    files = replicas.where(F.col("replica.scans").isNull()).select(
        "cluster_id",
        "broker_id",
        "topic",
        "partition",
        F.col("replica.log_dir").alias("log_dir"),
        F.col("replica.directory").alias("directory"),
        F.explode("replica.segments").alias("file"),
    )
    return map_files(spread(files, tasks, total_bytes), partial(scan_segments, mode=mode), SEGMENTS)


def gather(inventory: DataFrame, segments: DataFrame) -> DataFrame:
    """One row per partition, in one shuffle.

    Returns:
        cluster_id, topic, partition, is_audited, and arrays of structs with broker_id: claims (of the shape PARTITION_METADATA; broker_id
        is null for the file beside the brokers), replicas, segments and events (of the shape LOG_EVENT).
    """
    with_broker = {name: F.when(F.col(name).isNotNull(), F.struct("broker_id", name)) for name in ("replica", "metadata", "event")}
    none = F.lit(None)
    of_partitions = F.col("replica").isNotNull() | F.col("metadata").isNotNull() | F.col("event").isNotNull()
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
    return map_files(of_groups, map_rows(of_partition(list_commits, clusters), COMMITS, refuse_with_problem), COMMITS)


def with_commits(gathered: DataFrame, found: DataFrame | None) -> DataFrame:
    """The gathered partitions that are audited, each with its committed offsets: `commits`, an array, null where there are none.

    `found` is what `commits` gives, None where no group's offsets are in the input.
    """
    if found is None:
        return gathered.where("is_audited")
    per_partition = found.where(F.col("commit").isNotNull()).groupBy(*KEYS).agg(F.collect_list("commit").alias("commits"))
    return gathered.where("is_audited").join(per_partition, on=list(KEYS), how="left")


def transactions(gathered: DataFrame, clusters: Mapping[str, ClusterFacts]) -> DataFrame:
    """The state of every transactional id that the partitions of `__transaction_state` hold, and what of them cannot be read.

    Returns:
        Rows of the shape TRANSACTIONS: either `transaction` or `problem` is not null.
    """
    of_coordinators = gathered.where(F.col("topic") == F.lit(TRANSACTIONS_TOPIC))
    listed = map_rows(of_partition(list_transactions, clusters), TRANSACTIONS, refuse_with_problem)
    return map_files(of_coordinators, listed, TRANSACTIONS)


def with_transactions(gathered: DataFrame, found: DataFrame | None) -> DataFrame:
    """Gathered partitions, each with `transactions`, an array of the shape TRANSACTION_STATE, null where there are none.

    `found` is what `transactions` gives, None where no `__transaction_state` is in the input. Else `gathered` is read twice: who has a
    transaction open in a partition is known by its segments alone.
    """
    if found is None:
        return gathered
    told = found.where(F.col("transaction").isNotNull())
    named = told.select("cluster_id", F.explode(F.array_distinct("transaction.partitions")).alias("place"), "transaction")
    of_partition = named.select("cluster_id", "place.topic", "place.partition", "transaction")
    known = F.flatten(F.transform(F.filter("segments", _has_producers), lambda one: one.segment.producers.spans))
    opened = F.transform(F.filter(known, lambda span: span.open_first_offset >= 0), lambda span: span.producer_id)
    writes = gathered.select(*KEYS, F.explode(F.array_distinct(opened)).alias("producer_id"))
    ids = F.array_distinct(F.array(*(F.col(f"transaction.{name}") for name in PRODUCER_IDS)))
    by_producer = told.select("cluster_id", F.explode(ids).alias("producer_id"), "transaction")
    of_producer = writes.join(by_producer, on=["cluster_id", "producer_id"]).select(*KEYS, "transaction")
    each = of_partition.unionByName(of_producer).withColumn("name", F.col("transaction.transactional_id")).dropDuplicates([*KEYS, "name"])
    per_partition = each.groupBy(*KEYS).agg(F.collect_list("transaction").alias("transactions"))
    return gathered.join(per_partition, on=list(KEYS), how="left")


def _has_producers(one: Column) -> Column:
    return one.segment.producers.isNotNull()  # an older version collected those without


def judge(gathered: DataFrame, clusters: dict[str, ClusterFacts]) -> DataFrame:
    """Judge every partition inside tasks.

    Returns:
        One row per partition of the shape AUDITED: cluster_id and, for each table, an array of its rows without the run's keys.
    """
    return map_files(gathered, mapped(partial(_judge, clusters=clusters), encoded_audits), AUDITED)


def judge_into_files(gathered: DataFrame, clusters: dict[str, ClusterFacts], files: OpenFiles) -> DataFrame:
    """Judge every partition inside tasks, where the rows of tables go into files at once: they are most of what an audit makes.

    Args:
        gathered: as `with_commits` gives it.
        clusters: the facts of each, by its id.
        files: opens what takes the rows of a task; if the task fails, it leaves nothing.

    Returns:
        Rows of the shape OUTCOMES: one for each partition, and one for each file.
    """
    return map_files(gathered, partial(_judged_into_files, clusters=clusters, files=files), OUTCOMES)


def _judged_into_files(batches: Iterator[pa.RecordBatch], clusters: dict[str, ClusterFacts], files: OpenFiles) -> Iterator[pa.RecordBatch]:
    with files() as taken:
        yield from mapped(partial(_judge, clusters=clusters), partial(outcomes, keep=taken.add))(batches)
        yield pa.RecordBatch.from_pylist([{"file": as_dict(file)} for file in taken.finish()], schema=OUTCOMES)


def outcomes_of(audited: DataFrame) -> DataFrame:
    """Rows of the shape OUTCOMES of rows of the shape AUDITED, whose tables are in no file yet."""
    known = {
        "sizes": F.array(*(F.size(table.name).cast("bigint") for table in COUNTED)),
        "verdicts": F.col("replica_verdicts.verdict"),
        "records_unread": F.size(F.filter("replica_verdicts", _is_clean_but_unread)).cast("bigint"),
        "file": F.lit(None).cast(spark_schema(OUTCOMES)["file"].dataType),
    }
    return audited.select(*(known.get(name, F.col(name)).alias(name) for name in OUTCOMES.names))


def _is_clean_but_unread(verdict: Column) -> Column:
    return (verdict["severity"] == "none") & verdict["records_unread"].isNotNull()


def _judge(row: Row, clusters: dict[str, ClusterFacts]) -> Iterator[AuditedPartition]:
    yield judged(known_partition(row), clusters[row["cluster_id"]])


def of_partition(function: Callable[[KnownPartition, ClusterFacts], Iterator[Row]], clusters: Mapping[str, ClusterFacts]) -> OfRow:
    """Make a function of a partition and its cluster into one of a gathered row."""
    return partial(_of_row, function=function, clusters=clusters)


def _of_row(
    row: Row, function: Callable[[KnownPartition, ClusterFacts], Iterator[Row]], clusters: Mapping[str, ClusterFacts]
) -> Iterator[Row]:
    yield from function(known_partition(row), clusters[row["cluster_id"]])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What was listed.

    Args:
        replicas: directories that are audited.
        files: segments.
        size: their bytes.
        offsets: replicas of `__consumer_offsets`.
        states: replicas of `__transaction_state`.
        copies: of the metadata log.
        collections: replicas that were scanned on their brokers.
        logs: the other replicas.
        versions: that server logs tell.
    """

    replicas: int
    files: int
    size: int
    offsets: int
    states: int
    copies: int
    collections: int
    logs: int
    versions: int

    @classmethod
    def of(cls, listed: DataFrame) -> Amounts:
        """Count rows of the shape INVENTORY."""
        replica, is_audited = F.col("replica"), F.col("is_audited")
        found = listed.agg(
            F.count(F.when(is_audited, replica)),
            F.sum(F.size(replica.segments)),
            F.sum(F.aggregate(replica.segments, F.lit(0).cast("bigint"), lambda a, s: a + s.size_bytes)),
            F.count(F.when(F.col("topic") == F.lit(GROUP_OFFSETS_TOPIC), replica)),
            F.count(F.when(F.col("topic") == F.lit(TRANSACTIONS_TOPIC), replica)),
            F.count("metadata_copy"),
            F.count("replica.scans"),
            F.count(F.when(replica.isNotNull() & replica.scans.isNull(), 1)),
            F.count("versions"),
        ).first()
        return cls(**dict(zip(cls.__slots__, (number or 0 for number in found or [0] * len(cls.__slots__)), strict=True)))
