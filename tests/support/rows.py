"""Rows of tables with the columns that a test is about."""

from __future__ import annotations

from typing import Any, TypeVar

from replica_audit.rows.columns import hints_of

RowT = TypeVar("RowT")


def sparse(kind: type[RowT], **values: Any) -> RowT:
    """A row whose other columns are null, whatever their types say; a column that the table has not is refused."""
    of: Any = kind
    found: RowT = of(**(dict.fromkeys(hints_of(of)) | values))
    return found
