"""Tables as Arrow, wherever they are: only the rows and columns that are asked for, counted, sorted, or as typed rows.

What tables of an older version lack, a table or a column, reads as no rows or as null.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from replica_audit.errors import UsageError
from replica_audit.rows.arrow import decoded, nullable_columns
from replica_audit.rows.columns import Table
from replica_audit.rows.encoding import RowMismatchError
from replica_audit.storage.warehouse.former_tables import PAIR, fitted, with_former

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


RowT = TypeVar("RowT", bound="DataclassInstance")
Equal = dict[str, str | int | None]
MOST_ROWS = 200_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ArrowTables(ABC):
    """Tables by name. `location` says where they are; it is empty for tables in memory.

    `cut_short` names the tables of which not every row that was asked for was read, because there are more than MOST_ROWS.
    """

    def __init__(self, location: str) -> None:
        """Nothing is read yet."""
        self.location = location
        self.cut_short: list[str] = []

    @abstractmethod
    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table as of now, if possible without what cannot hold a row whose columns equal the given values; None if it is not there.

        `names` are all columns that are looked at besides those of `equal`, None: every column.

        Raises:
            UsageError: it cannot be read.
        """

    def has(self, table: str) -> bool:
        """Whether the warehouse holds a table of this name."""
        return self.dataset(table) is not None

    def count(self, table: str, /, **equal: str | int | None) -> int | None:
        """How many rows have columns of the given values; None if there is no such table. Of every file that may have some the end is read.

        Raises:
            UsageError: it cannot be read.
        """
        with self._reading(table):
            dataset = self.dataset(table, equal, [])
            return None if dataset is None else dataset.count_rows(filter=condition(equal))

    def damage(self, table: str) -> str | None:
        """Which file of a table is damaged, and how; None where that cannot be seen."""
        return None

    def way_back(self) -> str:
        """What to do about damage."""
        return "Go back to a version of the table that is whole (RESTORE of Delta), or audit again into a new warehouse"

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows of a table whose columns equal the given values, in no order, MOST_ROWS at most.

        Args:
            table: its name; one that is not there has no rows.
            kind: what to make of each row.
            equal: values by column; None is null.

        Raises:
            UsageError: the table cannot be read, or holds something else than rows of this kind.
        """
        with self._reading(table):
            dataset = self._whole(table, equal, _fields(kind))
            if dataset is None:
                return ()
            found = dataset.scanner(columns=_columns(dataset, kind), filter=condition(equal)).head(MOST_ROWS + 1)
            if len(found) > MOST_ROWS:
                self.cut_short.append(table)
            return tuple(decoded(kind, found.slice(0, MOST_ROWS)))

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """Like `rows`, each value once."""
        with self._reading(table):
            dataset = self._whole(table, equal, _fields(kind))
            if dataset is None:
                return ()
            columns = _columns(dataset, kind)
            found = dataset.scanner(columns=columns, filter=condition(equal)).to_table()
            return tuple(decoded(kind, found.group_by(columns).aggregate([]).select(columns).slice(0, MOST_ROWS)))

    def arrow(self, table: str, where: ds.Expression | None = None, /, **equal: str | int | None) -> pa.Table | None:
        """All columns of the rows whose columns equal the given values, in no order, however many; None if there is no such table.

        `where` says which of them; it names only columns of the table.

        Raises:
            UsageError: the table cannot be read, or lacks one of the columns.
        """
        with self._reading(table):
            dataset = self._whole(table, equal)
            if dataset is None:
                return None
            unknown = [name for name in equal if name not in dataset.schema.names]
            if unknown:
                known = ", ".join(dataset.schema.names)
                raise UsageError(f"table {table} has no column {unknown[0]}; it has: {known}")
            return dataset.to_table(filter=condition(equal, where))

    def columns(self, table: str, schema: pa.Schema, where: ds.Expression | None = None, /, **equal: str | int | None) -> pa.Table:
        """Columns of all rows as they are, for counting and sorting: no Python object is made for any of them.

        Args:
            table: its name; one that is not there has no rows.
            schema: the wanted columns; one that the table lacks is null.
            where: which rows, besides `equal`; names only columns of the table.
            equal: values by column; None is null.

        Raises:
            UsageError: the table cannot be read, or a column is of another type.
        """
        with self._reading(table):
            # a condition does not say which columns it names
            dataset = self._whole(table, equal, schema.names if where is None else None)
            if dataset is None:
                return schema.empty_table()
            present = set(dataset.schema.names)
            found = dataset.to_table(columns=[name for name in schema.names if name in present], filter=condition(equal, where))
            return fitted(found, schema)

    def of_table(self, table: Table, names: Iterable[str], where: ds.Expression | None = None, /, **equal: str | int | None) -> pa.Table:
        """Columns of a table of this program, by `columns`; one that an older version lacks is null."""
        return self.columns(table.name, nullable_columns(table, names), where, **equal)

    def _whole(self, table: str, equal: Equal, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """As `dataset`, with what older versions kept in other tables."""

        def stored(name: str) -> pa.Table | None:
            found = self.dataset(name, equal)
            if found is None:
                return None
            return found.to_table(filter=condition({key: equal[key] for key in PAIR if key in equal}))

        whole = with_former(table, stored)
        return self.dataset(table, equal, names) if whole is None else ds.dataset(whole)

    def _reading(self, table: str) -> AbstractContextManager[None]:
        return reading(self.location, table, self.damage, self.way_back)

    def typed(self, table: str, rows: pa.Table, kind: type[RowT], /) -> tuple[RowT, ...]:
        """Rows of a table, read before, as rows of a class.

        Raises:
            UsageError: they are something else.
        """
        with self._reading(table):
            return tuple(decoded(kind, rows))


def _columns(dataset: ds.Dataset, kind: type[RowT]) -> list[str]:
    present = set(dataset.schema.names)
    return [name for name in _fields(kind) if name in present]


def _fields(kind: type[RowT]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def condition(equal: dict[str, str | int | None], where: ds.Expression | None = None) -> ds.Expression | None:
    """Return which rows have these values in their columns, and fulfil `where`; None: all."""
    conditions = [ds.field(name).is_null() if value is None else ds.field(name) == value for name, value in equal.items()]
    if where is not None:
        conditions.append(where)
    return reduce(lambda left, right: left & right, conditions) if conditions else None


@contextmanager
def reading(
    location: str, table: str, damage: Callable[[str], str | None] | None = None, way_back: Callable[[], str] | None = None
) -> Iterator[None]:
    """Turn whatever a table's files can do wrong into one sentence.

    Args:
        location: of the tables.
        table: the one that is read.
        damage: gives which of its files is damaged, if one is.
        way_back: what to do about that.

    Raises:
        UsageError: with that sentence.
    """
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException, RowMismatchError, ValueError) as error:
        where = f"warehouse {location}: table {table} cannot be read"
        if damage is not None and way_back is not None and (damaged := damage(table)):
            raise UsageError(f"{where}: {damaged}. {way_back()}") from None
        raise UsageError(
            f"{where}: {_sentence(error)}. Check the permissions of its files; if they are damaged, audit again into a new warehouse"
        ) from None


def _sentence(error: Exception) -> str:
    """The first words of an error of the libraries below, which draw trees in colours and print their stacks."""
    text = re.split(r"\s+0: ", _COLOUR.sub("", str(error)))[0]
    return " ".join(text.replace("\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}", ":").split())[:300].rstrip(".")


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
