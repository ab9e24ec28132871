"""Rows as Arrow columns, as dictionaries, and back: the one place where a row class meets either.

A row is of its class or it is refused, so no column can be unknown or missing; whether its values fit is Arrow's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

import pyarrow as pa

from replica_audit.rows.columns import Hint, Table, hints_of

T = TypeVar("T")
Values = Sequence[Any]


class RowMismatchError(Exception):
    """Something is not a row of its class: it is of another one, or its columns are others."""


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
    columns = _columns(row, kind)
    if NoneType not in known:
        # a list for each column is made faster than a tuple for each row, and leaves less to the collector of garbage
        return pa.StructArray.from_arrays([encode(list(map(value, rows))) for value, encode in columns], fields=list(kind))
    arrays = [encode([None if one is None else value(one) for one in rows]) for value, encode in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array([one is None for one in rows]))


def list_array_of(row: type, lists: Values, kind: pa.ListType[Any]) -> pa.ListArray[Any]:
    """Lists of rows as a list array, as `array_of`; None is null."""
    items = array_of(row, [one for of_one in lists for one in of_one or ()], kind.value_type)
    offsets = pa.array(chain((0,), accumulate(len(one or ()) for one in lists)), pa.int32())
    mask = pa.array([one is None for one in lists]) if None in lists else None
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)


def batch_of(row: type, rows: Values, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch, as `array_of`."""
    return pa.RecordBatch.from_arrays(array_of(row, rows, pa.struct(list(schema))).flatten(), schema=schema)


def as_dict(row: Any) -> dict[str, Any]:
    """A row as a dictionary by column; rows in it too, and its tuples as lists, as Arrow gives them."""
    kind: Any = type(row)
    found = dict(zip(hints_of(kind), _values(kind)(row), strict=True))
    for name, item, is_list in _nested(kind):
        value = found[name]
        if value is not None and is_list:
            found[name] = list(value) if item is None else [as_dict(one) for one in value]
        elif value is not None:
            found[name] = as_dict(value)
    return found


def row_of(of: type[T], values: Mapping[str, Any], *, of_any_version: bool = False) -> T:
    """A dictionary by column, as Arrow or `as_dict` gives it, as a row.

    Args:
        of: the class of the row.
        values: the columns; a map may be pairs.
        of_any_version: whether another version of the class may have made it: a column that is missing is then null, and one that is
            unknown is left out.

    Raises:
        RowMismatchError: a column is missing, or one is unknown.
    """
    kind: Any = of
    hints = hints_of(kind)
    if values.keys() != hints.keys() and not of_any_version:
        missing, unknown = sorted(hints.keys() - values), sorted(values.keys() - hints)
        raise RowMismatchError(f"{kind.__name__}: missing columns {missing}, unknown columns {unknown}")
    found = {name: values.get(name) for name in hints}
    for name, item, is_list in _nested(kind):
        value = found[name]
        if value is not None and is_list:
            found[name] = tuple(value if item is None else [row_of(item, one, of_any_version=of_any_version) for one in value])
        elif value is not None and item is not None:
            found[name] = row_of(item, value, of_any_version=of_any_version)
    for name in _maps(kind):
        pairs: Any = found[name]
        found[name] = None if pairs is None else dict(pairs)
    made: T = kind(**found)
    return made


def with_columns_of(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """A few values by column, made where no row is whole, with null for all other columns of a table.

    Raises:
        RowMismatchError: a column is unknown, or one that may not be null is missing.
    """
    unknown = sorted(row.keys() - set(table.arrow.names))
    missing = [column.name for column in table.columns if not column.nullable and row.get(column.name) is None]
    if unknown or missing:
        raise RowMismatchError(f"{table.name}: missing columns {missing}, unknown columns {unknown}")
    return {column.name: row.get(column.name) for column in table.columns}


@cache
def _values(row: type) -> Callable[[Any], tuple[Any, ...]]:
    names = list(hints_of(row))
    if len(names) == 1:
        raise TypeError(f"{row.__name__} has but one column")  # of which attrgetter makes no tuple
    return attrgetter(*names)


@cache
def _columns(row: type, kind: pa.StructType) -> tuple[tuple[Callable[[Any], Any], Callable[[Values], pa.Array[Any]]], ...]:
    """For each column what takes its value from a row, and what makes an array of its values."""
    if [field.name for field in kind] != list(hints_of(row)):
        raise RowMismatchError(f"the columns of {row.__name__} are not {[field.name for field in kind]}")
    return tuple((attrgetter(field.name), _encoder(hint, field.type)) for hint, field in zip(hints_of(row).values(), kind, strict=True))


def _encoder(hint: Hint, kind: pa.DataType) -> Callable[[Values], pa.Array[Any]]:
    item, is_list = _row_in(hint)
    if item is None:
        return partial(pa.array, type=kind)
    return partial(_swapped, list_array_of if is_list else array_of, item, kind)


def _swapped(make: Callable[..., pa.Array[Any]], row: type, kind: pa.DataType, values: Values) -> pa.Array[Any]:
    return make(row, values, kind)


def _row_in(hint: Hint) -> tuple[type | None, bool]:
    """The class of the rows that a column holds, None if it holds none; and whether it is a list of them."""
    is_list = get_origin(hint.kind) is tuple
    kind = Hint.of(get_args(hint.kind)[0]).kind if is_list else hint.kind
    return (kind if hasattr(kind, "__dataclass_fields__") else None), is_list


@cache
def _nested(kind: type) -> tuple[tuple[str, type | None, bool], ...]:
    """The columns that hold rows or lists: name, the class of the rows, and whether it is a list."""
    found = ((name, *_row_in(hint)) for name, hint in hints_of(kind).items())
    return tuple((name, item, is_list) for name, item, is_list in found if item is not None or is_list)


@cache
def _maps(kind: type) -> tuple[str, ...]:
    return tuple(name for name, hint in hints_of(kind).items() if get_origin(hint.kind) is Mapping)
