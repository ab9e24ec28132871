"""The commits of an audit without a JVM, by delta-rs: tables made, rows added as files or put in the place of a run's own.

What a commit is, and why another that comes between is a conflict, says `rewrites`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from replica_audit.errors import UsageError
from replica_audit.files.object_store import S3_SCHEMES
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.columns import Table
from replica_audit.storage.warehouse.place import LOG, warehouse_place
from replica_audit.storage.warehouse.reader import CONSTRAINT, store_options
from replica_audit.storage.warehouse.rewrites import (
    CHANGE_FEED,
    TableRewrites,
    added,
    files_of,
    foreign_features,
    properties_of,
    with_values,
)

_CHECKPOINT_EVERY = "10"  # commits, as Spark's


def is_committed_to(location: str) -> bool:
    """Whether the tables of a place are changed without Spark: a directory or a URI of S3, if this machine has the key."""
    return warehouse_place(location) is not None or location.partition("://")[0] in S3_SCHEMES


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


class TableCommits(TableRewrites):
    """The tables below one directory, or one URI that delta-rs opens, as an audit makes and fills them."""

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
        actions: list[AddAction | RemoveAction] = [added(file) for file in files]
        if replace is not None:
            files_with = [file for file in files_of(opened) if file.may_hold([commit.run_id])]
            own = [file for file in files_with if file.run_id == commit.run_id]
            has_mixed = len(own) < len(files_with)
            which = f"run_id = '{commit.run_id}'"
            if has_mixed and replace:  # in one commit
                rows = pa.concat_tables(replace)
                self._commit(
                    table,
                    opened,
                    lambda: write_deltalake(opened, rows, mode="overwrite", predicate=which, commit_properties=commit.properties),
                )
                return
            if has_mixed and self.delete_runs(table, opened, [commit.run_id]):
                self.write(table, files, commit, replace=replace)  # on the newer version, which may have seen a higher number
                return
            if not has_mixed:
                actions += (file.removal(is_change=True) for file in own)
        if actions or replace is not None:
            self._commit(
                table,
                opened,
                lambda: opened.create_write_transaction(actions, "append", opened.schema(), commit_properties=commit.properties),
            )

    def sign(self, table: Table, run_id: str, attempt: int, moment: datetime) -> int:
        """Let the rows of an attempt at a run say when its process last lived; returns how many do.

        Raises:
            CommitConflictError: another commit came first.
            UsageError: as `properties`.
        """
        opened, changed = self._there(table), 0

        def signed(rows: pa.Table) -> pa.Table:
            nonlocal changed
            keys: list[Any] = [pc.equal(rows[name], pa.scalar(value)) for name, value in (("run_id", run_id), ("attempt", attempt))]
            is_own: Any = pc.fill_null(pc.and_(*keys), False)
            changed = len(rows.filter(is_own))
            return with_values(rows, is_own, {"alive_at": moment})

        self.change_rows(table, opened, [run_id], signed)
        return changed


def _nullable_inside(kind: pa.DataType) -> pa.DataType:
    """A type whose inner fields may be null, as in every table that Spark made: its files of changes say so, too."""
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_nullable_inside(field.type)).with_nullable(True) for field in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(_nullable_inside(kind.value_type))
    return kind


def _is_writable(opened: DeltaTable, table: Table) -> bool:
    if foreign_features(opened) is not None:
        return False
    known = {CONSTRAINT + name.lower() for name in table.constraints}
    if any(name.lower().startswith(CONSTRAINT) and name.lower() not in known for name in properties_of(opened)):
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
