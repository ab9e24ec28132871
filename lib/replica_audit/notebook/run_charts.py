"""Plots of runs: verdicts by broker, verdicts over time, records lost over time."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from replica_audit.notebook.pictures import INK, LOUD, QUIET, finished
from replica_audit.protocol.verdict.verdict import Verdict

VERDICTS = [str(verdict) for verdict in Verdict]
MOST_RUNS = 60
MEASURES = ("cut", "committed and lost")


def heatmap(verdicts: pd.DataFrame, run_id: str) -> alt.LayerChart:
    """Brokers × verdicts: how many followers.

    Args:
        verdicts: rows of `replica_verdicts` of one run.
        run_id: of the run.
    """
    counted = verdicts.groupby(["cluster_id", "follower_id", "verdict"]).size().reset_index(name="followers")
    counted = counted.rename(columns={"follower_id": "broker_id"})
    several = counted["cluster_id"].nunique() > 1
    names = "broker " + counted["broker_id"].astype(str)
    counted["broker"] = counted["cluster_id"] + " · " + names if several else names
    order = list(dict.fromkeys(counted.sort_values(["cluster_id", "broker_id"])["broker"]))
    said = "; ".join(f"{row.broker}: {row.followers} {row.verdict}" for row in counted.itertuples())
    return finished(
        _grid(counted, x="verdict", x_order=_present(counted), y="broker", y_order=order, y_title="follower"),
        title=f"Followers by broker and verdict, run {run_id}",
        subtitle="worst verdict on the left; a broker without a cell follows nobody",
        description=f"Followers by broker and verdict in run {run_id}. {said or 'No verdicts'}.",
    )


def history(runs: pd.DataFrame) -> alt.LayerChart:
    """Runs × verdicts: how many followers.

    Args:
        runs: rows of `audit_runs` of complete runs, newest first; MOST_RUNS runs are drawn.
    """
    shown = _latest(runs)
    rows = [
        {"run_id": row["run_id"], "started_at": row["started_at"], "verdict": verdict, "followers": count}
        for row in shown.to_dict("records")
        for verdict, count in (row["verdict_counts"] or {}).items()
    ]
    counted = pd.DataFrame(rows, columns=["run_id", "started_at", "verdict", "followers"])
    data = counted.groupby(["run_id", "started_at", "verdict"])["followers"].sum().reset_index()
    data["run"] = _labels(data)
    said = "; ".join(f"{row.run_id}: {row.followers} {row.verdict}" for row in data.sort_values(["started_at", "verdict"]).itertuples())
    return finished(
        _grid(data, x="run", x_order=_ordered(data), y="verdict", y_order=_present(data), y_title="verdict"),
        title="Verdicts, run by run",
        subtitle=_of(runs, "followers with each verdict, worst on top, oldest run on the left"),
        description=f"Followers by verdict in each complete run. {said or 'No verdicts'}.",
    )


def lost_over_time(runs: pd.DataFrame, sums: pd.DataFrame) -> alt.LayerChart:
    """What was cut and what was lost, run by run.

    Args:
        runs: as of `history`.
        sums: run_id, removed_records_sum, removed_committed_sum; runs without cuts may be missing.
    """
    shown = _latest(runs).drop_duplicates("run_id")[["run_id", "started_at"]].merge(sums, on="run_id", how="left")
    values = ["removed_records_sum", "removed_committed_sum"]
    data = shown.rename(columns=dict(zip(values, MEASURES, strict=True))).melt(
        id_vars=["run_id", "started_at"], value_vars=list(MEASURES), var_name="measure", value_name="count"
    )
    data["count"] = data["count"].fillna(0).astype("int64")
    data["run"] = _labels(data)
    base = alt.Chart(data).encode(
        x=alt.X("run:N", sort=_ordered(data), title="run (UTC)", axis=alt.Axis(labelAngle=-30)),
        xOffset=alt.XOffset("measure:N", sort=list(MEASURES)),
        y=alt.Y("count:Q", title="records or offsets", axis=alt.Axis(format=",d", tickMinStep=1)),
        tooltip=["run_id:N", "measure:N", alt.Tooltip("count:Q", format=",d")],
    )
    colour = alt.Color("measure:N", sort=list(MEASURES), title=None, scale=alt.Scale(domain=list(MEASURES), range=[QUIET, LOUD]))
    said = "; ".join(f"{row.run_id}: {row.count} {row.measure}" for row in data.sort_values("started_at").itertuples(name="Row"))
    return finished(
        alt.layer(base.mark_bar().encode(color=colour), base.mark_text(dy=-6, color=INK).encode(text=alt.Text("count:Q", format=",d"))),
        title="Lost records over time",
        subtitle=_of(runs, "records that followers have to cut; offsets that had been committed and no leader holds"),
        description=f"Records cut and committed offsets lost, in each complete run. {said or 'No runs'}.",
    )


def _grid(data: pd.DataFrame, *, x: str, x_order: list[str], y: str, y_order: list[str], y_title: str) -> Any:
    """Counts as cells: written, and the darker the more, by orders of magnitude."""
    base = alt.Chart(data).encode(
        x=alt.X(f"{x}:N", sort=x_order, title=x, axis=alt.Axis(labelAngle=-30)),
        y=alt.Y(f"{y}:N", sort=y_order, title=y_title),
        tooltip=[f"{x}:N", f"{y}:N", alt.Tooltip("followers:Q", format=",d")],
    )
    most = int(data["followers"].max()) if len(data) else 1
    colour = alt.Color("followers:Q", title="followers", scale=alt.Scale(type="symlog", scheme="blues", domain=[0, max(most, 1)]))
    dark = alt.condition(f"datum.followers > {most / 3}", alt.value("white"), alt.value(INK))
    return alt.layer(base.mark_rect().encode(color=colour), base.mark_text().encode(text=alt.Text("followers:Q", format=",d"), color=dark))


def _present(data: pd.DataFrame) -> list[str]:
    """The verdicts that occur, worst first; those of another version last."""
    there = set(data["verdict"])
    return [verdict for verdict in VERDICTS if verdict in there] + sorted(there - set(VERDICTS))


def _latest(runs: pd.DataFrame) -> pd.DataFrame:
    newest = list(dict.fromkeys(runs["run_id"]))[:MOST_RUNS]
    return runs[runs["run_id"].isin(newest)]


def _of(runs: pd.DataFrame, said: str) -> str:
    count = runs["run_id"].nunique()
    return said if count <= MOST_RUNS else f"{said}; the latest {MOST_RUNS} of {count} runs"


def _labels(data: pd.DataFrame) -> pd.Series[str]:
    """Runs as an axis names them."""
    labels: pd.Series[str] = data["started_at"].dt.strftime("%Y-%m-%d %H:%M").astype(str) + " " + data["run_id"].astype(str)
    return labels


def _ordered(data: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(data.sort_values(["started_at", "run_id"])["run"]))
