"""SQL that the definition of a table holds and Delta evaluates: whoever writes a warehouse could run code in whoever audits into it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from replica_audit.errors import UsageError

CONSTRAINT = "delta.constraints."
_COMMENT, _COLUMN_MAPPING = "comment", "delta.columnMapping."  # names and numbers
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[(),]|'[^'\\]*'|-?\d+|[<>!]=|<>|[<>=])", re.ASCII)
_BEFORE_BRACKET = {
    "",
    "(",
    "AND",
    "IN",
    "NOT",
    "OR",
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
}  # any other word before a bracket names a function


def refuse_foreign_sql(table: str, schema: str, properties: Mapping[str, str]) -> None:
    """Refuse a table whose definition has SQL that is more than comparisons of columns with literals.

    Args:
        table: where it is.
        schema: its columns, as Delta's JSON.
        properties: of the table.

    Raises:
        UsageError: a column computes, defaults or checks something, or a constraint may call a function.
    """
    for column, name in _metadata(json.loads(schema)):
        if name != _COMMENT and not name.startswith(_COLUMN_MAPPING):
            raise _refusal(table, f"column {column} has {name}")
    for name, expression in properties.items():
        if name.lower().startswith(CONSTRAINT) and not is_comparison(expression):
            raise _refusal(table, f"{name} is {expression[:200]!r}")


def is_comparison(expression: str) -> bool:
    """Return whether an expression of SQL only compares columns with literals, as constraints of this program do: no function is called."""
    place, before = 0, ""
    expression = expression.strip()
    while place < len(expression):
        token = _TOKEN.match(expression, place)
        if token is None or (token[1] == "(" and before not in _BEFORE_BRACKET):
            return False
        place, before = token.end(), token[1].upper()
    return True


def _refusal(table: str, what: str) -> UsageError:
    why = "no version of this program makes that, and Delta could run code by it"
    return UsageError(f"table {table}: {what}: {why}; give another --warehouse")


def _metadata(kind: Any, column: str = "") -> Iterator[tuple[str, str]]:
    """Each column, also inside of others, with each name in its metadata."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        path = f"{column}.{field['name']}" if column else field["name"]
        yield from ((path, name) for name in field.get("metadata") or ())
        yield from _metadata(field["type"], path)
    for part in ("elementType", "keyType", "valueType"):
        yield from _metadata(kind.get(part), column)
