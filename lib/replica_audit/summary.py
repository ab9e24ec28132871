"""The rows of a run → the report that people read: counts and the worst findings. No row per replica reaches the driver here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica_audit.protocol.confirmation import FOUND_NOW
from replica_audit.protocol.generation import Generation
from replica_audit.protocol.leadership import INFERRED
from replica_audit.protocol.metadata_image import ElectionKind
from replica_audit.protocol.partition_findings import FindingAbout, PartitionCode
from replica_audit.protocol.verdict import Severity, Verdict
from replica_audit.report.data import (
    Choice,
    Cluster,
    Finding,
    Impact,
    InputProblem,
    OfflinePartition,
    ReplicaFinding,
    Report,
)
from replica_audit.report.finding_rows import OFFLINE_COLUMNS, offline_partition
from replica_audit.report.json_report import CODES_BY_LOSS
from replica_audit.report.outcome import exit_code
from replica_audit.report.worst_first import SEVERITIES, SHOWN_PROBLEMS, VERDICTS_BY_LOSS, by_verdict, labels
from replica_audit.storage.sources import Root

_OFFLINE = str(PartitionCode.OFFLINE_PARTITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The rows of a run: of the shape AUDITED, of `input_errors`, and of `findings` without and with their history."""

    audited: DataFrame
    problems: DataFrame
    current: DataFrame
    history: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the rows do not tell: the run's own facts. `readable`: replicas were found; `complete`: every input could be read.

    `tries_leaders`: with what_if_leaders.
    """

    run_id: str
    warehouse: str
    inputs: tuple[str, ...]
    fail_on: str
    worst: int
    tries_leaders: bool
    seconds: float
    roots: Sequence[Root]
    rules: Mapping[str, Generation]
    readable: bool
    complete: bool


def _matters(audited: DataFrame, *, leader_is_best: bool) -> DataFrame:
    """The partitions that lose something, though the present leader is the best choice; or where another would be better than it."""
    best = F.try_element_at("what_if_leaders", F.lit(1))
    is_best = F.coalesce(best.is_leader, F.lit(False))
    if leader_is_best:
        return audited.where(is_best & (best.lost_offsets > 0))
    return audited.where(F.exists("what_if_leaders", lambda row: row.lost_offsets > 0) & ~is_best)


def _already_lost(audited: DataFrame) -> int:
    """The partitions where brokers have truncated since what no other one holds."""
    return audited.where(F.try_element_at("what_if_leaders", F.lit(1)).already_lost_offsets > 0).count()


def summarise(frames: Frames, about: About) -> Report:
    """Count, and collect the worst of each kind."""
    audited = frames.audited
    counted = audited.select("cluster_id", F.inline("replica_verdicts")).groupBy("cluster_id", "verdict", "leader_source").count().collect()
    elections = F.filter("leader_epochs", lambda row: row.election == F.lit(str(ElectionKind.UNCLEAN)))
    hit = F.filter("consumer_impacts", lambda row: row.affected)
    sizes = {
        row["cluster_id"]: row
        for row in audited.groupBy("cluster_id")
        .agg(
            F.sum(F.size("replica_logs")).alias("replicas"),
            F.count(F.when(F.size("replica_verdicts") > 0, 1)).alias("partitions"),
            F.sum(F.size(elections)).alias("unclean_elections"),
            F.sum(F.size(hit)).alias("affected_positions"),
            F.size(F.array_distinct(F.flatten(F.collect_list(F.transform(hit, lambda row: row.group_id))))).alias("affected_groups"),
        )
        .collect()
    }
    codes = frames.current.groupBy("cluster_id", "code", "severity").count().collect()
    severities = Counter[str]()
    for row in codes:
        severities[row["severity"]] += row["count"]
    problem_counts = {row["cluster_id"]: row["count"] for row in frames.problems.groupBy("cluster_id").count().collect()}
    shown = frames.problems.orderBy("path", "line", "byte_offset").limit(SHOWN_PROBLEMS).collect()
    label = labels({root.cluster_id: root.path for root in about.roots})
    clusters = []
    for root in about.roots:
        rows = [row for row in counted if row["cluster_id"] == root.cluster_id]
        verdicts = {str(v): sum(row["count"] for row in rows if row["verdict"] == str(v)) for v in Verdict}
        size = sizes.get(root.cluster_id)
        clusters.append(
            Cluster(
                cluster_id=root.cluster_id,
                path=str(root.path),
                label=label[root.cluster_id],
                brokers=len({broker.broker_id for broker in root.brokers}),
                replicas=size["replicas"] if size else 0,
                partitions=size["partitions"] if size else 0,
                protocol=str(about.rules[root.cluster_id].protocol),
                protocol_reason=about.rules[root.cluster_id].reason,
                metadata=root.head is not None,
                inferred_leaders=sum(row["count"] for row in rows if row["leader_source"] == INFERRED),
                verdicts=by_verdict(verdicts),
                input_errors=problem_counts.get(root.cluster_id, 0),
                unclean_elections=size["unclean_elections"] if size else 0,
                affected_groups=size["affected_groups"] if size else 0,
                affected_positions=size["affected_positions"] if size else 0,
                offline_partitions=sum(row["count"] for row in codes if row["cluster_id"] == root.cluster_id and row["code"] == _OFFLINE),
            )
        )
    return Report(
        run_id=about.run_id,
        warehouse=about.warehouse,
        inputs=about.inputs,
        exit_code=exit_code(severities, about.fail_on, _all_verdicts(clusters), readable=about.readable, complete=about.complete),
        fail_on=about.fail_on,
        seconds=about.seconds,
        clusters=tuple(clusters),
        findings=tuple(_worst(audited, about.worst)),
        finding_count=sum(severities.values()),
        impacts=tuple(_impacts(audited, about.worst)) if any(cluster.affected_positions for cluster in clusters) else (),
        candidates=tuple(_candidates(audited, about.worst)) if about.tries_leaders else (),
        best_led_partitions=_matters(audited, leader_is_best=True).count() if about.tries_leaders else 0,
        already_lost_partitions=_already_lost(audited) if about.tries_leaders else 0,
        problems=tuple(InputProblem(**{name: row[name] for name in InputProblem.__slots__}) for row in shown),
        problem_count=sum(problem_counts.values()),
        offline=tuple(_offline(frames.history, about.worst)),
        others=tuple(_others(frames.history, about.worst)),
        partition_codes={str(code): total for code in PartitionCode if (total := sum(r["count"] for r in codes if r["code"] == code))},
        changes={row["status"]: row["count"] for row in frames.history.groupBy("status").count().orderBy("status").collect()},
    )


def all_findings(table: DataFrame, statuses: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The rows of a run's `findings` of these statuses: partitions without a leader, then by severity, by code, and by what is lost.

    They come one part of the sorted rows after the other; no more than that is on the driver.
    """
    rows = table.where(F.col("status").isin(*statuses)).orderBy(
        F.col("code") != F.lit(_OFFLINE),
        _rank("severity", SEVERITIES),
        _rank("code", CODES_BY_LOSS),
        F.col("removed_committed").desc_nulls_last(),
        F.col("removed_records").desc_nulls_last(),
        *("cluster_id", "topic", "partition", "broker_id"),
    )
    for row in rows.toLocalIterator():
        yield row.asDict(recursive=True)


def _offline(history: DataFrame, count: int) -> list[OfflinePartition]:
    """Partitions that nobody leads, those of clusters that run first."""
    rows = history.where((F.col("code") == F.lit(_OFFLINE)) & F.col("status").isin(*FOUND_NOW))
    first = rows.orderBy("cluster_stopped", "cluster_id", "topic", "partition").limit(count)
    return [offline_partition(row.asDict(recursive=True)) for row in first.select(*OFFLINE_COLUMNS).collect()]


def _others(history: DataFrame, count: int) -> list[ReplicaFinding]:
    """The other findings that are no verdict on a follower."""
    is_other = ~F.col("code").isin(_OFFLINE) & (
        (F.col("about") != F.lit(str(FindingAbout.FOLLOWER))) | F.col("code").isin(*map(str, PartitionCode))
    )
    rows = history.where(is_other & F.col("status").isin(*FOUND_NOW))
    first = rows.orderBy(_rank("severity", SEVERITIES), "code", "cluster_id", "topic", "partition", "broker_id").limit(count)
    return [ReplicaFinding(**row.asDict()) for row in first.select(*ReplicaFinding.__slots__).collect()]


def _impacts(audited: DataFrame, count: int) -> list[Impact]:
    """The positions of groups that a truncation affects, those with most records gone first."""
    rows = (
        audited.select("cluster_id", F.inline("consumer_impacts"))
        .where("affected")
        .orderBy(F.col("records_gone").desc_nulls_last(), "cluster_id", "topic", "partition", "group_id")
        .limit(count)
        .select(*Impact.__slots__)
    )
    return [Impact(**row.asDict()) for row in rows.collect()]


def _candidates(audited: DataFrame, count: int) -> list[Choice]:
    """Partitions in which another leader would lose less: every replica as the leader, the best first."""
    first = F.try_element_at("what_if_leaders", F.lit(1))
    better = _matters(audited, leader_is_best=False)
    worst = better.orderBy(first.lost_committed.desc(), "cluster_id", first.topic, first.partition).limit(count)
    chosen = worst.select("cluster_id", "what_if_leaders").collect()
    names = [name for name in Choice.__slots__ if name != "cluster_id"]
    return [Choice(cluster_id=row.cluster_id, **{name: one[name] for name in names}) for row in chosen for one in row.what_if_leaders]


def _worst(audited: DataFrame, count: int) -> list[Finding]:
    """The worst findings: by severity, then by what was committed and is lost, then by records."""
    pair, outcomes = ["cluster_id", "topic", "partition", "leader_id", "follower_id"], ["fetcher_fails", "still_diverged"]
    applied = audited.select("cluster_id", F.inline("truncation_points")).where("applies").select(*pair, *outcomes)
    rows = (
        audited.select("cluster_id", F.inline("replica_verdicts"))
        .where(F.col("severity") != F.lit(str(Severity.NONE)))
        .join(applied, on=pair, how="left")
        .orderBy(
            _rank("severity", SEVERITIES),
            _rank("verdict", VERDICTS_BY_LOSS),
            F.col("removed_committed").desc_nulls_last(),
            F.col("removed_records").desc_nulls_last(),
            "cluster_id",
            "topic",
            "partition",
            "follower_id",
        )
        .limit(count)
        .select(
            *(name for name in Finding.__slots__ if name not in outcomes),
            *(F.coalesce(name, F.lit(False)).alias(name) for name in outcomes),
        )
        .collect()
    )
    return [Finding(**row.asDict()) for row in rows]


def _rank(column: str, order: Sequence[str]) -> Column:
    """The place of a column's value in an order."""
    return F.array_position(F.array(*(F.lit(value) for value in order)), F.col(column))


def _all_verdicts(clusters: Sequence[Cluster]) -> Counter[str]:
    return sum((Counter(cluster.verdicts) for cluster in clusters), Counter[str]())
