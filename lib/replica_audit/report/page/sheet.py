"""What a picture is made of: boxes, lines, arrows and words at places, and a sheet that is filled from top to bottom.

Lengths are units of the picture, one for each pixel where it is shown in its own size. Offsets come to their places through an `Axis`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replica_audit.report.layout.drawing import Axis

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
