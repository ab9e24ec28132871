"""The stages of an audit as Spark runs them: items are spread over tasks, grouped by partition and judged there.

Nothing about the protocol is decided here. Each stage maps a function of `stages` over items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial, reduce
from itertools import islice, pairwise
from math import ceil
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from replica_audit.engine.arrow import arrow_of, frame_of, map_files, spark_schema
from replica_audit.engine.mapped import Facts, OfPartition
from replica_audit.engine.releases import in_tasks, parallelism
from replica_audit.engine.tally import Order, Tally, merged
from replica_audit.model import Amounts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.rows import OF_PARTITIONS
from replica_audit.rows.arrow import INT, STRING, WrittenFile, schema_of_audited, struct
from replica_audit.stages.items import (
    ITEMS,
    OF_PARTITION,
    Function,
    Item,
    WantedPairs,
    WantedRecords,
    kinds,
    packed,
    packed_value,
    partition_of,
    read_records,
    uncollected_batches,
    unpacked,
    value_of,
)
from replica_audit.stages.judged import judged
from replica_audit.stages.records import RECORDS, compared_bucket, list_wanted, record_batches, wanted_of_buckets
from replica_audit.stages.valid_rows import encoded

Batches = Iterator[pa.RecordBatch]
KEYS = ("cluster_id", "topic", "partition")
_PLACE = ("cluster_id", "broker_id", "topic", "partition", "kind")
_BIG = 4  # a reading of more than this part of a task's share is placed by its size, the others by a hash
_TASK = pa.schema([*ITEMS, pa.field("task", INT)])
_BUCKET = (*KEYS, "bucket")
_AT_ONCE = 256  # partitions whose rows are put into Arrow together
_OF_TABLES = frozenset(table.name for table in OF_PARTITIONS)
# what a task made: rows of a table, by its name, as Arrow's stream; what it counted; the files that it wrote
_MADE = pa.schema(list(struct(kind=STRING, payload=pa.binary())))
_TALLY = "tally"
_BYTES_OF_PAYLOAD = 1 << 18


class RowFiles(Protocol):
    """What takes the rows of tables that a task makes."""

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Take rows of a table, without the columns of their run."""

    def finish(self) -> Sequence[WrittenFile]:
        """Have all of them in files; nothing is added afterwards."""


OpenFiles = Callable[[], AbstractContextManager[RowFiles]]


class SparkEngine:
    """Maps the stages over frames of ITEMS; a group is one row, with all that is known of a partition.

    What the tasks that judge return is materialised once: files are a side effect, and made again they would be others.
    """

    opened = None

    def __init__(self, spark: SparkSession, parallelism: int | None, files: OpenFiles | None = None) -> None:
        """Take a session, and how many tasks read.

        Args:
            spark: a session.
            parallelism: of the reading; None for four tasks a core.
            files: opens what takes the rows of tables that a task makes, and leaves nothing if it fails; None to bring them through Spark.
        """
        self._spark, self._parallelism, self._files = spark, parallelism, files
        self._kept: list[DataFrame] = []
        self._made: DataFrame | None = None

    def given(self, items: Sequence[Item]) -> DataFrame:
        """Items that are known here, each in a task of its own: `repartition` puts several into one task and none into others."""
        rows = [row for batch in packed(items) for row in zip(*batch.to_pydict().values(), strict=True)]
        numbered = [(*row, task) for task, row in enumerate(rows)]
        return in_tasks(frame_of(self._spark, numbered, _TASK), max(1, len(items)), "task")

    def flat_map(self, items: DataFrame, function: Function) -> DataFrame:
        """Map items to items inside tasks."""
        return map_files(items, partial(_mapped, function=function), ITEMS)

    def select(self, items: DataFrame, of: Iterable[type]) -> DataFrame:
        """Those of some kinds that are audited."""
        return items.where(F.col("kind").isin(kinds(*of)) & F.col("is_audited"))

    def of_topic(self, items: DataFrame, of: Iterable[type], topic: str | None) -> DataFrame:
        """Those of some kinds that have a topic, audited or not."""
        return items.where(F.col("kind").isin(kinds(*of)) & F.col("topic").eqNullSafe(F.lit(topic)))

    def collect(self, items: DataFrame, of: Iterable[type]) -> list[Item]:
        """Bring items of some kinds to the driver, audited or not."""
        table = arrow_of(items.where(F.col("kind").isin(kinds(*of))))
        return [item for batch in table.to_batches() for item in unpacked(batch)]

    def keep(self, items: DataFrame) -> DataFrame:
        """Keep items in Spark's storage until the run ends."""
        self._kept.append(items.persist(StorageLevel.MEMORY_AND_DISK))
        return items

    def release(self) -> None:
        """Keep nothing any more."""
        for frame in self._kept:
            frame.unpersist()

    def spread(self, readings: DataFrame, amounts: Amounts) -> DataFrame:
        """Give every task about as many bytes; tasks that start first get the most at once, so that none of it is left to the end.

        Where a reading goes depends on its keys alone: a task that is made again reads the same.
        """
        tasks = self._tasks(amounts)
        # at most a few for each task, so that ranking them in one place costs nothing
        is_big = F.col("size_bytes") * _BIG >= F.lit(max(1, amounts.size_bytes // tasks))
        by_size = Window.orderBy(F.col("size_bytes").desc(), *_PLACE)
        big = readings.where(is_big).withColumn("task", F.pmod(F.dense_rank().over(by_size) - 1, F.lit(tasks)))
        small = readings.where(~is_big).withColumn("task", F.pmod(F.xxhash64("size_bytes", *_PLACE), F.lit(tasks)).cast("int"))
        return in_tasks(big.unionByName(small), tasks, "task")

    def _tasks(self, amounts: Amounts) -> int:
        return min(self._parallelism or 4 * parallelism(self._spark), max(1, amounts.segments))

    def group(self, items: Sequence[DataFrame]) -> DataFrame:
        """One row for each partition, in one shuffle: its keys and `items`, an array of broker_id and payload."""
        found = reduce(lambda some, more: some.unionByName(more), items).where(F.col("kind").isin(kinds(*OF_PARTITION)))
        return found.groupBy(*KEYS).agg(F.collect_list(F.struct("broker_id", "payload")).alias("items"))

    def map_groups(self, groups: DataFrame, function: OfPartition, facts: Facts) -> DataFrame:
        """Map partitions to items inside tasks."""
        return map_files(groups, partial(_mapped_groups, function=function, facts=facts), ITEMS)

    def compare_records(self, groups: DataFrame, facts: Facts, amounts: Amounts) -> DataFrame:
        """Partitions with `records`, what comparing their records gave; they are judged twice, so they are kept."""
        groups = self.keep(groups)
        wanted = self.keep(self.map_groups(groups, list_wanted, facts))
        records = map_files(self.spread(self.select(wanted, [WantedRecords]), amounts), _records, RECORDS)
        rows = records.unionByName(map_files(self.select(wanted, [WantedPairs]), _in_buckets, RECORDS))
        # all of a bucket in one task, and one after the other there
        compared = rows.repartition(*_BUCKET).sortWithinPartitions(*_BUCKET).mapInArrow(_compared, spark_schema(ITEMS))
        found = compared.groupBy(*KEYS).agg(F.collect_list("payload").alias("found"))
        none = F.array().cast("array<binary>")
        return groups.join(found, on=list(KEYS), how="left").withColumn("records", F.coalesce("found", none)).drop("found")

    def judge(self, groups: DataFrame, facts: Facts, order: Order, most: int) -> Tally:
        """Judge every partition inside tasks; the rows of tables go into files there, if that is asked for."""
        judging = partial(_judged, facts=facts, files=self._files, order=order, most=most)
        self._made = self.keep(map_files(groups, judging, _MADE))
        told = arrow_of(self._made.where(F.col("kind") == F.lit(_TALLY)).select("payload"))
        return merged((value_of(payload.as_buffer()) for payload in told["payload"]), order, most)

    def rows(self, name: str) -> DataFrame:
        """The rows of a name of AUDITED, with their cluster_id; none of tables whose rows went into files."""
        schema = schema_of_audited(name)
        if self._made is None:
            return frame_of(self._spark, [], schema)
        of_name = self._made.where(F.col("kind") == F.lit(name)).select("payload")
        return of_name.mapInArrow(partial(_decoded, schema=schema), spark_schema(schema))


def _mapped(batches: Batches, function: Function) -> Batches:
    items = (item for batch in batches for item in unpacked(batch))
    yield from uncollected_batches(packed(made for item in items for made in function(item)))


def _partitions(batches: Batches) -> Iterator[KnownPartition]:
    """The partitions of grouped rows, of each of which all that is known is Python's one at a time."""
    for batch in batches:
        has_records = "records" in batch.schema.names
        for place in range(batch.num_rows):
            cluster, topic, partition = (batch[name][place].as_py() for name in KEYS)
            items = batch["items"][place].values
            values = map(value_of, (payload.as_buffer() for payload in items.field("payload")))
            known = partition_of(cluster, topic, partition, zip(items.field("broker_id").to_pylist(), values, strict=True))
            if known is not None:
                records = read_records(map(value_of, batch["records"][place].as_py())) if has_records else None
                yield replace(known, records=records)


def _mapped_groups(batches: Batches, function: OfPartition, facts: Facts) -> Batches:
    made = (item for known in _partitions(batches) for item in function(known, facts[known.cluster_id]))
    yield from uncollected_batches(packed(made))


def _records(batches: Batches) -> Batches:
    for batch in batches:
        for item in unpacked(batch):
            yield from record_batches(item)


def _in_buckets(batches: Batches) -> Batches:
    """Wanted pairs for each bucket of keys."""
    for batch in batches:
        for item in unpacked(batch):
            yield wanted_of_buckets(item)


def _compared(batches: Batches) -> Batches:
    yield from packed(made for rows in _runs(batches) for made in compared_bucket(rows))


def _runs(batches: Batches) -> Iterator[pa.Table]:
    """The rows of each bucket, which follow each other, in several batches perhaps."""
    bucket, parts = None, list[pa.RecordBatch]()
    for batch in batches:
        changes = (pc.not_equal(batch[name][1:], batch[name][:-1]).to_numpy(zero_copy_only=False) for name in _BUCKET)
        begins = {place + 1 for changed in changes for place in np.flatnonzero(changed).tolist()}
        for first, end in pairwise(sorted({0, *begins, batch.num_rows})):
            part = batch.slice(first, end - first)
            if (of := [part[name][0] for name in _BUCKET]) != bucket:
                if parts:
                    yield pa.Table.from_batches(parts)
                bucket, parts = of, []
            parts.append(part)
    if parts:
        yield pa.Table.from_batches(parts)


def _judged(batches: Batches, facts: Facts, files: OpenFiles | None, order: Order, most: int) -> Batches:
    if files is None:
        yield from uncollected_batches(_made(batches, facts, None, order, most))
        return
    with files() as taken:
        yield from uncollected_batches(_made(batches, facts, taken, order, most))


def _made(batches: Batches, facts: Facts, files: RowFiles | None, order: Order, most: int) -> Batches:
    tally = Tally()
    partitions = ((known, facts[known.cluster_id]) for known in _partitions(batches))
    while some := list(islice(partitions, _AT_ONCE)):
        rows = encoded(list(judged(some)))
        tally.add(rows, len(some))
        tally.keep_worst(order, most)
        carried = []
        for name, batch in rows.items():
            if files is not None and name in _OF_TABLES:
                files.add(name, batch)
            else:
                carried += [(name, payload) for payload in _encoded(batch)]
        if carried:
            yield _batch(carried)
    if files is not None:
        tally.files += files.finish()
    yield _batch([(_TALLY, packed_value(tally))])


def _batch(rows: Sequence[tuple[str, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([kind for kind, _payload in rows]), pa.array([payload for _kind, payload in rows])], schema=_MADE
    )


def _encoded(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as Arrow's streams, none of them large."""
    at_once = ceil(rows.num_rows / ceil(rows.nbytes / _BYTES_OF_PAYLOAD))
    for first in range(0, rows.num_rows, at_once):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows.slice(first, at_once))
        yield sink.getvalue().to_pybytes()


def _decoded(batches: Batches, schema: pa.Schema) -> Batches:
    for batch in batches:
        for payload in batch["payload"]:
            with pa.ipc.open_stream(payload.as_buffer()) as stream:
                for rows in stream:
                    yield pa.RecordBatch.from_arrays(rows.columns, schema=schema)
