"""Changes of Delta tables without a JVM, by delta-rs: each is one commit on the version that was read, or none.

delta-rs could also put a commit behind others that came between. It would not notice then that one of them merged the files that this one
removes, and rows would be there twice. So whatever comes between is a conflict, and the change is begun again on the newer version.

Here are the changes of rows that a table has: upkeep, and every run that is made again. What an audit adds is in `commits`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from replica_audit.errors import UsageError
from replica_audit.rows.arrow import WrittenFile
from replica_audit.rows.columns import Table
from replica_audit.storage.warehouse.place import LOG
from replica_audit.storage.warehouse.reader import CONSTRAINT, WarehouseTables, arrow_dataset, local_directory, refuse_foreign_sql
from replica_audit.storage.warehouse.table_files import rewritten

CHANGE_FEED = "delta.enableChangeDataFeed"
# what delta-rs writes, and Delta gives every table that needs no more; it cannot write clustered tables, as older versions made them
_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed"})
_NAMED_FEATURES = 7  # the version from which a table names its features

_PLAIN = re.compile(r"[A-Za-z0-9._=-]+")


class CommitConflictError(Exception):
    """Another commit came first: nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table, as its log has it.

    Args:
        path: its name there.
        size_bytes: its size.
        modified_at_ms: when it was written.
        rows: how many rows it has; None if unknown.
        runs: the least and the greatest id of the runs that they are of; None if unknown.
    """

    path: str
    size_bytes: int
    modified_at_ms: int
    rows: int | None
    runs: tuple[str, str] | None

    @property
    def run_id(self) -> str | None:
        """The run that all rows are of; None if they may be of several."""
        return self.runs[0] if self.runs is not None and self.runs[0] == self.runs[1] else None

    @property
    def is_plain(self) -> bool:
        """Whether its name reads the same in the log and in the directory, as every writer names files."""
        return _PLAIN.fullmatch(self.path) is not None

    def may_hold(self, ids: Collection[str]) -> bool:
        """Whether it may hold rows of some runs."""
        return self.runs is None or any(self.runs[0] <= run_id <= self.runs[1] for run_id in ids)

    def removal(self, *, is_change: bool) -> RemoveAction:
        """What takes it from the table; unless `is_change`, other files have its rows."""
        return RemoveAction(self.path, is_change, time.time_ns() // 1_000_000, self.size_bytes, {})


def files_of(opened: DeltaTable) -> list[TableFile]:
    """The files of a version of a table."""
    known = pa.table(opened.get_add_actions(flatten=True))
    names = ("path", "size_bytes", "modification_time", "num_records", "min.run_id", "max.run_id")
    found = []
    for row in known.select([name for name in names if name in known.column_names]).to_pylist():
        least, greatest = row.get("min.run_id"), row.get("max.run_id")
        found.append(
            TableFile(
                path=row["path"],
                size_bytes=row["size_bytes"],
                modified_at_ms=row["modification_time"],
                rows=row.get("num_records"),
                runs=None if least is None or greatest is None else (least, greatest),
            )
        )
    return found


class TableRewrites:
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
        return None if opened is None else properties_of(opened)

    def change_rows(self, table: Table, opened: DeltaTable, ids: Collection[str], change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of runs, in files that are written again.

        Args:
            table: to change.
            opened: its version, which is still the latest, or the change is a conflict.
            ids: of the runs.
            change: gives for rows of these and of other runs what takes their place, in the same columns.

        Raises:
            CommitConflictError: another commit came first.
        """
        files = [file for file in files_of(opened) if file.may_hold(ids)]
        rows = self.dataset(table, opened, files)
        made = rewritten(change(rows.to_table()).to_batches(), rows.schema, table=table.name, place=self.path(table))
        self._replace(table, opened, files, [made], is_change=True)

    def delete_runs(self, table: Table, opened: DeltaTable, ids: Collection[str]) -> int:
        """Delete the rows of runs: whole files are removed, and others written again without the rows. Returns how many.

        That is one commit; where a table has a feed of changes, which delta-rs alone can write, two or three.

        Raises:
            CommitConflictError: another commit came first.
        """
        files = [file for file in files_of(opened) if file.may_hold(ids)]
        whole = [file for file in files if file.run_id in ids and file.rows is not None]
        gone = sum(file.rows or 0 for file in whole)
        removed = pa.array(sorted(ids), pa.string())
        others = [file for file in files if file not in whole]
        odd = [file for file in others if not file.is_plain]
        mixed = {file: held for file in others if file.is_plain and (held := self._count(table, opened, file, removed))}
        if odd or (mixed and properties_of(opened).get(CHANGE_FEED) == "true"):
            self._replace(table, opened, whole, [], is_change=True)
            return gone + self._delete_by_predicate(table, self._there(table), ids)
        made = []
        for file in mixed:
            rows = self.dataset(table, opened, [file])
            # by Python: no filter of Arrow's takes the types that delta-rs names in its files
            kept = (batch.filter(pc.invert(pc.is_in(batch["run_id"], value_set=removed))) for batch in _batches(rows))
            made.append(rewritten(kept, rows.schema, table=table.name, place=self.path(table)))
        self._replace(table, opened, [*whole, *mixed], made, is_change=True)
        return gone + sum(mixed.values())

    def _count(self, table: Table, opened: DeltaTable, file: TableFile, ids: pa.StringArray) -> int:
        """How many rows of some runs a file has."""
        batches = self.dataset(table, opened, [file]).to_batches(columns=["run_id"])
        return sum(len(batch.filter(pc.is_in(batch["run_id"], value_set=ids))) for batch in batches)

    def _delete_by_predicate(self, table: Table, opened: DeltaTable, ids: Collection[str]) -> int:
        before = {file.path for file in files_of(opened)}
        which = f"run_id IN ({', '.join(map(_quoted, sorted(ids)))})"
        done = self._commit(table, opened, lambda: opened.delete(which, commit_properties=on_this_version()))
        while fresh := [[file] for file in files_of(opened) if file.path not in before and file.is_plain]:
            try:
                self.merge_files(table, opened, fresh)
                break
            except CommitConflictError:
                newer = self._there(table)
                before.update({file.path for file in files_of(newer)} - {file.path for (file,) in fresh})
                opened = newer
        return int(done["num_deleted_rows"])

    def merge_files(self, table: Table, opened: DeltaTable, groups: Sequence[Sequence[TableFile]]) -> int:
        """Write each group of files again, as one file, in one commit. Returns how many files that makes.

        Raises:
            CommitConflictError: another commit came first.
            UsageError: files have other rows than the log says.
        """
        made = []
        for group in groups:
            rows = self.dataset(table, opened, group)
            made.append(rewritten(_batches(rows), rows.schema, table=table.name, place=self.path(table)))
            known = [file.rows for file in group if file.rows is not None]
            if len(known) == len(group) and (made[-1].rows if made[-1] else 0) != sum(known):
                raise UsageError(f"table {self.path(table)}: files have other numbers of rows than its log says")
        self._replace(table, opened, [file for group in groups for file in group], made, is_change=False)
        return sum(file is not None for file in made)

    def dataset(self, table: Table, opened: DeltaTable, files: Collection[TableFile] | None = None) -> ds.Dataset:
        """Some files of a version of a table; None: all.

        Raises:
            UsageError: the directory has them under other names.
        """
        whole = arrow_dataset(opened, None if self._local is None else self._local / table.name, None)
        if files is None or not isinstance(whole, ds.FileSystemDataset):
            return whole
        names = {file.path for file in files}
        fragments = [fragment for fragment in whole.get_fragments() if fragment.path in names]
        if len(fragments) != len(names):
            raise UsageError(f"table {self.path(table)}: its log has names of files that this program does not give")
        return ds.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)

    def _replace(
        self, table: Table, opened: DeltaTable, files: Sequence[TableFile], made: Sequence[WrittenFile | None], *, is_change: bool
    ) -> None:
        """Take files from a table, and let it have others, in one commit. These stay if it fails: it may have been done all the same."""
        removed = [file.removal(is_change=is_change) for file in files]
        actions: list[AddAction | RemoveAction] = [*removed, *(added(file, is_change=is_change) for file in made if file is not None)]
        if actions:
            self._commit(
                table,
                opened,
                lambda: opened.create_write_transaction(actions, "append", opened.schema(), commit_properties=on_this_version()),
            )

    def _opened(self, table: Table) -> DeltaTable | None:
        if self._local is not None and not (self._local / table.name / LOG).is_dir():
            return None
        opened = WarehouseTables(self._location).opened(table.name)
        if opened is not None:
            refuse_foreign_sql(self.path(table), opened.schema().to_json(), properties_of(opened))
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


def properties_of(opened: DeltaTable) -> dict[str, str]:
    """Return the properties of a version of a table."""
    return dict(opened.metadata().configuration)


def _refuse_contradiction(path: str, opened: DeltaTable) -> None:
    """Refuse a definition that needs a feature which it does not name, as one may that somebody wrote by hand: Spark does not take it.

    Raises:
        UsageError: so it is.
    """
    protocol, properties = opened.protocol(), {name.lower(): value for name, value in properties_of(opened).items()}
    needed = {"checkConstraints"} if any(name.startswith(CONSTRAINT) for name in properties) else set()
    needed |= {"changeDataFeed"} if properties.get(CHANGE_FEED.lower()) == "true" else set()
    lacking = sorted(needed.difference(protocol.writer_features or ())) if protocol.min_writer_version >= _NAMED_FEATURES else []
    if lacking:
        raise UsageError(f"table {path}: Delta does not take its definition (it does not name {lacking[0]}); give another --warehouse")


def foreign_features(opened: DeltaTable) -> str | None:
    """Return what of Delta a table has with which delta-rs cannot write it; None if it can."""
    protocol = opened.protocol()
    if columns := opened.metadata().partition_columns:
        return f"partitioned by {', '.join(columns)}"
    named = protocol.writer_features or () if protocol.min_writer_version >= _NAMED_FEATURES else ()
    features = sorted({*named, *(protocol.reader_features or ())} - _FEATURES)
    if features or protocol.min_reader_version > 1:
        return f"Delta's {', '.join(features)}" if features else f"version {protocol.min_reader_version} of Delta's protocol"
    return None


def added(file: WrittenFile, *, is_change: bool = True) -> AddAction:
    """Return what adds a file to a table; unless `is_change`, its rows were in other files."""
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.modified_at_ms,
        data_change=is_change,
        stats=file.statistics,
    )


def on_this_version() -> CommitProperties:
    """Return what lets a commit fail unless it is the next of the version that was read."""
    return CommitProperties(max_commit_retries=0)


def with_values(rows: pa.Table, chosen: Any, values: Mapping[str, Any]) -> pa.Table:
    """Return rows of which the chosen ones have these values in their columns."""
    for name, value in values.items():
        place, field = rows.column_names.index(name), rows.schema.field(name)
        given = value if isinstance(value, pa.ChunkedArray) else pa.scalar(value, field.type)
        rows = rows.set_column(place, field, pc.if_else(chosen, given, rows[name]))
    return rows


def _batches(rows: ds.Dataset) -> Iterator[pa.RecordBatch]:
    """All rows, of which few are in memory at once."""
    yield from rows.to_batches(batch_readahead=2, fragment_readahead=1)


def _quoted(text: str) -> str:
    """A text as a literal of the SQL of delta-rs, which knows no escape but a doubled quotation mark."""
    return "'" + text.replace("'", "''") + "'"
