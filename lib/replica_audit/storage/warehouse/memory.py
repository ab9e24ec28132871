"""The tables of a run in this process, which nothing has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal


class MemoryTables(ArrowTables):
    """Arrow tables by name, read as those of a warehouse are."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        """Take the tables; one that is not given has no rows."""
        super().__init__("")
        self._tables = tables

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table."""
        found = self._tables.get(table)
        return None if found is None else ds.dataset(found)
