"""The rows of an earlier run of partitions that have not changed since: where they are, and as rows of this run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.spark_unchanged import outcomes_before, taken_over, times_of_replicas, unchanged
from replica_audit.storage.warehouse.copied_rows import KEYS, copied_rows, keys_table
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from replica_audit.tables import PARTITION_FINGERPRINTS, REPLICA_LOGS, Table
from replica_audit.tables.outcomes import WrittenFile

_MOST = 0.5  # of the partitions may have changed; with more of them it takes longer to take rows over than to make them


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPartitions:
    """What is taken over.

    Args:
        warehouse: that has the rows.
        runs: by cluster id, the run that has them.
        kept: rows of `partition_fingerprints` of partitions that have not changed.
        gone: keys of partitions that the runs know and that are not taken over.
        changed: (cluster id, topic, partition) of those that are to be audited.
        times: as of `times_of_replicas`.
    """

    warehouse: DeltaWarehouse
    runs: Mapping[str, str]
    kept: DataFrame
    gone: DataFrame
    changed: frozenset[tuple[str, str, int]]
    times: DataFrame

    @classmethod
    def of(cls, warehouse: DeltaWarehouse, runs: Mapping[str, str], now: DataFrame, listed: DataFrame) -> KeptPartitions | None:
        """Compare with earlier runs; None if so much has changed that everything is better read.

        Args:
            warehouse: that has the runs.
            runs: by cluster id.
            now: rows of the shape FINGERPRINTS.
            listed: rows of the shape INVENTORY, with looks.
        """
        before = _of_runs(warehouse, PARTITION_FINGERPRINTS, runs)
        kept = unchanged(now, before).persist(StorageLevel.MEMORY_AND_DISK)
        keys, total = kept.select(*KEYS), now.count()
        if total - kept.count() > _MOST * total:
            kept.unpersist()
            return None
        changed = frozenset(tuple(row) for row in now.select(*KEYS).join(keys, on=list(KEYS), how="left_anti").collect())
        gone = before.select(*KEYS).join(keys, on=list(KEYS), how="left_anti").persist(StorageLevel.MEMORY_AND_DISK)
        return cls(warehouse=warehouse, runs=runs, kept=kept, gone=gone, changed=changed, times=times_of_replicas(listed))

    @property
    def outcomes(self) -> DataFrame:
        """What is known of the partitions, as rows of the shape OUTCOMES."""
        return outcomes_before(self.kept)

    @property
    def partitions(self) -> Counter[str]:
        """How many partitions of each cluster."""
        return Counter({row["cluster_id"]: row["count"] for row in self.kept.groupBy("cluster_id").count().collect()})

    def changed_of(self, listed: DataFrame) -> DataFrame:
        """What was listed of the partitions that are to be audited."""
        keys = self.warehouse.spark.createDataFrame(sorted(self.changed), "cluster_id string, topic string, partition int")
        return listed.join(F.broadcast(keys), on=list(KEYS), how="left_semi").select(*listed.columns)

    def brokers_of(self, listed: DataFrame) -> set[tuple[str, int]]:
        """The brokers, each with its cluster, that have a replica of what was listed."""
        of_replicas = listed.where(F.col("look.directory").isNotNull())
        return {(row["cluster_id"], row["broker_id"]) for row in of_replicas.select("cluster_id", "broker_id").distinct().collect()}

    def rows(self, table: Table) -> DataFrame:
        """Their rows of a table, without `run_id`."""
        return taken_over(_of_runs(self.warehouse, table, self.runs), self.gone, self.times if table is REPLICA_LOGS else None)

    def copied(self, tables: Sequence[Table], places: Mapping[str, str], run_id: str) -> list[WrittenFile]:
        """Their rows of some tables in files of this run, in the directories of the tables. `replica_logs` keeps its times."""
        gone = keys_table([tuple(row) for row in self.gone.collect()])
        return copied_rows(self.warehouse.spark, tables, places, self.runs, run_id, gone)

    def release(self) -> None:
        """Let go of what is kept in memory."""
        self.kept.unpersist()
        self.gone.unpersist()


def _of_runs(warehouse: DeltaWarehouse, table: Table, runs: Mapping[str, str]) -> DataFrame:
    of_runs = [(F.col("cluster_id") == F.lit(cluster)) & (F.col("run_id") == F.lit(run)) for cluster, run in runs.items()]
    return warehouse.read(table).where(reduce(or_, of_runs))
