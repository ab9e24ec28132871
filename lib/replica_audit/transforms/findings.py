"""The findings of a run, and what they are against those of earlier runs: new, persisting, resolved or unconfirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit import tables
from replica_audit.protocol.confirmation import Check, Open, Status, is_resolved
from replica_audit.tables.encoding import batch_of, row_of
from replica_audit.tables.findings import CheckedPartition, FoundFinding, RunFinding
from replica_audit.transforms.arrow import spark_schema
from replica_audit.transforms.rows import Row, mapped
from replica_audit.transforms.topics import topic_filter

_PARTITION = ["cluster_id", "topic", "partition"]


def findings(audited: DataFrame) -> DataFrame:
    """The findings of a run.

    Args:
        audited: rows of the shape AUDITED.

    Returns:
        cluster_id and the columns of the shape FOUND: one row per finding.
    """
    return audited.select("cluster_id", F.inline("found"))


def with_history(current: DataFrame, before: DataFrame, audited: DataFrame, run_id: str) -> DataFrame:
    """Add what earlier runs left open.

    Args:
        current: what `findings` gives.
        before: rows of the table `findings` of each cluster's complete run before this one.
        audited: rows of the shape AUDITED, of which `checked` tells what was found in order.
        run_id: of this run.

    Returns:
        The columns of the table `findings`, as `history_row` makes them.
    """
    names = [column.name for column in tables.FINDINGS.columns]
    types = spark_schema(tables.FINDINGS.arrow)
    # the table may have been made by an older version
    known = [F.col(name) if name in before.columns else F.lit(None).cast(types[name].dataType).alias(name) for name in names]
    earlier = before.where(F.col("status") != F.lit(str(Status.RESOLVED))).select(*known)
    now = current.select("cluster_id", "finding_key", F.struct(*current.columns).alias("found"))
    then = earlier.select("cluster_id", "finding_key", *_PARTITION[1:], F.struct(*names).alias("earlier"))
    joined = now.join(then, on=["cluster_id", "finding_key"], how="full_outer")
    checks = audited.select("cluster_id", F.inline("checked"))
    checks = checks.select(*_PARTITION, F.struct(*tables.CHECKED.names).alias("check"))
    rows = joined.join(checks, on=_PARTITION, how="left").select("found", "earlier", "check")
    return rows.mapInArrow(mapped(partial(_history, run_id=run_id), partial(batch_of, RunFinding, schema=tables.FINDINGS.arrow)), types)


def _history(row: Row, run_id: str) -> Iterator[RunFinding]:
    found, check = row["found"], row["check"]
    # nested columns of an older version may lack some of theirs
    earlier = None if row["earlier"] is None else row_of(RunFinding, row["earlier"], of_any_version=True)
    cluster_id = earlier.cluster_id if earlier is not None else found.pop("cluster_id")
    yield history_row(
        cluster_id,
        None if found is None else row_of(FoundFinding, {name: found[name] for name in tables.FOUND.names}),
        earlier,
        None if check is None else row_of(CheckedPartition, check),
        run_id,
    )


def history_row(
    cluster_id: str, found: FoundFinding | None, earlier: RunFinding | None, check: CheckedPartition | None, run_id: str
) -> RunFinding:
    """A row of `findings`.

    Args:
        cluster_id: whose finding it is.
        found: the finding as this run has it; None if it does not.
        earlier: the row of the run before, open then; None if it has none. One of the two is there.
        check: what this run found in order in the partition; None if it did not see it.
        run_id: of this run.

    Returns:
        What this run found as new or persisting; else the earlier row, as resolved if this run compared the same and found it clean, as
        unconfirmed if not: it then stays open.
    """
    if found is not None:
        first = run_id if earlier is None else earlier.first_seen_run_id
        status = Status.NEW if earlier is None else Status.PERSISTING
        return RunFinding.of(
            found, run_id=run_id, cluster_id=cluster_id, first_seen_run_id=first, last_seen_run_id=run_id, status=str(status)
        )
    if earlier is None:
        raise ValueError("neither this run nor the one before has the finding")
    is_over = check is not None and is_resolved(_open(earlier), _check(check))
    return replace(earlier, run_id=run_id, status=str(Status.RESOLVED if is_over else Status.UNCONFIRMED))


def _open(earlier: RunFinding) -> Open:
    return Open(
        code=earlier.code,
        about=earlier.about,
        broker_id=earlier.broker_id,
        leader_id=earlier.leader_id,
        leader_source=earlier.leader_source,
    )


def _check(check: CheckedPartition) -> Check:
    return Check(
        leader_id=check.leader_id,
        leader_source=check.leader_source,
        leader_has_epoch=check.leader_has_epoch,
        isr=check.isr,
        clean=check.clean,
        same_batches=check.same_batches,
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
