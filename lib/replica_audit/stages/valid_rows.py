"""The last net before rows leave Python: what does not fit its column is taken out and reported, and the other rows go on.

Readers validate what they read; what is found here has come through all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, NamedTuple

import pyarrow as pa

from replica_audit.errors import visible
from replica_audit.model import Problem
from replica_audit.rows import INPUT_ERRORS, OF_PARTITIONS, AuditedPartition
from replica_audit.rows.arrow import AUDITED, STRING, array_of_lists, schema_of_audited
from replica_audit.rows.columns import all_pass, checker
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.runs import ReportedProblem

CODE = "unusable-value"
_REMEDY = "check what the input has there, and compare it with the broker's own files; all other rows are in the tables"
REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Misfit(NamedTuple):
    """A value that its column cannot hold."""

    column: str
    reason: str


# what each list of an audited partition holds, and what its table refuses
_ROWS: dict[str, type] = {
    **{table.name: table.row for table in (*OF_PARTITIONS, INPUT_ERRORS) if table.row is not None},
    "found": FoundFinding,
    "checked": CheckedPartition,
}
_CHECKS = [(table.name, all_pass(table), checker(table)) for table in OF_PARTITIONS]


def _misfit(value: Any, kind: pa.DataType, column: str) -> Misfit | None:
    """The first value in a value that does not fit its type."""
    try:
        pa.array([value], kind)
    except REFUSED:
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
        return f"{visible(value[:80])!r} is not Unicode text" if kind == pa.string() else f"a text where {kind} should be"
    return f"a value of type {type(value).__name__} where {kind} should be"


def problem_of(path: str, kind: str, misfit: Misfit) -> Problem:
    """A misfit as a problem of a file."""
    return Problem(
        path=visible(path), kind=kind, code=CODE, detail=f"{misfit.column}: {misfit.reason}; the row is left out", remedy=_REMEDY
    )


def encoded(rows: Sequence[AuditedPartition]) -> dict[str, pa.RecordBatch]:
    """The rows of audited partitions by the names of AUDITED, with their cluster_id; nothing of those without any.

    A row that fits no column is left out and reported.
    """
    try:
        return _encoded(rows)
    except REFUSED:
        return _encoded([without_misfits(row) for row in rows])


def _encoded(rows: Sequence[AuditedPartition]) -> dict[str, pa.RecordBatch]:
    made = {}
    for name, kind in AUDITED.items():
        lists = [getattr(row, name) for row in rows]
        clusters = list(chain.from_iterable(repeat(row.cluster_id, len(found)) for row, found in zip(rows, lists, strict=True)))
        if clusters:
            columns = array_of_lists(_ROWS[name], lists, kind).flatten()
            made[name] = pa.RecordBatch.from_arrays([pa.array(clusters, STRING), *columns], schema=schema_of_audited(name))
    return made


def sifted(row: AuditedPartition) -> AuditedPartition:
    """An audited partition without what a table would refuse, each of those reported in its `input_errors`."""
    told: list[ReportedProblem] = []
    made: dict[str, Any] = {}
    for name, passes, violation in _CHECKS:
        rows = getattr(row, name)
        if passes(rows):
            continue
        rows = list(rows)
        refused = [(one, violated) for one in rows if (violated := violation(one)) is not None]
        if refused:
            told += [_refusal(name, one, violated) for one, violated in refused]
            left_out = {id(one) for one, _violated in refused}
            made[name] = [one for one in rows if id(one) not in left_out]
    return replace(row, **made, input_errors=[*row.input_errors, *told]) if told else row


def _refusal(table: str, row: Any, violated: str) -> ReportedProblem:
    misfit = Misfit(table, f"its check {violated!r} refuses a row")
    return ReportedProblem.of(getattr(row, "broker_id", None), problem_of(_place(row), table, misfit))


def _place(row: Any) -> str:
    return str(
        getattr(row, "path", None) or getattr(row, "log_dir", None) or f"{getattr(row, 'topic', None)}-{getattr(row, 'partition', None)}"
    )


def without_misfits(row: AuditedPartition) -> AuditedPartition:
    """An audited partition without the rows of tables that hold a misfit, which are reported in its `input_errors`."""
    made: dict[str, Any] = {}
    told: list[ReportedProblem] = []
    for name in _ROWS:
        made[name] = []
        for one in getattr(row, name):
            found = _misfit(as_dict(one), AUDITED[name], name)
            if found is None:
                made[name].append(one)
            else:
                told.append(ReportedProblem.of(None, problem_of(_place(one), name, found)))
    return replace(row, **(made | {INPUT_ERRORS.name: [*made[INPUT_ERRORS.name], *told]}))
