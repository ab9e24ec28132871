"""One upkeep of a warehouse. A kill between any two steps leaves nothing that a reader could see half; the next start goes on.

Runs that go are taken first, as an audit takes its own: they are no longer complete, so no reader counts them. Their rows are then deleted
from every table, from `audit_runs` last and only if no other table failed: what it still names, the next upkeep removes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from replica_audit.errors import AuditError, OutputError, UsageError
from replica_audit.report.facts.question import no_warehouse
from replica_audit.report.upkeep_report import FailedStep, RunFate, Upkeep, UpkeptTable
from replica_audit.retention.choice import KnownRun, RunChoice, choose
from replica_audit.rows import AUDIT_RUNS, FORMER_TABLES, TABLES, Table
from replica_audit.storage.warehouse.direct_upkeep import DirectChanges
from replica_audit.storage.warehouse.place import fault_of, refuse_planted, warehouse_place
from replica_audit.storage.warehouse.rewrites import CommitConflictError
from replica_audit.storage.warehouse.upkeep import TableChangeError, WarehouseUpkeep
from replica_audit.words import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_VACUUM_HOURS = 168  # Delta's safe default: no reader and no writer works on a version for longer
FAILURES = (AuditError, OSError, DeltaError, pa.ArrowException, CommitConflictError, TableChangeError)
_EVERY = (*TABLES, *FORMER_TABLES)
_AGAIN = "start maintain again, and it continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRequest:
    """What to keep: `keep_days` and `keep_runs` as of `choose`, files for `vacuum_hours`, at least LEAST_VACUUM_HOURS.

    `is_dry`: only look what would be done.
    """

    warehouse: str
    keep_days: int
    keep_runs: int
    vacuum_hours: int = LEAST_VACUUM_HOURS
    is_dry: bool = False


def maintain(request: UpkeepRequest, tell: Callable[[str], None], spark: SparkSession | None = None) -> Upkeep:
    """Do one upkeep.

    Args:
        request: what to keep.
        tell: takes a line of progress.
        spark: a session with Delta that changes the tables; None: they are changed without Spark.

    Returns:
        What was done, and what could not be.

    Raises:
        UsageError: there is no warehouse, its `audit_runs` cannot be read, or only Spark can change it.
        OutputError: the warehouse cannot be written.
    """
    return _Upkeep(warehouse_upkeep(request.warehouse, spark), request, tell).run()


def hours_to_keep(least: int, oldest_audit: datetime | None, now: datetime) -> int:
    """For how many hours files stay that nothing uses any more: at least `least`, and since before the oldest running audit began."""
    running = 0 if oldest_audit is None else ceil((now - oldest_audit).total_seconds() / 3600) + 1
    return max(LEAST_VACUUM_HOURS, least, running)


class _Upkeep:
    def __init__(self, store: WarehouseUpkeep, request: UpkeepRequest, tell: Callable[[str], None]) -> None:
        self._store, self._request, self._tell = store, request, tell
        self._done: dict[str, UpkeptTable] = {}
        self._failures: list[FailedStep] = []

    def run(self) -> Upkeep:
        request, now = self._request, datetime.now(UTC)
        if not self._store.has(AUDIT_RUNS):
            raise no_warehouse(request.warehouse)
        self._refuse_foreign()
        if not request.is_dry:
            refuse_unwritable(request.warehouse)
        choices = choose(self._store.runs(), now, request.keep_days, request.keep_runs)
        going = [choice.run for choice in choices if choice.goes]
        hours = hours_to_keep(request.vacuum_hours, self._store.oldest_audit(), now)
        verb = "would be" if request.is_dry else "to be"
        self._tell(f"{count(len(choices), 'run')}, {len(going)} {verb} removed; unused files stay for {hours} hours")
        removed = self._remove(going)
        for table in _EVERY:
            if table.name in self._done and not self._has_failed(table):
                self._tidy(table, hours)
        return Upkeep(
            warehouse=request.warehouse,
            is_dry=request.is_dry,
            vacuum_hours=hours,
            runs=tuple(map(_fate, choices)),
            removed_runs=tuple(run.run_id for run in removed),
            tables=tuple(self._done.values()),
            failures=tuple(self._failures),
        )

    def _refuse_foreign(self) -> None:
        foreign = [(table.name, what) for table in _EVERY if (what := self._store.foreign_features(table))]
        if foreign:
            (first, what), *more = foreign
            others = f" and {len(more)} more" if more else ""
            raise UsageError(f"warehouse {self._request.warehouse}: only Spark can change table {first}{others} ({what}); add --spark")

    def _remove(self, going: Sequence[KnownRun]) -> Sequence[KnownRun]:
        """Delete the rows of runs; returns the runs of which nothing is left."""
        if going and not self._request.is_dry:
            with self._failing(AUDIT_RUNS, "mark the runs that are to be removed"):
                self._store.begin_removal(going)
        for table in _EVERY:
            if table is not AUDIT_RUNS:
                self._delete(table, going)
        if not self._failures:
            self._delete(AUDIT_RUNS, going)
        elif AUDIT_RUNS.name not in self._done:
            self._done[AUDIT_RUNS.name] = UpkeptTable(table=AUDIT_RUNS.name)
        # the order of the catalogue, however they were worked on
        self._done = {table.name: self._done[table.name] for table in _EVERY if table.name in self._done}
        if self._failures:
            return ()
        left = set() if self._request.is_dry else {run.run_id for run in self._store.runs()}
        return [run for run in going if run.run_id not in left]

    def _delete(self, table: Table, going: Sequence[KnownRun]) -> None:
        with self._failing(table, "delete the rows of runs"):
            if not self._store.has(table):  # an older version did not make it
                return
            self._done[table.name] = UpkeptTable(table=table.name)
            rows = self._store.count_rows(table, going)
            if rows and not self._request.is_dry:
                rows = self._store.delete_rows(table, these) if (these := self._store.still_removing(going)) else 0
            if rows:
                self._tell(f"{table.name}: {count(rows, 'row')} {'would be ' if self._request.is_dry else ''}deleted")
                self._done[table.name] = UpkeptTable(table=table.name, rows=rows)

    def _tidy(self, table: Table, hours: int) -> None:
        """Merge a table's files if they are many, and remove those that nothing uses."""
        with self._failing(table, "merge small files (OPTIMIZE)"):
            if merged := self._store.scattered_files(table):
                made = 1
                if not self._request.is_dry:
                    merged, made = self._store.merge_files(table)
                self._tell(f"{table.name}: {count(merged, 'file')} {'would be ' if self._request.is_dry else ''}merged")
                self._done[table.name] = replace(self._done[table.name], merged_files=merged, made_files=made)
        with self._failing(table, "remove files that nothing uses (VACUUM)"):
            files, size = self._removed_files(table, hours)
            if files:
                self._tell(f"{table.name}: {count(files, 'unused file')} {'would be ' if self._request.is_dry else ''}removed")
            self._done[table.name] = replace(self._done[table.name], removed_files=files, freed_bytes=size)

    def _removed_files(self, table: Table, hours: int) -> tuple[int | None, int | None]:
        if self._request.is_dry:
            unused = self._store.unused_files(table, hours)
            return (None, None) if unused is None else (len(unused.paths), unused.size_bytes)
        return self._store.remove_files(table, hours)

    def _has_failed(self, table: Table) -> bool:
        return any(failed.table == table.name for failed in self._failures)

    @contextmanager
    def _failing(self, table: Table, what: str) -> Iterator[None]:
        """Note what a table's step failed with, and go on with the next."""
        try:
            yield
        except FAILURES as error:
            reason, remedy = described_failure(error)
            self._failures.append(FailedStep(table=table.name, what=what, reason=reason, remedy=remedy))
            self._tell(f"{table.name}: could not {what}: {reason}")


def warehouse_upkeep(location: str, spark: SparkSession | None) -> WarehouseUpkeep:
    """Return what changes a warehouse: with a session of Spark, or without."""
    if spark is None:
        return WarehouseUpkeep(DirectChanges(location), location)
    from replica_audit.storage.warehouse.spark_upkeep import SparkChanges

    return WarehouseUpkeep(SparkChanges(spark, location), location)


def refuse_unwritable(warehouse: str) -> None:
    """Refuse a directory that cannot be written, or in which another user planted links.

    Raises:
        OutputError: it cannot be written; says why.
        UsageError: as of `refuse_planted`.
    """
    place = warehouse_place(warehouse)
    if place is not None:
        refuse_planted(place.path)
    if place is not None and (code := fault_of(place.path)) is not None:
        remedy = "free some space" if code in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
        raise OutputError(f"{place.name}: {os.strerror(code)}; {remedy}, then start maintain again")


def _fate(choice: RunChoice) -> RunFate:
    run = choice.run
    return RunFate(
        run_id=run.run_id,
        cluster_ids=run.cluster_ids,
        run_date=run.run_date,
        goes=choice.goes,
        reason=choice.reason,
        kept_for=choice.cluster_ids,
    )


def described_failure(error: Exception) -> tuple[str, str]:
    """What a failure was, and what to do about it, in a sentence each."""
    if isinstance(error, CommitConflictError):
        return "commits of other processes always came first", _AGAIN
    if isinstance(error, AuditError):  # has its own remedy
        return str(error), f"then {_AGAIN}"
    return " ".join(str(error).split())[:300].rstrip("."), f"fix that, then {_AGAIN}"
