"""The findings of a run, and what they are against those of earlier runs: new, persisting, resolved or unconfirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import spark_schema
from replica_audit.formats.log_dir.names import topic_filter
from replica_audit.formats.values import Row
from replica_audit.partition.findings.acknowledging import history_row
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements, Status
from replica_audit.rows import FINDINGS
from replica_audit.rows.arrow import CHECKED, FOUND, batch_of, schema_of_row
from replica_audit.rows.encoding import row_of
from replica_audit.rows.findings import CheckedPartition, FoundFinding, RunFinding

_PARTITION = ["cluster_id", "topic", "partition"]
_AT_ONCE = 256  # rows that are Python's at a time


class OpenRun(Protocol):
    """An earlier run, and the topics that a later one looked at, as regular expressions."""

    @property
    def cluster_id(self) -> str:
        """Of which cluster."""

    @property
    def run_id(self) -> str:
        """Which run."""

    @property
    def later_topics(self) -> Sequence[str]:
        """Of these topics its findings are out of date."""


def with_history(
    current: DataFrame,
    before: DataFrame | None,
    checked: DataFrame,
    run_id: str,
    acknowledged: Mapping[str, Acknowledgements] = MappingProxyType({}),
) -> DataFrame:
    """Add what earlier runs left open.

    Args:
        current: cluster_id and the columns of the shape FOUND, one row for each finding.
        before: rows of the table `findings` of each cluster's complete run before this one; None if they left nothing open.
        checked: cluster_id and the columns of the shape CHECKED: what was found in order.
        run_id: of this run.
        acknowledged: by cluster id, what somebody knows of.

    Returns:
        The columns of `RunFinding`, as `history_row` makes them.
    """
    types = spark_schema(schema_of_row(FINDINGS))
    names = types.names
    if before is None:
        return current.mapInArrow(partial(_rows, function=partial(_new, run_id=run_id)), types)
    # the table may have been made by an older version
    known = [F.col(name) if name in before.columns else F.lit(None).cast(types[name].dataType).alias(name) for name in names]
    earlier = before.where(F.col("status") != F.lit(str(Status.RESOLVED))).select(*known)
    now = current.select("cluster_id", "finding_key", F.struct(*current.columns).alias("found"))
    then = earlier.select("cluster_id", "finding_key", *_PARTITION[1:], F.struct(*names).alias("earlier"))
    joined = now.join(then, on=["cluster_id", "finding_key"], how="full_outer")
    checks = checked.select(*_PARTITION, F.struct(*CHECKED.names).alias("check"))
    rows = joined.join(checks, on=_PARTITION, how="left").select("found", "earlier", "check")
    history = partial(_history, run_id=run_id, acknowledged=dict(acknowledged))
    return rows.mapInArrow(partial(_rows, function=history), types)


def _rows(batches: Iterator[pa.RecordBatch], function: Callable[[Row], RunFinding]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for first in range(0, batch.num_rows, _AT_ONCE):
            rows = list(map(function, batch.slice(first, _AT_ONCE).to_pylist()))
            yield batch_of(RunFinding, rows, schema_of_row(FINDINGS))


def _new(row: Row, run_id: str) -> RunFinding:
    return history_row(row["cluster_id"], _found(row), None, None, run_id)


def _history(row: Row, run_id: str, acknowledged: Mapping[str, Acknowledgements]) -> RunFinding:
    found, check = row["found"], row["check"]
    # nested columns of an older version may lack some of theirs
    earlier = None if row["earlier"] is None else row_of(RunFinding, row["earlier"], of_any_version=True)
    cluster = found["cluster_id"] if earlier is None else earlier.cluster_id
    return history_row(
        cluster,
        None if found is None else _found(found),
        earlier,
        None if check is None else row_of(CheckedPartition, check),
        run_id,
        acknowledged.get(cluster),
    )


def _found(row: Row) -> FoundFinding:
    return row_of(FoundFinding, {name: row[name] for name in FOUND.names})


def latest_before(findings_table: DataFrame, runs: Sequence[OpenRun], *, topics: str = "") -> DataFrame:
    """What the runs before found, as far as this run looks again.

    Args:
        findings_table: rows of the table `findings`.
        runs: of each cluster that this run audits, those that say what is open in it; at least one.
        topics: the regular expression that limits this run; empty for all topics.

    Returns:
        The findings of those runs about their clusters, each as the latest run that looked at its topic has it.
    """
    rows = findings_table.where(reduce(or_, map(_of_run, runs)))
    return rows.where(_is_of_topics([topics])) if topics else rows


def _of_run(run: OpenRun) -> Column:
    rows = (F.col("cluster_id") == F.lit(run.cluster_id)) & (F.col("run_id") == F.lit(run.run_id))
    return rows & ~_is_of_topics(run.later_topics) if run.later_topics else rows


def _is_of_topics(patterns: Sequence[str]) -> Column:
    # not rlike: Java's regular expressions are others than those that chose the topics
    filters = [topic_filter(pattern) for pattern in patterns]
    return F.udf(lambda topic: any(passes(topic) for passes in filters), "boolean")("topic")
