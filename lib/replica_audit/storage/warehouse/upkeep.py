"""What keeps the tables of a warehouse small: rows of runs deleted, small files merged, files that nothing uses removed."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.retention.choice import KnownRun, RunState
from replica_audit.rows import AUDIT_RUNS, Table
from replica_audit.rows.arrow import nullable_columns
from replica_audit.rows.runs import NOTHING_READ, RunHolder
from replica_audit.storage.warehouse import damage
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, reading
from replica_audit.storage.warehouse.attempts import attempt_of, is_held, this_process
from replica_audit.storage.warehouse.place import refuse_links_below, warehouse_place
from replica_audit.storage.warehouse.rewrites import CommitConflictError

_T = TypeVar("_T")
_Row = dict[str, Any]
_TRIES = 30  # of a commit that other processes' commits come before
SMALL_BYTES = 64 << 20  # a file of that size gains nothing from being merged
_MANY_FILES, _MANY_RUN_FILES = 1_000, 8  # every command reads all of audit_runs
_SIGN_AFTER = timedelta(minutes=5)
_OF_RUN = (
    "run_id",
    "cluster_id",
    "run_date",
    "started_at",
    "finished_at",
    "status",
    "exit_code",
    "attempt",
    "holder",
    "alive_at",
    "last_seen_run_id",
)
_RUNS = nullable_columns(AUDIT_RUNS, _OF_RUN)


class TableChangeError(Exception):
    """A change of a table failed; the message is a sentence without its end."""


class TableChanges(ABC):
    """What changes the tables of a warehouse: each call is one commit of one table, or none, unless it says otherwise.

    Each may raise CommitConflictError: another commit came first, and nothing was changed.
    """

    @property
    @abstractmethod
    def tables(self) -> ArrowTables:
        """The tables as they are read."""

    @abstractmethod
    def foreign_features(self, table: Table) -> str | None:
        """Return why a table cannot be changed in this way; None if it can, or cannot be read."""

    @abstractmethod
    def begin_removal(self, runs: Sequence[KnownRun], holder: RunHolder, now: datetime) -> None:
        """Let the rows of runs in `audit_runs` say `running`, with this holder, and when they finished."""

    @abstractmethod
    def delete(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """Delete the rows of runs, in a few commits; of `audit_runs` only rows that are still those of the removal. Returns how many."""

    @abstractmethod
    def sizes(self, table: Table) -> tuple[int, int]:
        """Return how many files a table has, and their bytes."""

    @abstractmethod
    def merge(self, table: Table) -> tuple[int, int]:
        """Merge small files. Returns how many were merged, into how many."""

    @abstractmethod
    def unused(self, table: Table, hours: int) -> Sequence[str] | None:
        """Return which files of a table were not used for so many hours, by their paths in it; None where they cannot be listed."""

    @abstractmethod
    def vacuum(self, table: Table, hours: int) -> None:
        """Remove them."""

    @abstractmethod
    def restore(self, table: Table, version: int) -> None:
        """Take a table back to a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedFiles:
    """Files of a table that no version uses that a reader may still have; `temporary` are those among them of its log.

    `size_bytes` is None of a store.
    """

    paths: tuple[str, ...]
    size_bytes: int | None
    temporary: tuple[str, ...] = ()


class WarehouseUpkeep:
    """The tables of one warehouse, as `maintain` changes them. Each step is one commit of one table, or none."""

    def __init__(self, changes: TableChanges, location: str) -> None:
        """Take what changes the tables; nothing is read or written yet."""
        self._changes, self.location = changes, location
        self._place = warehouse_place(location)
        self._signed = datetime.now(UTC)

    def has(self, table: Table) -> bool:
        """Whether the table is there; an older version did not make every one.

        Raises:
            UsageError: it is there and cannot be read.
        """
        return self._changes.tables.has(table.name)

    def foreign_features(self, table: Table) -> str | None:
        """As of TableChanges."""
        return self._changes.foreign_features(table)

    def runs(self) -> tuple[KnownRun, ...]:
        """Every run that the warehouse knows, in no order.

        Raises:
            UsageError: `audit_runs` cannot be read.
        """
        rows: dict[str, list[_Row]] = {}
        for row in self._rows():
            rows.setdefault(row["run_id"], []).append(row)
        return tuple(self._run(run_id, of_run) for run_id, of_run in rows.items())

    def _rows(self) -> list[_Row]:
        return self._changes.tables.columns(AUDIT_RUNS.name, _RUNS).to_pylist()

    def _run(self, run_id: str, rows: Sequence[_Row]) -> KnownRun:
        attempts = [attempt_of(row) for row in rows]
        latest = max(attempts, key=lambda one: (one.number, one.started_at))
        if all(one.status == "complete" for one in attempts):
            state = RunState.EMPTY if all(row["exit_code"] == NOTHING_READ for row in rows) else RunState.COMPLETE
        elif any(is_held(self.location, run_id, one) for one in attempts if one.status != "complete"):
            state = RunState.RUNNING
        else:
            state = RunState.REMOVING if any(map(is_removal, rows)) else RunState.ENDED
        return KnownRun(
            run_id=run_id,
            # a run that lacked a cluster is no newest run of it: the one that read it stays
            cluster_ids=tuple(sorted({str(row["cluster_id"]) for row in rows if row["last_seen_run_id"] is None})),
            run_date=max(row["run_date"] or latest.started_at.date() for row in rows),
            started_at=latest.started_at,
            state=state,
        )

    def oldest_audit(self, tables: ArrowTables | None = None) -> datetime | None:
        """When the oldest audit began that still runs, UTC; None if none runs. A removal of a run is not an audit.

        `tables` are read instead of the warehouse's own, which may be damaged.
        """
        rows = self._rows() if tables is None else tables.columns(AUDIT_RUNS.name, _RUNS).to_pylist()
        running = [(row["run_id"], attempt_of(row)) for row in rows if row["status"] == "running" and not is_removal(row)]
        return min((one.started_at for run_id, one in running if is_held(self.location, run_id, one)), default=None)

    def begin_removal(self, runs: Sequence[KnownRun]) -> None:
        """Take runs, so that no reader counts them from here on and no audit writes to them: they say `running`, with this process.

        A row that says `running` and when it finished is of a run that is being removed; an audit writes never both.
        """
        now = datetime.now(UTC)
        again(lambda: self._changes.begin_removal(runs, this_process(), now))
        self._signed = now

    def still_removing(self, runs: Sequence[KnownRun]) -> list[KnownRun]:
        """Those of some runs that are still being removed: no audit has begun them again. Shows now and then that this process lives."""
        if runs and datetime.now(UTC) - self._signed > _SIGN_AFTER:
            self.begin_removal(runs)
        removing = {(row["run_id"], row["started_at"].astimezone(UTC)) for row in self._rows() if is_removal(row)}
        return [run for run in runs if (run.run_id, run.started_at) in removing]

    def restore(self, table: Table, version: int) -> None:
        """Take a table back to a version, by a commit of its own."""
        again(lambda: self._changes.restore(table, version))

    def count_rows(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """How many rows of some runs a table has.

        Raises:
            UsageError: it cannot be read.
        """
        if not runs:
            return 0
        ids = pa.array([run.run_id for run in runs], pa.string())
        with reading(self.location, table.name):
            found = self._changes.tables.dataset(table.name, None, ["run_id"])  # as it is stored, without rows of former tables
            stored = pa.array([], pa.string()) if found is None else found.to_table(columns=["run_id"])["run_id"]
        return len(stored.filter(pc.is_in(stored, value_set=ids)))

    def delete_rows(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """Delete the rows of runs from a table; of `audit_runs` only rows that are still those of the removal. Returns how many."""
        return again(lambda: self._changes.delete(table, runs))

    def scattered_files(self, table: Table) -> int:
        """How many files the table has, if they are many small ones that had better be merged; else 0."""
        with reading(self.location, table.name):
            files, size_bytes = self._changes.sizes(table)
        most = _MANY_RUN_FILES if table is AUDIT_RUNS else _MANY_FILES
        return files if files > most and size_bytes < files * SMALL_BYTES else 0

    def merge_files(self, table: Table) -> tuple[int, int]:
        """Merge small files (OPTIMIZE). Returns how many were merged, into how many."""
        return again(lambda: self._changes.merge(table))

    def unused_files(self, table: Table, hours: int) -> UnusedFiles | None:
        """The files of a table's directory that were not used for so many hours; None where they cannot be listed from here.

        Raises:
            UsageError: the directory holds a link, or cannot be read.
        """
        if self._place is None:
            with reading(self.location, table.name):
                listed = self._changes.unused(table, hours)
            return None if listed is None else UnusedFiles(paths=tuple(listed), size_bytes=None)
        place = self._place.path / table.name
        with reading(self.location, table.name):
            refuse_links_below(place)
            paths = [unquote(name) for name in self._changes.unused(table, hours) or ()]
        temporary = tuple(str(path.relative_to(place)) for path in damage.temporary_files(place, hours * 3600))
        sizes = {path: _size(place / path) for path in (*paths, *temporary)}
        return UnusedFiles(
            paths=tuple(path for path, size in sizes.items() if size is not None),
            size_bytes=sum(size or 0 for size in sizes.values()),
            temporary=temporary,
        )

    def remove_files(self, table: Table, hours: int) -> tuple[int | None, int | None]:
        """Remove them (VACUUM). Returns how many, and their bytes; None as of `unused_files`, bytes None of a store.

        Raises:
            UsageError: the directory holds a link, or cannot be read.
        """
        unused = self.unused_files(table, hours)
        if unused is not None and not unused.paths:  # it would be two commits to find out
            return 0, 0
        place = self._place.path / table.name if self._place else Path()
        sizes = {path: _size(place / path) or 0 for path in unused.paths} if unused and self._place else {}
        for path in unused.temporary if unused else ():  # VACUUM leaves the log alone
            (place / path).unlink(missing_ok=True)
        if unused is None or set(unused.paths) - set(unused.temporary):
            again(lambda: self._changes.vacuum(table, hours))
        if unused is None or self._place is None:
            return (None if unused is None else len(unused.paths)), None
        gone = [size for path, size in sizes.items() if _size(place / path) is None]
        return len(gone), sum(gone)


def again(commit: Callable[[], _T]) -> _T:
    """What a commit gives, tried again and again if commits of other processes come first.

    Raises:
        Exception: whatever it raises that is not a conflict, or the last conflict.
    """
    for _try in range(_TRIES - 1):
        try:
            return commit()
        except CommitConflictError:
            time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
    return commit()


def is_removal(row: _Row) -> bool:
    """Whether a row of `audit_runs` is of a run that is being removed."""
    return row["status"] == "running" and row["finished_at"] is not None


def _size(path: Path) -> int | None:
    """The size of a file; None if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return None
