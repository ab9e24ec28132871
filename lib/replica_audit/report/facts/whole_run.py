"""The run that a reader shows, held against its tables: rows that a power cut or a person took away are missed before anything is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from replica_audit.errors import UsageError
from replica_audit.report.facts.question import chosen_run
from replica_audit.report.facts.tables import Tables
from replica_audit.rows.runs import AuditRun
from replica_audit.words import count


class CountedTables(Tables, Protocol):
    """Tables whose rows can be counted, and that know what may be wrong with their files."""

    def count(self, table: str, /, **equal: str | int | None) -> int | None:
        """How many rows there are; None if there is no such table."""

    def damage(self, table: str) -> str | None:
        """Which file of a table is damaged, and how; None if that cannot be seen."""

    def way_back(self) -> str:
        """What to do about damage."""


_TRIES = 5  # of a run that is made again, or removed, while it is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LackingTable:
    """A table with other rows of a run than the run wrote: `there`, None if there is no such table."""

    table: str
    run_id: str
    there: int | None
    written: int

    def sentence(self) -> str:
        """Say so."""
        if self.there is None:
            return f"table {self.table} is missing, run {self.run_id} wrote {count(self.written, 'row')}"
        return f"table {self.table} has {count(self.there, 'row')} of run {self.run_id}, which wrote {self.written}"


def whole_run(tables: CountedTables, *, run_id: str | None = None, cluster_id: str | None = None) -> tuple[str, list[AuditRun]]:
    """Choose a run as `chosen_run` does, and hold it against its tables.

    Raises:
        UsageError: also if a table has fewer or more rows of the run than the run wrote; names the table, and the file if it can.
    """
    found, runs = chosen_run(tables, run_id=run_id, cluster_id=cluster_id)
    for _try in range(_TRIES):
        if is_whole(tables, found):
            break
        found, runs = chosen_run(tables, run_id=run_id, cluster_id=cluster_id)
    return found, runs


def is_whole(tables: CountedTables, run_id: str) -> bool:
    """Whether a run is complete, and its tables hold the rows that it wrote; False: it is being made again or removed.

    Raises:
        UsageError: it is complete, and a table holds other rows.
    """
    for tries_left in reversed(range(_TRIES)):
        rows = tables.rows("audit_runs", AuditRun, run_id=run_id)
        if not rows or any(row.status != "complete" for row in rows):
            break
        lacking = lacking_table(tables, run_id, rows)
        if lacking is None:
            return True
        if not tries_left or _by_cluster(tables.rows("audit_runs", AuditRun, run_id=run_id)) == _by_cluster(rows):
            damage = tables.damage(lacking.table)
            because = f": {damage}" if damage else ""
            raise UsageError(f"warehouse {tables.location}: {lacking.sentence()}{because}. {tables.way_back()}")
    return False


def _by_cluster(rows: Iterable[AuditRun]) -> dict[str, AuditRun]:
    return {row.cluster_id: row for row in rows}


def _written_rows(rows: Iterable[AuditRun]) -> dict[str, int]:
    """How many rows a run wrote, by table, as far as its rows of `audit_runs` say; an older version did not say it of every table."""
    known = list(rows)
    written = next((row.table_rows for row in known if row.table_rows is not None), None)
    if written is not None:
        return dict(written)
    if any(row.replicas is None or row.verdict_counts is None for row in known):
        return {}
    verdicts = sum(number for row in known for number in (row.verdict_counts or {}).values())
    return {"replica_logs": sum(row.replicas or 0 for row in known), "replica_verdicts": verdicts}


def lacking_table(tables: CountedTables, run_id: str, rows: Iterable[AuditRun]) -> LackingTable | None:
    """Return the first table that holds other rows of a run than the run wrote; None if all hold them.

    `rows` are the run's of `audit_runs`.
    """
    for name, number in _written_rows(rows).items():
        there = tables.count(name, run_id=run_id)
        if (there or 0) != number:
            return LackingTable(table=name, run_id=run_id, there=there, written=number)
    return None
