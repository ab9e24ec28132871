"""A partition as a plot: every replica a bar over offsets, coloured by epoch, with what each rule does to it and who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import altair as alt
import pandas as pd

from replica_audit.notebook.pictures import INK, LOUD, cycled, finished
from replica_audit.report.facts.explanation import Explained, ExplainedReplica, Explanation
from replica_audit.report.layout.paragraphs import offsets
from replica_audit.report.text.drawn_logs import CONFLICTS, GOES, KEPT, strokes

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
    """An offset that matters on a replica's row; `detail` says what about it."""

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
    if one.applied is not None and one.applied.fetcher_fails and one.outcome is not None and one.outcome.exchange.fetch_offset is not None:
        yield ChartMark(leader_name(one), "fetch that fails", one.outcome.exchange.fetch_offset, f"of {name}: inside a batch of the leader")
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
    """The plot in sentences."""
    said = [f"Partition {explained.partition.name}."]
    for row in _rows(explained, drawn):
        held = [
            f"{offsets(one.first_offset, one.end_offset)} in epoch {one.leader_epoch}, {one.fate}" for one in drawn if one.replica == row
        ]
        seen = [f"{one.mark} at {one.offset}" for one in noted if one.replica == row]
        said.append(f"{row.capitalize()}: {'; '.join([*held, *seen]) or 'nothing known'}.")
    said += [f"Committed position {one.offset}: {one.detail}." for one in noted if one.replica == CONSUMERS]
    return " ".join(said)
