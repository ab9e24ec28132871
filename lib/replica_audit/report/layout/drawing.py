"""Logs as bars of plain text over one axis of offsets: epochs as labelled segments, marks below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.report.layout.axis import Axis, Need, axis

WIDTH = 80
_LONGEST_NAME = 22
_TICK_ROWS = 4
HIDDEN, SHORTENED = ".", "~"


class Stroke(NamedTuple):
    """A segment of a bar over [first, end): a label, and the character that it is drawn with."""

    first_offset: int
    end_offset: int
    label: str
    fill: str


class Mark(NamedTuple):
    """A letter below a bar."""

    offset: int
    letter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One log.

    `strokes` ascend without overlaps; what they leave out is blank. `posts` are offsets that get a bar of their own, such as the ends of a
    log that holds nothing. `note` stands in place of a bar that has neither.
    """

    name: str
    strokes: tuple[Stroke, ...] = ()
    posts: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The lines, and which of the characters HIDDEN and SHORTENED they need explained."""

    lines: tuple[str, ...]
    symbols: frozenset[str] = frozenset()


def draw(bars: Sequence[Bar], focus: Sequence[int] = ()) -> Drawing:
    """Draw bars over one axis.

    Args:
        bars: from top to bottom.
        focus: offsets that are drawn whatever else has to be left out, like those of posts and marks.
    """
    margin = 4 + min(max((len(bar.name) for bar in bars), default=0), _LONGEST_NAME)
    firm = {*focus, *(offset for bar in bars for offset in (*bar.posts, *(mark.offset for mark in bar.marks)))}
    offsets = firm | {offset for bar in bars for stroke in bar.strokes for offset in (stroke.first_offset, stroke.end_offset)}
    if not offsets:
        return Drawing(lines=tuple(_line(bar.name, margin, bar.note) for bar in bars))
    needs = [Need(first_offset=s.first_offset, end_offset=s.end_offset, columns=len(s.label) + 3) for bar in bars for s in bar.strokes]
    laid_out = axis(offsets, firm, needs, WIDTH - margin)
    lines = [_line("offset" if not row else "", margin, text) for row, text in enumerate(_ticks(laid_out, firm, WIDTH - margin))]
    for bar in bars:
        lines.append(_line(bar.name, margin, _bar(bar, laid_out, WIDTH - margin) or bar.note))
        lines += [_line("", margin, row) for row in _marks(bar, laid_out, WIDTH - margin)]
    drawn = "".join(lines)
    return Drawing(
        lines=tuple(lines), symbols=frozenset(s for s, is_used in ((HIDDEN, laid_out.hiding), (SHORTENED, SHORTENED in drawn)) if is_used)
    )


def _line(name: str, margin: int, text: str) -> str:
    return f"  {name[:_LONGEST_NAME]}".ljust(margin)[:margin] + text[: WIDTH - margin] if text else f"  {name[:_LONGEST_NAME]}".rstrip()


class _Canvas:
    """One row of characters, written to by column; what would lie outside is left out."""

    def __init__(self, width: int) -> None:
        self.cells = [" "] * width

    def put(self, column: int, text: str) -> None:
        for place, character in enumerate(text, column):
            if 0 <= place < len(self.cells):
                self.cells[place] = character

    def is_free(self, first: int, end: int) -> bool:
        return first >= 0 and end <= len(self.cells) and all(cell == " " for cell in self.cells[first:end])

    def __str__(self) -> str:
        return "".join(self.cells).rstrip()


def _bar(bar: Bar, on: Axis, width: int) -> str:
    canvas = _Canvas(width)
    for stroke in bar.strokes:
        first, end = on.column(stroke.first_offset), on.column(stroke.end_offset)
        canvas.put(first, stroke.fill * (end - first))
    for stretch in on.shortened:
        _shorten(canvas, on, stretch, {stroke.fill for stroke in bar.strokes})
    for stretch in on.hiding:
        _hide(canvas, bar, on, stretch)
    for stroke in bar.strokes:
        _label(canvas, stroke, on)
    for offset in (*bar.posts, *(offset for stroke in bar.strokes for offset in (stroke.first_offset, stroke.end_offset))):
        if on.shows(offset):
            canvas.put(on.column(offset), "|")
    return str(canvas)


def _shorten(canvas: _Canvas, on: Axis, stretch: int, fills: set[str]) -> None:
    """Mark the middle of a stretch, where there is something drawn."""
    middle = (on.columns[stretch] + on.columns[stretch + 1]) // 2
    if middle > on.columns[stretch] and canvas.cells[middle] in fills:
        canvas.put(middle, SHORTENED)


def _hide(canvas: _Canvas, bar: Bar, on: Axis, stretch: int) -> None:
    """Say how many segments a stretch hides of this bar; where it hides none, the bar goes on."""
    first, end = on.offsets[stretch], on.offsets[stretch + 1]
    inside = [stroke for stroke in bar.strokes if stroke.first_offset < end and stroke.end_offset > first]
    if not any(first < offset < end for stroke in inside for offset in (stroke.first_offset, stroke.end_offset)):
        return
    left, room = on.columns[stretch] + 1, on.columns[stretch + 1] - on.columns[stretch] - 1
    count = len({stroke.label for stroke in inside})
    said = next((text for text in (f"{count} epochs", f"{count}") if len(text) + 2 <= room), "")
    canvas.put(left, said.center(room, HIDDEN))


def _label(canvas: _Canvas, stroke: Stroke, on: Axis) -> None:
    """Write a segment's label near its visible beginning, where it fits between its ends."""
    first, end = on.column(stroke.first_offset), on.column(stroke.end_offset)
    if not on.shows(stroke.first_offset):
        seen = [on.columns[place] for place in on.stretches(stroke.first_offset, stroke.end_offset) if place not in on.hiding]
        if not seen:
            return
        first = seen[0]
    room = end - first - 1
    if room < len(stroke.label):
        return
    start = first + 2 if room >= len(stroke.label) + 2 else first + 1
    if HIDDEN not in canvas.cells[start : start + len(stroke.label)]:
        canvas.put(start, stroke.label)


def _marks(bar: Bar, on: Axis, width: int) -> Iterator[str]:
    """Letters below their offsets, several of one offset below each other."""
    rows: list[_Canvas] = []
    for mark in bar.marks:
        column = on.column(mark.offset)
        row = next((row for row in rows if row.is_free(column, column + 1)), None)
        if row is None:
            row = _Canvas(width)
            rows.append(row)
        row.put(column, mark.letter)
    return map(str, rows)


def _ticks(on: Axis, firm: set[int], width: int) -> Iterator[str]:
    """The offsets above their columns, in as few rows as they need, and a line down from each; those without room go unnamed."""
    placed = tick_places(on, firm, width)
    rows = [_Canvas(width) for _row in range(max(row for row, _start in placed.values()) + 1)]
    for offset, (row, start) in placed.items():
        rows[row].put(start, str(offset))
        for below in rows[:row]:
            below.put(on.column(offset), "|")
    feet = _Canvas(width)
    for offset in placed:
        feet.put(on.column(offset), "|")
    return map(str, (*reversed(rows), feet))


def tick_places(on: Axis, firm: set[int], width: int) -> dict[int, tuple[int, int]]:
    """(row, first column) of each offset that finds room for its name, row 0 the lowest; those of `firm` first."""
    by_place = list(reversed(on.offsets))
    placed = _placed(on, by_place, width)
    if len(placed) < len(by_place):
        placed = _placed(on, sorted(by_place, key=lambda offset: (offset not in firm, offset)), width)
    return placed


def _placed(on: Axis, order: Sequence[int], width: int) -> dict[int, tuple[int, int]]:
    """(row, first column) of each offset that finds room, row 0 the lowest: no name covers another, nor the line down from one above."""
    placed: dict[int, tuple[int, int]] = {}
    for offset in order:
        column, length = on.column(offset), len(str(offset))
        start = column if column + length <= width else width - length
        for row in range(_TICK_ROWS):
            if all(_clear(on, placed[other], other, offset, row, start) for other in placed):
                placed[offset] = (row, start)
                break
    return placed


def _clear(on: Axis, there: tuple[int, int], other: int, offset: int, row: int, start: int) -> bool:
    other_row, other_start = there
    end, other_end = start + len(str(offset)), other_start + len(str(other))
    if row == other_row:
        return end < other_start or other_end < start
    if row < other_row:
        return not start - 1 <= on.column(other) <= end
    return not other_start - 1 <= on.column(offset) <= other_end
