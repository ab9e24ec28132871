"""Files with rows that no table has yet."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.rows.columns import Bigint


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
