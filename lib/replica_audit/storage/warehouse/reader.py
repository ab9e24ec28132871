"""The tables of a warehouse without Spark, read with delta-rs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replica_audit.errors import UsageError
from replica_audit.files.object_store import S3_SCHEMES
from replica_audit.program import command_line
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal, reading
from replica_audit.storage.warehouse.damage import DamagedFile, first_damage, first_irregular, irregular_log_files, is_begun
from replica_audit.storage.warehouse.place import LOG, is_catalog_name

CONSTRAINT = "delta.constraints."
_COMMENT, _COLUMN_MAPPING = "comment", "delta.columnMapping."  # names and numbers
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[(),]|'[^'\\]*'|-?\d+|[<>!]=|<>|[<>=])", re.ASCII)
_BEFORE_BRACKET = {
    "",
    "(",
    "AND",
    "IN",
    "NOT",
    "OR",
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
}  # any other word before a bracket names a function


def refuse_foreign_sql(table: str, schema: str, properties: Mapping[str, str]) -> None:
    """Refuse a table whose definition has SQL that is more than comparisons of columns with literals.

    Args:
        table: where it is.
        schema: its columns, as Delta's JSON.
        properties: of the table.

    Raises:
        UsageError: a column computes, defaults or checks something, or a constraint may call a function.
    """
    for column, name in _metadata(json.loads(schema)):
        if name != _COMMENT and not name.startswith(_COLUMN_MAPPING):
            raise _refusal(table, f"column {column} has {name}")
    for name, expression in properties.items():
        if name.lower().startswith(CONSTRAINT) and not is_comparison(expression):
            raise _refusal(table, f"{name} is {expression[:200]!r}")


def is_comparison(expression: str) -> bool:
    """Return whether an expression of SQL only compares columns with literals, as constraints of this program do: no function is called."""
    place, before = 0, ""
    expression = expression.strip()
    while place < len(expression):
        token = _TOKEN.match(expression, place)
        if token is None or (token[1] == "(" and before not in _BEFORE_BRACKET):
            return False
        place, before = token.end(), token[1].upper()
    return True


def _refusal(table: str, what: str) -> UsageError:
    why = "no version of this program makes that, and Delta could run code by it"
    return UsageError(f"table {table}: {what}: {why}; give another --warehouse")


def _metadata(kind: Any, column: str = "") -> Iterator[tuple[str, str]]:
    """Each column, also inside of others, with each name in its metadata."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        path = f"{column}.{field['name']}" if column else field["name"]
        yield from ((path, name) for name in field.get("metadata") or ())
        yield from _metadata(field["type"], path)
    for part in ("elementType", "keyType", "valueType"):
        yield from _metadata(kind.get(part), column)


_PRUNED_BY = ("run_id", "topic", "partition")  # columns whose values need no quoting; a file's statistics tell whether it can hold them


class WarehouseTables(ArrowTables):
    """The tables below one directory or URI."""

    def __init__(self, location: str) -> None:
        """Name the place; only whether a local one is a directory is looked at.

        Raises:
            UsageError: the place is a name in Spark's catalog, or no directory.
        """
        super().__init__(location)
        self._local = local_directory(location)
        if self._local is None:
            return
        with reading(location, "warehouse"):
            if self._local.is_dir():
                return
            exists = self._local.exists()
        if is_catalog_name(location):
            raise UsageError(
                f"--warehouse {location}: a name in Spark's catalog cannot be read without Spark; give the directory or URI of its tables"
            )
        what = "is a file, not a directory" if exists else "no such directory"
        raise UsageError(f"--warehouse {location}: {what}; give the directory that an audit wrote its tables to (its --warehouse)")

    def has(self, table: str) -> bool:
        """Whether the warehouse holds a table of this name; of its files none is looked at, of which there may be thousands."""
        with self._reading(table):
            return self._opened(table) is not None

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table as of now, without the files that cannot hold a wanted row; of files no unwanted columns are read anyway."""
        with self._reading(table):
            opened = self._opened(table)
            if opened is None:
                return None
            if self._local is None:
                return arrow_dataset(opened, None, equal)
            found = arrow_dataset(opened, self._local / table, equal)
            self._refuse_damaged(table, first_irregular(self._local / table, getattr(found, "files", ())))
            return found

    def opened(self, table: str) -> DeltaTable | None:
        """Open a table as of now; None if it is not there.

        Raises:
            UsageError: it cannot be read.
        """
        with self._reading(table):
            return self._opened(table)

    def refuse_foreign_sql(self, table: str) -> None:
        """Refuse a table with SQL of others in its definition.

        Raises:
            UsageError: it has, or cannot be read.
        """
        with self._reading(table):
            opened = self._opened(table)
            if opened is not None:
                where = f"{self.location.rstrip('/')}/{table}"
                refuse_foreign_sql(where, opened.schema().to_json(), opened.metadata().configuration)

    def _opened(self, table: str) -> DeltaTable | None:
        """A table as of now; None if it is not there."""
        if self._local is None:
            where = f"{self.location.rstrip('/')}/{table}"
        else:
            where = str(self._local / table)
            if not (self._local / table).exists() or is_begun(self._local / table):
                return None
            self._refuse_damaged(table, next(iter(irregular_log_files(self._local / table)), None))
        try:
            opened = DeltaTable(where, storage_options=store_options(where))
        except TableNotFoundError:
            if self._local is None:
                return None
            raise
        if self._local is not None:
            self._refuse_empty_entry(table, opened.version())
        return opened

    def _refuse_empty_entry(self, table: str, version: int) -> None:
        """Refuse a table whose last entry of the log is empty: it reads as a commit of nothing, and rows of the one before would count."""
        entry = f"{LOG}/{version:020}.json"
        with suppress(FileNotFoundError):  # there is a checkpoint
            if not (self._directory(table) / entry).stat().st_size:
                self._refuse_damaged(table, DamagedFile(path=entry, why="is empty, as a power cut leaves it"))

    def _refuse_damaged(self, table: str, damaged: DamagedFile | None) -> None:
        if damaged is not None:
            where = f"warehouse {self.location}: table {table}: {self._directory(table) / damaged.path}"
            raise UsageError(f"{where} {damaged.why}. {self.way_back()}")

    def damage(self, table: str) -> str | None:
        """Which file of a local table is damaged, and how."""
        damaged = None if self._local is None else first_damage(self._directory(table))
        return None if damaged is None else f"{self._directory(table) / damaged.path} {damaged.why}"

    def way_back(self) -> str:
        """What to do about damage."""
        if self._local is None:
            return super().way_back()
        command = f"{command_line('maintain')} --warehouse {self.location} --restore"
        return (
            f"{command} goes back to the last version that is whole, with --dry-run it shows which runs that loses; "
            "or audit again into a new warehouse"
        )

    def _directory(self, table: str) -> Path:
        return (self._local or Path()) / table


def arrow_dataset(opened: DeltaTable, directory: Path | None, equal: Equal | None) -> ds.Dataset:
    """A version of a table without the files that cannot hold a row whose columns equal the given values; pages are checked by their CRC.

    `directory` is that of a local table, read by Arrow's own file system: delta-rs' calls Python in Arrow's threads, which may abort a
    process that ends meanwhile.
    """
    own = None if directory is None else pyarrow.fs.SubTreeFileSystem(str(directory.absolute()), pyarrow.fs.LocalFileSystem())
    prunable = [(name, "=", value) for name in _PRUNED_BY if (value := (equal or {}).get(name)) is not None]
    found = opened.to_pyarrow_dataset(filesystem=own, file_pruning_predicate=prunable or None)
    if not isinstance(found, ds.FileSystemDataset):
        return found
    found.format.default_fragment_scan_options = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)
    # without what delta-rs says of the values of each file: where statistics lack a column, it says null, and its rows would be passed over
    fragments = [found.format.make_fragment(path, found.filesystem) for path in found.files]
    return ds.FileSystemDataset(fragments, found.schema, found.format, found.filesystem)


def local_directory(location: str) -> Path | None:
    """Return the directory that a location names; None for a URI of another kind."""
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


def store_options(where: str) -> dict[str, str] | None:
    """Return what delta-rs has to be told of S3 besides the variables of AWS that it reads itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if not endpoint or where.partition("://")[0] not in S3_SCHEMES:
        return None
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
