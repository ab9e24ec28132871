"""Rows of any class with a value in every column, made from the types of their Arrow columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, TypeVar

import pyarrow as pa

from replica_audit.rows.arrow import struct_of
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
    return row_of(kind, {field.name: _value(field.type) for field in struct_of(kind)})


def _value(kind: pa.DataType) -> Any:
    if isinstance(kind, pa.ListType):
        return [_value(kind.value_type)] * 2
    if isinstance(kind, pa.MapType):
        return {_value(kind.key_type): _value(kind.item_type)}
    if isinstance(kind, pa.StructType):
        return {field.name: _value(field.type) for field in kind}
    return _PLAIN[kind]
