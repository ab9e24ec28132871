"""Upkeep by Spark, of the tables that only it can change: in a catalog, in a store to which only it has the key, clustered ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute
from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from deltalake import DeltaTable as LocalTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replica_audit.retention.choice import KnownRun
from replica_audit.rows import AUDIT_RUNS, Table
from replica_audit.rows.runs import RunHolder
from replica_audit.storage.warehouse.arrow_tables import ArrowTables
from replica_audit.storage.warehouse.attempts import microseconds
from replica_audit.storage.warehouse.faults import causes, class_name, is_conflict
from replica_audit.storage.warehouse.place import refuse_links_below, warehouse_place
from replica_audit.storage.warehouse.rewrites import CommitConflictError
from replica_audit.storage.warehouse.spark_tables import quoted
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from replica_audit.storage.warehouse.upkeep import TableChangeError, TableChanges


class SparkChanges(TableChanges):
    """Changes of the tables by statements of Spark."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        """Name the place; nothing is read or written yet."""
        self._warehouse, self._spark = DeltaWarehouse(spark, location), spark
        self._place = warehouse_place(location)

    @property
    def tables(self) -> ArrowTables:
        """As of the warehouse."""
        return self._warehouse.tables

    def foreign_features(self, table: Table) -> str | None:
        """None: what Spark cannot change it says itself."""
        return None

    def begin_removal(self, runs: Sequence[KnownRun], holder: RunHolder, now: datetime) -> None:
        """By UPDATE."""
        with _failing():
            columns = set(self._warehouse.read(AUDIT_RUNS).columns)  # an older version wrote no holder
        fields = ", ".join(f"{quoted(name)}, {_literal(value)}" for name, value in asdict(holder).items())
        moment = f"timestamp_micros({microseconds(now)})"
        values = {
            "status": "'running'",
            "finished_at": f"coalesce(finished_at, {moment})",
            "alive_at": moment,
            "holder": f"named_struct({fields})",
        }
        changed = ", ".join(f"{name} = {value}" for name, value in values.items() if name in columns)
        self._change(AUDIT_RUNS, f"UPDATE {self._name(AUDIT_RUNS)} SET {changed} WHERE {_these(runs)}")  # noqa: S608

    def delete(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """By DELETE."""
        which = f"run_id IN ({', '.join(quoted(run.run_id) for run in runs)})"
        if table is AUDIT_RUNS:
            which = f"status = 'running' AND finished_at IS NOT NULL AND {_these(runs)}"
        return self._change(table, f"DELETE FROM {self._name(table)} WHERE {which}")  # noqa: S608

    def sizes(self, table: Table) -> tuple[int, int]:
        """By delta-rs, or by DESCRIBE DETAIL."""
        if self._place is not None:
            sizes = pa.table(LocalTable(str(self._place.path / table.name)).get_add_actions(flatten=True))["size_bytes"]
            return len(sizes), int(pa.compute.sum(sizes).as_py() or 0)
        with _failing():
            detail = self._spark.sql(f"DESCRIBE DETAIL {self._name(table)}").first()
        return (detail["numFiles"], detail["sizeInBytes"]) if detail else (0, 0)

    def merge(self, table: Table) -> tuple[int, int]:
        """By OPTIMIZE."""
        with _failing():
            self._warehouse.refuse_foreign_sql(table)
            found = self._delta(table).optimize().executeCompaction().first()
        return (found["metrics"]["numFilesRemoved"], found["metrics"]["numFilesAdded"]) if found else (0, 0)

    def unused(self, table: Table, hours: int) -> Sequence[str] | None:
        """As delta-rs lists them in a directory."""
        if self._place is None:
            return None
        return LocalTable(str(self._place.path / table.name)).vacuum(retention_hours=hours, dry_run=True, full=True)

    def vacuum(self, table: Table, hours: int) -> None:
        """By VACUUM; nothing behind a link, wherever on this machine a catalog has the table."""
        with _failing():
            if self._warehouse.in_catalog and (folder := self._warehouse.local_folder(table)) is not None:
                refuse_links_below(folder)
            self._delta(table).vacuum(hours)

    def restore(self, table: Table, version: int) -> None:
        """By RESTORE."""
        with _failing():
            self._warehouse.refuse_foreign_sql(table)
            self._delta(table).restoreToVersion(version)

    def _delta(self, table: Table) -> DeltaTable:
        if self._warehouse.in_catalog:
            return DeltaTable.forName(self._spark, self._name(table))
        return DeltaTable.forPath(self._spark, self._warehouse.path(table))

    def _name(self, table: Table) -> str:
        return self._warehouse.identifier(table)

    def _change(self, table: Table, statement: str) -> int:
        """Run a DELETE or UPDATE of a table; returns how many rows it changed."""
        with _failing():
            self._warehouse.refuse_foreign_sql(table)
            done = self._spark.sql(statement).first()
        return int(done["num_affected_rows"]) if done else 0


@contextmanager
def _failing() -> Iterator[None]:
    """Let failures of Spark be those of any changes.

    Raises:
        CommitConflictError: another commit came first.
        TableChangeError: Spark failed; says what its innermost exception does.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError, DeltaConcurrentModificationException) as error:
        if is_conflict(error):
            raise CommitConflictError(str(error)) from None
        thrown = list(causes(error))
        why = f"{class_name(thrown[-1]).rpartition('.')[2]}: {thrown[-1].getMessage()}" if thrown else str(error)
        raise TableChangeError(why) from error


def _these(runs: Sequence[KnownRun]) -> str:
    """The condition that a row of `audit_runs` is of one of these attempts; flat, for a plan of thousands of alternatives is too deep."""
    keys = ", ".join(quoted(f"{microseconds(run.started_at)} {run.run_id}") for run in runs)
    return f"concat(unix_micros(started_at), ' ', run_id) IN ({keys})"


def _literal(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else str(value)
