"""An audit on Spark: the session, the hold on the run and the warehouse; the order of its steps is in `audit`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.audit import ClusterInput, Judged, Row, Run, judge_clusters, run_audit, run_rows
from replica_audit.engine import findings as findings_of
from replica_audit.engine.mapped import Facts
from replica_audit.engine.spark import SparkEngine
from replica_audit.engine.tally import Tally, totals
from replica_audit.errors import AuditError, OutputError, UsageError
from replica_audit.model import Amounts
from replica_audit.past.agreement import RunNumbers, disagreement
from replica_audit.past.earlier_runs import MissingInput, PresentCluster, earlier_runs, missing_input, refuse_damaged, without_acknowledged
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.pipeline.request import AuditRequest
from replica_audit.program import versions
from replica_audit.progress import Progress, Stage, TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.report.facts.assessment import labels
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import findings_text
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, Table
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.runs import NO_CLUSTER, AuditRun
from replica_audit.rows.starts import BrokerStart
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.folders import location
from replica_audit.storage.inputs.sources import Root, discover
from replica_audit.storage.session import StageProgress, own_session, suit_size
from replica_audit.storage.warehouse import faults
from replica_audit.storage.warehouse.arrow_tables import ArrowTables
from replica_audit.storage.warehouse.attempts import Attempt
from replica_audit.storage.warehouse.holds import Hold, take
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from replica_audit.words import count

_CLUSTER = pa.schema([("cluster_id", pa.string())])


def audit(spark: SparkSession, request: AuditRequest, tell: TellsEvent) -> Report:
    """Run one audit and write its tables.

    Args:
        spark: a session with Delta; the audit sets nothing in it.
        request: what to audit.
        tell: takes its progress.

    Raises:
        UsageError: the inputs contradict each other, nothing in them can be audited, or another process makes the run.
        OutputError: the warehouse or Spark's working directory cannot be written, or not to the end, or rows were lost on the way.
    """
    try:
        with own_session(spark) as own:
            return _audited(own, request, Progress(tell))
    except AuditError:
        raise
    except Exception as error:
        fault = faults.told(error, spark, request.warehouse)
        if fault is None:
            raise
        raise fault from None


def written_run(spark: SparkSession, warehouse: str, run_id: str) -> PastRun:
    """A run that is written, for whatever is made of its tables besides the report."""
    return PastRun(DeltaWarehouse(spark, warehouse).tables, run_id)


def _audited(spark: SparkSession, request: AuditRequest, progress: Progress) -> Report:
    started_at = datetime.now(UTC)
    warehouse = DeltaWarehouse(spark, request.warehouse)
    found = discover(request.inputs, request.metadata, follow_links=request.settings.follow_links)
    refuse_useless(found)
    clusters = [root.cluster_id for root in found.roots]
    brokers = count(sum(len(root.brokers) for root in found.roots), "broker folder")
    said = f"found {brokers} in {count(len(clusters), 'cluster')}; preparing tables in {request.warehouse}"
    progress.begin(Stage.PREPARING, said, clusters=clusters)
    run = Run(run_id=request.run_id, run_date=request.run_date, inputs=request.inputs, settings=request.settings, found=found)
    rows = _RunRows(warehouse, request, run)
    warehouse.create_missing(lambda kept: refuse_damaged(kept, request.run_id))
    try:
        held = take(warehouse, request.run_id, rows.begin, started_at=started_at, take_over=request.take_over)
        with held, StageProgress(spark, progress):
            store = _Stored(warehouse, request, run, progress, held, rows)
            try:
                run_audit(run, store)
            finally:
                store.engine.release()
            progress.end("done")
            return report_of(PastRun(warehouse.tables, request.run_id))
    except UsageError as error:  # of tables that cannot be read, among others
        raise faults.removal(request.warehouse) or error from None


@dataclass(frozen=True, slots=True)
class _RunRows:
    """The rows of one run in `audit_runs`."""

    warehouse: DeltaWarehouse
    request: AuditRequest
    run: Run

    def begin(self, attempt: Attempt, replace: bool) -> None:
        """Write that the run has begun."""
        clusters = [root.cluster_id for root in self.run.found.roots] or [NO_CLUSTER]
        self.write(attempt, {}, {cluster: {} for cluster in clusters}, replace=replace)

    def write(self, attempt: Attempt, of_run: Row, of_cluster: Mapping[str, Row], *, replace: bool) -> None:
        """Write what is known of the run and its clusters, and whose attempt it is."""
        of_attempt = {
            "started_at": attempt.started_at,
            "status": attempt.status,
            "attempt": attempt.number,
            "holder": asdict(attempt.holder) if attempt.holder else None,
            "alive_at": attempt.alive_at,
            "versions": {"spark": self.warehouse.spark.version, **dict(versions("delta-spark", "pyarrow"))},
        }
        made = self.warehouse.rows(AUDIT_RUNS, run_rows(self.run, {**of_attempt, **of_run}, of_cluster))
        self.warehouse.write_run(AUDIT_RUNS, made, self.run.run_id, replace=replace, fence=attempt.version)


class _Stored:
    """The tables of a run in a warehouse, which is held for it."""

    def __init__(self, warehouse: DeltaWarehouse, request: AuditRequest, run: Run, progress: Progress, held: Hold, rows: _RunRows) -> None:
        self._warehouse, self._request, self._run, self._progress, self._held, self._rows = warehouse, request, run, progress, held, rows
        places = warehouse.places_of_files(OF_PARTITIONS)
        self._in_files = bool(places)
        files = partial(TableFiles, places, **run.columns) if places else None
        self.engine = SparkEngine(warehouse.spark, run.settings.parallelism, files)
        self._missing: Sequence[MissingInput] = ()

    @property
    def tables(self) -> ArrowTables:
        return self._warehouse.tables

    def judge(self, roots: Sequence[Root]) -> Sequence[Judged]:
        """Audit all clusters at once."""

        def tell(stage: Stage, amounts: Amounts) -> None:
            if stage is Stage.LISTING:
                self._progress.begin(stage)
            elif stage is Stage.READING:
                suit_size(self._warehouse.spark, amounts.segments)
                said = f"reading {count(amounts.segments, 'segment')} of {count(amounts.replicas, 'replica')}"
                self._progress.begin(
                    stage,
                    f"{said}, {amounts.size_bytes / 1e6:.1f} MB",
                    segments=amounts.segments,
                    replicas=amounts.replicas,
                    bytes=amounts.size_bytes,
                )

        clusters = [ClusterInput.of(root, self._request.acknowledged) for root in roots]
        return [judge_clusters(self.engine, clusters, self._run.settings, tell)]

    def missing(self, facts: Facts) -> Sequence[MissingInput]:
        present = [
            PresentCluster(
                cluster_id=root.cluster_id,
                path=str(root.path),
                broker_ids=[broker.broker_id for broker in root.brokers],
                named_broker_ids=facts[root.cluster_id].named,
            )
            for root in self._run.found.roots
        ]
        places = [str(location(given)) for given in self._request.inputs]
        runs = self.tables.rows(AUDIT_RUNS.name, AuditRun)
        found = missing_input(runs, self._run.run_id, present, self._request.inputs, places)
        self._missing = list(without_acknowledged(found, self._request.acknowledged))
        for one in self._missing:
            lacked = "the whole cluster" if one.broker_ids is None else f"broker {', '.join(map(str, one.broker_ids))}"
            last = one.last.last_seen_run_id or one.last.run_id
            self._progress.say(f"missing from the input: {lacked} of {one.cluster_id}, which run {last} read")
        return self._missing

    def write(self, judged: Judged, problems: Sequence[Row]) -> None:
        """Write every table but `broker_starts` and `audit_runs`, a few at a time, and say what was found."""
        run_id, tally = self._run.run_id, judged.tally
        self._progress.say(f"compared the replicas of {count(tally.audited, 'partition')}", partitions=tally.audited)
        paths = {root.cluster_id: root.path for root in self._run.found.roots}
        for line in findings_text.lines(tally.worst, tally.finding_count, labels(paths)):
            self._progress.say(line)
        self._progress.begin(Stage.WRITING, "writing the tables")
        of_inputs = self._warehouse.frame(INPUT_ERRORS, [self._run.columns | row for row in problems])
        sizes = totals(tally.rows)
        # a commit without rows costs as much as one with rows, and only replaces what an earlier attempt left
        wanted = [table for table in OF_PARTITIONS if self._held.replaces or sizes[table.name]]
        jobs: list[Any] = [(table, tally.files_of(table.name) if self._in_files else self._made(table)) for table in wanted]
        jobs.append((INPUT_ERRORS, of_inputs.unionByName(self._made(INPUT_ERRORS))))
        jobs.append((FINDINGS, self._of_run(self._findings(judged), FINDINGS)))
        self._warehouse.write_all(jobs, run_id, replace=self._held.replaces, fence=self._held.attempt.fence)

    def _made(self, table: Table) -> DataFrame:
        return self._of_run(self.engine.rows(table.name), table)

    def _of_run(self, rows: DataFrame, table: Table) -> DataFrame:
        """Rows of a table with the columns of the run, as `with_run`."""
        return rows.withColumns({name: F.lit(self._run.columns[name]) for name in table.of_run if name not in rows.columns})

    def _findings(self, judged: Judged) -> DataFrame:
        known = {cluster: facts.acknowledged for cluster, facts in judged.facts.items()}
        missing = [one.cluster_id for one in self._missing if one.broker_ids is None]
        known |= {cluster: self._request.acknowledged.of_cluster(cluster) for cluster in missing}
        # of an input without replicas all found before would be called resolved
        before = self._open_findings(known) if judged.amounts.replicas else None
        return findings_of.with_history(self.engine.rows("found"), before, self.engine.rows("checked"), self._run.run_id, known)

    def _open_findings(self, clusters: Collection[str]) -> DataFrame | None:
        """What the runs before this one left open in some clusters, as far as it looks again; None if that is nothing."""
        known = self.tables.rows(AUDIT_RUNS.name, AuditRun)
        runs = [run for run in earlier_runs(known, self._run.run_id) if run.cluster_id in clusters]
        is_open = (ds.field("status") != str(Status.RESOLVED)) & ds.field("run_id").isin(sorted({run.run_id for run in runs}))
        if not runs or not len(self.tables.columns(FINDINGS.name, _CLUSTER, is_open)):
            return None
        return findings_of.latest_before(self._warehouse.read(FINDINGS), runs, topics=self._run.settings.topics)

    def write_starts(self, starts: Sequence[BrokerStart]) -> None:
        made = self._warehouse.rows(BROKER_STARTS, [as_dict(row) | self._run.columns for row in starts])
        self._warehouse.write_all([(BROKER_STARTS, made)], self._run.run_id, replace=self._held.replaces, fence=self._held.attempt.fence)

    def complete(self, of_run: Row, of_cluster: Mapping[str, Row], tally: Tally) -> None:
        """Write the run down as complete.

        Raises:
            OutputError: two of its tables do not agree: the run does not count.
        """
        read = {root.cluster_id: of_cluster[root.cluster_id] for root in self._run.found.roots}
        lost = disagreement(
            self.tables, self._run.run_id, RunNumbers(table_rows=of_run["table_rows"], of_cluster=read, found=tally.findings)
        )
        if lost is not None:
            raise OutputError(
                f"--run-id {self._run.run_id} does not count, rows were lost on the way: {lost.sentence()}; most likely executors of "
                "Spark were killed: give the same --run-id again"
            )
        attempt = self._held.complete()
        finished_at = attempt.started_at + timedelta(seconds=round(self._progress.seconds, 1))
        self._rows.write(attempt, of_run | {"finished_at": finished_at}, of_cluster, replace=True)
        self._held.confirm()
