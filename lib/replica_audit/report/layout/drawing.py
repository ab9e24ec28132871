"""Logs as bars of plain text over one axis of offsets: epochs as labelled segments, marks below them.

Every offset that matters gets a column of its own, what lies between is drawn as long as there is room. Where one scale does for all, it is
one; else long stretches are drawn shorter than short ones. Where there are more offsets than columns, those far from the focus are left
out, and a stretch that hides some is told from one that does not.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

_HIDING = 8  # columns that a stretch needs to say that it hides something
_SHORTENED = 4  # times shorter than the longest drawn one: then a stretch is marked
_NEARLY_TO_SCALE = 4  # offsets for each column: up to here lengths are compared as they are, beyond by their orders of magnitude
_MOST = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A stretch between two offsets that needs some columns from the first to the second, to hold a label."""

    first_offset: int
    end_offset: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Ascending offsets and their ascending columns.

    `hiding` and `shortened` hold the indices of stretches, from one offset to the next, that leave out offsets, or are drawn shorter than
    the others.
    """

    offsets: tuple[int, ...]
    columns: tuple[int, ...]
    hiding: frozenset[int]
    shortened: frozenset[int]

    def column(self, offset: int) -> int:
        """The column of an offset; of one that is left out, a column inside its stretch if there is one. Never descending."""
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets):
            return self.columns[-1]
        if index == 0 or self.offsets[index] == offset:
            return self.columns[index]
        left, right = self.columns[index - 1], self.columns[index]
        part = (offset - self.offsets[index - 1]) * (right - left) // (self.offsets[index] - self.offsets[index - 1])
        return min(max(left + part, left + 1), right - 1) if right - left > 1 else left

    def shows(self, offset: int) -> bool:
        """Whether the offset has a column of its own."""
        index = bisect_left(self.offsets, offset)
        return index < len(self.offsets) and self.offsets[index] == offset

    def stretches(self, first_offset: int, end_offset: int) -> range:
        """The stretches that lie at least partly in [first, end), as indices."""
        return range(
            max(bisect_right(self.offsets, first_offset) - 1, 0), min(bisect_left(self.offsets, end_offset), len(self.offsets) - 1)
        )


def axis(offsets: Iterable[int], focus: Iterable[int], needs: Sequence[Need], width: int) -> Axis:
    """Lay out offsets.

    Args:
        offsets: that matter; at least one.
        focus: what must stay, and around which the others stay longest; the smallest and the largest offset always do.
        needs: stretches that want room for a label; where there is none at all, they get less.
        width: columns, at least 16.
    """
    known = sorted(set(offsets))
    if len(known) == 1:
        return Axis(offsets=tuple(known), columns=(0,), hiding=frozenset(), shortened=frozenset())
    order, least = _by_importance(known, sorted(set(focus)))
    fitting = [need for need in needs if need.columns < width]
    for room, counts in ((fitting, range(min(len(known), _MOST), least - 1, -1)), ((), range(least, 1, -1))):
        for count in counts:
            kept = sorted(order[:count])
            shown = [known[index] for index in kept]
            hiding = frozenset(place for place, (left, right) in enumerate(pairwise(kept)) if right > left + 1)
            smallest = _smallest(shown, hiding, room)
            if smallest[-1] < width:
                return _spread(shown, hiding, room, smallest, width)
    raise AssertionError("two offsets always have room")


def _by_importance(known: Sequence[int], focus: Sequence[int]) -> tuple[list[int], int]:
    """The indices of the offsets, most important first: the ends, the focus, then by distance from the focus; and how many must stay."""
    ends = {0, len(known) - 1}
    points = [index for offset in focus if (index := bisect_left(known, offset)) < len(known)] or sorted(ends)

    def rank(index: int) -> tuple[int, int, int]:
        place = bisect_left(points, index)
        distance = min(abs(index - point) for point in points[max(place - 1, 0) : place + 1])
        return (0 if index in ends else 1, distance, index)

    return sorted(range(len(known)), key=rank), len(ends | set(points))


def _smallest(shown: Sequence[int], hiding: frozenset[int], needs: Sequence[Need]) -> list[int]:
    """The leftmost columns at which everything has room."""
    index = {offset: place for place, offset in enumerate(shown)}
    wants: dict[int, list[tuple[int, int]]] = {}
    for need in needs:
        if need.first_offset in index and need.end_offset in index:
            first, end = index[need.first_offset], index[need.end_offset]
            if end == first + 1 and first in hiding:
                continue
            wants.setdefault(end, []).append((first, need.columns))
    columns = [0]
    for place in range(1, len(shown)):
        step = _HIDING if place - 1 in hiding else 1
        columns.append(max([columns[-1] + step, *(columns[first] + room for first, room in wants.get(place, ()))]))
    return columns


def _spread(shown: Sequence[int], hiding: frozenset[int], needs: Sequence[Need], smallest: Sequence[int], width: int) -> Axis:
    """Give the columns that are left over: by one scale if that does, else to what is shorter than its share."""
    total = shown[-1] - shown[0]
    by_scale = [(offset - shown[0]) * (width - 1) // total for offset in shown]
    if not hiding and _has_room(shown, by_scale, needs):
        return Axis(offsets=tuple(shown), columns=tuple(by_scale), hiding=hiding, shortened=frozenset())
    lengths = [right - left for left, right in pairwise(shown)]
    # a long log would leave its short stretches, where things happen, no more than they need
    weights = [float(length) if total <= _NEARLY_TO_SCALE * width else math.log2(1 + length) for length in lengths]
    widths = _shares(weights, [right - left for left, right in pairwise(smallest)], width - 1)
    scales = [columns / length for columns, length in zip(widths, lengths, strict=True)]
    shortened = frozenset(place for place, scale in enumerate(scales) if scale * _SHORTENED < max(scales) and place not in hiding)
    return Axis(offsets=tuple(shown), columns=tuple(accumulate(widths, initial=0)), hiding=hiding, shortened=shortened)


def _shares(weights: Sequence[float], least: Sequence[int], room: int) -> list[int]:
    """Whole numbers that fill the room, as near to the weights' proportions as what each needs at least allows."""

    def at(scale: float) -> list[int]:
        return [max(need, int(scale * weight)) for weight, need in zip(weights, least, strict=True)]

    low, high = 0.0, room / min(weights)
    for _halved in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) <= room else (low, middle)
    shares = at(low)
    shares[weights.index(max(weights))] += room - sum(shares)
    return shares


def _has_room(shown: Sequence[int], columns: Sequence[int], needs: Sequence[Need]) -> bool:
    at = dict(zip(shown, columns, strict=True))
    if any(left >= right for left, right in pairwise(columns)):
        return False
    return all(
        at[need.end_offset] - at[need.first_offset] >= need.columns for need in needs if need.first_offset in at and need.end_offset in at
    )


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
