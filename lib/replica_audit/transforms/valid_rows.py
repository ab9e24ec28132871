"""The last net before rows leave Python: what does not fit its column is taken out and reported, and the other rows go on.

Readers validate what they read; what is found here has come through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from replica_audit.errors import visible
from replica_audit.schemas import AUDITED, INPUT_ERRORS, OF_PARTITIONS
from replica_audit.schemas.checks import all_may_be_written, violation

Row = dict[str, Any]
CODE = "unusable-value"
_REMEDY = "look at what the input says there, and compare it with the broker's own files; every other row is in the tables"
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Misfit(NamedTuple):
    """A value that its column cannot hold."""

    column: str
    reason: str


Refused = Callable[[Row, Misfit], Row]  # the row that replaces it


def encoded(rows: list[Row], schema: pa.Schema, refused: Refused) -> pa.RecordBatch:
    """Rows in Arrow; one that holds a value that fits no column is replaced by what `refused` makes of it."""
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except _REFUSED:
        return pa.RecordBatch.from_pylist([_replaced(row, schema, refused) for row in rows], schema=schema)


def fitting(rows: list[Row], schema: pa.Schema, refused: Refused) -> list[Row]:
    """The same for rows that stay in Python."""
    try:
        pa.RecordBatch.from_pylist(rows, schema=schema)
    except _REFUSED:
        return [_replaced(row, schema, refused) for row in rows]
    return rows


def _replaced(row: Row, schema: pa.Schema, refused: Refused) -> Row:
    found = _misfit(row, pa.struct(list(schema)), "")
    return row if found is None else refused(row, found)


def _misfit(value: Any, kind: pa.DataType, column: str) -> Misfit | None:
    """The first value in a value that does not fit its type."""
    try:
        pa.array([value], kind)
    except _REFUSED:
        pass
    else:
        return None
    if isinstance(kind, pa.StructType) and isinstance(value, dict):
        parts: Iterable[Misfit | None] = (_misfit(value.get(part.name), part.type, f"{column}.{part.name}") for part in kind)
    elif isinstance(kind, pa.ListType) and isinstance(value, list | tuple):
        parts = (_misfit(item, kind.value_type, column) for item in value)
    else:
        parts = ()
    inside = next((part for part in parts if part is not None), None)
    return inside or Misfit(column.strip("."), _reason(value, kind))


def _reason(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"a number of {value.bit_length()} bits does not fit in {kind}"
    if isinstance(value, str):
        return f"{visible(value[:80])!r} is no text of Unicode" if kind == pa.string() else f"a text where {kind} should be"
    return f"a value of type {type(value).__name__} where {kind} should be"


def problem_row(path: str, kind: str, misfit: Misfit) -> Row:
    """A misfit as a row of the shape PROBLEM."""
    told = {"path": visible(path), "kind": kind, "code": CODE, "remedy": _REMEDY, "line": None, "byte_offset": None}
    return {**told, "detail": f"{misfit.column}: {misfit.reason}; the row is left out"}


def sifted(row: Row) -> Row:
    """A row of the shape AUDITED without what a table would refuse, each of those reported in its `input_errors`."""
    told: list[Row] = []
    made = dict(row)
    for table in OF_PARTITIONS:
        if all_may_be_written(table, row[table.name]):
            continue
        kept = []
        for one in row[table.name]:
            violated = violation(table, one)
            if violated is None:
                kept.append(one)
            else:
                told.append(_refusal(table.name, one, violated))
        made[table.name] = kept
    if told:
        made["input_errors"] = [*row["input_errors"], *told]
    return made


def _refusal(table: str, row: Row, violated: str) -> Row:
    misfit = Misfit(table, f"its check {violated!r} refuses a row")
    return {"broker_id": row.get("broker_id"), **problem_row(_place(row), table, misfit)}


def _place(row: Row) -> str:
    return str(row.get("path") or row.get("log_dir") or f"{row.get('topic')}-{row.get('partition')}")


def without_misfits(row: Row, misfit: Misfit) -> Row:
    """A row of the shape AUDITED without the rows of tables that hold a misfit, which are reported in its `input_errors`."""
    made: Row = {**row}
    told: list[Row] = []
    for field in AUDITED:
        if not isinstance(field.type, pa.ListType):
            continue
        kept = []
        for one in row[field.name]:
            found = _misfit(one, field.type.value_type, field.name)
            if found is None:
                kept.append(one)
            else:
                told.append({"broker_id": None, **problem_row(_place(one), field.name, found)})
        made[field.name] = kept
    made[INPUT_ERRORS.name] = [*made[INPUT_ERRORS.name], *told]
    return made


def refuse_with_problem(row: Row, misfit: Misfit) -> Row:
    """In the place of a row of the shapes INVENTORY and COMMITS: its problem."""
    for name in ("problem", "event", "commit"):
        if row.get(name):
            path, kind = str(row[name]["path"]), str(row[name].get("kind", name))
            break
    else:
        replica = row.get("replica") or {}
        path = f"{replica['log_dir']}/{replica['directory']}" if replica else f"{row.get('topic')}-{row.get('partition')}"
        kind = misfit.column.partition(".")[0]
    keys = {"cluster_id": row["cluster_id"], "broker_id": row.get("broker_id"), "is_audited": True}
    return {**keys, "problem": problem_row(path, kind, misfit)}


def refuse_scan(row: Row, misfit: Misfit) -> Row:
    """In the place of a row of the shape SEGMENTS: a segment that could not be read."""
    segment = row["segment"]
    problem = problem_row(segment["file"]["path"], "segment", misfit)
    nothing = {"runs": [], "windows": [], "damaged": False, "failed": True, "problems": [problem]}
    return {**row, "segment": {**segment, **nothing}}
