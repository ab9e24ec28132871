"""Rows of which a test says only what matters."""

from __future__ import annotations

from typing import Any, TypeVar

from replica_audit.rows.columns import hints_of
from tests.rows.values import full_row

T = TypeVar("T")


def row(of: type[T], **known: Any) -> T:
    """A row with these columns; every other is null, or anything where null is refused."""
    kind: Any = of
    anything = full_row(kind)
    columns = {name: None if hint.nullable else getattr(anything, name) for name, hint in hints_of(kind).items()}
    return of(**(columns | known))
