"""What a run takes from those before it: rows of partitions that have not changed, and findings that are still open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.engine import findings as findings_of
from replica_audit.engine.amounts import Amounts
from replica_audit.errors import UsageError
from replica_audit.past.base_run import LookedRun, WhyAll, base_of, is_still_there, latest_runs
from replica_audit.past.earlier_runs import earlier_runs
from replica_audit.past.missing_input import MissingInput, PresentCluster, missing_input, without_acknowledged
from replica_audit.past.run import RunRow
from replica_audit.pipeline.request import AuditRequest
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.protocol.verdict.confirmation import Status
from replica_audit.rows import AUDIT_RUNS, FINDINGS, KEPT_BY_PARTITION, PARTITION_FINGERPRINTS, Table
from replica_audit.rows.outcomes import WrittenFile
from replica_audit.storage.warehouse.tables import DeltaWarehouse, RowsAndFiles, WrittenRows
from replica_audit.storage.warehouse.taken_over import KeptPartitions, rows_of_runs

_CLUSTER = pa.schema([("cluster_id", pa.string())])


class EarlierRuns:
    """The runs of some clusters before a run. `base`: those that rows may be taken over from, by cluster; `taken`: what is taken over.

    `why_all`: why there is no base.
    """

    def __init__(self, warehouse: DeltaWarehouse, request: AuditRequest, clusters: Collection[str]) -> None:
        """Nothing is read yet."""
        self._warehouse, self._request, self._clusters = warehouse, request, clusters
        self.base: Mapping[str, LookedRun] | None = None
        self.why_all: WhyAll | None = None
        self.taken: KeptPartitions | None = None
        self._copied: dict[str, list[WrittenFile]] = {}  # by table

    def look_up(self) -> None:
        """See which runs there are."""
        request = self._request
        latest = latest_runs(self._warehouse.tables, request.run_id)
        found = WhyAll.ASKED if request.full else base_of(latest, self._clusters, request.settings, request.run_date)
        self.base, self.why_all = (None, found) if isinstance(found, WhyAll) else (found, None)

    @property
    def _runs(self) -> dict[str, str]:
        return {cluster: run.run_id for cluster, run in (self.base or {}).items()}

    @property
    def replicas(self) -> int:
        """How many replicas there were in the runs that rows may be taken over from; 0 if there are none."""
        return sum(run.replicas or 0 for run in (self.base or {}).values())

    def fingerprints(self) -> DataFrame | None:
        """The rows of `partition_fingerprints` of the runs that rows may be taken over from; None if there are none."""
        return rows_of_runs(self._warehouse, PARTITION_FINGERPRINTS, self._runs) if self._runs else None

    def compare(self, now: DataFrame, looked: DataFrame) -> KeptPartitions | None:
        """Find what has not changed; None if everything is to be read.

        Args:
            now: rows of the shape FINGERPRINTS, compared with `fingerprints`.
            looked: rows of the shape INVENTORY, with looks.
        """
        self.taken = KeptPartitions.of(self._warehouse, self._runs, now, looked)
        return self.taken

    def copy(self, places: Mapping[str, str], seen: Amounts) -> None:
        """Copy the rows that are taken over into files.

        Args:
            places: the directories of the tables of partitions, by name.
            seen: what was listed.
        """
        if self.taken is not None:
            # this one table may be as an older version made it
            into = {**places, **self._warehouse.places_of_files([PARTITION_FINGERPRINTS])}
            wanted = [table for table in KEPT_BY_PARTITION if table.name in into]
            self._copied = {table.name: [] for table in wanted}
            for file in self.taken.copied(wanted, into, self._request.run_id, is_collected=bool(seen.captured)):
                self._copied[file.table].append(file)

    def with_taken(self, table: Table, made: DataFrame | Sequence[WrittenFile]) -> WrittenRows:
        """The rows of a table: those that this run made, and those that are taken over."""
        if self.taken is None:
            return made
        copied = self._copied.get(table.name)
        if copied is None:
            rows = self._keyed(self.taken.rows(table))
            return rows.unionByName(made) if isinstance(made, DataFrame) else RowsAndFiles(rows=rows, files=made)
        return RowsAndFiles(rows=made, files=copied) if isinstance(made, DataFrame) else [*made, *copied]

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

    def missing(self, present: Sequence[PresentCluster], places: Sequence[str], acknowledged: Acknowledgements) -> list[MissingInput]:
        """Return what the runs before had of the same inputs and this one lacks, without what is acknowledged to be gone.

        Args:
            present: the clusters of this run.
            places: absolute paths of the inputs.
            acknowledged: what somebody knows of.
        """
        rows = self._warehouse.tables.rows(AUDIT_RUNS.name, RunRow)
        found = missing_input(rows, self._request.run_id, present, self._request.inputs, places)
        return list(without_acknowledged(found, acknowledged))

    def open_findings(self, clusters: Collection[str]) -> DataFrame | None:
        """What the runs before this one left open in some clusters, as far as it looks again; None if that is nothing."""
        # of a run without a replica there are none: all found before would be called resolved
        written = self._warehouse.tables
        known = written.rows(AUDIT_RUNS.name, RunRow) if clusters else ()
        runs = [run for run in earlier_runs(known, self._request.run_id) if run.cluster_id in clusters]
        is_open = (ds.field("status") != str(Status.RESOLVED)) & ds.field("run_id").isin(sorted({run.run_id for run in runs}))
        if not runs or not len(written.columns(FINDINGS.name, _CLUSTER, is_open)):
            return None
        return findings_of.latest_before(self._warehouse.read(FINDINGS), runs, topics=self._request.settings.topics)
