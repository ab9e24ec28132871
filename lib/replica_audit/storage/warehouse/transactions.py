"""Appends to a Delta table through Delta's own transactions.

A DataFrameWriter that is to write each application transaction once reads all of the table's state first, which costs more than the write.
Here that is asked only of a table that has changed since this process last knew that nothing newer is in it.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from replica_audit.rows.arrow import WrittenFile
from replica_audit.storage.warehouse.reader import CONSTRAINT, refuse_foreign_sql


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """What a commit carries: the id of the run, and a number that grows with each of the run's commits to the table (None: no number)."""

    run_id: str
    fence: int | None

    @property
    def application(self) -> str:
        """The name under which Delta knows the number."""
        return f"replica-audit:{self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """A commit made here: the table's version that it made, its files, and its number."""

    version: int
    files: Any
    fence: int


@contextmanager
def other_release() -> Iterator[None]:
    """Go on behind the block where this release of Delta has other classes than those that are used here; nothing was committed then."""
    try:
        yield
    except Py4JJavaError:
        raise
    except Py4JError:  # no such method or constructor
        pass
    except TypeError as error:  # py4j takes a class that is not there for a package
        if "JavaPackage" not in str(error):
            raise


class Transactions:
    """The tables below one directory or URI, by their paths.

    Delta's classes are not for others to call. They are those of the release whose jar is checked at set-up; with any other
    release `other_release` lets the caller use the DataFrameWriter instead.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is read yet."""
        self._spark = spark
        self._known: dict[str, int] = {}  # by path: up to this version nothing in the table is newer than what this process writes
        self._last: dict[tuple[str, str], _Own | None] = {}  # by path and run
        self._lock = threading.Lock()

    def properties(self, path: str) -> dict[str, str] | None:
        """The properties of a table as it is now; None if there is no table. Its version is remembered as known.

        Raises:
            UsageError: as `refuse_foreign_sql`.
        """
        snapshot = self._log(path).update(False, self._none(), self._none())
        if snapshot.version() < 0:
            return None
        found = _properties_without_foreign_sql(path, snapshot.metadata())
        with self._lock:
            self._known[path] = snapshot.version()
        return found

    def refuse_foreign_sql(self, path: str) -> bool:
        """Refuse a table with SQL of others in its definition; True if it has none.

        Raises:
            UsageError: it has.
        """
        _properties_without_foreign_sql(path, self._log(path).update(False, self._none(), self._none()).metadata())
        return True

    def append(self, path: str, rows: DataFrame, commit: TableCommit, is_old: bool) -> bool:
        """Append rows in one commit, unless a number as high as the commit's has been seen.

        Args:
            path: of the table.
            rows: to append.
            commit: what the commit carries.
            is_old: whether a number as high may be older than `properties`' look at the table.

        Returns:
            Whether the table has all of the rows' columns; if not, nothing is written.

        Raises:
            CapturedException, Py4JJavaError: a conflict, or whatever Delta and Spark throw.
            UsageError: as `refuse_foreign_sql`.
            FileNotFoundError: the table is not there any more.
        """
        if is_old:
            with self._lock:
                self._known.pop(path, None)
        return self._write(path, rows.schema, _written(rows), commit, None)

    def takes_files(self, path: str, columns: StructType, constraints: Mapping[str, str]) -> bool:
        """Whether a table can be given files with these columns, written by others, as `add` does.

        They are not looked into by Delta, which knows only that its table has no other columns that may not be null, and no other
        constraints than those that the rows were made to hold.
        """
        snapshot = self._log(path).update(False, self._none(), self._none())
        if snapshot.version() < 0:
            return False
        metadata = snapshot.metadata()
        found = self._java.scala.jdk.javaapi.CollectionConverters.asJava(metadata.configuration())
        known = {CONSTRAINT + name.lower() for name in constraints}
        is_free = all(key.lower() in known or not key.lower().startswith(CONSTRAINT) for key in map(str, found))
        required = {one["name"] for one in json.loads(metadata.schemaString())["fields"] if not one["nullable"]}
        is_plain = metadata.partitionColumns().isEmpty() and str(found.get("delta.columnMapping.mode") or "none") == "none"
        self._added(WrittenFile(table="", path="none", rows=0, size_bytes=0, modified_at_ms=0, statistics="{}"))  # this release can
        return is_plain and is_free and required <= set(columns.names) and _holds(metadata.schemaString(), columns.jsonValue())

    def add(self, path: str, files: Sequence[WrittenFile], columns: StructType, commit: TableCommit) -> bool:
        """Let a table have files that were written into its directory, as `append` appends rows."""

        def added(_transaction: Any) -> Any:
            actions = self._java.java.util.ArrayList()
            for file in files:
                actions.add(self._added(file))
            return self._java.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()

        return self._write(path, columns, added, commit, None)

    def _added(self, file: WrittenFile) -> Any:
        action = {
            "path": file.path,
            "partitionValues": {},
            "size": file.size_bytes,
            "modificationTime": file.modified_at_ms,
            "dataChange": True,
            "stats": file.statistics,
        }
        return self._delta.actions.Action.fromJson(json.dumps({"add": action}))

    def replace(self, path: str, rows: DataFrame, commit: TableCommit) -> bool:
        """Put rows in the place of those that were written last for the same run, unless their number is as high as the commit's.

        Returns:
            Whether that could be done; not if the table has changed since they were written here, or if they were not.
        """
        with self._lock:
            own = self._last.get((path, commit.run_id))
        return own is not None and commit.fence is not None and self._write(path, rows.schema, _written(rows), commit, own)

    def _write(self, path: str, columns: StructType, files: Callable[[Any], Any], commit: TableCommit, own: _Own | None) -> bool:
        transaction = self._log(path).startTransaction()
        version = transaction.snapshot().version()
        if version < 0:  # a writer would make a new one, with nothing of its definition
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        _properties_without_foreign_sql(path, transaction.metadata())
        if not _holds(transaction.metadata().schemaString(), columns.jsonValue()):
            return False
        if own is not None and own.version != version:
            return False
        if own.fence >= (commit.fence or 0) if own else self._is_seen(transaction, path, version, commit):
            return True
        operation = self._operation(commit.run_id, replaces=own is not None)
        added = files(transaction)
        actions = added
        for number in range(own.files.size() if own else 0):
            actions = actions.appended(own.files.apply(number).remove())  # type: ignore[union-attr]
        if commit.fence is not None:
            transaction.readTxn().addOne(commit.application)  # a commit of the same run that comes between is a conflict
            stamp = self._option(self._java.java.lang.System.currentTimeMillis())
            actions = actions.prepended(self._delta.actions.SetTransaction(commit.application, commit.fence, stamp))
        written = transaction.commit(actions, operation)
        if commit.fence is not None:
            key, made = (path, commit.run_id), _Own(version=written, files=added, fence=commit.fence)
            with self._lock:  # of a run that appends twice the rows are in more files than these
                self._last[key] = made if own is not None or key not in self._last else None
        return True

    def _is_seen(self, transaction: Any, path: str, version: int, commit: TableCommit) -> bool:
        """Whether the table holds a commit of the run with a number as high."""
        if commit.fence is None:
            return False
        with self._lock:
            if self._known.get(path) == version:
                return False
        kept = transaction.snapshot().setTransactionsIfKnown()  # Delta's checksum of the version has them, unless they are many
        if not kept.isDefined():
            return bool(transaction.txnVersion(commit.application) >= commit.fence)
        every = self._java.scala.jdk.javaapi.CollectionConverters.asJava(kept.get())
        return any(one.appId() == commit.application and one.version() >= commit.fence for one in every)

    def _operation(self, run_id: str, *, replaces: bool) -> Any:
        modes, none = self._java.org.apache.spark.sql.SaveMode, self._none()
        mode, predicate = (modes.Overwrite, self._option(f"run_id = '{run_id}'")) if replaces else (modes.Append, none)
        write = getattr(self._delta, "DeltaOperations$Write")
        return write(mode, none, predicate, self._option(run_id), none, none, none, none, none)

    def _log(self, path: str) -> Any:
        return self._delta.DeltaLog.forTable(self._spark._jsparkSession, path)

    @property
    def _java(self) -> Any:
        return self._spark._jvm

    @property
    def _delta(self) -> Any:
        return self._java.org.apache.spark.sql.delta

    def _none(self) -> Any:
        return self._java.scala.Option.empty()

    def _option(self, value: object) -> Any:
        return self._java.scala.Option.apply(value)


def _properties_without_foreign_sql(path: str, metadata: Any) -> dict[str, str]:
    """The properties of a table, as Delta's action has them."""
    found = json.loads(metadata.json())["metaData"]
    properties: dict[str, str] = found.get("configuration") or {}
    refuse_foreign_sql(path, found["schemaString"], properties)
    return properties


def _written(rows: DataFrame) -> Callable[[Any], Any]:
    """What lets a transaction write rows, and gives their files."""
    return lambda transaction: transaction.writeFiles(rows._jdf)


def _holds(table: str, rows: dict[str, Any]) -> bool:
    """Whether a table has all columns of the rows, each of the same type; what may be null, and comments, are another matter."""
    known = {field["name"]: _bare(field["type"]) for field in json.loads(table)["fields"]}
    return all(known.get(field["name"]) == _bare(field["type"]) for field in rows["fields"])


def _bare(kind: Any) -> Any:
    """A type as JSON, without what may be null and without comments."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return [(field["name"], _bare(field["type"])) for field in kind["fields"]]
    return [kind["type"], *(_bare(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind)]
