"""Rows as dictionaries and back.

A row is of its class or it is refused, so no column can be unknown or missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin

from replica_audit.rows.columns import Hint, Table, hints_of

T = TypeVar("T")


class RowMismatchError(Exception):
    """Something is not a row of its class: it is of another one, or its columns are others."""


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
        ValueError: a column holds a code that its class does not know.
    """
    kind: Any = of
    hints = hints_of(kind)
    if values.keys() != hints.keys() and not of_any_version:
        missing, unknown = sorted(hints.keys() - values), sorted(values.keys() - hints)
        raise RowMismatchError(f"{kind.__name__}: missing columns {missing}, unknown columns {unknown}")
    found: dict[str, Any] = {name: values.get(name) for name in hints}
    for name, code in _codes(kind):
        if found[name] is not None:
            found[name] = code(found[name])
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
    unknown = sorted(row.keys() - set(table.names))
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


def row_in(hint: Hint) -> tuple[type | None, bool]:
    """Return the class of the rows that a column holds, None if it holds none; and whether it is a list of them."""
    is_list = get_origin(hint.kind) is tuple
    kind = Hint.of(get_args(hint.kind)[0]).kind if is_list else hint.kind
    return (kind if hasattr(kind, "__dataclass_fields__") else None), is_list


@cache
def _nested(kind: type) -> tuple[tuple[str, type | None, bool], ...]:
    """The columns that hold rows or lists: name, the class of the rows, and whether it is a list."""
    found = ((name, *row_in(hint)) for name, hint in hints_of(kind).items())
    return tuple((name, item, is_list) for name, item, is_list in found if item is not None or is_list)


@cache
def _codes(kind: type) -> tuple[tuple[str, type[StrEnum]], ...]:
    """The columns that hold codes: name, and the class of the codes."""
    kinds = ((name, hint.kind) for name, hint in hints_of(kind).items())
    return tuple((name, code) for name, code in kinds if isinstance(code, type) and issubclass(code, StrEnum))


@cache
def _maps(kind: type) -> tuple[str, ...]:
    return tuple(name for name, hint in hints_of(kind).items() if get_origin(hint.kind) is Mapping)
