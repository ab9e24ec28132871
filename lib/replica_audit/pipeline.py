"""The order of an audit: sources → inventory → segments → partitions → tables → findings → report. The only module that knows it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from replica_audit import schemas
from replica_audit.config import Settings
from replica_audit.model import Problem
from replica_audit.protocol.generation import Generation, generation
from replica_audit.protocol.leadership import INFERRED
from replica_audit.protocol.verdict import Severity, Verdict
from replica_audit.report.data import Cluster, Finding, InputProblem, Report
from replica_audit.storage.session import StageProgress
from replica_audit.storage.sources import Found, Root, discover
from replica_audit.storage.tables import Warehouse
from replica_audit.transforms import findings as findings_of
from replica_audit.transforms import partitions
from replica_audit.transforms.inventory import SOURCES, inventory
from replica_audit.transforms.segments import segments

NO_CLUSTER = "none"
_SHOWN_PROBLEMS = 20
_FROM_AUDITED = (
    schemas.SEGMENT_EPOCHS,
    schemas.REPLICA_LOGS,
    schemas.EPOCH_START_OFFSETS,
    schemas.EPOCH_END_OFFSETS,
    schemas.TRUNCATION_POINTS,
    schemas.REPLICA_VERDICTS,
)
_SEVERITIES = [str(severity) for severity in Severity]
_VERDICTS_BY_LOSS = [str(Verdict.COMMITTED_LOSS), *(str(verdict) for verdict in Verdict if verdict is not Verdict.COMMITTED_LOSS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to audit. `inputs` are roots or folders of roots; `metadata` a cluster-metadata.json given apart."""

    inputs: tuple[str, ...]
    warehouse: str
    settings: Settings
    run_id: str
    run_date: date
    metadata: Path | None = None


def audit(spark: SparkSession, request: Request, tell: Callable[[str], None]) -> Report:
    """Run one audit and write its tables.

    Args:
        spark: a session with Delta.
        request: what to audit.
        tell: takes a line of progress.

    Raises:
        UsageError: the inputs contradict each other, or the warehouse cannot be written.
    """
    return _Audit(spark, request, tell).run()


class _Audit:
    def __init__(self, spark: SparkSession, request: Request, tell: Callable[[str], None]) -> None:
        self.spark, self.request, self._tell = spark, request, tell
        self.began = time.monotonic()
        self.started_at = datetime.now(UTC)
        self.warehouse = Warehouse(spark, request.warehouse)
        self.found: Found = discover(request.inputs, request.metadata)
        self.seen_before = False
        self.rules = {root.cluster_id: self._rule(root) for root in self.found.roots}

    def tell(self, line: str) -> None:
        self._tell(f"[{time.monotonic() - self.began:5.1f} s] {line}")

    def run(self) -> Report:
        roots = self.found.roots
        brokers = sum(len(root.brokers) for root in roots)
        self.tell(f"found {brokers} broker folder(s) in {len(roots)} cluster(s); preparing tables in {self.request.warehouse}")
        self.warehouse.create_missing()
        self.seen_before = self.warehouse.knows(self.request.run_id)
        self._write_runs(None, replace=self.seen_before)
        with StageProgress(self.spark, self.tell):
            return self._audit(roots)

    def _rule(self, root: Root) -> Generation:
        head = root.head
        return generation(
            requested=self.request.settings.protocol,
            inter_broker_protocol=head.inter_broker_protocol if head else None,
            metadata_version=head.metadata_version if head else None,
            broker_version=head.kafka_version if head else None,
        )

    def _audit(self, roots: Sequence[Root]) -> Report:
        settings = self.request.settings
        sources = self._sources(roots)
        listed = inventory(self.spark.createDataFrame(sources, SOURCES).repartition(max(1, len(sources))), settings.topics)
        listed = listed.persist(StorageLevel.MEMORY_AND_DISK)
        replicas, files, size = listed.agg(
            F.count("replica"),
            F.sum(F.size("replica.segments")),
            F.sum(F.aggregate("replica.segments", F.lit(0).cast("bigint"), lambda a, s: a + s.size_bytes)),
        ).first() or (0, 0, 0)
        if not replicas:
            self.found.problems.append((None, _nothing_found(self.request)))
        self.tell(f"reading {files or 0} segment(s) of {replicas} replica(s), {(size or 0) / 1e6:.1f} MB")
        parallelism = settings.parallelism or 4 * self.spark.sparkContext.defaultParallelism
        scanned = segments(listed, min(parallelism, max(1, files or 0)))
        facts = {
            root.cluster_id: partitions.ClusterFacts(
                applies=self.rules[root.cluster_id].protocol,
                broker_states=root.head.broker_states if root.head else {},
                simultaneous=settings.simultaneous_copies,
            )
            for root in roots
        }
        audited = partitions.audit(partitions.gather(listed, scanned), facts).persist(StorageLevel.MEMORY_AND_DISK)
        problems = self._problems(listed, audited).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self.tell(f"comparing the replicas of {audited.count()} partition(s)")
            self.tell("writing the tables")
            current = findings_of.findings(audited).persist(StorageLevel.MEMORY_AND_DISK)
            history = self._write_tables(audited, problems, current)
            report = self._report(roots, audited, problems, current, history, readable=bool(replicas))
            self._write_runs(report, replace=True)
            self.tell("done")
            return report
        finally:
            for frame in (listed, audited, problems):
                frame.unpersist()

    def _sources(self, roots: Sequence[Root]) -> list[tuple[str, int | None, str, str]]:
        sources: list[tuple[str, int | None, str, str]] = []
        for root in roots:
            sources += [(root.cluster_id, broker.broker_id, str(broker.path), "broker") for broker in root.brokers]
            if root.metadata_path:
                sources.append((root.cluster_id, None, str(root.metadata_path), "metadata"))
        return sources

    def _problems(self, listed: DataFrame, audited: DataFrame) -> DataFrame:
        """Every problem as a row of `input_errors`."""
        of_files = listed.where(F.col("problem").isNotNull()).select("cluster_id", "broker_id", "problem.*")
        of_replicas = audited.select("cluster_id", F.inline("input_errors"))
        rows = [
            {
                "run_id": self.request.run_id,
                "cluster_id": cluster or NO_CLUSTER,
                **{name: getattr(problem, name) for name in problem.__slots__},
            }
            for cluster, problem in self.found.problems
        ]
        of_inputs = self.warehouse.frame(schemas.INPUT_ERRORS, rows).drop("run_id")
        return self._keyed(of_inputs.unionByName(of_files).unionByName(of_replicas))

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("run_id", F.lit(self.request.run_id))

    def _write_tables(self, audited: DataFrame, problems: DataFrame, current: DataFrame) -> DataFrame:
        """Write every table but `audit_runs`, a few at a time; returns the findings with their history."""
        run_id = self.request.run_id
        before = findings_of.latest_before(
            self.warehouse.read(schemas.FINDINGS),
            self.warehouse.complete_runs(),
            run_id=run_id,
            clusters=list(self.rules),
            topics=self.request.settings.topics,
        )
        history = findings_of.with_history(current, before, run_id).persist(StorageLevel.MEMORY_AND_DISK)
        jobs = [(table, self._keyed(audited.select("cluster_id", F.inline(table.name)))) for table in _FROM_AUDITED]
        jobs += [(schemas.INPUT_ERRORS, problems), (schemas.FINDINGS, history)]
        self.warehouse.write_all(jobs, run_id, replace=self.seen_before)
        return history

    def _report(
        self, roots: Sequence[Root], audited: DataFrame, problems: DataFrame, current: DataFrame, history: DataFrame, *, readable: bool
    ) -> Report:
        settings = self.request.settings
        counted = (
            audited.select("cluster_id", F.inline("replica_verdicts")).groupBy("cluster_id", "verdict", "leader_source").count().collect()
        )
        sizes = {
            row["cluster_id"]: row
            for row in audited.groupBy("cluster_id")
            .agg(F.sum(F.size("replica_logs")).alias("replicas"), F.count(F.when(F.size("replica_verdicts") > 0, 1)).alias("partitions"))
            .collect()
        }
        severities = {row["severity"]: row["count"] for row in current.groupBy("severity").count().collect()}
        problem_counts = {row["cluster_id"]: row["count"] for row in problems.groupBy("cluster_id").count().collect()}
        shown = problems.orderBy("path", "line", "byte_offset").limit(_SHOWN_PROBLEMS).collect()
        labels = _labels(roots)
        clusters = []
        for root in roots:
            rows = [row for row in counted if row["cluster_id"] == root.cluster_id]
            by_verdict = {str(v): sum(row["count"] for row in rows if row["verdict"] == str(v)) for v in Verdict}
            size = sizes.get(root.cluster_id)
            clusters.append(
                Cluster(
                    cluster_id=root.cluster_id,
                    path=str(root.path),
                    label=labels[root.cluster_id],
                    brokers=len({broker.broker_id for broker in root.brokers}),
                    replicas=size["replicas"] if size else 0,
                    partitions=size["partitions"] if size else 0,
                    protocol=str(self.rules[root.cluster_id].protocol),
                    protocol_reason=self.rules[root.cluster_id].reason,
                    metadata=root.head is not None,
                    inferred_leaders=sum(row["count"] for row in rows if row["leader_source"] == INFERRED),
                    verdicts={verdict: count for verdict, count in by_verdict.items() if count},
                    input_errors=problem_counts.get(root.cluster_id, 0),
                )
            )
        return Report(
            run_id=self.request.run_id,
            warehouse=self.request.warehouse,
            exit_code=_exit_code(severities, settings.fail_on, clusters, readable=readable),
            fail_on=settings.fail_on,
            seconds=round(time.monotonic() - self.began, 1),
            clusters=tuple(clusters),
            findings=tuple(_worst(audited, settings.worst)),
            finding_count=sum(severities.values()),
            problems=tuple(InputProblem(**{name: row[name] for name in InputProblem.__slots__}) for row in shown),
            problem_count=sum(problem_counts.values()),
            changes={row["status"]: row["count"] for row in history.groupBy("status").count().orderBy("status").collect()},
        )

    def _write_runs(self, report: Report | None, *, replace: bool) -> None:
        """The run's rows of `audit_runs`: `running` while `report` is None, `complete` with it."""
        request = self.request
        common = {
            "run_id": request.run_id,
            "started_at": self.started_at,
            "finished_at": datetime.now(UTC) if report else None,
            "status": "complete" if report else "running",
            "exit_code": report.exit_code if report else None,
            "run_date": request.run_date,
            "inputs": list(request.inputs),
            "config": json.dumps(request.settings.model_dump(), sort_keys=True),
            "versions": _versions(self.spark),
        }
        clusters = {cluster.cluster_id: cluster for cluster in report.clusters} if report else {}
        rows = []
        for cluster_id in [root.cluster_id for root in self.found.roots] or [NO_CLUSTER]:
            cluster, rule = clusters.get(cluster_id), self.rules.get(cluster_id)
            rows.append(
                {
                    **common,
                    "cluster_id": cluster_id,
                    "protocol": str(rule.protocol) if rule else None,
                    "protocol_reason": rule.reason if rule else None,
                    "replicas": cluster.replicas if cluster else None,
                    "partitions": cluster.partitions if cluster else None,
                    "verdict_counts": cluster.verdicts if cluster else None,
                    "input_errors": (cluster.input_errors if cluster else report.problem_count) if report else None,
                }
            )
        self.warehouse.write_run(schemas.AUDIT_RUNS, self.warehouse.frame(schemas.AUDIT_RUNS, rows), request.run_id, replace=replace)


def _nothing_found(request: Request) -> Problem:
    chosen = f" of a topic that matches {request.settings.topics!r}" if request.settings.topics else ""
    return Problem(
        path=", ".join(request.inputs),
        kind="input",
        code="no-replicas",
        detail=f"no replica directory{chosen} was found",
        remedy="check --topics and --input" if chosen else "give the directories that hold TOPIC-PARTITION folders with .log files",
    )


def _labels(roots: Sequence[Root]) -> dict[str, str]:
    """For each cluster the shortest end of its path that no other root shares."""
    depth = 1
    while len({root.path.parts[-depth:] for root in roots}) < len(roots):
        depth += 1
    return {root.cluster_id: "/".join(root.path.parts[-depth:]) for root in roots}


def _worst(audited: DataFrame, count: int) -> list[Finding]:
    """The worst findings: by severity, then by what was committed and is lost, then by records."""
    fails = audited.select("cluster_id", F.inline("truncation_points")).where("applies")
    fails = fails.select("cluster_id", "topic", "partition", "leader_id", "follower_id", "fetcher_fails")
    rows = (
        audited.select("cluster_id", F.inline("replica_verdicts"))
        .where(F.col("severity") != F.lit(str(Severity.NONE)))
        .join(fails, on=["cluster_id", "topic", "partition", "leader_id", "follower_id"], how="left")
        .orderBy(
            _rank("severity", _SEVERITIES),
            _rank("verdict", _VERDICTS_BY_LOSS),
            F.col("removed_below_high_watermark").desc_nulls_last(),
            F.col("removed_records").desc_nulls_last(),
            "cluster_id",
            "topic",
            "partition",
            "follower_id",
        )
        .limit(count)
        .select(
            *(name for name in Finding.__slots__ if name != "fetcher_fails"),
            F.coalesce("fetcher_fails", F.lit(False)).alias("fetcher_fails"),
        )
        .collect()
    )
    return [Finding(**row.asDict()) for row in rows]


def _rank(column: str, order: Sequence[str]) -> Column:
    """The place of a column's value in an order."""
    return F.array_position(F.array(*(F.lit(value) for value in order)), F.col(column))


def _exit_code(severities: dict[str, int], fail_on: str, clusters: Sequence[Cluster], *, readable: bool) -> int:
    """0 nothing found, 1 findings at or above `fail_on`, 2 nothing readable, 3 nothing at or above it but some inconclusive."""
    if not readable:
        return 2
    loud = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    if any(severities.get(severity) for severity in loud):
        return 1
    return 3 if any(cluster.verdicts.get(str(Verdict.INCONCLUSIVE)) for cluster in clusters) else 0


def _versions(spark: SparkSession) -> dict[str, str]:
    versions = {"spark": spark.version}
    for package in ("replica-audit", "delta-spark", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed as a package"
    return versions
