"""The lineage picture of a partition: every replica a bar over offsets, where each rule cuts, the exchange in order, the groups.

It is made of boxes, lines, arrows and words at places, on a sheet that is filled from top to bottom. Lengths are units of the picture, one
for each pixel where it is shown in its own size. Offsets come to their places through an `Axis`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, assert_never

from replica_audit.report.facts.assessment import SEVERITY_NAMES
from replica_audit.report.facts.explanation import Explained, ExplainedReplica, ExplainedStep, Explanation
from replica_audit.report.layout.drawing import Axis, Need, Stroke, axis, tick_places
from replica_audit.report.layout.leader_words import has_no_leader, is_inferred, nobody
from replica_audit.report.layout.paragraphs import epoch, offsets
from replica_audit.report.sections.drawn_logs import CONFLICTS, GOES, KEPT, strokes
from replica_audit.rows.codes import Case
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import TruncationPoint
from replica_audit.words import count

UNIT = 8  # a column of the axis; a digit of the offsets above it is 7.2
LINE = 14
_CHARACTER, _STRONG = 6.7, 7.7  # widths of a character at 11.5, in a wide font
_EDGE = 8


class Box(NamedTuple):
    """A rectangle; `css` names its classes, `title` is shown on hover."""

    x: float
    y: float
    width: float
    height: float
    css: str
    title: str = ""


class Line(NamedTuple):
    """A line; one of class `arrow` has a head at its second end."""

    x1: float
    y1: float
    x2: float
    y2: float
    css: str
    title: str = ""


class Label(NamedTuple):
    """A line of text; the class `middle` or `end` says which point of it (x, y) is, without it is the first."""

    x: float
    y: float
    text: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """How wide to draw: the axis in columns, and the room for names to the left of it, 0 to put them above."""

    name: str
    columns: int
    margin: int

    @property
    def left(self) -> int:
        """Where the axis begins."""
        return max(self.margin, _EDGE)

    @property
    def width(self) -> int:
        """Of the whole picture."""
        return self.left + self.columns * UNIT + 2 * _EDGE


WIDE = Paper(name="wide", columns=95, margin=264)
NARROW = Paper(name="narrow", columns=39, margin=0)


@dataclass(slots=True)
class Sheet:
    """A picture in the making; `y` is where the next row begins, `colours` the class of each epoch."""

    paper: Paper
    on: Axis
    colours: dict[str, str]
    y: float = 0
    boxes: list[Box] = field(default_factory=list)
    strokes: list[Line] = field(default_factory=list)
    words: list[Label] = field(default_factory=list)

    def x(self, offset: int) -> float:
        """The place of an offset."""
        return self.paper.left + self.on.column(offset) * UNIT

    def row(self, names: Sequence[str], height: float, css: str = "") -> float:
        """Begin a row: its names beside or above it, the first of them in the given class. Returns where its drawing begins."""
        beside = self.paper.margin > 0
        room = self.paper.margin - 2 * _EDGE if beside else self.paper.width - 2 * _EDGE
        told = names if beside or len(names) < 2 else [names[0], " · ".join(names[1:])]
        lines = [
            (line, css if not place else "")
            for place, name in enumerate(told)
            for line in textwrap.wrap(name, int(room / (_STRONG if css and not place else _CHARACTER)))
        ]
        for number, (line, style) in enumerate(lines):
            self.words.append(Label(_EDGE, self.y + LINE * number + 12, line, style))
        top = self.y if beside else self.y + LINE * len(lines) + 4
        self.y = max(top + height, self.y + LINE * len(lines)) + 6
        return top

    def head(self, text: str) -> None:
        """The heading of the rows that follow."""
        self.words.append(Label(_EDGE, self.y + 18, text, "head"))
        self.y += 26

    def span(self, first: int, end: int, y: float, height: float, css: str, title: str = "") -> float:
        """A box over [first, end); returns its width."""
        width = self.x(end) - self.x(first)
        if width > 0:
            self.boxes.append(Box(self.x(first), y, width, height, css, title))
        return width

    def arrow(self, from_offset: int, to_offset: int, y: float, css: str, title: str = "") -> None:
        """An arrow from one offset to another; a dot where they are the same place."""
        first, last = self.x(from_offset), self.x(to_offset)
        if first == last:
            self.boxes.append(Box(first - 3, y - 3, 6, 6, f"dot {css}", title))
        else:
            self.strokes.append(Line(first, y, last, y, f"arrow {css}", title))

    def post(self, offset: int, top: float, bottom: float, css: str, title: str = "") -> None:
        """A vertical line at an offset."""
        self.strokes.append(Line(self.x(offset), top, self.x(offset), bottom, css, title))

    def say(self, offset: int, y: float, text: str, css: str = "", *, beside: bool = False) -> None:
        """Words that begin at an offset, or as near as there is room; `beside`: or rather end there."""
        at, length = self.x(offset), len(text) * _CHARACTER
        right = self.paper.width - _EDGE
        if beside and at + 3 + length > right and at - length >= _EDGE:
            self.words.append(Label(at - 3, y, text, f"{css} end".strip()))
        else:
            self.words.append(Label(max(min(at + 3, right - length), _EDGE), y, text, css))


def in_few_words(step: ExplainedStep) -> tuple[str, str, str]:
    """Question, answer and effect; the exchange in full stands below the picture."""
    does = "" if step.truncate_to is None else f"truncates to {step.truncate_to}"
    if step.case is Case.OUT_OF_RANGE_RESTART:
        does = f"starts again, empty, at {step.offset}"
    if step.number is None:
        return f"falls back to its high watermark {step.offset}", "", does
    asked = f"fetches from {step.log_end_offset}" if step.fetches else f"asks where {epoch(step.requested_epoch)} ends"
    if step.fetches and step.requested_epoch is not None:
        asked += f" ({epoch(step.requested_epoch)})"
    match step.case:
        case Case.RECORDS:
            answer = "leader: records"
        case Case.UNDEFINED:
            answer = "leader: does not know"
        case Case.NO_EPOCH:
            answer = f"leader: {step.answered_end_offset}"
        case Case.OUT_OF_RANGE_LONGER | Case.OUT_OF_RANGE_RESTART | Case.OUT_OF_RANGE_AGAIN:
            answer = "leader: out of range"
        case Case.COMMON_EPOCH | Case.UNKNOWN_EPOCH | Case.LATER_EPOCH:
            answer = f"leader: {epoch(step.answered_epoch)} ends at {step.answered_end_offset}"
        case Case.HIGH_WATERMARK:
            answer = ""  # nothing was asked
        case _ as never:
            assert_never(never)
    return asked, answer, does


COLOURS = 8
_BAR, _FLAG, _TRACK, _GAP = 24, 15, 14, 8
_MOST_GROUPS, _MOST_FOLLOWERS = 6, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture, ready to be drawn in the order boxes, lines, words; `description` says the same in words."""

    paper: Paper
    height: float
    title: str
    description: str
    boxes: tuple[Box, ...]
    strokes: tuple[Line, ...]
    words: tuple[Label, ...]


def picture(explained: Explained, paper: Paper) -> Picture | None:
    """Draw a partition; None where no replica of it has a log."""
    followers = worst_first(explained.followers)[:_MOST_FOLLOWERS]
    groups = [impact for impact in explained.partition.impacts if impact.affected][:_MOST_GROUPS]
    laid_out = _axis(followers, groups, paper)
    if laid_out is None:
        return None
    sheet = Sheet(paper, laid_out[0], _colours(followers))
    _ticks(sheet, laid_out[1])
    leader = followers[0].leader
    top = sheet.y
    _log(sheet, _name(followers[0]), leader, strokes(leader.history, (), None))
    for follower in followers:
        sheet.y += _GAP
        _follower(sheet, follower)
    _groups(sheet, groups)
    bottom = sheet.y
    for place in sorted(sheet.on.hiding):
        left, right = (sheet.paper.left + sheet.on.columns[at] * UNIT for at in (place, place + 1))
        left_out = f"{offsets(sheet.on.offsets[place], sheet.on.offsets[place + 1])}: not drawn in full"
        sheet.boxes.append(Box((left + right) / 2 - 5, top, 10, bottom - top, "fold", left_out))
    return Picture(
        paper=paper,
        height=bottom,
        title=f"Logs of {explained.partition.name} by offset",
        description=" ".join(_described(followers)),
        boxes=tuple(sheet.boxes),
        strokes=tuple(sheet.strokes),
        words=tuple(sheet.words),
    )


def _name(one: Explanation) -> str:
    """The first log's label."""
    if one.verdict.leader_id < 0:
        return nobody(one.verdict).capitalize()
    if not is_inferred(one.verdict):
        return f"Broker {one.leader.broker_id}, the leader"
    return f"Broker {one.leader.broker_id}, {'as if it led' if has_no_leader(one.verdict) else 'inferred leader'}"


def worst_first(followers: Iterable[Explanation]) -> list[Explanation]:
    """Followers by severity, then by what they lose."""

    def rank(one: Explanation) -> tuple[int, int, int, int]:
        verdict = one.verdict
        lost = (-(verdict.committed or 0), -(verdict.loses_records or 0))
        return (SEVERITY_NAMES.index(verdict.severity), *lost, verdict.follower_id)

    return sorted(followers, key=rank)


def _axis(followers: Sequence[Explanation], groups: Sequence[ConsumerImpact], paper: Paper) -> tuple[Axis, set[int]] | None:
    """The axis that all logs share, and the offsets that it must show."""
    if not followers:
        return None
    firm: set[int] = set()
    others = {offset for impact in groups for offset in (impact.committed_offset, impact.reset_offset) if offset is not None}
    needs: list[Need] = []
    for one in followers:
        verdict = one.verdict
        firm |= {offset for offset in (verdict.divergence_offset, verdict.truncation_offset, verdict.restart_offset) if offset is not None}
        others |= {point.truncation_offset for point in one.points if point.truncation_offset is not None}
        others |= {step.truncate_to for step in one.outcome.steps if step.truncate_to is not None} if one.outcome else set()
        for side in (one.leader, one.follower):
            if side.state is not None and side.log is not None:
                firm |= {side.state.log_start_offset, side.state.log_end_offset}
                others |= {side.log.high_watermark} if side.log.high_watermark is not None else set()
                needs += [Need(first_offset=s.first_offset, end_offset=s.end_offset, columns=4) for s in side.history]
                others |= {offset for span in side.history for offset in (span.first_offset, span.end_offset)}
    if not firm:
        return None
    # room to write each of these offsets above its place
    needs += [Need(first_offset=left, end_offset=right, columns=len(str(left)) + 1) for left, right in pairwise(sorted(firm))]
    return axis(firm | others, firm, needs, paper.columns + 1), firm


def _colours(followers: Sequence[Explanation]) -> dict[str, str]:
    """A class for each epoch, by its label: neighbours in time never share one."""
    sides = [side for one in followers for side in (one.leader, one.follower)]
    epochs = sorted({span.leader_epoch for side in sides for span in side.history if span.leader_epoch >= 0})
    return {str(number): f"e{place % COLOURS}" for place, number in enumerate(epochs)}


def _ticks(sheet: Sheet, firm: set[int]) -> None:
    """The offsets, in as few rows as they need, each with a line down to the first log."""
    names = tick_places(sheet.on, firm, sheet.paper.columns + 1)
    rows = max(row for row, _start in names.values()) + 1
    for offset, (row, start) in names.items():
        y = (rows - row) * LINE
        text = str(offset)
        sheet.words.append(Label(sheet.paper.left + start * UNIT + 2, y, text, "tick"))
        sheet.post(offset, y + 3, rows * LINE + 8, "guide")
    if sheet.paper.margin:
        sheet.words.append(Label(UNIT, rows * LINE, "offset", "quiet"))
    sheet.y = rows * LINE + 8


def _log(sheet: Sheet, name: str, side: ExplainedReplica, segments: Iterable[Stroke], *notes: str) -> float:
    """A log as a bar with its high watermark; returns where the bar begins."""
    log, state = side.log, side.state
    if log is None or state is None:
        why = [] if side.broker_id < 0 else ["not in the input" if log is None else "cannot be read"]
        return sheet.row([name, *why, *notes], _BAR, "strong")
    holds = offsets(state.log_start_offset, state.log_end_offset) if state.log_end_offset > state.log_start_offset else "no offsets"
    top = sheet.row([name, holds, *notes], _FLAG + _BAR + 6, "strong") + _FLAG
    sheet.span(state.log_start_offset, state.log_end_offset, top, _BAR, "log")
    _segments(sheet, segments, top, _BAR)
    sheet.post(state.log_end_offset, top - 2, top + _BAR + 2, "edge", f"log end {state.log_end_offset}")
    if log.high_watermark is not None:
        sheet.post(log.high_watermark, top - 12, top + _BAR, "mark", f"high watermark {log.high_watermark} (checkpoint)")
        sheet.say(log.high_watermark, top - 4, f"high watermark {log.high_watermark}", "note", beside=True)
    return top


def _segments(sheet: Sheet, segments: Iterable[Stroke], top: float, height: float) -> None:
    for segment in segments:
        fate = {KEPT: "", GOES: " goes", CONFLICTS: " differs"}[segment.fill]
        known = segment.label.isdigit()
        says = f"{f'epoch {segment.label}' if known else segment.label}, {offsets(segment.first_offset, segment.end_offset)}"
        says += {KEPT: "", GOES: ": truncated", CONFLICTS: ": differs from the leader"}[segment.fill]
        css = f"epoch {sheet.colours.get(segment.label, 'ex')}{fate}"
        width = sheet.span(segment.first_offset, segment.end_offset, top, height, css, says)
        if fate:
            sheet.span(segment.first_offset, segment.end_offset, top, height, f"over{fate}")
        whole = f"epoch {segment.label}" if known else segment.label
        text = next((text for text in (whole, segment.label) if len(text) * 7 + 8 <= width), "")
        if text:
            sheet.words.append(Label(sheet.x(segment.first_offset) + width / 2, top + height / 2 + 4, text, "on-bar middle"))


def _follower(sheet: Sheet, one: Explanation) -> None:
    verdict, outcome = one.verdict, one.outcome
    physical = outcome.physical_offset if outcome else None
    parts = f"diverges from the leader at {verdict.divergence_offset}" if verdict.divergence_offset is not None else verdict.verdict
    segments = strokes(one.follower.history, one.differences, physical)
    top = _log(sheet, f"Broker {verdict.follower_id}, follower", one.follower, segments, parts) + _BAR + 2
    state, leader = one.follower.state, one.leader.state
    if state is None or leader is None:
        return
    start = max(state.log_start_offset, leader.log_start_offset)
    end = min(state.log_end_offset, leader.log_end_offset) if verdict.divergence_offset is None else verdict.divergence_offset
    if verdict.severity == "none" or verdict.divergence_offset is not None:
        sheet.span(start, end, top, 4, "same", f"{offsets(start, end)}: the same as the leader's" if end > start else "")
    if verdict.severity == "none" or outcome is None:
        return
    _what_goes(sheet, one, physical, top)
    if outcome.steps:
        sheet.head("Questions and answers, in order")
        for step in outcome.steps:
            _step(sheet, step, leader.log_end_offset)
    if any(point.truncation_offset is not None or point.restart_offset is not None for point in one.points):
        sheet.head("Where each rule truncates this follower")
        for point in one.points:
            _cut(sheet, point, state.log_start_offset, state.log_end_offset)
    if physical is not None and not (one.applied is not None and one.applied.stuck) and outcome.history:
        then = sheet.row([f"Broker {verdict.follower_id}, afterwards"], 18, "strong")
        _segments(sheet, strokes(outcome.history, verdict.conflicts or (), None), then, 18)


def _what_goes(sheet: Sheet, one: Explanation, physical: int | None, top: float) -> None:
    state = one.follower.state
    if state is None or physical is None or physical >= state.log_end_offset:
        return
    gone = f"{offsets(physical, state.log_end_offset)} of broker {one.verdict.follower_id}: truncated"
    sheet.span(physical, state.log_end_offset, top, 4, "gone", gone)
    records = one.verdict.removed_records
    said = count(state.log_end_offset - physical, "offset") if records is None else count(records, "record")
    sheet.y += 10
    below = one.verdict.committed
    committed = f", {below} committed offset{'s' * (below != 1)}" if below else ""
    sheet.say(physical, top + 16, f"truncates {said}{committed}", "note alarm")


def _step(sheet: Sheet, step: ExplainedStep, leader_end: int) -> None:
    """A question and its answer as an arrow to what was answered, and the cut that follows as one to where it ends."""
    number = "" if step.number is None else f"{step.number}  "
    asked, answer, does = in_few_words(step)
    names = [f"{number}{asked}", *(text for text in (answer, does) if text)]
    top = sheet.row(names, 2 * LINE if step.truncate_to is not None or step.offset is not None else LINE) + 9
    if step.answered_end_offset is not None and step.answered_end_offset >= 0:
        sheet.arrow(step.log_end_offset, step.answered_end_offset, top, "answer", answer)
    elif step.case is Case.RECORDS:
        sheet.arrow(step.log_end_offset, leader_end, top, "flow", answer)
    sheet.boxes.append(Box(sheet.x(step.log_end_offset) - 3, top - 3, 6, 6, "dot", asked))
    goes_to = step.truncate_to if step.truncate_to is not None else step.offset
    if goes_to is not None and goes_to != step.log_end_offset:
        sheet.arrow(step.log_end_offset, goes_to, top + LINE, "cut applies", does)


def _cut(sheet: Sheet, point: TruncationPoint, log_start: int, log_end: int) -> None:
    name = f"{'▶ ' if point.applies else ''}{point.protocol}: {', '.join(_outcome(point))}"
    top = sheet.row([name], _TRACK, "strong" if point.applies else "") + _TRACK / 2
    sheet.strokes.append(Line(sheet.x(log_start), top, sheet.x(log_end), top, "track"))
    goes_to = point.truncation_offset if point.restart_offset is None else point.restart_offset
    if goes_to is not None:
        sheet.arrow(log_end, goes_to, top, "cut applies" if point.applies else "cut", name)


def _outcome(point: TruncationPoint) -> Iterator[str]:
    if point.restart_offset is not None:
        yield f"restarts at {point.restart_offset}"
    else:
        yield "nothing" if point.truncation_offset is None else f"to {point.truncation_offset}"
    if point.fetcher_fails:
        yield "fetcher fails"
    elif point.still_diverged:
        yield "stays diverged"


def _groups(sheet: Sheet, groups: Sequence[ConsumerImpact]) -> None:
    if groups:
        sheet.head("Consumer groups: from committed to resumed")
    for group in groups:
        resumes = "its reset policy decides" if group.reset_offset is None else f"resumes at {group.reset_offset}"
        top = sheet.row([group.group_id, f"committed {group.committed_offset}, {resumes}"], _TRACK) + _TRACK / 2
        if group.reset_offset is not None and group.reset_offset != group.committed_offset:
            sheet.arrow(group.committed_offset, group.reset_offset, top, "group", group.reason)
        sheet.boxes.append(
            Box(sheet.x(group.committed_offset) - 4, top - 4, 8, 8, "dot round group", f"committed {group.committed_offset}")
        )


def _described(followers: Sequence[Explanation]) -> Iterator[str]:
    """The picture in words, for who does not see it."""
    leader = followers[0].leader
    if leader.state is not None:
        name = _name(followers[0]) if is_inferred(followers[0].verdict) else f"Leader {leader.broker_id}"
        yield f"{name}: {offsets(leader.state.log_start_offset, leader.state.log_end_offset)}."
    for one in followers:
        state = one.follower.state
        if state is None:
            yield f"Follower {one.verdict.follower_id}: no log to draw."
            continue
        said = [offsets(state.log_start_offset, state.log_end_offset)]
        if one.verdict.divergence_offset is not None:
            said.append(f"diverges from the leader at {one.verdict.divergence_offset}")
        if one.verdict.truncation_offset is not None:
            said.append(f"truncates to {one.verdict.truncation_offset}")
        yield f"Follower {one.verdict.follower_id}: {', '.join(said)}."
