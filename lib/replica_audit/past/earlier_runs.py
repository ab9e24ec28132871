"""The runs before a run, and which of them say what is open: of every topic of a cluster the latest run that looked at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from replica_audit.errors import UsageError
from replica_audit.report.facts.question import is_whole
from replica_audit.rows import AUDIT_RUNS, TABLES
from replica_audit.rows.runs import AuditRun
from replica_audit.storage.warehouse.arrow_tables import ArrowTables


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run whose findings are open, but those of topics that a later run looked at: `later_topics`, regular expressions."""

    cluster_id: str
    run_id: str
    later_topics: tuple[str, ...] = ()


def refuse_damaged(tables: ArrowTables, run_id: str) -> None:
    """Look at the tables that a run goes on from, before it changes any: it would bury what is damaged under its own rows.

    Raises:
        UsageError: a table cannot be read, or does not hold all rows of an earlier run.
    """
    there = [table.name for table in TABLES if tables.has(table.name)]
    if AUDIT_RUNS.name not in there:
        if any(tables.count(name) for name in there):
            raise UsageError(
                f"warehouse {tables.location}: table {AUDIT_RUNS.name} is missing, and other tables have rows of earlier runs; "
                "bring its directory back, or audit into a new warehouse"
            )
        return
    for earlier in sorted({one.run_id for one in earlier_runs(tables.rows(AUDIT_RUNS.name, AuditRun), run_id)}):
        is_whole(tables, earlier)


def runs_before(rows: Iterable[AuditRun], run_id: str) -> list[AuditRun]:
    """Return the rows of `audit_runs` that count, oldest first, without those of a run itself."""
    return sorted((row for row in rows if row.counts and row.run_id != run_id), key=attrgetter("started_at"))


def earlier_runs(rows: Iterable[AuditRun], run_id: str) -> tuple[EarlierRun, ...]:
    """The runs whose findings a run goes on from.

    Args:
        rows: of `audit_runs`.
        run_id: the run that goes on from them; it may have rows already.

    Returns:
        Of each cluster its latest run that counts; if that looked at some topics only, the one before it, too, for the others, and so on.
    """
    later: dict[str, list[str]] = {}
    seen_whole: set[str] = set()
    found = []
    for row in reversed(runs_before(rows, run_id)):
        if row.cluster_id in seen_whole:
            continue
        known, topics = later.setdefault(row.cluster_id, []), str(row.settings.get("topics") or "")
        if topics in known:
            continue
        found.append(EarlierRun(cluster_id=row.cluster_id, run_id=row.run_id, later_topics=tuple(known)))
        known.append(topics)
        if not topics:
            seen_whole.add(row.cluster_id)
    return tuple(found)
