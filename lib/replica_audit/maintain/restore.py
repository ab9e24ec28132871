"""A damaged warehouse, taken back to the last version of each table that is whole. Killed half-way, the next start goes on.

Files of the log that are in the way are set aside first, since nothing opens such a table; then Delta restores tables whose data files are
damaged, and runs that lack rows are marked as runs that are to be removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from replica_audit.errors import UsageError
from replica_audit.maintain.run import FAILURES, described_failure, refuse_unwritable, warehouse_upkeep
from replica_audit.report.facts.question import lacking_table, no_warehouse
from replica_audit.report.upkeep_report import FailedStep, LostRun, Restoration, RestoredTable
from replica_audit.rows import AUDIT_RUNS, FORMER_TABLES, REPLICA_LOGS, TABLES
from replica_audit.rows.runs import AuditRun
from replica_audit.storage.warehouse.place import LOG
from replica_audit.storage.warehouse.restore import RestoredTables, WholeVersion, set_aside
from replica_audit.storage.warehouse.upkeep import WarehouseUpkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUN_IDS = pa.schema([("run_id", pa.string())])
_BY_NAME = {table.name: table for table in (*TABLES, *FORMER_TABLES)}


def restore(warehouse: Path, *, is_dry: bool, tell: Callable[[str], None], start: Callable[[], SparkSession] | None = None) -> Restoration:
    """Take every damaged table back to its last version that is whole.

    Args:
        warehouse: the directory.
        is_dry: only look what would be done.
        tell: takes a line of progress.
        start: starts a session with Delta that changes the tables; it is not called if there is nothing to do. None: without Spark.

    Raises:
        UsageError: it is no warehouse, nothing of its `audit_runs` is whole, or an audit runs.
        OutputError: it cannot be written.
    """
    location = str(warehouse)
    if not (warehouse / AUDIT_RUNS.name / LOG).is_dir():
        raise no_warehouse(location)
    if not is_dry:
        refuse_unwritable(location)
    with RestoredTables(location, warehouse) as tables:
        if tables.damaged.get(AUDIT_RUNS.name) is not None and tables.damaged[AUDIT_RUNS.name].version is None:
            raise UsageError(f"warehouse {location}: nothing of table {AUDIT_RUNS.name} is whole; audit again into a new warehouse")
        lost = _lost_runs(tables)
        made = Restoration(
            warehouse=location,
            is_dry=is_dry,
            tables=tuple(_restored_table(warehouse, whole) for whole in tables.damaged.values()),
            lost_runs=tuple(lost),
            failures=(),
        )
        if is_dry or not (tables.damaged or lost):
            return made
        tell(f"{len(tables.damaged)} damaged tables, {len(lost)} runs that lack rows")
        store = warehouse_upkeep(location, start() if start else None)
        if (began := store.oldest_audit(tables)) is not None:
            raise UsageError(f"warehouse {location}: an audit runs since {began:%Y-%m-%d %H:%M:%S} UTC; wait until it ends")
        failures = []
        for whole in tables.damaged.values():
            try:
                _restore(store, warehouse, whole)
            except FAILURES as error:
                reason, remedy = described_failure(error)
                what = f"go back to version {whole.version}"
                failures.append(FailedStep(table=whole.table, what=what, reason=reason, remedy=remedy))
        if not failures and lost:
            gone = {run.run_id for run in lost}
            store.begin_removal([run for run in store.runs() if run.run_id in gone])
        return replace(made, failures=tuple(failures))


def _restored_table(warehouse: Path, whole: WholeVersion) -> RestoredTable:
    damaged = tuple(f"{warehouse / whole.table / file.path} {file.why}" for file in whole.damaged)
    return RestoredTable(table=whole.table, version=whole.version, damaged=damaged, set_aside=whole.set_aside)


def _restore(store: WarehouseUpkeep, warehouse: Path, whole: WholeVersion) -> None:
    if whole.version is None:
        aside = f"move {warehouse / whole.table} away: the next audit makes the table again; or audit again into a new warehouse"
        raise UsageError(f"no version of it is whole: {aside}")
    set_aside(warehouse / whole.table, whole.set_aside)
    if whole.version != whole.log_to:
        store.restore(_BY_NAME[whole.table], whole.version)


def _lost_runs(tables: RestoredTables) -> list[LostRun]:
    """The runs that are complete and lack rows, and those of which `audit_runs` knows nothing more."""
    runs: dict[str, list[AuditRun]] = defaultdict(list)
    for row in tables.rows(AUDIT_RUNS.name, AuditRun):
        runs[row.run_id].append(row)
    complete = {run_id: rows for run_id, rows in runs.items() if all(row.status == "complete" for row in rows)}
    lacking = {run_id: lacking_table(tables, run_id, rows) for run_id, rows in complete.items()}
    lost = [LostRun(run_id=run_id, why=one.sentence()) for run_id, one in sorted(lacking.items()) if one is not None]
    if AUDIT_RUNS.name in tables.damaged:
        there = set(map(str, tables.columns(REPLICA_LOGS.name, _RUN_IDS)["run_id"].to_pylist()))
        why = f"table {AUDIT_RUNS.name} does not say that it is complete"
        lost += [LostRun(run_id=run_id, why=why) for run_id in sorted(there - set(complete))]
    return lost
