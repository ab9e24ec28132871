"""The tables of a warehouse that delta-rs cannot open by its name, behind the interface of those that it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal
from replica_audit.storage.warehouse.reader import WarehouseTables


class CatalogTables(ArrowTables):
    """The tables of a schema of Spark's catalog: the catalog says where they are, delta-rs reads them there."""

    def __init__(self, location: str, place: Callable[[str], str | None]) -> None:
        """`place` gives the URI of a table, None if there is no such table."""
        super().__init__(location)
        self._place = place
        self._places: dict[str, str] = {}

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table where the catalog has it."""
        place = self._places.get(table) or self._place(table)
        if place is None:
            return None
        self._places[table] = place
        parent, _, name = place.rstrip("/").rpartition("/")
        return WarehouseTables(parent).dataset(name, equal, names)


class SparkTables(ArrowTables):
    """Tables in a store to which only Spark has the key: it reads the wanted columns of the wanted rows, and hands them over as Arrow."""

    def __init__(self, location: str, frame: Callable[[str], DataFrame | None]) -> None:
        """`frame` gives a whole table, None if there is no such table."""
        super().__init__(location)
        self._frame = frame

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """What Spark reads of the table."""
        frame = self._chosen(table, equal or {})
        if frame is None:
            return None
        if names is not None:
            frame = frame.select(*(name for name in frame.columns if name in {*names, *(equal or {})}))
        return ds.dataset(frame.toArrow())

    def has(self, table: str) -> bool:
        """Whether there is such a table; nothing of it is read."""
        return self._frame(table) is not None

    def count(self, table: str, /, **equal: str | int | None) -> int | None:
        """As Spark counts: no row leaves its tasks."""
        frame = self._chosen(table, equal)
        return None if frame is None else frame.count()

    def _chosen(self, table: str, equal: Equal) -> DataFrame | None:
        frame = self._frame(table)
        if frame is None:
            return None
        for name, value in equal.items():
            if name in frame.columns:
                frame = frame.where(F.col(name).isNull() if value is None else F.col(name) == F.lit(value))
        return frame
