"""The tables of a warehouse without Spark, read with delta-rs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replica_audit.errors import UsageError
from replica_audit.files.object_store import S3_SCHEMES
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal, reading
from replica_audit.storage.warehouse.catalog import is_catalog_name

_PRUNED_BY = ("run_id", "topic", "partition")  # columns whose values need no quoting; a file's statistics tell whether it can hold them


class WarehouseTables(ArrowTables):
    """The tables below one directory or URI."""

    def __init__(self, location: str) -> None:
        """Name the place; only whether a local one is a directory is looked at.

        Raises:
            UsageError: the place is a name in Spark's catalog, or no directory.
        """
        super().__init__(location)
        self._local = _local(location)
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
        with reading(self.location, table):
            return self._opened(table) is not None

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table as of now, without the files that cannot hold a wanted row; of files no unwanted columns are read anyway."""
        with reading(self.location, table):
            opened = self._opened(table)
            if opened is None:
                return None
            prunable = [(name, "=", value) for name in _PRUNED_BY if (value := (equal or {}).get(name)) is not None]
            return opened.to_pyarrow_dataset(filesystem=self._filesystem(table), file_pruning_predicate=prunable or None)

    def _filesystem(self, table: str) -> pyarrow.fs.FileSystem | None:
        """Arrow's own for local files: delta-rs' calls Python in Arrow's threads, which may abort a process that ends meanwhile."""
        if self._local is None:
            return None
        return pyarrow.fs.SubTreeFileSystem(str((self._local / table).absolute()), pyarrow.fs.LocalFileSystem())

    def _opened(self, table: str) -> DeltaTable | None:
        """A table as of now; None if it is not there."""
        if self._local is None:
            where = f"{self.location.rstrip('/')}/{table}"
        else:
            where = str(self._local / table)
            if not (self._local / table).exists():
                return None
        try:
            return DeltaTable(where, storage_options=_options(where))
        except TableNotFoundError:
            if self._local is None:
                return None
            raise


def _local(location: str) -> Path | None:
    """The directory that a location names; None for a URI of another kind."""
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


def _options(where: str) -> dict[str, str] | None:
    """What delta-rs has to be told of S3 besides the variables of AWS that it reads itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if not endpoint or where.partition("://")[0] not in S3_SCHEMES:
        return None
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
