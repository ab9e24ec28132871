"""The rows of some partitions of a warehouse, read together: one look at each table instead of one for every partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal, condition

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")
Key = tuple[str, int]


class ChosenPartitions(ArrowTables):
    """Tables that keep what it read of the chosen partitions of one run; what else is asked for is read once and kept, too."""

    def __init__(self, tables: ArrowTables, run_id: str, chosen: Collection[Key]) -> None:
        """Take the tables, the run and its partitions, as (topic, partition); nothing is read yet."""
        super().__init__(tables.location)
        self._tables = tables
        self.run_id, self.chosen = run_id, frozenset(chosen)
        self._read: dict[str, tuple[pa.Table, dict[Key, list[int]]]] = {}
        self._kept: dict[Any, tuple[Any, ...]] = {}
        self._there: dict[str, bool] = {}

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """As of the tables."""
        return self._tables.dataset(table, equal, names)

    def has(self, table: str) -> bool:
        """Whether there is a table of this name."""
        if table not in self._there:
            self._there[table] = super().has(table)
        return self._there[table]

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """As of any tables."""
        asked = (table, kind, tuple(sorted(equal.items(), key=lambda item: item[0])))
        if asked not in self._kept:
            topic, partition = equal.get("topic"), equal.get("partition")
            is_chosen = equal.get("run_id") == self.run_id and (topic, partition) in self.chosen
            self._kept[asked] = self._of_chosen(table, kind, equal) if is_chosen else super().rows(table, kind, **equal)
        return self._kept[asked]

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """As of any tables."""
        if equal.get("run_id") == self.run_id and (equal.get("topic"), equal.get("partition")) in self.chosen:
            return tuple(dict.fromkeys(self.rows(table, kind, **equal)))
        return super().distinct(table, kind, **equal)

    def _of_chosen(self, table: str, kind: type[RowT], equal: Equal) -> tuple[RowT, ...]:
        if table not in self._read:
            self._read[table] = self._all_of(table)
        rows, places = self._read[table]
        if not len(rows):
            return ()
        found = rows.take(pa.array(places.get((str(equal["topic"]), int(equal["partition"] or 0)), []), pa.int64()))
        where = condition(equal)
        return self.typed(table, found if where is None else found.filter(where), kind)

    def _all_of(self, table: str) -> tuple[pa.Table, dict[Key, list[int]]]:
        """The rows of every chosen partition, and the places of those of each."""
        topics = pa.array(sorted({topic for topic, _partition in self.chosen}), pa.string())
        numbers = pa.array(sorted({partition for _topic, partition in self.chosen}), pa.int32())
        where = ds.field("topic").isin(topics) & ds.field("partition").isin(numbers)
        found = self.arrow(table, where, run_id=self.run_id)
        places: dict[Key, list[int]] = defaultdict(list)
        if found is None:
            return pa.table({}), places
        keys: list[list[Any]] = [found[name].to_pylist() for name in ("topic", "partition")]
        for place, key in enumerate(zip(*keys, strict=True)):
            places[key].append(place)
        return found, places
