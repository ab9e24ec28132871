"""Row classes as Arrow: the type of each column, rows as arrays and back. Nothing else in this room knows Arrow.

Whether the values of a row fit their columns is Arrow's to say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cache, partial
from itertools import accumulate, chain
from operator import attrgetter
from types import NoneType
from typing import Any, cast, get_args, get_origin

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.rows import COUNTED
from replica_audit.rows.blocks import RowBlock, column_of
from replica_audit.rows.codes import SEVERITY_RANKS
from replica_audit.rows.columns import NOT_NULL_KEPT, Bigint, Column, Hint, Table, Width, columns_of, hints_of
from replica_audit.rows.encoding import RowMismatchError, T, row_in, row_of
from replica_audit.rows.findings import CheckedPartition, FoundFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file with rows of a table, which the table does not have yet.

    `path` is its name below the table's directory; `statistics` is what Delta keeps of its columns, as JSON.
    """

    table: str
    path: str
    rows: Bigint
    size_bytes: Bigint
    modified_at_ms: Bigint
    statistics: str


Values = Sequence[Any]
STRING, INT, BIGINT, BOOLEAN = pa.string(), pa.int32(), pa.int64(), pa.bool_()
TIMESTAMP = pa.timestamp("us", tz="UTC")
_WIDTHS: Mapping[Width, pa.DataType] = {Width.INT: INT, Width.BIGINT: BIGINT}
_PLAIN: Mapping[Any, pa.DataType] = {str: STRING, bool: BOOLEAN, datetime: TIMESTAMP, date: pa.date32()}


def type_of(hint: Hint) -> pa.DataType:
    """Return the Arrow type of an annotation.

    Raises:
        TypeError: no column can hold such a value, or an int does not say whether it is an Int or a Bigint.
    """
    if get_origin(hint.kind) is tuple:
        return pa.list_(type_of(Hint.of(get_args(hint.kind)[0])))
    if get_origin(hint.kind) is Mapping:
        key, value = get_args(hint.kind)
        return pa.map_(type_of(Hint.of(key)), type_of(Hint.of(value)))
    if isinstance(hint.kind, type) and dataclasses.is_dataclass(hint.kind):
        return struct_of(hint.kind, keeps_not_null=NOT_NULL_KEPT in hint.told)
    if isinstance(hint.kind, type) and issubclass(hint.kind, StrEnum):
        return STRING
    width = next((_WIDTHS[one] for one in hint.told if isinstance(one, Width)), None)
    found = width if hint.kind is int else _PLAIN.get(hint.kind)
    if found is None:
        raise TypeError(f"{hint.kind} is not a column type")
    return found


def struct_of(row: type, *, keeps_not_null: bool = False) -> pa.StructType:
    """Return a row class as a struct, whose fields may all be null unless their NOT NULL is kept."""
    return pa.struct([_field(column, nullable=column.nullable or not keeps_not_null) for column in columns_of(row)])


def struct(**fields: pa.DataType) -> pa.StructType:
    """Return a struct type of names and types."""
    return pa.struct(list(fields.items()))


@cache
def schema_of(table: Table) -> pa.Schema:
    """Return the columns of a table as an Arrow schema."""
    return pa.schema([_field(column, nullable=column.nullable) for column in table.columns])


@cache
def schema_of_row(table: Table) -> pa.Schema:
    """Return the columns that the row class of a table has."""
    kind: Any = table.row
    return pa.schema([schema_of(table).field(name) for name in hints_of(kind)])


def nullable_columns(table: Table, names: Iterable[str]) -> pa.Schema:
    """Return some columns of a table, each of which may be null: a table of an older version may lack it."""
    return pa.schema([schema_of(table).field(name).with_nullable(True) for name in names])


def _field(column: Column, *, nullable: bool) -> pa.Field[Any]:
    return pa.field(column.name, type_of(column.hint), nullable)


def rows_of(table: Table) -> pa.StructType:
    """A table's columns without `cluster_id` and those of its run: what a stage makes before they are put in front."""
    return pa.struct([field for field in schema_of(table) if field.name not in ("cluster_id", *table.of_run)])


FOUND = struct_of(FoundFinding, keeps_not_null=True)
CHECKED = struct_of(CheckedPartition)
# the rows that the audit of a partition gives, by the fields of AuditedPartition, without the keys of their run and cluster
AUDITED: Mapping[str, pa.StructType] = {
    **{table.name: rows_of(table) for table in COUNTED},
    "found": FOUND,
    "checked": CHECKED,
}


def with_run(rows: pa.Table, table: Table, of_run: Mapping[str, Any]) -> pa.Table:
    """Rows of a table with the columns of their run, as far as they lack them.

    Args:
        rows: any number.
        table: whose rows they are.
        of_run: values by column; of those that the table does not have, none is taken.
    """
    for name in table.of_run:
        if name not in rows.column_names:
            field = schema_of(table).field(name)
            same = pa.repeat(pa.scalar(of_run[name], field.type), rows.num_rows)
            rows = rows.add_column(min(table.names.index(name), rows.num_columns), field, same)
    return rows


def severity_ranks(severities: Any) -> Any:
    """The rank of each severity of a column, for tables of older versions have no `severity_rank`; an unknown comes first."""
    return pc.fill_null(pc.index_in(severities, pa.array(list(SEVERITY_RANKS))), pa.scalar(-1, INT))


@cache
def schema_of_audited(name: str) -> pa.Schema:
    """The columns of such rows behind their cluster_id."""
    return pa.schema([pa.field("cluster_id", STRING, nullable=False), *AUDITED[name]])


def array_of(row: type, rows: Values, kind: pa.StructType) -> pa.StructArray:
    """Rows as a struct array; None is null.

    Args:
        row: the class of all of them.
        rows: any number.
        kind: the type of the array, whose fields are the columns of the class in their order.

    Raises:
        RowMismatchError: one of them is of another class.
        pa.ArrowException, OverflowError, TypeError, ValueError: a value does not fit its column.
    """
    known = set(map(type, rows))
    if not known <= {row, NoneType}:
        raise RowMismatchError(f"a row of {row.__name__} is wanted, this is a {(known - {row, NoneType}).pop().__name__}")
    if known <= {NoneType}:
        return pa.nulls(len(rows), kind)
    columns = _columns(row, kind)
    if NoneType not in known:
        # a list for each column is made faster than a tuple for each row, and leaves less to the collector of garbage
        return pa.StructArray.from_arrays([encode(list(map(value, rows))) for value, encode in columns], fields=list(kind))
    arrays = [encode([None if one is None else value(one) for one in rows]) for value, encode in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array([one is None for one in rows]))


def array_of_lists(row: type, lists: Values, kind: pa.StructType) -> pa.StructArray:
    """The rows of several lists, some of which may be blocks, as a struct array, as `array_of`."""
    if not any(isinstance(one, RowBlock) for one in lists):
        return array_of(row, [one for of_one in lists for one in of_one or ()], kind)
    for part in lists:
        for other in {part.kind} if isinstance(part, RowBlock) else set(map(type, part or ())):
            if other is not row:
                raise RowMismatchError(f"a row of {row.__name__} is wanted, this is a {other.__name__}")
    arrays = [encode(column_of(field.name, lists)) for field, (_value, encode) in zip(kind, _columns(row, kind), strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def list_array_of(row: type, lists: Values, kind: pa.ListType[Any]) -> pa.ListArray[Any]:
    """Lists of rows as a list array, as `array_of`; None is null."""
    if not any(lists):  # as nearly all of what says how something is wrong
        return cast("pa.ListArray[Any]", pa.array([None if one is None else () for one in lists], kind))
    items = array_of_lists(row, lists, kind.value_type)
    offsets = pa.array(chain((0,), accumulate(len(one or ()) for one in lists)), pa.int32())
    mask = pa.array([one is None for one in lists]) if None in lists else None
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)


def batch_of(row: type, rows: Values, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch, as `array_of`."""
    return pa.RecordBatch.from_arrays(array_of(row, rows, pa.struct(list(schema))).flatten(), schema=schema)


def decoded(row: type[T], columns: pa.Table) -> list[T]:
    """Return the rows of a table that any version of this program wrote: a column, or a field of a struct, that it lacks is null.

    Raises:
        RowMismatchError: it lacks a column that is never null, or has null there.
        pa.ArrowException, ValueError: a value does not fit its column.
    """
    kind: Any = row
    present: dict[str, Any] = {}
    for column in columns_of(kind):
        if column.name in columns.column_names:
            present[column.name] = columns[column.name].cast(type_of(column.hint))
        if not column.nullable and (column.name not in present or present[column.name].null_count):
            raise RowMismatchError(f"its column {column.name} {'has null' if column.name in present else 'is missing'}")
    return [row_of(row, values, of_any_version=True) for values in pa.table(present).to_pylist()]


@cache
def _columns(row: type, kind: pa.StructType) -> tuple[tuple[Callable[[Any], Any], Callable[[Values], pa.Array[Any]]], ...]:
    """For each column what takes its value from a row, and what makes an array of its values."""
    if [field.name for field in kind] != list(hints_of(row)):
        raise RowMismatchError(f"the columns of {row.__name__} are not {[field.name for field in kind]}")
    return tuple((attrgetter(field.name), _encoder(hint, field.type)) for hint, field in zip(hints_of(row).values(), kind, strict=True))


def _encoder(hint: Hint, kind: pa.DataType) -> Callable[[Values], pa.Array[Any]]:
    item, is_list = row_in(hint)
    if item is None:
        return partial(pa.array, type=kind)
    return partial(_swapped, list_array_of if is_list else array_of, item, kind)


def _swapped(make: Callable[..., pa.Array[Any]], row: type, kind: pa.DataType, values: Values) -> pa.Array[Any]:
    return make(row, values, kind)
