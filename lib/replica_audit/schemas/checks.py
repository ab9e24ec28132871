"""Whether a row may be written to its table, told before it is: one row that a table refuses would end the write of all others.

The checks are those of the table itself: its CHECK expressions, of which few forms of SQL are used, and the columns that are never null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import CodeType
from typing import Any, NamedTuple

from replica_audit.schemas.columns import Table

_KEYS = 2  # run_id and cluster_id, which are put in front later
_WORDS = ((r"\bIS NULL\b", "is None"), (r"\bIN \(", "in ("), (r"\bOR\b", "or"), (r"\bAND\b", "and"), (r"(?<![<>!])=", "=="))


class _Checks(NamedTuple):
    """Of a table: all checks as one expression of Python, each by its name, and all as one function of many rows."""

    whole: CodeType
    parts: list[tuple[str, CodeType]]
    of_rows: Callable[[Sequence[Mapping[str, Any]]], bool]


_MADE: dict[int, tuple[Table, _Checks]] = {}


def all_may_be_written(table: Table, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `violation` finds nothing in any of the rows: asked once for all of them, since it nearly never does."""
    if not rows:
        return True
    try:
        return _of(table).of_rows(rows)
    except (TypeError, KeyError):  # null compared with something; a column that a row leaves out is null
        return False


def violation(table: Table, row: Mapping[str, Any]) -> str | None:
    """What of a table a row violates: the name of a column that may not be null, or of a check; None if it may be written.

    As in Delta a check is violated unless it is true: null is not.
    """
    whole, parts, _of_rows = _of(table)
    if _holds(whole, row):
        return None
    return next(name for name, part in parts if not _holds(part, row))


def _holds(check: CodeType, row: Mapping[str, Any]) -> bool:
    try:
        return bool(eval(check, {}, {**dict.fromkeys(check.co_names), **row}))  # noqa: S307 - made of the project's own schemas
    except TypeError:  # null compared with something
        return False


def _of(table: Table) -> _Checks:
    """The checks of a table, made once: what is kept with them is the table itself, so that its id is no other's."""
    if id(table) not in _MADE:
        _MADE[id(table)] = table, _checks(table)
    return _MADE[id(table)][1]


def _checks(table: Table) -> _Checks:
    name, columns = table.name, table.columns
    parts = [(column.name, f"{column.name} is not None") for column in columns[_KEYS:] if not column.nullable]
    parts += [(check, in_python(expression)) for check, expression in table.constraints.items()]
    expression = " and ".join(f"({part})" for _check, part in parts) or "True"
    whole = compile(expression, f"<{name}>", "eval")
    names = whole.co_names or (columns[_KEYS].name,)
    source = f"lambda rows: all([{expression} for {', '.join(names)} in map(values, rows)])"
    of_rows = eval(source, {"values": itemgetter(*names)})  # noqa: S307 - made of the project's own schemas
    return _Checks(whole, [(check, compile(part, f"<{name}.{check}>", "eval")) for check, part in parts], of_rows)


def in_python(expression: str) -> str:
    """A CHECK expression as one of Python."""
    for words, means in _WORDS:
        expression = re.sub(words, means, expression)
    return expression
