"""The last net before rows leave Python: what does not fit its column is taken out and reported, and the other rows go on.

Readers validate what they read; what is found here has come through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from replica_audit.errors import visible
from replica_audit.formats.log_dir.names import TRANSACTIONS_TOPIC
from replica_audit.formats.values import Row
from replica_audit.rows import COUNTED, INPUT_ERRORS, OF_PARTITIONS, AuditedPartition
from replica_audit.rows.arrow import AUDITED, BIGINT, OUTCOMES, STRING, array_of_lists, list_array_of, rows_of, schema_of
from replica_audit.rows.columns import all_pass, checker
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.pairs import is_clean_but_unread
from replica_audit.rows.runs import ReportedProblem

T = TypeVar("T")
CODE = "unusable-value"
_REMEDY = "check what the input has there, and compare it with the broker's own files; all other rows are in the tables"
REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Misfit(NamedTuple):
    """A value that its column cannot hold."""

    column: str
    reason: str


Refused = Callable[[Row, Misfit], Row]  # the row that replaces it
# what each list of an audited partition holds, and what its table refuses
_ROWS: dict[str, type] = {
    **{table.name: table.row for table in (*OF_PARTITIONS, INPUT_ERRORS) if table.row is not None},
    "found": FoundFinding,
    "checked": CheckedPartition,
}
# the rows of a table, and its columns without `run_id`
_SHAPES = {table.name: (rows_of(table), pa.schema(list(schema_of(table))[1:])) for table in OF_PARTITIONS}
_CHECKS = [(table.name, all_pass(table), checker(table)) for table in OF_PARTITIONS]


def encoded(rows: list[Row], schema: pa.Schema, refused: Refused) -> pa.RecordBatch:
    """Rows in Arrow; one that holds a value that fits no column is replaced by what `refused` makes of it."""
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except REFUSED:
        return pa.RecordBatch.from_pylist([_replaced(row, schema, refused) for row in rows], schema=schema)


def fitting(rows: list[Row], schema: pa.Schema, refused: Refused) -> list[Row]:
    """The same for rows that stay in Python."""
    try:
        pa.RecordBatch.from_pylist(rows, schema=schema)
    except REFUSED:
        return [_replaced(row, schema, refused) for row in rows]
    return rows


def _replaced(row: Row, schema: pa.Schema, refused: Refused) -> Row:
    found = _misfit(row, pa.struct(list(schema)), "")
    return row if found is None else refused(row, found)


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


def problem_row(path: str, kind: str, misfit: Misfit) -> Row:
    """A misfit as a row of the shape PROBLEM."""
    told = {"path": visible(path), "kind": kind, "code": CODE, "remedy": _REMEDY, "line": None, "byte_offset": None}
    return {**told, "detail": f"{misfit.column}: {misfit.reason}; the row is left out"}


def encoded_audits(rows: Sequence[AuditedPartition]) -> pa.RecordBatch:
    """Audited partitions as a batch of the shape AUDITED; a row of a table that fits no column is left out and reported."""
    return _encoded(rows, _audits)


def outcomes(rows: Sequence[AuditedPartition], keep: Callable[[str, pa.RecordBatch], None]) -> pa.RecordBatch:
    """Hand the rows of every table of partitions over, and give what else is known of these as a batch of the shape OUTCOMES.

    Args:
        rows: audited partitions; a row of a table that fits no column is left out and reported.
        keep: takes the name of a table, and rows of it without `run_id`, if there are any.
    """
    tables, rest = _encoded(rows, _tables_and_rest)
    for name, batch in tables.items():
        keep(name, batch)
    return rest


def _encoded(rows: Sequence[AuditedPartition], encode: Callable[[Sequence[AuditedPartition]], T]) -> T:
    try:
        return encode(rows)
    except REFUSED:
        return encode([without_misfits(row) for row in rows])


def _audits(rows: Sequence[AuditedPartition]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(_lists(rows, AUDITED)), schema=AUDITED)


def _lists(rows: Sequence[AuditedPartition], fields: Iterable[pa.Field[Any]]) -> Iterator[pa.Array[Any]]:
    for field in fields:
        values = [getattr(row, field.name) for row in rows]
        yield list_array_of(_ROWS[field.name], values, field.type) if field.name in _ROWS else pa.array(values, field.type)


def _tables_and_rest(rows: Sequence[AuditedPartition]) -> tuple[Mapping[str, pa.RecordBatch], pa.RecordBatch]:
    made = {}
    for table in OF_PARTITIONS:
        lists = [getattr(row, table.name) for row in rows]
        clusters = [row.cluster_id for row, found in zip(rows, lists, strict=True) for _one in range(len(found))]
        if clusters:
            kind, schema = _SHAPES[table.name]
            columns = array_of_lists(_ROWS[table.name], lists, kind).flatten()
            made[table.name] = pa.RecordBatch.from_arrays([pa.array(clusters, STRING), *columns], schema=schema)
    known = {
        "sizes": pa.array([[len(getattr(row, table.name)) for table in COUNTED] for row in rows], OUTCOMES.field("sizes").type),
        "verdicts": pa.array([[one.verdict for one in row.replica_verdicts] for row in rows], OUTCOMES.field("verdicts").type),
        "records_unread": pa.array([sum(map(is_clean_but_unread, row.replica_verdicts)) for row in rows], BIGINT),
        "file": pa.nulls(len(rows), OUTCOMES.field("file").type),
    }
    rest = [known[field.name] if field.name in known else next(_lists(rows, [field])) for field in OUTCOMES]
    return made, pa.RecordBatch.from_arrays(rest, schema=OUTCOMES)


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
    return ReportedProblem(broker_id=getattr(row, "broker_id", None), **problem_row(_place(row), table, misfit))


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
            found = _misfit(as_dict(one), AUDITED.field(name).type.value_type, name)
            if found is None:
                made[name].append(one)
            else:
                told.append(ReportedProblem(broker_id=None, **problem_row(_place(one), name, found)))
    return replace(row, **(made | {INPUT_ERRORS.name: [*made[INPUT_ERRORS.name], *told]}))


def refuse_with_problem(row: Row, misfit: Misfit) -> Row:
    """In the place of a row of the shapes INVENTORY, COMMITS and TRANSACTIONS: its problem."""
    for name in ("problem", "event", "commit", "transaction"):
        if row.get(name):
            path, kind = str(row[name].get("path", TRANSACTIONS_TOPIC)), str(row[name].get("kind", name))
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
    nothing = {"runs": [], "windows": [], "producers": None, "damaged": False, "failed": True, "problems": [problem]}
    return {**row, "segment": {**segment, **nothing}}
