"""What keeps the tables of a warehouse small: rows of runs deleted, small files merged, files that nothing uses removed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
from delta.tables import DeltaTable
from deltalake import DeltaTable as LocalTable
from pyspark.sql import SparkSession

from replica_audit.retention.choice import KnownRun, RunState
from replica_audit.rows import AUDIT_RUNS, Table
from replica_audit.rows.arrow import nullable_columns
from replica_audit.rows.runs import NOTHING_READ
from replica_audit.storage.warehouse import damage
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, reading
from replica_audit.storage.warehouse.attempts import attempt_of, is_held, this_process
from replica_audit.storage.warehouse.faults import is_conflict
from replica_audit.storage.warehouse.place import refuse_links_below, warehouse_place
from replica_audit.storage.warehouse.spark_tables import quoted
from replica_audit.storage.warehouse.tables import DeltaWarehouse

_T = TypeVar("_T")
_Row = dict[str, Any]
_TRIES = 30  # of a commit that other processes' commits come before
_SMALL_BYTES = 64 << 20  # a file of that size gains nothing from being merged
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
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedFiles:
    """Files of a table that no version uses that a reader may still have; `temporary` are those among them of its log."""

    paths: tuple[str, ...]
    size_bytes: int
    temporary: tuple[str, ...] = ()


class WarehouseUpkeep:
    """The tables of one warehouse, as `maintain` changes them. Each step is one commit of one table, or none."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        """Name the place; nothing is read or written yet."""
        self.warehouse = DeltaWarehouse(spark, location)
        self._spark = spark
        self._place = warehouse_place(location)
        self._signed = datetime.now(UTC)

    def has(self, table: Table) -> bool:
        """Whether the table is there; an older version did not make every one.

        Raises:
            UsageError: it is there and cannot be read.
        """
        return self.warehouse.tables.has(table.name)

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
        return self.warehouse.tables.columns(AUDIT_RUNS.name, _RUNS).to_pylist()

    def _run(self, run_id: str, rows: Sequence[_Row]) -> KnownRun:
        attempts = [attempt_of(row) for row in rows]
        latest = max(attempts, key=lambda one: (one.number, one.started_at))
        if all(one.status == "complete" for one in attempts):
            state = RunState.EMPTY if all(row["exit_code"] == NOTHING_READ for row in rows) else RunState.COMPLETE
        elif any(is_held(self.warehouse.location, run_id, one) for one in attempts if one.status != "complete"):
            state = RunState.RUNNING
        else:
            state = RunState.REMOVING if any(map(_is_removal, rows)) else RunState.ENDED
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
        running = [(row["run_id"], attempt_of(row)) for row in rows if row["status"] == "running" and not _is_removal(row)]
        return min((one.started_at for run_id, one in running if is_held(self.warehouse.location, run_id, one)), default=None)

    def begin_removal(self, runs: Sequence[KnownRun]) -> None:
        """Take runs, so that no reader counts them from here on and no audit writes to them: they say `running`, with this process.

        A row that says `running` and when it finished is of a run that is being removed; an audit writes never both.
        """
        columns = set(self.warehouse.read(AUDIT_RUNS).columns)  # an older version wrote no holder
        holder = ", ".join(f"{quoted(name)}, {_literal(value)}" for name, value in asdict(this_process()).items())
        now = f"timestamp_micros({_microseconds(datetime.now(UTC))})"
        values = {
            "status": "'running'",
            "finished_at": f"coalesce(finished_at, {now})",
            "alive_at": now,
            "holder": f"named_struct({holder})",
        }
        changed = ", ".join(f"{name} = {value}" for name, value in values.items() if name in columns)
        self._change(AUDIT_RUNS, f"UPDATE {self._name(AUDIT_RUNS)} SET {changed} WHERE {_these(runs)}")  # noqa: S608
        self._signed = datetime.now(UTC)

    def still_removing(self, runs: Sequence[KnownRun]) -> list[KnownRun]:
        """Those of some runs that are still being removed: no audit has begun them again. Shows now and then that this process lives."""
        if runs and datetime.now(UTC) - self._signed > _SIGN_AFTER:
            self.begin_removal(runs)
        removing = {(row["run_id"], row["started_at"].astimezone(UTC)) for row in self._rows() if _is_removal(row)}
        return [run for run in runs if (run.run_id, run.started_at) in removing]

    def restore(self, table: Table, version: int) -> None:
        """Take a table back to a version, by a commit of its own."""
        self.warehouse.refuse_foreign_sql(table)
        again(lambda: self._delta(table).restoreToVersion(version))

    def count_rows(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """How many rows of some runs a table has.

        Raises:
            UsageError: it cannot be read.
        """
        ids = pa.array([run.run_id for run in runs], pa.string())
        with reading(self.warehouse.location, table.name):
            found = self.warehouse.tables.dataset(table.name, None, ["run_id"])
            return found.count_rows(filter=ds.field("run_id").isin(ids)) if found is not None and runs else 0

    def delete_rows(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """Delete the rows of runs from a table; of `audit_runs` only rows that are still those of the removal. Returns how many."""
        which = f"run_id IN ({', '.join(quoted(run.run_id) for run in runs)})"
        if table is AUDIT_RUNS:
            which = f"status = 'running' AND finished_at IS NOT NULL AND {_these(runs)}"
        return self._change(table, f"DELETE FROM {self._name(table)} WHERE {which}")  # noqa: S608

    def scattered_files(self, table: Table) -> int:
        """How many files the table has, if they are many small ones that had better be merged; else 0."""
        with reading(self.warehouse.location, table.name):
            if self._place is not None:
                sizes = pa.table(LocalTable(str(self._place.path / table.name)).get_add_actions(flatten=True))["size_bytes"]
                files, size_bytes = len(sizes), int(pa.compute.sum(sizes).as_py() or 0)
            else:
                detail = self._spark.sql(f"DESCRIBE DETAIL {self._name(table)}").first()
                files, size_bytes = (detail["numFiles"], detail["sizeInBytes"]) if detail else (0, 0)
        most = _MANY_RUN_FILES if table is AUDIT_RUNS else _MANY_FILES
        return files if files > most and size_bytes < files * _SMALL_BYTES else 0

    def merge_files(self, table: Table) -> tuple[int, int]:
        """OPTIMIZE. Returns how many files were merged, into how many."""
        self.warehouse.refuse_foreign_sql(table)
        found = again(lambda: self._delta(table).optimize().executeCompaction().first())
        return (found["metrics"]["numFilesRemoved"], found["metrics"]["numFilesAdded"]) if found else (0, 0)

    def unused_files(self, table: Table, hours: int) -> UnusedFiles | None:
        """The files of a table's directory that were not used for so many hours; None where they cannot be listed from here.

        Raises:
            UsageError: the directory holds a link, or cannot be read.
        """
        if self._place is None:
            return None
        place = self._place.path / table.name
        with reading(self.warehouse.location, table.name):
            refuse_links_below(place)
            paths = [unquote(name) for name in LocalTable(str(place)).vacuum(retention_hours=hours, dry_run=True, full=True)]
        temporary = tuple(str(path.relative_to(place)) for path in damage.temporary_files(place, hours * 3600))
        sizes = {path: _size(place / path) for path in (*paths, *temporary)}
        return UnusedFiles(
            paths=tuple(path for path, size in sizes.items() if size is not None),
            size_bytes=sum(size or 0 for size in sizes.values()),
            temporary=temporary,
        )

    def remove_files(self, table: Table, hours: int) -> tuple[int, int] | None:
        """VACUUM. Returns how many files were removed, and their bytes; None where they cannot be listed from here.

        Raises:
            UsageError: the directory holds a link, or cannot be read.
        """
        unused = self.unused_files(table, hours)
        if unused is not None and not unused.paths:  # Delta would begin a job to find out
            return 0, 0
        place = self._place.path / table.name if self._place else Path()
        sizes = {path: _size(place / path) or 0 for path in unused.paths} if unused else {}
        for path in unused.temporary if unused else ():  # VACUUM leaves the log alone
            (place / path).unlink(missing_ok=True)
        if unused is None or set(unused.paths) - set(unused.temporary):
            if self.warehouse.in_catalog and (folder := self.warehouse.local_folder(table)) is not None:
                refuse_links_below(folder)
            again(lambda: self._delta(table).vacuum(hours))
        if unused is None:
            return None
        gone = [size for path, size in sizes.items() if _size(place / path) is None]
        return len(gone), sum(gone)

    def _delta(self, table: Table) -> DeltaTable:
        if self.warehouse.in_catalog:
            return DeltaTable.forName(self._spark, self._name(table))
        return DeltaTable.forPath(self._spark, self.warehouse.path(table))

    def _name(self, table: Table) -> str:
        return self.warehouse.identifier(table)

    def _change(self, table: Table, statement: str) -> int:
        """Run a DELETE or UPDATE of a table; returns how many rows it changed."""
        self.warehouse.refuse_foreign_sql(table)
        done = again(lambda: self._spark.sql(statement).first())
        return int(done["num_affected_rows"]) if done else 0


def again(commit: Callable[[], _T]) -> _T:
    """What a commit gives, tried again and again if commits of other processes come first.

    Raises:
        Exception: whatever it raises that is not a conflict, or the last conflict.
    """
    for _try in range(_TRIES - 1):
        try:
            return commit()
        except Exception as error:
            if not is_conflict(error):
                raise
        time.sleep(random.uniform(0.1, 1.0))  # noqa: S311
    return commit()


def _is_removal(row: _Row) -> bool:
    """Whether a row of `audit_runs` is of a run that is being removed."""
    return row["status"] == "running" and row["finished_at"] is not None


def _size(path: Path) -> int | None:
    """The size of a file; None if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _these(runs: Sequence[KnownRun]) -> str:
    """The condition that a row of `audit_runs` is of one of these attempts; flat, for a plan of thousands of alternatives is too deep."""
    keys = ", ".join(quoted(f"{_microseconds(run.started_at)} {run.run_id}") for run in runs)
    return f"concat(unix_micros(started_at), ' ', run_id) IN ({keys})"


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _literal(value: object) -> str:
    return quoted(value) if isinstance(value, str) else str(value)
