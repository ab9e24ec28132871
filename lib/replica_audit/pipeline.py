"""The order of an audit: sources → inventory → segments → partitions → findings → tables → report. `local_run` keeps it without Spark."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit import tables
from replica_audit.config import Settings
from replica_audit.engine import findings as findings_of
from replica_audit.engine.spark import (
    commits,
    gather,
    inventory,
    judge,
    judge_into_files,
    logged_versions,
    metadata_copies,
    outcomes_of,
    segments,
    source_rows,
    transactions,
    with_commits,
    with_transactions,
)
from replica_audit.engine.spark_records import with_keys
from replica_audit.engine.tally import Tally, tally, totals
from replica_audit.errors import AuditError, UsageError
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.partition.known.cluster_facts import ClusterFacts, cluster_facts
from replica_audit.past.earlier_runs import earlier_runs
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun, RunRow
from replica_audit.progress import Progress, Stage, TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.protocol.verdict.confirmation import Status
from replica_audit.report.facts.exit_code import exit_code
from replica_audit.report.facts.run_report import Report
from replica_audit.report.facts.worst_first import by_verdict, labels
from replica_audit.report.text import first_findings
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.sources import Found, Root, discover
from replica_audit.storage.inputs.whole_input import about_cluster, brokers_not_there, no_replicas
from replica_audit.storage.session import StageProgress, name_run, suit_input
from replica_audit.storage.warehouse import faults
from replica_audit.storage.warehouse.holds import Attempt, Hold, take
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.storage.warehouse.tables import DeltaWarehouse, WrittenRows
from replica_audit.storage.warehouse.versions import versions
from replica_audit.tables.runs import NO_CLUSTER
from replica_audit.words import count

_CLUSTER = pa.schema([("cluster_id", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to audit. `inputs` are roots or folders of roots; `metadata` a cluster-metadata.json given apart.

    `take_over`: begin the run also if another process seems to make it. `acknowledged`: findings that somebody knows of, as of `run_date`.
    """

    inputs: tuple[str, ...]
    warehouse: str
    settings: Settings
    run_id: str
    run_date: date
    metadata: Path | None = None
    take_over: bool = False
    acknowledged: Acknowledgements = field(default_factory=Acknowledgements)


def audit(spark: SparkSession, request: AuditRequest, tell: TellsEvent) -> Report:
    """Run one audit and write its tables.

    Args:
        spark: a session with Delta.
        request: what to audit.
        tell: takes its progress.

    Raises:
        UsageError: the inputs contradict each other, nothing in them can be audited, or another process makes the run.
        OutputError: the warehouse or Spark's working directory cannot be written, or not to the end.
    """
    try:
        return _Audit(spark, request, Progress(tell)).run()
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


class _Audit:
    def __init__(self, spark: SparkSession, request: AuditRequest, progress: Progress) -> None:
        self.spark, self.request, self.progress = spark, request, progress
        name_run(spark, request.run_id)
        self.started_at = datetime.now(UTC)
        self.warehouse = DeltaWarehouse(spark, request.warehouse)
        self.found: Found = discover(request.inputs, request.metadata)
        refuse_useless(self.found)
        self.has_replicas = False
        self.facts: dict[str, ClusterFacts] = {}  # known once the brokers' folders are listed

    def run(self) -> Report:
        roots = self.found.roots
        brokers = count(sum(len(root.brokers) for root in roots), "broker folder")
        said = f"found {brokers} in {count(len(roots), 'cluster')}; preparing tables in {self.request.warehouse}"
        self.progress.begin(Stage.PREPARING, said, clusters=[root.cluster_id for root in roots])
        self.warehouse.create_missing()
        request = self.request
        try:
            held = take(self.warehouse, request.run_id, self._write_begun, started_at=self.started_at, take_over=request.take_over)
            with held, StageProgress(self.spark, self.progress):
                return self._audit(roots, held)
        except UsageError as error:  # of tables that cannot be read, among others
            raise faults.removal(request.warehouse) or error from None

    def _audit(self, roots: Sequence[Root], held: Hold) -> Report:
        settings = self.request.settings
        self.progress.begin(Stage.LISTING)
        sources = [source for root in roots for source in root.sources()]
        listed = inventory(source_rows(self.spark, sources), settings.topics)
        listed = listed.persist(StorageLevel.MEMORY_AND_DISK)
        of_groups, of_transactions = (F.col("topic") == F.lit(topic) for topic in (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
        replicas, files, size, offsets, states, copies, collections, versions = listed.agg(
            F.count(F.when(F.col("is_audited"), F.col("replica"))),
            F.sum(F.size("replica.segments")),
            F.sum(F.aggregate("replica.segments", F.lit(0).cast("bigint"), lambda a, s: a + s.size_bytes)),
            F.count(F.when(of_groups, F.col("replica"))),
            F.count(F.when(of_transactions, F.col("replica"))),
            F.count("metadata_copy"),
            F.count("replica.scans"),
            F.count("versions"),
        ).first() or (0, 0, 0, 0, 0, 0, 0, 0)
        self.has_replicas = bool(replicas)
        if not replicas:
            self.found.problems.append((None, no_replicas(self.request.inputs, settings.topics)))
        suit_input(self.spark, files or 0)
        said = f"reading {count(files or 0, 'segment')} of {count(replicas, 'replica')}, {(size or 0) / 1e6:.1f} MB"
        self.progress.begin(Stage.READING, said, segments=files or 0, replicas=replicas, bytes=size or 0)
        copied = metadata_copies(listed) if copies else {}
        logged = logged_versions(listed) if versions else {}
        now_ms = time.time_ns() // 1_000_000
        for root in roots:
            copies_of, versions_of = copied.get(root.cluster_id, ()), logged.get(root.cluster_id, ())
            known = self.request.acknowledged.of_cluster(root.cluster_id)
            self.facts[root.cluster_id] = cluster_facts(root.head, copies_of, settings, versions_of, now_ms, known)
        self.found.problems += brokers_not_there(self.found, self.facts)
        tasks = min(settings.parallelism or 4 * self.spark.sparkContext.defaultParallelism, max(1, files or 0))
        read = partial(segments, tasks=tasks, total_bytes=size or 0, has_collections=bool(collections), compare=settings.compare)

        def told(is_there: int, of_topic: Column, stage: Callable[..., DataFrame]) -> DataFrame | None:
            """What coordinators say; read a second time, apart, rather than keeping all segments for the sake of a few."""
            of_coordinators = listed.where(of_topic)
            found = stage(gather(of_coordinators, read(of_coordinators)), self.facts) if is_there else None
            return None if found is None else found.persist(StorageLevel.MEMORY_AND_DISK)

        committed, begun = told(offsets, of_groups, commits), told(states, of_transactions, transactions)
        scanned = gather(listed, read(listed))
        scanned = scanned if begun is None else scanned.persist(StorageLevel.MEMORY_AND_DISK)
        gathered = with_transactions(with_commits(scanned, committed), begun)
        if settings.compare == "records":
            gathered = with_keys(gathered.persist(StorageLevel.MEMORY_AND_DISK), self.facts, tasks, size or 0)
        places = {} if held.replaces else self.warehouse.places_of_files(tables.OF_PARTITIONS)
        into_files = partial(judge_into_files, files=partial(TableFiles, places, self.request.run_id))
        audited = (into_files if places else judge)(gathered, self.facts).persist(StorageLevel.MEMORY_AND_DISK)
        outcomes = audited if places else outcomes_of(audited)
        problems = self._problems(listed, [frame for frame in (committed, begun) if frame is not None], outcomes)
        try:
            found = tally(outcomes, first_findings.worst_first, first_findings.WORST)
            self.progress.say(f"compared the replicas of {count(found.audited, 'partition')}", partitions=found.audited)
            for line in first_findings.lines(found.worst, found.finding_count, labels({root.cluster_id: root.path for root in roots})):
                self.progress.say(line)
            self.progress.begin(Stage.WRITING, "writing the tables")
            self._write_tables(None if places else audited, outcomes, problems, found, held)
            self._conclude(found, held)
        finally:
            for frame in (listed, committed, begun, scanned, gathered, audited):
                if frame is not None:
                    frame.unpersist()
        self.progress.end("done")
        return report_of(PastRun(self.warehouse.tables, self.request.run_id))

    def _conclude(self, found: Tally, held: Hold) -> None:
        """Write the run down as complete."""
        code = exit_code(
            *map(totals, (found.severities, found.verdicts, found.acknowledged)),
            records_unread=found.records_unread.total(),
            fail_on=self.request.settings.fail_on,
            has_replicas=self.has_replicas,
            all_inputs_read=self.found.every_input_was_read,
        )
        problems = self.warehouse.tables.columns(tables.INPUT_ERRORS.name, _CLUSTER, run_id=self.request.run_id)
        counted = Counter(problems["cluster_id"].to_pylist())
        attempt = held.complete()
        finished_at = attempt.started_at + timedelta(seconds=round(self.progress.seconds, 1))
        of_run = {"exit_code": code, "finished_at": finished_at}
        of_cluster = {root.cluster_id: self._counts(root, found) | {"input_errors": counted[root.cluster_id]} for root in self.found.roots}
        self._write_runs(attempt, of_run, of_cluster or {NO_CLUSTER: {"input_errors": counted.total()}}, replace=True)
        held.confirm()

    def _counts(self, root: Root, found: Tally) -> dict[str, object]:
        """What the row of a cluster in `audit_runs` says of it."""
        return {
            **about_cluster(root, self.facts[root.cluster_id]),
            "replicas": found.rows[root.cluster_id, tables.REPLICA_LOGS.name],
            "partitions": found.partitions[root.cluster_id],
            "verdict_counts": by_verdict(found.of_cluster(found.verdicts, root.cluster_id)),
            "records_unread": found.records_unread[root.cluster_id],
        }

    def _problems(self, listed: DataFrame, of_coordinators: Sequence[DataFrame], outcomes: DataFrame) -> DataFrame:
        """Every problem as a row of `input_errors`."""
        of_files = listed.where(F.col("problem").isNotNull()).select("cluster_id", "broker_id", "problem.*")
        for told in of_coordinators:
            of_files = of_files.unionByName(told.where(F.col("problem").isNotNull()).select("cluster_id", "broker_id", "problem.*"))
        of_replicas = outcomes.select("cluster_id", F.inline("input_errors"))
        rows = [{"run_id": self.request.run_id, **row} for row in self.found.problem_rows()]
        of_inputs = self.warehouse.frame(tables.INPUT_ERRORS, rows).drop("run_id")
        return self._keyed(of_inputs.unionByName(of_files).unionByName(of_replicas))

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("run_id", F.lit(self.request.run_id))

    def _write_tables(self, audited: DataFrame | None, outcomes: DataFrame, problems: DataFrame, found: Tally, held: Hold) -> None:
        """Write every table but `audit_runs`, a few at a time; `audited` is None where the rows of tables are in files."""
        run_id = self.request.run_id
        known = {cluster: facts.acknowledged for cluster, facts in self.facts.items()}
        history = findings_of.with_history(findings_of.findings(outcomes), self._open_before(), outcomes, run_id, known)
        sizes = totals(found.rows)
        # a commit without rows costs as much as one with rows, and only replaces what an earlier attempt left
        written = [table for table in tables.OF_PARTITIONS if held.replaces or sizes[table.name]]
        jobs: list[tuple[tables.Table, WrittenRows]] = [(table, found.files_of(table.name)) for table in written]
        if audited is not None:
            jobs = [(table, self._keyed(audited.select("cluster_id", F.inline(table.name)))) for table in written]
        jobs += [(tables.INPUT_ERRORS, problems), (tables.FINDINGS, history)]
        self.warehouse.write_all(jobs, run_id, replace=held.replaces, fence=held.attempt.fence)

    def _open_before(self) -> DataFrame | None:
        """What the runs before this one left open, as far as it looks again; None if that is nothing."""
        written = self.warehouse.tables
        # without a replica all found before would be called resolved
        known = written.rows(tables.AUDIT_RUNS.name, RunRow) if self.has_replicas else ()
        runs = [run for run in earlier_runs(known, self.request.run_id) if run.cluster_id in self.facts]
        is_open = (ds.field("status") != str(Status.RESOLVED)) & ds.field("run_id").isin(sorted({run.run_id for run in runs}))
        if not runs or not len(written.columns(tables.FINDINGS.name, _CLUSTER, is_open)):
            return None
        return findings_of.latest_before(self.warehouse.read(tables.FINDINGS), runs, topics=self.request.settings.topics)

    def _write_begun(self, attempt: Attempt, replace: bool) -> None:
        clusters = [root.cluster_id for root in self.found.roots] or [NO_CLUSTER]
        self._write_runs(attempt, {}, {cluster: {} for cluster in clusters}, replace=replace)

    def _write_runs(
        self, attempt: Attempt, of_run: Mapping[str, object], of_cluster: Mapping[str, Mapping[str, object]], *, replace: bool
    ) -> None:
        """The run's rows of `audit_runs`: what is known when it begins, and what `of_run` and `of_cluster`, by cluster id, say besides."""
        request = self.request
        common = {
            "run_id": request.run_id,
            "started_at": attempt.started_at,
            "status": attempt.status,
            "attempt": attempt.number,
            "holder": asdict(attempt.holder) if attempt.holder else None,
            "alive_at": attempt.alive_at,
            "run_date": request.run_date,
            "inputs": list(request.inputs),
            "config": json.dumps(request.settings.model_dump(), sort_keys=True),
            "versions": {"spark": self.spark.version, **dict(versions("delta-spark", "pyarrow"))},
            **of_run,
        }
        rows = [{**common, "cluster_id": cluster_id, **known} for cluster_id, known in of_cluster.items()]
        frame = self.warehouse.frame(tables.AUDIT_RUNS, rows)
        self.warehouse.write_run(tables.AUDIT_RUNS, frame, request.run_id, replace=replace, fence=attempt.version)
