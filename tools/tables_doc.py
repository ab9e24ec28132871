"""Prints docs/tables.md, the description of every table, from their row classes: .venv/bin/python tools/tables_doc.py > docs/tables.md."""

from __future__ import annotations

import sys

import pyarrow as pa

from replica_audit.rows import TABLES, Table
from replica_audit.rows.arrow import type_of

HEAD = """\
# Tables

Made from the schemas by `tools/tables_doc.py`; a test holds the two together. Every table is a Delta table of that name in the
warehouse, without deletion vectors and column mapping, so Spark, delta-rs, DuckDB, Trino and others read it. Offsets are `bigint`; an
`..._offset` that ends something is exclusive (`end`, `log_end_offset`) unless it is named `last_...`. A run counts once its rows of
`audit_runs` have the status `complete`: join on it.
"""
_SPARK = {"string": "string", "int32": "int", "int64": "bigint", "bool": "boolean", "date32[day]": "date"}


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


def page() -> str:
    """The page as text."""
    index = ["| table | grain |", "|---|---|", *(f"| [`{table.name}`](#{table.name}) | {table.grain} |" for table in TABLES), ""]
    return "\n".join([HEAD, *index, *(part for table in TABLES for part in _described(table))])


def _described(table: Table) -> list[str]:
    rows = [f"| `{c.name}` | {type_shown(type_of(c.hint))} | {'' if c.nullable else 'never'} | {_cell(c.comment)} |" for c in table.columns]
    checks = [f"- `{name}`: `{_cell(check)}`" for name, check in table.constraints.items()]
    head = [f"## {table.name}", "", f"{table.grain[0].upper()}{table.grain[1:]}.", "", "| column | type | null | |", "|---|---|---|---|"]
    return [*head, *rows, "", *(["Checks:", "", *checks, ""] if checks else [])]


def type_shown(kind: pa.DataType) -> str:
    """A type as Spark's SQL writes it."""
    if pa.types.is_list(kind):
        return f"array<{type_shown(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_shown(kind.key_type)}, {type_shown(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {type_shown(field.type)}' for field in kind)}>"
    return "timestamp" if pa.types.is_timestamp(kind) else _SPARK[str(kind)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
