"""One run: its tables as frames, its verdicts as a heat map, and its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd

from replica_audit.notebook import charts
from replica_audit.notebook.frames import FrameSource, Value, frame, pandas_frame
from replica_audit.notebook.partition import Partition
from replica_audit.notebook.simulation import frame_of, simulated_frame
from replica_audit.protocol.simulation import Action
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.question import Question, parse_partition
from replica_audit.rows import REPLICA_VERDICTS
from replica_audit.rows.codes import Severity
from replica_audit.rows.runs import AuditRun
from replica_audit.words import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERDICTS = [str(verdict) for verdict in Verdict]
_SEVERITIES = [str(severity) for severity in Severity]


class Run:
    """One complete run.

    Each method named for what it holds gives a table's rows of this run. All take `cluster=`, `topic=`, `partition=`, `spark=`, and any
    column by its name (`run.verdicts(verdict="committed_loss")`); only files that can hold such rows are opened.
    """

    def __init__(self, place: FrameSource, run_id: str, rows: Sequence[AuditRun]) -> None:
        """`rows` are the run's of `audit_runs`, one for each cluster."""
        self._place = place
        self.run_id = run_id
        self.clusters = tuple(sorted(row.cluster_id for row in rows))
        self.started_at = rows[0].started_at
        self.run_date = rows[0].run_date

    def table(self, name: str, *, cluster: str | None = None, spark: SparkSession | None = None, **equal: Value) -> Any:
        """Any table's rows of this run, of which docs/tables.md lists the names.

        Args:
            name: of the table.
            cluster: id of the cluster; None for all.
            spark: a session, to get its DataFrame instead of pandas'.
            equal: values by column; None is null.

        Returns:
            All columns of the table. pandas: with nullable types, times in UTC, sorted by cluster, partition and replicas.

        Raises:
            UsageError: there is no such table or column, or it cannot be read.
        """
        keys = _keys(self.run_id, cluster)
        return frame(self._place, name, spark, equal | keys)

    def verdicts(self, **chosen: Any) -> Any:
        """`replica_verdicts`: one row per leader and follower."""
        return self.table("replica_verdicts", **chosen)

    def findings(self, **chosen: Any) -> Any:
        """`findings`: one row per finding, new, persisting, resolved or unconfirmed since the run before."""
        return self.table("findings", **chosen)

    def replicas(self, **chosen: Any) -> Any:
        """`replica_logs`: one row per replica directory."""
        return self.table("replica_logs", **chosen)

    def roles(self, **chosen: Any) -> Any:
        """`replica_roles`: one row per replica: leader, follower, zombie; ISR and ELR."""
        return self.table("replica_roles", **chosen)

    def epochs(self, **chosen: Any) -> Any:
        """`epoch_start_offsets`: one row per replica and leader epoch."""
        return self.table("epoch_start_offsets", **chosen)

    def truncation_points(self, **chosen: Any) -> Any:
        """`truncation_points`: one row per leader, follower and rule. Spark's frame has those that are stored."""
        return self.table("truncation_points", **chosen)

    def lookups(self, name: str, *, cluster: str | None = None, **chosen: Any) -> Any:
        """`epoch_end_offsets` of a partition, such as `orders-0`: what its leader answers for each epoch that a follower may ask for."""
        topic, number = parse_partition(name)
        return self.table("epoch_end_offsets", cluster=cluster, **chosen | {"topic": topic, "partition": number})

    def consumer_impacts(self, **chosen: Any) -> Any:
        """`consumer_impacts`: one row per group and partition with a committed offset."""
        return self.table("consumer_impacts", **chosen)

    def leader_epochs(self, **chosen: Any) -> Any:
        """`leader_epochs`: one row per leader epoch that the metadata log tells of."""
        return self.table("leader_epochs", **chosen)

    def logged_incidents(self, **chosen: Any) -> Any:
        """`logged_incidents`: one row per incident that a broker's own log shows."""
        return self.table("logged_incidents", **chosen)

    def sequence_gaps(self, **chosen: Any) -> Any:
        """`sequence_gaps`: one row per place where sequences of a producer are missing."""
        return self.table("sequence_gaps", **chosen)

    def open_transactions(self, **chosen: Any) -> Any:
        """`open_transactions`: one row per transaction that is open at the end of its leader's log."""
        return self.table("open_transactions", **chosen)

    def what_if_leaders(self, **chosen: Any) -> Any:
        """`what_if_leaders`: one row per replica as the leader; empty unless the audit was told to try them."""
        return self.table("what_if_leaders", **chosen)

    def input_errors(self, **chosen: Any) -> Any:
        """`input_errors`: one row per problem of the input."""
        return self.table("input_errors", **chosen)

    def partitions(self, *, cluster: str | None = None) -> pd.DataFrame:
        """The partitions with a verdict, worst first; always pandas.

        Returns:
            cluster_id, name (`TOPIC-N`), verdict and severity (the worst of its followers'), followers, removed_records,
            removed_committed (offsets of committed records that the leader does not hold); both are sums over the followers.
        """
        equal = _keys(self.run_id, cluster)
        rows = pandas_frame(self._place.tables, REPLICA_VERDICTS, equal)
        # a run of an older version knew no other evidence than checkpointed high watermarks
        rows["removed_committed"] = rows["removed_committed"].fillna(rows["removed_below_high_watermark"])
        rows["name"] = rows["topic"] + "-" + rows["partition"].astype(str)
        for column, order in (("severity", _SEVERITIES), ("verdict", _VERDICTS)):
            rows[column] = pd.Categorical(rows[column], categories=order, ordered=True)
        grouped = rows.sort_values(["severity", "verdict"]).groupby(["cluster_id", "name"], observed=True, sort=False)
        made = grouped.agg(
            verdict=("verdict", "first"),
            severity=("severity", "first"),
            followers=("follower_id", "count"),
            removed_records=("removed_records", "sum"),
            removed_committed=("removed_committed", "sum"),
        ).reset_index()
        worst = ["severity", "removed_committed", "removed_records", "cluster_id", "name"]
        return made.sort_values(worst, ascending=[True, False, False, True, True], ignore_index=True)

    def partition(self, name: str, *, cluster: str | None = None) -> Partition:
        """One partition.

        Args:
            name: as Kafka writes it, such as `orders-0`.
            cluster: id of the cluster, where several have such a partition.

        Raises:
            UsageError: there is no such partition in this run, or more than one.
        """
        topic, number = parse_partition(name)
        return Partition(self._place, Question(topic=topic, partition=number, run_id=self.run_id, cluster_id=cluster))

    def simulate(self, steps: Sequence[str | Action], partition: str | None = None, *, cluster: str | None = None) -> pd.DataFrame:
        """Play steps of a recovery: after each of them every running follower is run until it has caught up.

        Args:
            steps: `start 1`, `stop 1`, `elect 1`, `elect 1 unclean`, `correct 1` (write the corrected leader-epoch-checkpoint), `restore 1
                from 2` (put the audited copy of broker 2 into broker 1's directory), `gone 1` (its disk is lost for good), in order; or
                actions of `protocol.simulation`.
            partition: as Kafka writes it, such as `orders-0`; None for all that have a verdict.
            cluster: id of the cluster; None for all.

        Returns:
            One row per partition, step and running follower: cluster_id, name, step (from 1), action, not_done (why it cannot be done),
            leader_id (-1: nobody), online, follower_id, truncation_offset, restart_offset (missing: it does neither), caught_up,
            diverged; lost_offsets and lost_committed are the step's: what no directory holds any more, and how much of that lay below a
            checkpointed high watermark.

        Raises:
            UsageError: a step is none, or there is no such partition.
        """
        if partition is not None:
            chosen = [self.partition(partition, cluster=cluster)]
        else:
            names = self.partitions(cluster=cluster)[["cluster_id", "name"]].itertuples(index=False)
            chosen = [self.partition(name, cluster=of_cluster) for of_cluster, name in names]
        rows = [row for one in chosen for row in frame_of(one.simulator.simulate(steps), cluster_id=one.cluster_id, name=one.name)]
        return simulated_frame(rows, ["cluster_id", "name"])

    def heatmap(self, *, cluster: str | None = None) -> alt.LayerChart:
        """Plot how many followers each broker has of each verdict. Its data: cluster_id, broker_id, broker, verdict, followers."""
        equal = _keys(self.run_id, cluster)
        return charts.heatmap(pandas_frame(self._place.tables, REPLICA_VERDICTS, equal), self.run_id)

    def __repr__(self) -> str:
        return f"Run {self.run_id} of {self.run_date}: {count(len(self.clusters), 'cluster')}"

    def _repr_html_(self) -> str:
        worst = self.partitions()
        counts = worst["severity"].value_counts(sort=False)
        said = ", ".join(f"{count} {escape(str(severity))}" for severity, count in counts.items() if count) or "none"
        example = escape(str(worst["name"].iloc[0])) if len(worst) else "orders-0"
        return (
            f"<p><b>Run</b> {escape(self.run_id)} of {self.run_date}, {count(len(self.clusters), 'cluster')}. "
            f"Partitions by severity: {said}.</p>"
            "<p><code>.partitions()</code> worst first, <code>.verdicts()</code>, <code>.findings()</code>, <code>.replicas()</code>, "
            "<code>.table(name)</code>; <code>.heatmap()</code> plots brokers × verdicts; "
            f'<code>.partition("{example}")</code> looks into one.</p>'
        )


def _keys(run_id: str, cluster: str | None) -> dict[str, Value]:
    """What the rows of a run, perhaps of one cluster, have in common."""
    of_run: dict[str, Value] = {"run_id": run_id}
    return of_run if cluster is None else of_run | {"cluster_id": cluster}
