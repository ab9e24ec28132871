"""`open_warehouse`: where a notebook begins. A warehouse has runs; a run has tables, plots and partitions."""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.config import load
from replica_audit.errors import UsageError
from replica_audit.local_run import triage as audit_here
from replica_audit.notebook import charts
from replica_audit.notebook.frames import FrameSource, Value, frame, pandas_frame
from replica_audit.notebook.run import Run
from replica_audit.report.facts import question
from replica_audit.report.facts.question import whole_run
from replica_audit.rows import AUDIT_RUNS, REPLICA_VERDICTS, TABLES
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.runs import NOTHING_READ
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.words import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDER = "removed_below_high_watermark"  # what had been committed, in runs that knew no other evidence
_CUTS = pa.schema([schema_of(REPLICA_VERDICTS).field(name) for name in ("run_id", "removed_records", "removed_committed", _OLDER)])


def open_warehouse(location: str = "warehouse", *, spark: SparkSession | None = None) -> Warehouse:
    """Open the tables that audits wrote.

    Args:
        location: the directory or URI that `audit --warehouse` was given.
        spark: a session with Delta, if frames are to be Spark's; without one they are pandas', and no Java is needed.

    Raises:
        UsageError: there is no such directory, or no audit wrote to it.
    """
    opened = Warehouse(FrameSource(tables=WarehouseTables(str(location)), spark=spark))
    opened.run_ids  # noqa: B018 - a place without runs is told at once, not by the first plot
    return opened


def triage(
    *inputs: str | Path,
    topics: str = "",
    protocol: str = "auto",
    compare: str = "content",
    show_keys: bool = False,
    what_if_leaders: bool = True,
    cluster_metadata: str | Path | None = None,
    follow_links: bool = False,
) -> Run:
    """Audit directories at once, in this process: no Spark, no Java, no warehouse. Nothing is written.

    Args:
        inputs: directories with one folder per broker, or folders of such directories, as of `audit --input`.
        topics: regular expression that a topic's whole name must match; empty for all.
        protocol: the truncation rule: auto, high-watermark, kip-101, kip-279 or truncate-on-fetch.
        compare: how closely, as of `audit --compare`.
        show_keys: with `compare="records"`, show keys that differ as text; they may be personal data.
        what_if_leaders: also compute every replica as the leader of the others.
        cluster_metadata: a cluster-metadata.json to use instead of the one beside the broker folders.
        follow_links: follow links that lead out of the directories, which are else reported and not read.

    Returns:
        The run, as `open_warehouse().latest()` returns one.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
        ConfigError: an argument has a value that the setting of its name cannot have.
    """
    if not inputs:
        raise UsageError("triage: give a directory with one folder per broker")
    chosen = {
        "topics": topics,
        "protocol": protocol,
        "compare": compare,
        "show_keys": show_keys,
        "what_if_leaders": what_if_leaders,
        "follow_links": follow_links,
    }
    settings = load(None, chosen)
    metadata = Path(cluster_metadata) if cluster_metadata is not None else None
    done = audit_here([str(given) for given in inputs], settings, metadata=metadata, tell=lambda _line: None)
    return Warehouse(FrameSource(tables=done.tables)).latest()


class Warehouse:
    """The tables of all runs.

    `runs()` lists them, `latest()` and `run("id")` give one, `history()` and `lost_over_time()` plot them, `table("name")` is any table
    over all runs.
    """

    def __init__(self, place: FrameSource) -> None:
        """Remember the location; nothing is read yet."""
        self._place = place

    @property
    def location(self) -> str:
        """Location of the tables, as given."""
        return self._place.tables.location

    @cached_property
    def run_ids(self) -> tuple[str, ...]:
        """The complete runs, the one that began last first."""
        question.chosen_run(self._place.tables)
        return tuple(dict.fromkeys(self.runs()["run_id"]))

    def runs(self, *, cluster: str | None = None, complete: bool = True) -> pd.DataFrame:
        """The rows of `audit_runs`: one per run and cluster, the run that began last first; always pandas.

        Args:
            cluster: its id; None for all.
            complete: leave out runs that still run, were interrupted or could read nothing: their rows do not count.
        """
        equal: dict[str, Value] = {} if cluster is None else {"cluster_id": cluster}
        rows = pandas_frame(self._place.tables, AUDIT_RUNS, equal | ({"status": "complete"} if complete else {}))
        if complete:
            rows = rows[~rows["exit_code"].eq(NOTHING_READ).fillna(value=False)]
        return rows.sort_values(["started_at", "run_id", "cluster_id"], ascending=[False, False, True], ignore_index=True)

    def latest(self, *, cluster: str | None = None) -> Run:
        """The complete run that began last; with a cluster's id, the last that audited this cluster."""
        return self._run(None, cluster)

    def run(self, run_id: str) -> Run:
        """A run by its id.

        Raises:
            UsageError: there is no such run, or it is not complete.
        """
        return self._run(run_id, None)

    def _run(self, run_id: str | None, cluster: str | None) -> Run:
        found, rows = whole_run(self._place.tables, run_id=run_id, cluster_id=cluster)
        return Run(self._place, found, rows)

    def table(self, name: str, *, spark: SparkSession | None = None, **equal: Value) -> Any:
        """Any table over all runs, also those that are not complete; as `Run.table` otherwise."""
        return frame(self._place, name, spark, equal)

    def history(self, *, cluster: str | None = None) -> alt.LayerChart:
        """Plot how many followers had each verdict in each complete run. Its data: run_id, started_at, verdict, followers."""
        return charts.history(self.runs(cluster=cluster))

    def lost_over_time(self, *, cluster: str | None = None) -> alt.LayerChart:
        """Plot what followers had to cut in each complete run, and what of it had been committed and is lost.

        Its data: run_id, started_at, measure (`cut`: records; `committed and lost`: offsets), count.
        """
        equal: dict[str, Value] = {} if cluster is None else {"cluster_id": cluster}
        cuts = self._place.tables.columns("replica_verdicts", _CUTS, ds.field("removed_offsets") > 0, **equal)
        committed: Any = pc.coalesce(cuts["removed_committed"], cuts[_OLDER])
        cuts = cuts.set_column(2, "removed_committed", committed)
        sums = cuts.group_by("run_id").aggregate([(name, "sum") for name in ("removed_records", "removed_committed")])
        return charts.lost_over_time(self.runs(cluster=cluster), sums.to_pandas())

    def __repr__(self) -> str:
        runs = self.run_ids
        return f"Warehouse {self.location}: {count(len(runs), 'complete run')}, the latest is {runs[0]}"

    def _repr_html_(self) -> str:
        runs = self.run_ids
        listed = "".join(f"<li>{escape(run)}</li>" for run in runs[:5]) + ("<li>…</li>" if len(runs) > 5 else "")
        return (
            f"<p><b>Warehouse</b> {escape(self.location)}, {count(len(runs), 'complete run')}:</p><ol>{listed}</ol>"
            "<p><code>.runs()</code> lists them, <code>.latest()</code> or <code>.run(id)</code> gives one, <code>.history()</code> and "
            f"<code>.lost_over_time()</code> plot them. Tables: {escape(', '.join(table.name for table in TABLES))}.</p>"
        )
