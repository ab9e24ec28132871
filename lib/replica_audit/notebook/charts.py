"""Altair charts of a notebook: the batches of two logs, the runs of a warehouse, and how the logs of a partition are related."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
from altair.utils.mimebundle import spec_to_mimebundle

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.explanation import Explained, ExplainedReplica, Explanation
from replica_audit.report.layout.paragraphs import offsets
from replica_audit.report.sections.drawn_logs import CONFLICTS, GOES, KEPT, strokes

# Paul Tol's light scheme: told apart with any colour vision, and dark text can be read on each
COLOURS = ("#77AADD", "#EE8866", "#EEDD88", "#44BB99", "#FFAABB", "#99DDFF", "#BBCC33", "#DDDDDD")
LOUD, QUIET, INK = "#CC3311", "#0077BB", "#222222"
_RENDERER = "replica-audit"
_OF_SHAPES = re.compile(r' (?:aria-[a-z]+|role|pointer-events|stroke-miterlimit)="[^"]*"')


def cycled(values: Sequence[str]) -> list[str]:
    """A colour for each value, from the start again where there are more; plots write the value beside it."""
    return [COLOURS[place % len(COLOURS)] for place in range(len(values))]


def finished(chart: Any, *, title: str, subtitle: str, description: str, width: int = 640) -> alt.LayerChart:
    """Add title and text alternative to a plot.

    Args:
        chart: the layers.
        title: what it is about.
        subtitle: how to read it.
        description: what it shows, in sentences, for who does not see it.
        width: in pixels.
    """
    if alt.renderers.active == "default":  # whoever chose another one keeps it
        alt.renderers.register(_RENDERER, _shown)
        alt.renderers.enable(_RENDERER)
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", subtitleColor="#555555")
    drawn = chart.properties(title=heading, description=description, width=width, background="white")
    made: alt.LayerChart = drawn.configure_axis(labelLimit=260, labelColor=INK, titleColor=INK).configure_view(stroke="#DDDDDD")
    return made


def _shown(spec: dict[str, Any], **_options: Any) -> dict[str, Any]:
    """The plot itself, a picture of it for viewers that cannot draw it, and its text alternative."""
    said = str(spec.get("description", "a plot"))
    versions: Any = {"vegalite_version": alt.VEGALITE_VERSION, "vega_version": alt.VEGA_VERSION, "mode": "vega-lite"}
    drawn: Any = spec_to_mimebundle(spec, format="vega-lite", **versions)
    picture: Any = spec_to_mimebundle(spec, format="svg", engine="vl-convert", **versions)
    named = {kind: _with_one_label(svg, said) for kind, svg in picture.items()}
    return {**drawn, **named, "text/plain": said}


def _with_one_label(svg: str, said: str) -> str:
    """Give a picture one text alternative for screen readers, instead of one for each shape."""
    return _OF_SHAPES.sub("", svg).replace("<svg ", f'<svg role="img" aria-label="{escape(said)}" ', 1)


def batch_plot(both: pd.DataFrame, name: str, leader_id: int, follower_id: int) -> alt.LayerChart:
    """Plot the batches of a leader and a follower.

    Args:
        both: as of `batch_frames.side_by_side`.
        name: of the partition.
        leader_id: the leader's broker.
        follower_id: the follower's.
    """
    sides = {f"leader {leader_id}": "leader", f"follower {follower_id}": "follower"}
    data = pd.concat([_side(both, row, side) for row, side in sides.items()], ignore_index=True)
    epochs = sorted(set(data["epoch"]), key=int)
    y = alt.Y("side:N", sort=list(sides), title=None, scale=alt.Scale(paddingInner=0.3))
    x = alt.X("base_offset:Q", title="offset", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(format=",d", tickMinStep=1))
    base = alt.Chart(data).encode(x=x, y=y)
    boxes = base.mark_bar(strokeWidth=2).encode(
        x2="end_offset:Q",
        color=alt.Color("epoch:N", title="leader epoch", sort=epochs, scale=alt.Scale(domain=epochs, range=cycled(epochs))),
        opacity=alt.condition("datum.truncated", alt.value(0.6), alt.value(1)),
        stroke=alt.condition("datum.is == 'same'", alt.value("white"), alt.value(LOUD)),
        tooltip=["side:N", "base_offset:Q", "last_offset:Q", "epoch:N", "records:Q", "crc:N", "is:N", "truncated:N"],
    )
    struck = base.transform_filter("datum.truncated").mark_rule(color=LOUD, strokeWidth=2).encode(x2="end_offset:Q")
    middles = base.mark_text(color=INK, fontWeight="bold", dy=-8).encode(x="middle:Q", text="epoch:N")
    said = "; ".join(
        f"{row['side']}: {offsets(row['base_offset'], row['end_offset'])} epoch {row['epoch']}, {row['fate']}"
        for row in data.to_dict("records")
    )
    return finished(
        alt.layer(boxes, struck, middles).properties(height=130),
        title=f"{name}: batches of leader {leader_id} and follower {follower_id}",
        subtitle="numbers are leader epochs; outlined in red: the other side has another batch or none there; struck through: truncated",
        description=f"Batches of both sides of {name}. {said or 'None'}.",
    )


def _side(both: pd.DataFrame, row: str, side: str) -> pd.DataFrame:
    held = both[both[f"{side}_last_offset"].notna()]
    made = pd.DataFrame(
        {
            "side": row,
            "base_offset": held["base_offset"].astype("int64"),
            "last_offset": held[f"{side}_last_offset"].astype("int64"),
            "epoch": held[f"{side}_epoch"].astype(str),
            "records": held[f"{side}_records"],
            "crc": held[f"{side}_crc"],
            "is": held["is"],
            "truncated": held["truncated"] & (side == "follower"),
        }
    )
    made["end_offset"] = made["last_offset"] + 1
    made["middle"] = (made["base_offset"] + made["end_offset"]) / 2
    made["fate"] = made["is"].astype(str) + made["truncated"].map({True: ", truncated", False: ""})
    return made


VERDICTS = [str(verdict) for verdict in Verdict]
MOST_RUNS = 60
MEASURES = ("cut", "committed and lost")


def heatmap(verdicts: pd.DataFrame, run_id: str) -> alt.LayerChart:
    """Plot the number of followers by broker and verdict.

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
    """Plot the number of followers by run and verdict.

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
    """Plot what was truncated and what was lost, run by run.

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
    """Verdicts that occur, worst first; those of another version last."""
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


FATES = {KEPT: "stays", CONFLICTS: "conflicts", GOES: "truncated"}
CONSUMERS = "consumers"
_SHAPES = {
    "high watermark": "triangle-up",
    "logs diverge": "diamond",
    "cut": "triangle-down",
    "cut by another rule": "cross",
    "restart": "square",
    "fetch that fails": "stroke",
    "committed position": "circle",
}
# where a mark stands, in pixels below the middle of its row, so that those of one offset do not hide each other
_BELOW = {"high watermark": 24, "logs diverge": 0, "committed position": 0}
_ABOVE = -24
_READ = "numbers in the bars are leader epochs; struck through: truncated; ! and red: conflicts with the leader; blank: no batches"
_LABEL_ROOM = 0.025  # of the width, which an epoch needs to be written into its bar


class Stretch(NamedTuple):
    """Offsets [first, end) of one replica in one epoch; `fate` is stays, conflicts or truncated."""

    replica: str
    leader_epoch: str
    first_offset: int
    end_offset: int
    fate: str


class ChartMark(NamedTuple):
    """A marked offset on a replica's row; `detail` explains it."""

    replica: str
    mark: str
    offset: int
    detail: str


def stretches(explained: Explained) -> list[Stretch]:
    """Every replica's batches as stretches of one epoch and one fate; the leader first."""
    drawn: list[Stretch] = []
    for one in explained.followers[:1]:
        drawn += _of_replica(leader_name(one), one.leader)
    for one in explained.followers:
        physical = one.outcome.physical_offset if one.outcome else None
        for stroke in strokes(one.follower.history, one.differences, physical):
            drawn.append(Stretch(follower_name(one), stroke.label, stroke.first_offset, stroke.end_offset, FATES[stroke.fill]))
    return drawn


def _of_replica(name: str, replica: ExplainedReplica) -> Iterator[Stretch]:
    for stroke in strokes(replica.history, (), None):
        yield Stretch(name, stroke.label, stroke.first_offset, stroke.end_offset, FATES[KEPT])


def marks(explained: Explained) -> list[ChartMark]:
    """High watermarks, where logs diverge, every rule's cut, and committed positions of groups."""
    found: list[ChartMark] = []
    for one in explained.followers[:1]:
        found += _watermark(leader_name(one), one.leader)
    for one in explained.followers:
        found += _of_follower(one)
    readers: dict[int, list[str]] = {}
    for impact in explained.partition.impacts:
        readers.setdefault(impact.committed_offset, []).append(f"group {impact.group_id}: {impact.reason}")
    found += [ChartMark(CONSUMERS, "committed position", offset, "; ".join(said)) for offset, said in sorted(readers.items())]
    return found


def _watermark(name: str, replica: ExplainedReplica) -> Iterator[ChartMark]:
    if replica.log is not None and replica.log.high_watermark is not None:
        yield ChartMark(name, "high watermark", replica.log.high_watermark, "checkpointed; what is below had been committed")


def _of_follower(one: Explanation) -> Iterator[ChartMark]:
    name, verdict = follower_name(one), one.verdict
    yield from _watermark(name, one.follower)
    if verdict.divergence_offset is not None:
        yield ChartMark(name, "logs diverge", verdict.divergence_offset, "first offset at which it is not the leader's log")
    if one.applied is not None and one.applied.fetcher_fails and one.outcome is not None and one.applied.fetch_offset is not None:
        yield ChartMark(leader_name(one), "fetch that fails", one.applied.fetch_offset, f"of {name}: inside a batch of the leader")
    cuts: dict[int, list[str]] = {}
    for point in sorted(one.points, key=lambda point: not point.applies):
        if point.truncation_offset is not None:
            cuts.setdefault(point.truncation_offset, []).append(f"{point.protocol}{' (applies)' if point.applies else ''}")
    for offset, protocols in cuts.items():
        yield ChartMark(name, "cut" if offset == verdict.truncation_offset else "cut by another rule", offset, ", ".join(protocols))
    if verdict.restart_offset is not None:
        yield ChartMark(name, "restart", verdict.restart_offset, "it starts again here, empty")


def leader_name(one: Explanation) -> str:
    """The leader's row."""
    return f"leader {one.verdict.leader_id}{_missing(one.leader)}" if one.verdict.leader_id >= 0 else "leader unknown"


def follower_name(one: Explanation) -> str:
    """A follower's row."""
    return f"follower {one.verdict.follower_id}{_missing(one.follower)}"


def _missing(replica: ExplainedReplica) -> str:
    return " (not in the input)" if replica.log is None else " (unreadable)" if replica.state is None else ""


def window(explained: Explained, drawn: list[Stretch], noted: list[ChartMark]) -> tuple[int, int]:
    """The offsets [first, end) worth looking at: around where something is cut or differs, else all."""
    first = min((one.first_offset for one in drawn), default=0)
    end = max((one.end_offset for one in drawn), default=1)
    focus = [one.offset for one in noted if one.mark not in ("high watermark", "committed position")]
    focus += [offset for one in drawn if one.fate != FATES[KEPT] for offset in (one.first_offset, one.end_offset)]
    if not focus or not explained.followers:
        return first, end
    room = max(10, max(focus) - min(focus))
    low, high = max(first, min(focus) - room), min(end, max(focus) + room)
    return (first, end) if (high - low) * 4 > end - first else (low, high)


def lineage(explained: Explained, unpaired: Sequence[Stretch] = (), first: int | None = None, last: int | None = None) -> alt.LayerChart:
    """Plot a partition.

    Args:
        explained: what is known of it.
        unpaired: replicas that are no side of a pair, where there is no follower.
        first: the lowest offset to show; None for a window around what differs.
        last: the highest one, inclusive; None likewise.
    """
    drawn, noted = [*stretches(explained), *unpaired], marks(explained)
    low, high = window(explained, drawn, noted)
    low, high = low if first is None else first, high if last is None else last + 1
    name = explained.partition.name
    return replicas_chart(
        drawn,
        noted,
        rows=[*_rows(explained, drawn), *([CONSUMERS] if any(one.replica == CONSUMERS for one in noted) else [])],
        shown=(low, high),
        title=f"{name}: offsets {low:,}..{high - 1:,}",
        description=described(explained, drawn, noted),
    )


def replicas_chart(
    drawn: Sequence[Stretch], noted: Sequence[ChartMark], *, rows: Sequence[str], shown: tuple[int, int], title: str, description: str
) -> alt.LayerChart:
    """Plot rows of stretches and marks.

    Args:
        drawn: the stretches; those outside of what is shown are left out.
        noted: the marks; likewise.
        rows: the rows from top to bottom, also those of which nothing is drawn.
        shown: the offsets [first, end) that are shown.
        title: of the plot.
        description: its text alternative.
    """
    low, high = shown
    bars = pd.DataFrame([one for one in drawn if one.first_offset < high and one.end_offset > low], columns=list(Stretch._fields))
    first, end = bars["first_offset"].clip(lower=low), bars["end_offset"].clip(upper=high)
    bars["label_offset"] = (first + end) / 2
    said = bars["leader_epoch"] + bars["fate"].map({FATES[CONFLICTS]: " !"}).fillna("")
    bars["label"] = said.where(end - first > _LABEL_ROOM * (high - low), "")
    points = pd.DataFrame([one for one in noted if low <= one.offset <= high], columns=list(ChartMark._fields))
    layers = alt.layer(*_bars(bars, list(rows), shown), *_points(points, list(rows)))
    return finished(layers.properties(height=max(120, 62 * len(rows))), title=title, subtitle=_READ, description=description)


def _rows(explained: Explained, drawn: Sequence[Stretch]) -> list[str]:
    """Leader, followers, and replicas that are neither; also those of which nothing is drawn."""
    names = [leader_name(one) for one in explained.followers[:1]] + [follower_name(one) for one in explained.followers]
    return list(dict.fromkeys([*names, *(one.replica for one in drawn)]))


def _bars(bars: pd.DataFrame, rows: list[str], shown: tuple[int, int]) -> Iterable[alt.Chart]:
    epochs = sorted(set(bars["leader_epoch"]), key=lambda epoch: (not epoch.isdigit(), int(epoch) if epoch.isdigit() else 0))
    x = alt.X("first_offset:Q", title="offset", scale=alt.Scale(domain=list(shown), nice=False), axis=alt.Axis(format=",d", tickMinStep=1))
    y = alt.Y("replica:N", sort=rows, title=None, scale=alt.Scale(domain=rows, paddingInner=0.45, paddingOuter=0.25))
    base = alt.Chart(bars).encode(x=x, y=y)
    colour = alt.Color("leader_epoch:N", title="leader epoch", sort=epochs, scale=alt.Scale(domain=epochs, range=cycled(epochs)))
    yield base.mark_bar(clip=True, strokeWidth=2).encode(
        x2="end_offset:Q",
        color=colour,
        opacity=alt.condition(f"datum.fate == '{FATES[GOES]}'", alt.value(0.6), alt.value(1)),
        stroke=alt.condition(f"datum.fate == '{FATES[CONFLICTS]}'", alt.value(LOUD), alt.value(INK)),
        tooltip=[
            "replica:N",
            "leader_epoch:N",
            alt.Tooltip("first_offset:Q", format=",d"),
            alt.Tooltip("end_offset:Q", format=",d"),
            "fate:N",
        ],
    )
    struck = base.transform_filter(f"datum.fate == '{FATES[GOES]}'")
    yield struck.mark_rule(color=LOUD, strokeWidth=2, clip=True).encode(x2="end_offset:Q")
    yield base.mark_text(color=INK, fontWeight="bold", fontSize=12, dy=-8, clip=True).encode(x="label_offset:Q", text="label:N")


def _numbers(*names: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=",d") for name in names]


def _points(points: pd.DataFrame, rows: list[str]) -> Iterable[alt.Chart]:
    present = [kind for kind in _SHAPES if kind in set(points["mark"])]
    base = alt.Chart(points).encode(
        x=alt.X("offset:Q"),
        y=alt.Y("replica:N", sort=rows),
        tooltip=["replica:N", "mark:N", *_numbers("offset"), "detail:N"],
    )
    shape = alt.Shape("mark:N", title="marks", sort=present, scale=alt.Scale(domain=present, range=[_SHAPES[kind] for kind in present]))
    for level in sorted({_BELOW.get(kind, _ABOVE) for kind in present}):
        kinds = [kind for kind in present if _BELOW.get(kind, _ABOVE) == level]
        of_level = base.transform_filter(alt.FieldOneOfPredicate(field="mark", oneOf=kinds))
        yield of_level.mark_point(filled=True, size=90, color=INK, stroke="white", strokeWidth=1, opacity=1, yOffset=level).encode(
            shape=shape
        )


def described(explained: Explained, drawn: list[Stretch], noted: list[ChartMark]) -> str:
    """Describe the plot in sentences."""
    said = [f"Partition {explained.partition.name}."]
    for row in _rows(explained, drawn):
        held = [
            f"{offsets(one.first_offset, one.end_offset)} in epoch {one.leader_epoch}, {one.fate}" for one in drawn if one.replica == row
        ]
        seen = [f"{one.mark} at {one.offset}" for one in noted if one.replica == row]
        said.append(f"{row.capitalize()}: {'; '.join([*held, *seen]) or 'nothing known'}.")
    said += [f"Committed position {one.offset}: {one.detail}." for one in noted if one.replica == CONSUMERS]
    return " ".join(said)
