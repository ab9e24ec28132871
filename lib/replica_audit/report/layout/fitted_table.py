"""A table that fits into 80 columns whatever its cells hold: columns are wrapped where that costs the fewest lines, nothing is left out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from replica_audit.report.layout.drawing import WIDTH
from replica_audit.report.layout.paragraphs import printable

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
