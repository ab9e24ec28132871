"""What a run takes from those before it: rows of partitions that have not changed, and findings that are still open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit import tables
from replica_audit.engine import findings as findings_of
from replica_audit.engine.amounts import Amounts
from replica_audit.engine.tally import Tally
from replica_audit.errors import UsageError
from replica_audit.past.base_run import LookedRun, base_of, is_still_there, latest_runs
from replica_audit.past.earlier_runs import earlier_runs
from replica_audit.past.run import RunRow
from replica_audit.pipeline.request import AuditRequest
from replica_audit.protocol.verdict.confirmation import Status
from replica_audit.storage.warehouse.tables import DeltaWarehouse, WrittenRows
from replica_audit.storage.warehouse.taken_over import KeptPartitions
from replica_audit.tables.outcomes import WrittenFile

Rows = Callable[[tables.Table], WrittenRows]  # of a table of partitions
_CLUSTER = pa.schema([("cluster_id", pa.string())])


class EarlierRuns:
    """The runs of some clusters before a run. `base`: those that rows may be taken over from, by cluster; `taken`: what is taken over."""

    def __init__(self, warehouse: DeltaWarehouse, request: AuditRequest, clusters: Collection[str]) -> None:
        """Nothing is read yet."""
        self._warehouse, self._request, self._clusters = warehouse, request, clusters
        self.base: Mapping[str, LookedRun] | None = None
        self.taken: KeptPartitions | None = None

    def look_up(self) -> None:
        """See which runs there are."""
        request = self._request
        latest = latest_runs(self._warehouse.tables, request.run_id)
        self.base = None if request.full else base_of(latest, self._clusters, request.settings, request.run_date)

    @property
    def replicas(self) -> int:
        """How many replicas there were in the runs that rows may be taken over from; 0 if there are none."""
        return sum(run.replicas or 0 for run in (self.base or {}).values())

    def compare(self, now: DataFrame, looked: DataFrame) -> KeptPartitions | None:
        """Find what has not changed; None if everything is to be read.

        Args:
            now: rows of the shape FINGERPRINTS.
            looked: rows of the shape INVENTORY, with looks.
        """
        runs = {cluster: run.run_id for cluster, run in (self.base or {}).items()}
        self.taken = KeptPartitions.of(self._warehouse, runs, now, looked)
        return self.taken

    def rows_of(self, audited: DataFrame) -> Rows:
        """What gives the rows of a table: those that this run made, and those that are taken over.

        Args:
            audited: rows of the shape AUDITED.
        """
        return partial(self._rows_of, audited)

    def rows_in_files(self, found: Tally, places: Mapping[str, str], seen: Amounts) -> Rows:
        """The same where tasks have written what this run made, and may write more.

        Args:
            found: with the files that they have written.
            places: the directories of the tables, by name.
            seen: what was listed.
        """
        moved = (tables.REPLICA_LOGS,) if seen.captured else ()  # a replica that was collected again has another time
        wanted = [table for table in tables.OF_PARTITIONS if table not in moved]
        copied = [] if self.taken is None else self.taken.copied(wanted, places, self._request.run_id)
        return partial(self._rows_in_files, found, copied, moved)

    def _rows_of(self, audited: DataFrame, table: tables.Table) -> WrittenRows:
        rows = audited.select("cluster_id", F.inline(table.name))
        return self._keyed(rows if self.taken is None else rows.unionByName(self.taken.rows(table)))

    def _rows_in_files(
        self, found: Tally, copied: Collection[WrittenFile], moved: Collection[tables.Table], table: tables.Table
    ) -> WrittenRows:
        made = found.files_of(table.name)
        if self.taken is None or table not in moved:
            return [*made, *(file for file in copied if file.table == table.name)]
        rows = self._keyed(self.taken.rows(table))
        paths = [f"{self._warehouse.path(table)}/{file.path}" for file in made]
        return rows.unionByName(self._warehouse.spark.read.parquet(*paths)) if paths else rows

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("run_id", F.lit(self._request.run_id))

    def told(self) -> dict[str, dict[str, object]]:
        """What `audit_runs` says of each cluster.

        Raises:
            UsageError: a run that rows were taken over from has been removed meanwhile, so that some of them may be missing.
        """
        base, kept = (None, None) if self.taken is None else (self.base, self.taken.partitions)
        if base is not None and not is_still_there(self._warehouse.tables, base):
            raise UsageError("the run that rows were taken over from was removed meanwhile; start the audit again")
        said: dict[str, dict[str, object]] = {}
        for cluster in self._clusters:
            before = None if base is None else base[cluster]
            said[cluster] = {
                "partitions_taken_over": 0 if kept is None else kept[cluster],
                "taken_over_from": None if before is None else before.run_id,
                "full_run_id": self._request.run_id if before is None else before.full_run_id,
                "full_run_date": self._request.run_date if before is None else before.full_run_date,
            }
        return said

    def open_findings(self, clusters: Collection[str]) -> DataFrame | None:
        """What the runs before this one left open in some clusters, as far as it looks again; None if that is nothing."""
        # of a run without a replica there are none: all found before would be called resolved
        written = self._warehouse.tables
        known = written.rows(tables.AUDIT_RUNS.name, RunRow) if clusters else ()
        runs = [run for run in earlier_runs(known, self._request.run_id) if run.cluster_id in clusters]
        is_open = (ds.field("status") != str(Status.RESOLVED)) & ds.field("run_id").isin(sorted({run.run_id for run in runs}))
        if not runs or not len(written.columns(tables.FINDINGS.name, _CLUSTER, is_open)):
            return None
        return findings_of.latest_before(self._warehouse.read(tables.FINDINGS), runs, topics=self._request.settings.topics)

    def release(self) -> None:
        """Let go of what is kept in memory."""
        if self.taken is not None:
            self.taken.release()
