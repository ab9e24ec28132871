"""Sentences, items and tables as lines of 80 columns. Nothing of a text is lost: what is too long for a line goes on in the next."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from replica_audit.report.layout.drawing import WIDTH

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_LATEST_MS = 253_402_300_800_000  # what comes later has no date of four digits
_DATE = len("2026-11-21 ")


class _Wrapper(textwrap.TextWrapper):
    """Breaks a path that is longer than a line between its parts, not anywhere."""

    def _split(self, text: str) -> list[str]:
        room = self.width - len(self.subsequent_indent)
        chunks = super()._split(text)
        return [part for chunk in chunks for part in (re.findall("[^/]*/+|[^/]+", chunk) if len(chunk) > room else [chunk])]


class CommandLine(str):
    """A line to type: it stands alone, and nothing breaks it."""

    __slots__ = ()


def printable(text: str) -> str:
    """A text from files, with what a terminal cannot show, or obeys, as escapes."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in text)


def paragraph(text: str, indent: int = 2, first: str = "") -> list[str]:
    """A text as wrapped lines; `first` stands before the first line and moves the others in."""
    lead = " " * indent + first
    wrapper = _Wrapper(WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
    return wrapper.wrap(printable(text)) or [lead.rstrip()]


def offsets(first: int, end: int) -> str:
    """The offsets [first, end) by their first and last."""
    return f"offset {first}" if end == first + 1 else f"offsets {first}..{end - 1}"


def epoch(number: int | None) -> str:
    """An epoch, or that there is none."""
    if number is None:
        return "nothing"
    return f"epoch {number}" if number >= 0 else "no epoch"


def moment(timestamp_ms: int) -> str:
    """A record's timestamp in UTC; as a number where it is not a time."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except OverflowError:
        return f"{timestamp_ms} ms"


def span_of_time(first_ms: int, last_ms: int) -> str:
    """From one timestamp to another, in UTC; the day once."""
    first, last = moment(first_ms), moment(last_ms)
    day, is_time = _DAY_MS, max(first_ms, last_ms) < _LATEST_MS
    if first_ms == last_ms:
        return first
    return f"{first} to {last[_DATE:] if is_time and first_ms // day == last_ms // day else last}"


def listed(values: Iterable[object], most: int = 5) -> str:
    """The first values, and how many more there are."""
    shown = [str(value) for value in values]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


_GAP = 2
_WIDEST = 50
_NOTHING = ("", "-")


def fitted(head: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> Iterator[str]:
    """Lines of cells in columns, two blanks between; columns in which no cell says anything are dropped.

    Args:
        head: the columns' names; a line feed parts the lines of one.
        rows: the cells, as many as there are columns.
        indent: blanks before each line.
    """
    kept = [place for place in range(len(head)) if any(row[place] not in _NOTHING for row in rows)]
    columns = [_Column(head[place].split("\n"), [printable(row[place]) for row in rows]) for place in kept]
    room = WIDTH - indent - _GAP * (len(columns) - 1)
    for narrowest in (_Column.longest_word, _Column.longest_number, _Column.one):
        least = {id(column): narrowest(column) for column in columns}
        while sum(column.width for column in columns) > room:
            wide = [column for column in columns if column.width > least[id(column)]]
            if not wide:
                break
            min(wide, key=lambda column: (_height(columns, column), -column.width)).width -= 1
    for line in range(-1, len(rows)):
        for parts in zip_longest(*(column.wrapped(line, column.width) for column in columns), fillvalue=""):
            cells = (part.ljust(column.width) for part, column in zip(parts, columns, strict=True))
            yield (" " * indent + (" " * _GAP).join(cells)).rstrip()


class _Column:
    """One column: its name, its cells, and how wide it is by now."""

    def __init__(self, name: Sequence[str], cells: Sequence[str]) -> None:
        self.name, self.cells = name, cells
        self.width = min(max(map(len, (*name, *cells))), _WIDEST)
        self._heights: dict[int, list[int]] = {}

    def longest_word(self) -> int:
        """The longest part that is not broken without need."""
        return max((len(word) for text in (*self.name, *self.cells) for word in re.findall(r"[^\s-]*-|[^\s-]+", text)), default=1)

    def longest_number(self) -> int:
        """The longest cell that is misread if it is broken."""
        return max((len(text) for text in self.cells if text.isdigit()), default=1)

    def one(self) -> int:
        """The narrowest that a column can be."""
        return 1

    def wrapped(self, line: int, width: int) -> list[str]:
        """The lines of one cell; -1 is the name."""
        texts = self.name if line < 0 else [self.cells[line]]
        return [part for text in texts for part in textwrap.wrap(text, width)]

    def heights(self, width: int) -> list[int]:
        """How many lines the name and each cell have at a width."""
        if width not in self._heights:
            self._heights[width] = [len(self.wrapped(line, width)) for line in range(-1, len(self.cells))]
        return self._heights[width]


def _height(columns: Sequence[_Column], narrowed: _Column) -> int:
    """How many lines the table has with one column narrowed."""
    return sum(map(max, zip(*(column.heights(column.width - (column is narrowed)) for column in columns), strict=True)))


def whole_in(place: str, warehouse: str) -> str:
    """The end of a line that leaves something out.

    Args:
        place: the table that holds all of it, or a column of one.
        warehouse: of the run; empty if it keeps no tables.
    """
    return f"in {place}" if warehouse else f"(not kept; audit writes all to {place})"
