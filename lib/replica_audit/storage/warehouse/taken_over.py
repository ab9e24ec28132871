"""The rows of an earlier run of partitions that have not changed since: where they are, and as rows of this run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import frame_of
from replica_audit.engine.spark_unchanged import looks_of, outcomes_before, taken_over
from replica_audit.formats.shapes import FINGERPRINTS
from replica_audit.model import PartitionKey
from replica_audit.partition.known.fingerprint import SinceLastRun
from replica_audit.rows import PARTITION_FINGERPRINTS, REPLICA_LOGS, Table
from replica_audit.rows.outcomes import WrittenFile
from replica_audit.storage.warehouse.copied_rows import KEYS, copied_logs, copied_rows
from replica_audit.storage.warehouse.tables import DeltaWarehouse

_KEYS = pa.schema([FINGERPRINTS.field(name) for name in KEYS])
_MOST = 0.5  # of the partitions may have changed; with more of them it takes longer to take rows over than to make them


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPartitions:
    """What is taken over.

    Args:
        warehouse: that has the rows.
        runs: by cluster id, the run that has them.
        partitions: by cluster id, how many partitions have not changed.
        gone: keys of partitions that the runs know and that are not taken over.
        changed: keys of those that are to be audited.
        brokers: with their clusters, those that have a replica of these.
        looks: of everything, as of `looks_of`.
    """

    warehouse: DeltaWarehouse
    runs: Mapping[str, str]
    partitions: Counter[str]
    gone: Sequence[PartitionKey]
    changed: frozenset[PartitionKey]
    brokers: frozenset[tuple[str, int]]
    looks: DataFrame

    @classmethod
    def of(cls, warehouse: DeltaWarehouse, runs: Mapping[str, str], now: DataFrame, listed: DataFrame) -> KeptPartitions | None:
        """See what changed since earlier runs; None if that is so much that everything is better read.

        Args:
            warehouse: that has the runs.
            runs: by cluster id.
            now: rows of the shape FINGERPRINTS, compared with these runs.
            listed: rows of the shape INVENTORY, with looks.
        """
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in now.groupBy("cluster_id", "since_last_run").count().collect():
            counts[row["since_last_run"]][row["cluster_id"]] = row["count"]
        same, others = counts[SinceLastRun.UNCHANGED].total(), counts[SinceLastRun.CHANGED].total() + counts[SinceLastRun.NEW].total()
        if others > _MOST * (same + others):
            return None
        keys: dict[str, list[PartitionKey]] = defaultdict(list)
        brokers: set[tuple[str, int]] = set()
        for row in now.where(F.col("since_last_run") != str(SinceLastRun.UNCHANGED)).collect():
            keys[row["since_last_run"]].append((row["cluster_id"], row["topic"], row["partition"]))
            brokers |= {(row["cluster_id"], broker) for broker in row["broker_ids"]}
        return cls(
            warehouse=warehouse,
            runs=runs,
            partitions=counts[SinceLastRun.UNCHANGED],
            gone=[*keys[SinceLastRun.CHANGED], *keys[SinceLastRun.GONE]],
            changed=frozenset((*keys[SinceLastRun.CHANGED], *keys[SinceLastRun.NEW])),
            brokers=frozenset(brokers),
            looks=looks_of(listed),
        )

    @property
    def outcomes(self) -> DataFrame:
        """What is known of the partitions, as rows of the shape OUTCOMES."""
        return outcomes_before(self.rows(PARTITION_FINGERPRINTS))

    def changed_of(self, listed: DataFrame) -> DataFrame:
        """What was listed of the partitions that are to be audited."""
        return listed.join(F.broadcast(self._keys(sorted(self.changed))), on=list(KEYS), how="left_semi").select(*listed.columns)

    def _keys(self, keys: Sequence[PartitionKey]) -> DataFrame:
        return frame_of(self.warehouse.spark, keys, _KEYS)

    def rows(self, table: Table) -> DataFrame:
        """Their rows of a table, without `run_id`."""
        looks = self.looks if table is REPLICA_LOGS else None
        return taken_over(rows_of_runs(self.warehouse, table, self.runs), self._keys(self.gone), looks)

    def copied(self, tables: Sequence[Table], places: Mapping[str, str], run_id: str, *, is_collected: bool) -> list[WrittenFile]:
        """Their rows of some tables in files of this run, in the directories of the tables.

        Args:
            tables: whose rows.
            places: the directories, by name.
            run_id: of this run.
            is_collected: whether any replica may have been collected again since: `replica_logs` then gets the new moments.
        """
        spark, runs, gone = self.warehouse.spark, self.runs, frozenset(self.gone)
        moved = [table for table in tables if table is REPLICA_LOGS and is_collected]
        made = copied_rows(spark, [table for table in tables if table not in moved], places, runs, run_id, gone)
        return [*made, *(copied_logs(spark, places, runs, run_id, gone, self.looks) if moved else ())]


def rows_of_runs(warehouse: DeltaWarehouse, table: Table, runs: Mapping[str, str]) -> DataFrame:
    """The rows of a table that runs have of clusters, each cluster's run by its id."""
    of_runs = [(F.col("cluster_id") == F.lit(cluster)) & (F.col("run_id") == F.lit(run)) for cluster, run in runs.items()]
    return warehouse.read(table).where(reduce(or_, of_runs))
