"""Rows of any class with a value in every column, made from the types of their Arrow columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, TypeVar, get_args, get_origin

import pyarrow as pa

from replica_audit.rows.arrow import type_of
from replica_audit.rows.columns import Hint, hints_of
from replica_audit.rows.encoding import row_of

RowT = TypeVar("RowT")
_PLAIN = {
    pa.string(): "text",
    pa.bool_(): True,
    pa.int32(): 2**31 - 1,
    pa.int64(): 2**63 - 1,
    pa.timestamp("us", tz="UTC"): datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    pa.date32(): date(2026, 1, 2),
}


def full_row(kind: type[RowT]) -> RowT:
    """A row with a value in every column, the largest that a number can have."""
    return row_of(kind, _values(kind))


def _values(kind: Any) -> dict[str, Any]:
    return {name: _value(hint) for name, hint in hints_of(kind).items()}


def _value(hint: Hint) -> Any:
    if get_origin(hint.kind) is tuple:
        return [_value(Hint.of(get_args(hint.kind)[0]))] * 2
    if get_origin(hint.kind) is Mapping:
        key, value = (_value(Hint.of(part)) for part in get_args(hint.kind))
        return {key: value}
    if dataclasses.is_dataclass(hint.kind):
        return _values(hint.kind)
    if issubclass(hint.kind, StrEnum):
        return str(next(iter(hint.kind)))
    return _PLAIN[type_of(hint)]
