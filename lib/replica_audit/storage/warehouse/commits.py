"""Changes of Delta tables without a JVM, by delta-rs: each is one commit on the version that was read, or none.

delta-rs could also put a commit behind others that came between. It would not notice then that one of them merged the files that this one
removes, and rows would be there twice. So whatever comes between is a conflict, and the change is begun again on the newer version.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from replica_audit.errors import UsageError
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.columns import Table
from replica_audit.storage.warehouse.place import LOG
from replica_audit.storage.warehouse.reader import CONSTRAINT, WarehouseTables, local_directory, refuse_foreign_sql, store_options

CHANGE_FEED = "delta.enableChangeDataFeed"
# what delta-rs writes, and Delta gives every table that needs no more; it cannot write clustered tables, as older versions made them
_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed"})
_NAMED_FEATURES = 7  # the version from which a table names its features
_CHECKPOINT_EVERY = "10"  # commits, as Spark's


class CommitConflictError(Exception):
    """Another commit came first: nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """What a commit carries: the id of the run, and a number that grows with each of the run's commits to the table (None: no number)."""

    run_id: str
    fence: int | None

    @property
    def application(self) -> str:
        """The name under which Delta knows the number."""
        return f"replica-audit:{self.run_id}"

    @property
    def properties(self) -> CommitProperties:
        """The same for delta-rs."""
        number = [] if self.fence is None else [Transaction(self.application, self.fence, time.time_ns() // 1_000_000)]
        return CommitProperties(custom_metadata={"userMetadata": self.run_id}, max_commit_retries=0, app_transactions=number)


class TableCommits:
    """The tables below one directory, or one URI that delta-rs opens."""

    def __init__(self, location: str) -> None:
        """Name the place; nothing is read yet."""
        self._location = location
        self._local = local_directory(location)

    def path(self, table: Table) -> str:
        """Return where a table is, as delta-rs takes it."""
        return f"{self._location.rstrip('/')}/{table.name}" if self._local is None else str(self._local.absolute() / table.name)

    def properties(self, table: Table) -> dict[str, str] | None:
        """Return the properties of a table; None if it is not there.

        Raises:
            UsageError: it cannot be read, or its definition has SQL of others.
        """
        opened = self._opened(table)
        return None if opened is None else _properties(opened)

    def create(self, table: Table) -> None:
        """Create a table if it is not there.

        Raises:
            UsageError: the place holds something else, or cannot be read.
            DeltaError, OSError: it cannot be written.
        """
        if self._local is not None:
            place = self._local / table.name
            place.mkdir(parents=True, exist_ok=True)
            if any(place.iterdir()) and not (place / LOG).is_dir():
                why = "it holds something that is not a Delta table; give another --warehouse"
                raise UsageError(f"warehouse {self._location}: table {table.name}: {why}")
        comments: dict[str, dict[str | bytes, str | bytes]] = {column.name: {"comment": column.comment} for column in table.columns}
        fields = [field.with_type(_nullable_inside(field.type)).with_metadata(comments[field.name]) for field in schema_of(table)]
        # delta-rs reads no deletion vectors
        properties = {"delta.enableDeletionVectors": "false", "delta.checkpointInterval": _CHECKPOINT_EVERY}
        properties |= {CHANGE_FEED: "true"} if table.has_change_feed else {}
        DeltaTable.create(
            self.path(table),
            pa.schema(fields),
            mode="ignore",
            description=table.grain,
            configuration=properties,
            storage_options=store_options(self.path(table)),
        )

    def add_constraints(self, table: Table) -> None:
        """Add the constraints to a table that has had no commit since it was created: creating cannot.

        Raises:
            CommitConflictError: another process did it meanwhile.
        """
        opened = self._there(table)
        known = {name.lower() for name in opened.metadata().configuration}
        missing = {name: check for name, check in table.constraints.items() if CONSTRAINT + name.lower() not in known}
        if opened.version() == 0 and missing:
            properties = CommitProperties(max_commit_retries=0)
            self._commit(table, opened, lambda: opened.alter.add_constraint(missing, commit_properties=properties))

    def takes(self, table: Table) -> bool:
        """Return True if a table can be written by delta-rs, with the columns that this version writes.

        Files are committed as they are: the table has no other columns that may not be null, and no other constraints than those that
        the rows were made to hold.

        Raises:
            UsageError: as `properties`.
        """
        opened = self._opened(table)
        return opened is not None and _is_writable(opened, table)

    def write(self, table: Table, files: Sequence[WrittenFile], commit: TableCommit, *, replace: Sequence[pa.Table] | None) -> None:
        """Let a table have files that were written into its directory, unless a number as high as the commit's has been seen.

        Args:
            table: to change.
            files: rows of the commit's run.
            commit: what the commit carries.
            replace: None to append; else every other row of the run goes, and these are the rows of `files`, empty if they are not at hand.

        Raises:
            CommitConflictError: another commit came first.
            UsageError: the table cannot be read, or takes no such files any more.
            FileNotFoundError: it is not there any more.
        """
        opened = self._there(table)
        if not _is_writable(opened, table):
            raise UsageError(f"warehouse {self._location}: columns of table {table.name} changed meanwhile; give another --run-id")
        if commit.fence is not None and (opened.transaction_version(commit.application) or -1) >= commit.fence:
            return
        actions: list[AddAction | RemoveAction] = [_added(file) for file in files]
        if replace is not None:
            own, has_mixed = _files_of(opened, commit.run_id)
            which = f"run_id = '{commit.run_id}'"
            if has_mixed and replace:  # in one commit
                rows = pa.concat_tables(replace)
                self._commit(
                    table,
                    opened,
                    lambda: write_deltalake(opened, rows, mode="overwrite", predicate=which, commit_properties=commit.properties),
                )
                return
            if has_mixed:
                unnumbered = TableCommit(run_id=commit.run_id, fence=None).properties
                self._commit(table, opened, lambda: opened.delete(which, commit_properties=unnumbered))
            else:
                actions += own
        if actions or replace is not None:
            self._commit(
                table,
                opened,
                lambda: opened.create_write_transaction(actions, "append", opened.schema(), commit_properties=commit.properties),
            )

    def update(self, table: Table, values: dict[str, str], where: str) -> int:
        """Change rows, by expressions of SQL; returns how many.

        Raises:
            CommitConflictError: another commit came first.
            UsageError: as `properties`.
        """
        opened = self._there(table)
        done = self._commit(
            table, opened, lambda: opened.update(updates=values, predicate=where, commit_properties=CommitProperties(max_commit_retries=0))
        )
        return int(done["num_updated_rows"])

    def _opened(self, table: Table) -> DeltaTable | None:
        if self._local is not None and not (self._local / table.name / LOG).is_dir():
            return None
        opened = WarehouseTables(self._location).opened(table.name)
        if opened is not None:
            refuse_foreign_sql(self.path(table), opened.schema().to_json(), _properties(opened))
            _refuse_contradiction(self.path(table), opened)
        return opened

    def _there(self, table: Table) -> DeltaTable:
        opened = self._opened(table)
        if opened is None:  # a writer would make a new one, with nothing of its definition
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path(table))
        return opened

    def _commit(self, table: Table, opened: DeltaTable, change: Callable[[], Any]) -> Any:
        version = opened.version()
        try:
            return change()
        except DeltaError as error:
            newer = self._opened(table) if isinstance(error, CommitFailedError) else None
            if newer is None or newer.version() == version:
                raise
        raise CommitConflictError(f"{self.path(table)}: version {version + 1}")


def _nullable_inside(kind: pa.DataType) -> pa.DataType:
    """A type whose inner fields may be null, as in every table that Spark made: its files of changes say so, too."""
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_nullable_inside(field.type)).with_nullable(True) for field in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(_nullable_inside(kind.value_type))
    return kind


def _properties(opened: DeltaTable) -> dict[str, str]:
    return dict(opened.metadata().configuration)


def _refuse_contradiction(path: str, opened: DeltaTable) -> None:
    """Refuse a definition that needs a feature which it does not name, as one may that somebody wrote by hand: Spark does not take it.

    Raises:
        UsageError: so it is.
    """
    protocol, properties = opened.protocol(), {name.lower(): value for name, value in _properties(opened).items()}
    needed = {"checkConstraints"} if any(name.startswith(CONSTRAINT) for name in properties) else set()
    needed |= {"changeDataFeed"} if properties.get(CHANGE_FEED.lower()) == "true" else set()
    lacking = sorted(needed.difference(protocol.writer_features or ())) if protocol.min_writer_version >= _NAMED_FEATURES else []
    if lacking:
        raise UsageError(f"table {path}: Delta does not take its definition (it does not name {lacking[0]}); give another --warehouse")


def _is_writable(opened: DeltaTable, table: Table) -> bool:
    protocol = opened.protocol()
    is_plain = protocol.min_reader_version == 1 and not opened.metadata().partition_columns
    if not is_plain or (protocol.min_writer_version >= _NAMED_FEATURES and not _FEATURES.issuperset(protocol.writer_features or ())):
        return False
    known = {CONSTRAINT + name.lower() for name in table.constraints}
    if any(name.lower().startswith(CONSTRAINT) and name.lower() not in known for name in _properties(opened)):
        return False
    present = {field["name"]: field for field in json.loads(opened.schema().to_json())["fields"]}
    wanted = {field["name"]: _bare(field["type"]) for field in json.loads(Schema.from_arrow(schema_of(table)).to_json())["fields"]}
    if any(name not in present or _bare(present[name]["type"]) != kind for name, kind in wanted.items()):
        return False
    return all(field["nullable"] or name in wanted for name, field in present.items())


def _bare(kind: Any) -> Any:
    """A type as JSON, without what may be null and without comments."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return [(field["name"], _bare(field["type"])) for field in kind["fields"]]
    return [kind["type"], *(_bare(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind)]


def _added(file: WrittenFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.modified_at_ms,
        data_change=True,
        stats=file.statistics,
    )


def _files_of(opened: DeltaTable, run_id: str) -> tuple[list[RemoveAction], bool]:
    """The removal of every file that holds rows of this run alone, and whether others may hold some, too."""
    known = pa.table(opened.get_add_actions(flatten=True))
    names = [name for name in ("path", "size_bytes", "min.run_id", "max.run_id") if name in known.column_names]
    now = time.time_ns() // 1_000_000
    own, has_mixed = [], False
    for file in known.select(names).to_pylist():
        least, greatest = file.get("min.run_id"), file.get("max.run_id")
        if least == greatest == run_id:
            own.append(RemoveAction(file["path"], True, now, file["size_bytes"], {}))
        elif least is None or greatest is None or least <= run_id <= greatest:
            has_mixed = True
    return own, has_mixed
