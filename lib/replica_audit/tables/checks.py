"""Whether a row may be written to its table, told before it is: one row that a table refuses would end the write of all others.

The checks are those of the table itself: its CHECK expressions, of which few forms of SQL are used, and the columns that are never null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

from replica_audit.tables.columns import Table

_KEYS = 2  # run_id and cluster_id, which are put in front later
_WORDS = ((r"\bIS NULL\b", "is None"), (r"\bIN \(", "in ("), (r"\bOR\b", "or"), (r"\bAND\b", "and"), (r"(?<![<>!])=", "=="))


def violation(table: Table, row: Mapping[str, Any]) -> str | None:
    """What of a table a row violates: the name of a column that may not be null, or of a check; None if it may be written.

    As in Delta a check is violated unless it is true: null is not.
    """
    whole, parts = _checks(table.name, table.columns, tuple(table.constraints.items()))
    if _holds(whole, row):
        return None
    return next(name for name, part in parts if not _holds(part, row))


def _holds(check: CodeType, row: Mapping[str, Any]) -> bool:
    try:
        return bool(eval(check, {}, row))  # noqa: S307 - made of the project's own tables
    except TypeError:  # null compared with something
        return False


@cache
def _checks(name: str, columns: tuple[Any, ...], constraints: tuple[tuple[str, str], ...]) -> tuple[CodeType, list[tuple[str, CodeType]]]:
    """All checks of a table as one expression of Python, and each by its name."""
    parts = [(column.name, f"{column.name} is not None") for column in columns[_KEYS:] if not column.nullable]
    parts += [(check, in_python(expression)) for check, expression in constraints]
    compiled = [(check, compile(part, f"<{name}.{check}>", "eval")) for check, part in parts]
    return compile(" and ".join(f"({part})" for _check, part in parts) or "True", f"<{name}>", "eval"), compiled


def in_python(expression: str) -> str:
    """A CHECK expression as one of Python."""
    for words, means in _WORDS:
        expression = re.sub(words, means, expression)
    return expression
