"""The order of an audit: sources → inventory → segments → partitions → findings → tables → report. `local_run` keeps it without Spark."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit.engine import findings as findings_of
from replica_audit.engine.spark import (
    Amounts,
    commits,
    gather,
    inventory,
    judge,
    judge_into_files,
    log_directories,
    logged_versions,
    metadata_copies,
    outcomes_of,
    segments,
    source_rows,
    transactions,
    with_commits,
    with_keys,
    with_transactions,
)
from replica_audit.engine.tally import Tally, tally, totals
from replica_audit.errors import AuditError, OutputError, UsageError
from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica_audit.partition.known.cluster_facts import ClusterFacts, cluster_facts
from replica_audit.past.agreement import RunNumbers, disagreement
from replica_audit.past.doubts import doubts_of
from replica_audit.past.earlier_runs import MissingInput, PresentCluster, earlier_runs, missing_input, refuse_damaged, without_acknowledged
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.past.starts import broker_starts, known_of_brokers, open_outcomes
from replica_audit.pipeline.request import AuditRequest
from replica_audit.program import versions
from replica_audit.progress import Progress, Stage, TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.report.facts.assessment import by_verdict, exit_code, labels
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import findings_text
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, REPLICA_LOGS
from replica_audit.rows.arrow import WrittenFile
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.runs import NO_CLUSTER, AuditRun
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.folders import location
from replica_audit.storage.inputs.sources import Found, Root, about_cluster, discover, problems_of_input
from replica_audit.storage.session import StageProgress, own_session, suit_size
from replica_audit.storage.warehouse import faults
from replica_audit.storage.warehouse.holds import Attempt, Hold, take
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from replica_audit.words import count


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """The rows of one run about some clusters, by their ids."""

    warehouse: DeltaWarehouse
    request: AuditRequest
    clusters: tuple[str, ...]

    def begin(self, attempt: Attempt, replace: bool) -> None:
        """Write that the run has begun."""
        self.write(attempt, {}, {cluster: {} for cluster in self.clusters or (NO_CLUSTER,)}, replace=replace)

    def write(
        self, attempt: Attempt, of_run: Mapping[str, object], of_cluster: Mapping[str, Mapping[str, object]], *, replace: bool
    ) -> None:
        """Write what is known when the run begins, and what `of_run` and `of_cluster`, by cluster id, say besides."""
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
            "versions": {"spark": self.warehouse.spark.version, **dict(versions("delta-spark", "pyarrow"))},
            **of_run,
        }
        rows = [{**common, "cluster_id": cluster_id, **known} for cluster_id, known in of_cluster.items()]
        frame = self.warehouse.frame(AUDIT_RUNS, rows)
        self.warehouse.write_run(AUDIT_RUNS, frame, request.run_id, replace=replace, fence=attempt.version)


Made = Callable[[str], DataFrame | Sequence[WrittenFile]]
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
            return _Audit(own, request, Progress(tell)).run()
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
        self.started_at = datetime.now(UTC)
        self.warehouse = DeltaWarehouse(spark, request.warehouse)
        self.found: Found = discover(request.inputs, request.metadata, follow_links=request.settings.follow_links)
        refuse_useless(self.found)
        self.has_replicas = False
        self.facts: dict[str, ClusterFacts] = {}  # known once the brokers' folders are listed
        clusters = tuple(root.cluster_id for root in self.found.roots)
        self.rows = RunRows(warehouse=self.warehouse, request=request, clusters=clusters)
        self.missing: list[MissingInput] = []
        self.kept: list[DataFrame] = []  # in Spark's storage until the run ends

    def run(self) -> Report:
        roots = self.found.roots
        brokers = count(sum(len(root.brokers) for root in roots), "broker folder")
        said = f"found {brokers} in {count(len(roots), 'cluster')}; preparing tables in {self.request.warehouse}"
        self.progress.begin(Stage.PREPARING, said, clusters=[root.cluster_id for root in roots])
        request = self.request
        self.warehouse.create_missing(lambda kept: refuse_damaged(kept, request.run_id))
        try:
            held = take(self.warehouse, request.run_id, self.rows.begin, started_at=self.started_at, take_over=request.take_over)
            with held, StageProgress(self.spark, self.progress):
                return self._audit(roots, held)
        except UsageError as error:  # of tables that cannot be read, among others
            raise faults.removal(request.warehouse) or error from None
        finally:
            for frame in self.kept:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def _audit(self, roots: Sequence[Root], held: Hold) -> Report:
        settings, request = self.request.settings, self.request
        self.progress.begin(Stage.LISTING)
        sources = [source for root in roots for source in root.sources()]
        listed = self._keep(inventory(source_rows(self.spark, sources), settings.topics))
        seen = Amounts.of(listed)
        self.has_replicas = bool(seen.replicas)
        copied = metadata_copies(listed) if seen.copies else {}
        logged = logged_versions(listed) if seen.versions else {}
        directories = log_directories(listed)
        now_ms = time.time_ns() // 1_000_000
        for root in roots:
            copies_of, versions_of = copied.get(root.cluster_id, ()), logged.get(root.cluster_id, ())
            known = request.acknowledged.of_cluster(root.cluster_id)
            of_brokers = directories.get(root.cluster_id, ())
            self.facts[root.cluster_id] = cluster_facts(root.head, copies_of, settings, versions_of, now_ms, known, of_brokers)
        of_input = problems_of_input(self.found, self.facts, request.inputs, settings.topics, has_replicas=self.has_replicas)
        self.found.problems += of_input
        self.missing = self._missing_input()

        def told(is_there: int, topic: str, stage: Callable[..., DataFrame]) -> DataFrame | None:
            """What coordinators say; read a second time, apart, rather than keeping all segments for the sake of a few."""
            of_coordinators = listed.where(F.col("topic") == F.lit(topic))
            found = stage(gather(of_coordinators, read(of_coordinators)), self.facts) if is_there else None
            return None if found is None else self._keep(found)

        read = self._reading(seen)
        committed = told(seen.offsets, GROUP_OFFSETS_TOPIC, commits)
        begun = told(seen.states, TRANSACTIONS_TOPIC, transactions)
        suit_size(self.spark, seen.files)
        said = f"reading {count(seen.files, 'segment')} of {count(seen.replicas, 'replica')}, {seen.size / 1e6:.1f} MB"
        self.progress.begin(Stage.READING, said, segments=seen.files, replicas=seen.replicas, bytes=seen.size)
        scanned = gather(listed, read(listed))
        scanned = scanned if begun is None else self._keep(scanned)
        gathered = with_transactions(with_commits(scanned, committed), begun)
        if settings.compare == "records":
            gathered = with_keys(self._keep(gathered), self.facts, self._tasks_for(seen.files), seen.size)
        places = {} if held.replaces else self.warehouse.places_of_files(OF_PARTITIONS)
        into_files = partial(judge_into_files, files=partial(TableFiles, places, request.run_id))
        audited = self._keep((into_files if places else judge)(gathered, self.facts))
        outcomes = audited if places else outcomes_of(audited)
        problems = self._problems([listed, *(frame for frame in (committed, begun) if frame is not None)], outcomes)
        found = tally(outcomes, findings_text.worst_first, findings_text.WORST)
        self.progress.say(f"compared the replicas of {count(found.audited, 'partition')}", partitions=found.audited)
        for line in findings_text.lines(found.worst, found.finding_count, labels({root.cluster_id: root.path for root in roots})):
            self.progress.say(line)
        self.progress.begin(Stage.WRITING, "writing the tables")
        made = found.files_of if places else partial(self._rows_of, audited)
        self._write_tables(made, outcomes, problems, found, held)
        self._conclude(found, held)
        self.progress.end("done")
        return report_of(PastRun(self.warehouse.tables, request.run_id))

    def _missing_input(self) -> list[MissingInput]:
        """What earlier runs of the same inputs had, and this one lacks; of a run that finds nothing at all that is everything."""
        if not self.has_replicas:
            return []
        present = [
            PresentCluster(
                cluster_id=root.cluster_id,
                path=str(root.path),
                broker_ids=[broker.broker_id for broker in root.brokers],
                named_broker_ids=self.facts[root.cluster_id].named,
            )
            for root in self.found.roots
        ]
        places = [str(location(given)) for given in self.request.inputs]
        runs = self.warehouse.tables.rows(AUDIT_RUNS.name, AuditRun)
        found = missing_input(runs, self.request.run_id, present, self.request.inputs, places)
        missing = list(without_acknowledged(found, self.request.acknowledged))
        for one in missing:
            lacked = "the whole cluster" if one.broker_ids is None else f"broker {', '.join(map(str, one.broker_ids))}"
            self.progress.say(f"missing from the input: {lacked} of {one.cluster_id}, which run {_last_seen(one)} read")
        return missing

    def _missing_brokers(self) -> dict[str, tuple[int, ...]]:
        """By cluster the brokers that an earlier run read and this input lacks; of a whole cluster that is missing all that were known."""
        return {one.cluster_id: tuple(one.last.broker_ids or () if one.broker_ids is None else one.broker_ids) for one in self.missing}

    def _tasks_for(self, files: int) -> int:
        return min(self.request.settings.parallelism or 4 * self.spark.sparkContext.defaultParallelism, max(1, files))

    def _reading(self, there: Amounts) -> Callable[[DataFrame], DataFrame]:
        """What reads the segments of a listing that has so much."""
        compare, tasks = self.request.settings.compare, self._tasks_for(there.files)
        has_collections, has_logs = bool(there.collections), bool(there.logs)
        return partial(segments, tasks=tasks, total_bytes=there.size, has_collections=has_collections, has_logs=has_logs, compare=compare)

    def _conclude(self, found: Tally, held: Hold) -> None:
        """Write the run down as complete.

        Raises:
            OutputError: two of its tables do not agree: the run does not count.
        """
        starts = broker_starts(self.warehouse.tables, self.request.run_id, known_of_brokers(self.facts, self._missing_brokers()))
        rows = self.warehouse.frame(BROKER_STARTS, [as_dict(row) for row in starts])
        self.warehouse.write_all([(BROKER_STARTS, rows)], self.request.run_id, replace=held.replaces, fence=held.attempt.fence)
        code = exit_code(
            *map(totals, (found.severities, found.verdicts, found.acknowledged)),
            starts=open_outcomes(self.warehouse.tables, self.request.run_id),
            doubts=doubts_of(self.warehouse.tables, self.request.run_id),
            records_unread=found.records_unread.total(),
            fail_on=self.request.settings.fail_on,
            has_replicas=self.has_replicas,
            all_inputs_read=self.found.every_input_was_read and not self.missing,
        )
        written = self.warehouse.tables
        problems = written.columns(INPUT_ERRORS.name, _CLUSTER, run_id=self.request.run_id)
        counted = Counter(problems["cluster_id"].to_pylist())
        sizes = totals(found.rows)
        table_rows = {table.name: sizes[table.name] for table in OF_PARTITIONS} | {INPUT_ERRORS.name: len(problems)}
        table_rows[BROKER_STARTS.name] = len(starts)
        table_rows[FINDINGS.name] = written.count(FINDINGS.name, run_id=self.request.run_id) or 0
        of_cluster = {root.cluster_id: {**self._counts(root, found), "input_errors": counted[root.cluster_id]} for root in self.found.roots}
        self._refuse_lost_rows(RunNumbers(table_rows=table_rows, of_cluster=of_cluster, found=found.findings))
        attempt = held.complete()
        finished_at = attempt.started_at + timedelta(seconds=round(self.progress.seconds, 1))
        of_run = {"exit_code": code, "finished_at": finished_at, "table_rows": table_rows}
        for one in self.missing:
            if one.broker_ids is None:
                of_cluster[one.cluster_id] = _missing_cluster(one)
            else:
                of_cluster[one.cluster_id]["missing_broker_ids"] = list(one.broker_ids)
        self.rows.write(attempt, of_run, of_cluster or {NO_CLUSTER: {"input_errors": counted.total()}}, replace=True)
        held.confirm()

    def _refuse_lost_rows(self, numbers: RunNumbers) -> None:
        lost = disagreement(self.warehouse.tables, self.request.run_id, numbers)
        if lost is not None:
            raise OutputError(
                f"--run-id {self.request.run_id} does not count, rows were lost on the way: {lost.sentence()}; most likely executors of "
                "Spark were killed: give the same --run-id again"
            )

    def _counts(self, root: Root, found: Tally) -> dict[str, object]:
        """What the row of a cluster in `audit_runs` says of it."""
        return {
            **about_cluster(root, self.facts[root.cluster_id]),
            "replicas": found.rows[root.cluster_id, REPLICA_LOGS.name],
            "partitions": found.partitions[root.cluster_id],
            "verdict_counts": by_verdict(found.of_cluster(found.verdicts, root.cluster_id)),
            "proven_healthy": found.proven_healthy[root.cluster_id],
            "records_unread": found.records_unread[root.cluster_id],
        }

    def _problems(self, told: Sequence[DataFrame], outcomes: DataFrame) -> DataFrame:
        """Every problem as a row of `input_errors`."""
        found = [frame.where(F.col("problem").isNotNull()).select("cluster_id", "broker_id", "problem.*") for frame in told]
        of_files = reduce(DataFrame.unionByName, found)
        of_replicas = outcomes.select("cluster_id", F.inline("input_errors"))
        rows = [{"run_id": self.request.run_id, **row} for row in self.found.problem_rows()]
        of_inputs = self.warehouse.frame(INPUT_ERRORS, rows).drop("run_id")
        return self._keyed(of_inputs.unionByName(of_files).unionByName(of_replicas))

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("run_id", F.lit(self.request.run_id))

    def _rows_of(self, audited: DataFrame, table: str) -> DataFrame:
        return self._keyed(audited.select("cluster_id", F.inline(table)))

    def _write_tables(self, made: Made, outcomes: DataFrame, problems: DataFrame, found: Tally, held: Hold) -> None:
        """Write every table but `audit_runs`, a few at a time; `made` gives what this run made of a table of partitions, by its name."""
        run_id = self.request.run_id
        known = {cluster: facts.acknowledged for cluster, facts in self.facts.items()}
        missing = [one.cluster_id for one in self.missing if one.broker_ids is None]
        known |= {cluster: self.request.acknowledged.of_cluster(cluster) for cluster in missing}
        history = findings_of.with_history(
            findings_of.findings(outcomes),
            self._open_findings([*self.facts, *missing]),
            outcomes,
            run_id,
            known,
        )
        sizes = totals(found.rows)
        # a commit without rows costs as much as one with rows, and only replaces what an earlier attempt left
        jobs = [(table, made(table.name)) for table in OF_PARTITIONS if held.replaces or sizes[table.name]]
        jobs += [(INPUT_ERRORS, problems), (FINDINGS, history)]
        self.warehouse.write_all(jobs, run_id, replace=held.replaces, fence=held.attempt.fence)

    def _open_findings(self, clusters: Collection[str]) -> DataFrame | None:
        """What the runs before this one left open in some clusters, as far as it looks again; None if that is nothing."""
        if not self.has_replicas:  # all found before would be called resolved
            return None
        written = self.warehouse.tables
        known = written.rows(AUDIT_RUNS.name, AuditRun)
        runs = [run for run in earlier_runs(known, self.request.run_id) if run.cluster_id in clusters]
        is_open = (ds.field("status") != str(Status.RESOLVED)) & ds.field("run_id").isin(sorted({run.run_id for run in runs}))
        if not runs or not len(written.columns(FINDINGS.name, _CLUSTER, is_open)):
            return None
        return findings_of.latest_before(self.warehouse.read(FINDINGS), runs, topics=self.request.settings.topics)


def _last_seen(one: MissingInput) -> str:
    return one.last.last_seen_run_id or one.last.run_id


def _missing_cluster(one: MissingInput) -> dict[str, object]:
    """What the row of a cluster in `audit_runs` says that the input lacks: nothing was read of it."""
    last = one.last
    return {
        "path": last.path,
        "protocol": last.protocol,
        "protocol_reason": last.protocol_reason,
        "brokers": 0,
        "replicas": 0,
        "partitions": 0,
        "input_errors": 0,
        "verdict_counts": {},
        "proven_healthy": 0,
        "records_unread": 0,
        "has_metadata": False,
        "broker_ids": None if last.broker_ids is None else list(last.broker_ids),
        "last_seen_run_id": _last_seen(one),
    }
