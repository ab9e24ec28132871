"""Whether a row may be written to its table, told before it is: one row that a table refuses would end the write of all others.

The checks are those of the table itself: its CHECK expressions, of which few forms of SQL are used, and the columns that are never null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from replica_audit.rows.columns import KEYS, Table

_WORDS = ((r"\bIS NULL\b", "is None"), (r"\bIN \(", "in ("), (r"\bOR\b", "or"), (r"\bAND\b", "and"), (r"(?<![<>!])=", "=="))
_TEXT = re.compile(r"('[^']*')")


def checker(table: Table) -> Callable[[Any], str | None]:
    """Return a function that names what a row violates: a column that may not be null, or a check of the table; None: nothing.

    As in Delta a check is violated unless it is true: null is not.
    """
    parts = _parts(table)
    whole = _compiled(_and([part for _check, part in parts]))
    single = [(check, _compiled(part)) for check, part in parts]

    def violation(row: Any) -> str | None:
        return None if _holds(whole, row) else next(check for check, holds in single if not _holds(holds, row))

    return violation


def all_pass(table: Table) -> Callable[[Any], bool]:
    """Return a function that says whether several rows all violate nothing, asked of all at once; `checker` says what one violates."""
    parts = [part for _check, part in _parts(table)]
    every = _compiled(f"all([{_and(parts)} for row in rows])", "rows")

    def passes(rows: Any) -> bool:
        return not rows or _holds(every, rows)

    return passes


def _parts(table: Table) -> list[tuple[str, str]]:
    """Each check by its name, or the column that may not be null, and what must be true of `row`."""
    parts = [(column.name, f"row.{column.name} is not None") for column in table.columns[len(KEYS) :] if not column.nullable]
    return parts + [(check, in_python(expression)) for check, expression in table.constraints.items()]


def _and(parts: Sequence[str]) -> str:
    return " and ".join(f"({part})" for part in parts) or "True"


def _holds(check: Callable[[Any], Any], asked: Any) -> bool:
    try:
        return bool(check(asked))
    except TypeError:  # null compared with something
        return False


def _compiled(expression: str, of: str = "row") -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = eval(f"lambda {of}: {expression}", {})  # noqa: S307 - made of the project's own tables
    return found


def in_python(expression: str) -> str:
    """A CHECK expression as one of Python, about the attributes of `row`."""
    made = ""
    for part in _TEXT.split(expression):
        if not part.startswith("'"):
            part = re.sub(r"\b[a-z]\w*", r"row.\g<0>", part)
            for words, means in _WORDS:
                part = re.sub(words, means, part)
        made += part
    return made
