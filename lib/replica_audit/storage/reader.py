"""The tables of a warehouse without Spark: read with delta-rs, only the rows and columns that are asked for, as typed rows.

A row type is a dataclass whose fields are named as the columns that it wants. What a warehouse of an older version lacks, a table or a
column, reads as no rows or as the field's default.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pydantic import TypeAdapter, ValidationError

from replica_audit.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")
MOST_ROWS = 200_000
_CATALOG = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PRUNED_BY = ("run_id", "topic", "partition")  # columns whose values need no quoting; a file's statistics tell whether it can hold them


class WarehouseTables:
    """The tables below one directory or URI.

    `cut_short` names the tables of which not every row that was asked for was read, because there are more than MOST_ROWS.
    """

    def __init__(self, location: str) -> None:
        """Name the place; only whether a local one is a directory is looked at.

        Raises:
            UsageError: the place is a name in Spark's catalog, or no directory.
        """
        self.location = location
        self.cut_short: list[str] = []
        self._local = _local(location)
        if self._local is None:
            return
        with _told(location, "warehouse"):
            if self._local.is_dir():
                return
            exists = self._local.exists()
        if _CATALOG.fullmatch(location):
            raise UsageError(
                f"--warehouse {location}: a name in Spark's catalog cannot be read without Spark; give the directory or URI of its tables"
            )
        what = "is a file, not a directory" if exists else "no such directory"
        raise UsageError(f"--warehouse {location}: {what}; give the directory that an audit was told to write its tables to")

    def has(self, table: str) -> bool:
        """Whether the warehouse holds a table of this name."""
        return self._opened(table) is not None

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows of a table whose columns equal the given values, in no order, MOST_ROWS at most.

        Args:
            table: its name; one that is not there has no rows.
            kind: what to make of each row.
            equal: values by column; None is null.

        Raises:
            UsageError: the table cannot be read, or holds something else than rows of this kind.
        """
        with _told(self.location, table):
            dataset = self._opened(table, equal)
            if dataset is None:
                return ()
            found = dataset.scanner(columns=_columns(dataset, kind), filter=_filter(equal)).head(MOST_ROWS + 1)
            if len(found) > MOST_ROWS:
                self.cut_short.append(table)
            return _values(found.slice(0, MOST_ROWS), kind)

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """Like `rows`, each value once."""
        with _told(self.location, table):
            dataset = self._opened(table, equal)
            if dataset is None:
                return ()
            columns = _columns(dataset, kind)
            found = dataset.scanner(columns=columns, filter=_filter(equal)).to_table()
            return _values(found.group_by(columns).aggregate([]).select(columns).slice(0, MOST_ROWS), kind)

    def _opened(self, table: str, equal: dict[str, str | int | None] | None = None) -> ds.Dataset | None:
        """The table as of now, without the files that cannot hold a wanted row; None if it is not there."""
        with _told(self.location, table):
            if self._local is None:
                where = f"{self.location.rstrip('/')}/{table}"
            else:
                where = str(self._local / table)
                if not (self._local / table).exists():
                    return None
            try:
                opened = DeltaTable(where)
            except TableNotFoundError:
                if self._local is None:
                    return None
                raise
            prunable = [(name, "=", value) for name in _PRUNED_BY if (value := (equal or {}).get(name)) is not None]
            return opened.to_pyarrow_dataset(file_pruning_predicate=prunable or None)


def _local(location: str) -> Path | None:
    """The directory that a location names; None for a URI of another kind."""
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


def _columns(dataset: ds.Dataset, kind: type[RowT]) -> list[str]:
    present = set(dataset.schema.names)
    return [field.name for field in dataclasses.fields(kind) if field.name in present]


def _filter(equal: dict[str, str | int | None]) -> ds.Expression | None:
    conditions = [ds.field(name).is_null() if value is None else ds.field(name) == value for name, value in equal.items()]
    return reduce(lambda left, right: left & right, conditions) if conditions else None


def _values(found: pa.Table, kind: type[RowT]) -> tuple[RowT, ...]:
    return tuple(TypeAdapter(list[kind]).validate_python(found.to_pylist()))  # type: ignore[valid-type]


@contextmanager
def _told(location: str, table: str) -> Iterator[None]:
    """Turn whatever a table's files can do wrong into one sentence."""
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException, ValidationError) as error:
        raise UsageError(
            f"warehouse {location}: table {table} cannot be read: {_sentence(error)}. "
            "Check the permissions of its files; if they are damaged, audit again into a new warehouse"
        ) from None


def _sentence(error: Exception) -> str:
    """The first words of an error of the libraries below, which draw trees in colours and print their stacks."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its column {'.'.join(str(part) for part in first['loc'][1:])} holds {first['input']!r}: {first['msg']}"
    text = re.split(r"\s+0: ", _COLOUR.sub("", str(error)))[0]
    return " ".join(text.replace("\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}", ":").split())[:300].rstrip(".")
