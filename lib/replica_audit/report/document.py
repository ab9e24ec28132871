"""What an explanation says, before it is laid out: blocks, each written once. `text` makes lines of 80 columns of them, `page` HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or several; `label` stands before it, as `- ` before an item."""

    text: str
    label: str = ""
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: the columns' names, in which a line feed parts the lines of one, and the cells below them."""

    head: Sequence[str]
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Exact:
    """Lines that nothing may break or wrap: commands, the lines of a file, a drawing."""

    lines: Sequence[str]
    indent: int = 4


Block = Heading | Sentence | Rows | Exact
