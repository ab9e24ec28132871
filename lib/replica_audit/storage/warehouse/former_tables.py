"""Rows that older versions kept in tables of their own, as rows of the tables that have them now: the only place that knows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from replica_audit.rows import DIFFERENCES, TABLES
from replica_audit.rows.arrow import nullable_columns
from replica_audit.rows.records import DifferenceKind

_KINDS = {"compaction_differences": DifferenceKind.KEY, "record_differences": DifferenceKind.RECORD}
_FORMER = {DIFFERENCES.name: tuple(_KINDS)}
_SCHEMAS = {table.name: nullable_columns(table, table.names) for table in TABLES if table.name in _FORMER}


def with_former(name: str, stored: Callable[[str], pa.Table | None]) -> pa.Table | None:
    """All wanted rows of a table, if older versions kept some of them elsewhere; None: it has every row itself.

    Args:
        name: of the table.
        stored: gives the wanted rows of a table as they are stored, by its name.
    """
    former = {one: rows for one in _FORMER.get(name, ()) if (rows := stored(one))}
    if not former:
        return None
    found = [fitted(rows.append_column("kind", pa.repeat(str(_KINDS[one]), len(rows))), _SCHEMAS[name]) for one, rows in former.items()]
    own = stored(name)
    return pa.concat_tables(found if own is None else [fitted(own, _SCHEMAS[name]), *found])


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with other columns; one that they lack is null."""
    present = set(rows.column_names)
    columns = [rows[field.name].cast(field.type) if field.name in present else pa.nulls(len(rows), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
