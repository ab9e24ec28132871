"""Upkeep without a JVM: rows of runs deleted, small files merged, files that nothing uses removed, by delta-rs and pyarrow.

Files are rewritten by pyarrow, whose pages have the checksums by which `maintain --restore` finds torn ones. What delta-rs writes has none,
and names types by which Arrow cannot filter rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from replica_audit.errors import UsageError
from replica_audit.retention.choice import KnownRun
from replica_audit.rows import AUDIT_RUNS, Table
from replica_audit.rows.runs import RunHolder
from replica_audit.storage.warehouse.arrow_tables import ArrowTables
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.rewrites import TableFile, TableRewrites, files_of, foreign_features, on_this_version, with_values
from replica_audit.storage.warehouse.upkeep import SMALL_BYTES, TableChanges, is_removal

_MERGED_BYTES = 256 << 20  # of files that become one
_OF_ATTEMPT = ["run_id", "started_at", "status", "finished_at"]


class DirectChanges(TableRewrites, TableChanges):
    """Changes of the tables below one directory, or one URI that delta-rs opens and pyarrow writes to."""

    @cached_property
    def tables(self) -> ArrowTables:
        """As delta-rs reads them."""
        return WarehouseTables(self._location)

    def foreign_features(self, table: Table) -> str | None:
        """What delta-rs cannot write."""
        try:
            opened = self._opened(table)
        except UsageError:  # which the first step for the table will meet
            return None
        return None if opened is None else foreign_features(opened)

    def begin_removal(self, runs: Sequence[KnownRun], holder: RunHolder, now: datetime) -> None:
        """Runs of which another attempt was begun meanwhile are passed over."""
        opened = self._writable(AUDIT_RUNS)
        ids = self._same_attempts(opened, runs)

        def taken(rows: pa.Table) -> pa.Table:
            ended: Any = pc.fill_null(rows["finished_at"], pa.scalar(now, rows.schema.field("finished_at").type))
            values: dict[str, Any] = {"status": "running", "finished_at": ended, "alive_at": now, "holder": asdict(holder)}
            chosen = pc.is_in(rows["run_id"], value_set=pa.array(ids, pa.string()))
            # an older version wrote no holder
            return with_values(rows, chosen, {name: value for name, value in values.items() if name in rows.column_names})

        if ids:
            self.change_rows(AUDIT_RUNS, opened, ids, taken)

    def delete(self, table: Table, runs: Sequence[KnownRun]) -> int:
        """As `delete_runs`."""
        opened = self._writable(table)
        ids = self._same_attempts(opened, runs, only_removals=True) if table is AUDIT_RUNS else [run.run_id for run in runs]
        return self.delete_runs(table, opened, frozenset(ids)) if ids else 0

    def sizes(self, table: Table) -> tuple[int, int]:
        """By its log."""
        files = files_of(self._there(table))
        return len(files), sum(file.size_bytes for file in files)

    def merge(self, table: Table) -> tuple[int, int]:
        """Merge files that are small, those that were written one after another."""
        opened = self._writable(table)
        small = [file for file in files_of(opened) if file.is_plain and file.size_bytes < SMALL_BYTES]
        groups: list[list[TableFile]] = []
        left = 0
        for file in sorted(small, key=lambda file: file.modified_at_ms):
            if file.size_bytes > left:
                groups.append([])
                left = _MERGED_BYTES
            groups[-1].append(file)
            left -= file.size_bytes
        groups = [group for group in groups if len(group) > 1]
        made = self.merge_files(table, opened, groups)
        return sum(map(len, groups)), made

    def unused(self, table: Table, hours: int) -> Sequence[str] | None:
        """As delta-rs lists them."""
        return self._there(table).vacuum(retention_hours=hours, dry_run=True, full=True)

    def vacuum(self, table: Table, hours: int) -> None:
        """By VACUUM of delta-rs."""
        opened = self._writable(table)
        self._commit(table, opened, lambda: opened.vacuum(retention_hours=hours, dry_run=False, full=True))

    def restore(self, table: Table, version: int) -> None:
        """By RESTORE of delta-rs."""
        opened = self._writable(table)
        self._commit(table, opened, lambda: opened.restore(version, commit_properties=on_this_version()))

    def _writable(self, table: Table) -> DeltaTable:
        opened = self._there(table)
        if (what := foreign_features(opened)) is not None:
            raise UsageError(f"only Spark can change table {table.name} ({what}); add --spark")
        return opened

    def _same_attempts(self, opened: DeltaTable, runs: Iterable[KnownRun], *, only_removals: bool = False) -> list[str]:
        """The ids of those runs of which this version of `audit_runs` has the same latest attempt, that is being removed if they ask so."""
        wanted = {run.run_id: run.started_at for run in runs}
        latest: dict[str, datetime] = {}
        others = set()
        for row in self.dataset(AUDIT_RUNS, opened).to_table(columns=_OF_ATTEMPT).to_pylist():
            run_id, started_at = row["run_id"], row["started_at"].astimezone(UTC)
            latest[run_id] = max(started_at, latest.get(run_id, started_at))
            if only_removals and not is_removal(row):
                others.add(run_id)
        return [run_id for run_id, started_at in wanted.items() if latest.get(run_id) == started_at and run_id not in others]
