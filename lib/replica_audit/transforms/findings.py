"""Verdicts → findings with a key that is stable over runs, and their status against the run before."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.protocol.verdict import SEVERITIES, Severity, Verdict
from replica_audit.transforms.topics import topic_filter

_COLUMNS = ("cluster_id", "finding_key", "code", "severity", "topic", "partition", "broker_id", "summary")


def findings(audited: DataFrame) -> DataFrame:
    """The findings of a run.

    Args:
        audited: rows of the shape AUDITED.

    Returns:
        cluster_id, finding_key, code, severity, topic, partition, broker_id, summary: one row per verdict that is not clean, per leader
        that cannot be read, and per incident of a broker's log that is a finding.
    """
    verdicts = audited.select("cluster_id", F.inline("replica_verdicts")).where(F.col("severity") != F.lit(str(Severity.NONE)))
    of_followers = verdicts.select(
        "cluster_id",
        F.col("verdict").alias("code"),
        "severity",
        "topic",
        "partition",
        F.col("follower_id").alias("broker_id"),
        F.col("reason").alias("summary"),
    )
    of_leaders = audited.select("cluster_id", F.inline("unreadable_leaders")).select(
        "cluster_id",
        F.lit(str(Verdict.UNREADABLE)).alias("code"),
        F.lit(str(SEVERITIES[Verdict.UNREADABLE])).alias("severity"),
        "topic",
        "partition",
        "broker_id",
        F.concat(F.lit("the leader itself: "), F.col("reason")).alias("summary"),
    )
    logged = audited.select("cluster_id", F.inline("logged_incidents")).where(F.col("severity") != F.lit(str(Severity.NONE)))
    of_logs = logged.select("cluster_id", F.col("kind").alias("code"), "severity", "topic", "partition", "broker_id", "summary")
    replica = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    key = F.concat_ws(":", "code", replica, F.col("broker_id").cast("string"))
    return of_followers.unionByName(of_leaders).unionByName(of_logs).withColumn("finding_key", key).select(*_COLUMNS)


def with_history(current: DataFrame, before: DataFrame, run_id: str) -> DataFrame:
    """Add what the run before knew.

    Args:
        current: what `findings` gives.
        before: rows of the table `findings` of each cluster's complete run before this one.
        run_id: of this run.

    Returns:
        The columns of the table `findings`: new and persisting findings of this run, and those of the run before that are gone, as
        resolved.
    """
    known = before.where(F.col("status") != F.lit("resolved")).select(*(F.col(name).alias(f"before_{name}") for name in before.columns))
    on = (F.col("cluster_id") == F.col("before_cluster_id")) & (F.col("finding_key") == F.col("before_finding_key"))
    joined = current.join(known, on=on, how="full_outer")
    status = (
        F.when(F.col("finding_key").isNull(), F.lit("resolved"))
        .when(F.col("before_finding_key").isNull(), F.lit("new"))
        .otherwise(F.lit("persisting"))
    )
    return joined.select(
        F.lit(run_id).alias("run_id"),
        *(F.coalesce(F.col(name), F.col(f"before_{name}")).alias(name) for name in _COLUMNS),
        F.coalesce("before_first_seen_run_id", F.lit(run_id)).alias("first_seen_run_id"),
        F.when(F.col("finding_key").isNull(), F.col("before_last_seen_run_id")).otherwise(F.lit(run_id)).alias("last_seen_run_id"),
        status.alias("status"),
    )


def latest_before(
    findings_table: DataFrame, complete_runs: DataFrame, *, run_id: str, clusters: Sequence[str], topics: str = ""
) -> DataFrame:
    """What the run before found, as far as this run looks again.

    Args:
        findings_table: rows of the table `findings`.
        complete_runs: rows of `audit_runs` that count.
        run_id: this run.
        clusters: the cluster ids that this run audits.
        topics: the regular expression that limits it; empty for all topics.

    Returns:
        The findings of each of the clusters' latest complete run other than this one.
    """
    latest = (
        complete_runs.where((F.col("run_id") != F.lit(run_id)) & F.col("cluster_id").isin(*clusters))
        .groupBy("cluster_id")
        .agg(F.max_by("run_id", "started_at").alias("run_id"))
        .select("cluster_id", "run_id")
    )
    # not rlike: Java's regular expressions are others than those that chose the topics
    is_wanted = F.udf(topic_filter(topics), "boolean")
    in_scope = findings_table.where(is_wanted("topic")) if topics else findings_table
    return in_scope.join(F.broadcast(latest), on=["cluster_id", "run_id"], how="left_semi")
