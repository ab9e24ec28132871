"""The runs before a run: which of them say what is open, and what they had read that this one lacks.

Of every topic of a cluster the latest run that looked at it counts. A folder that somebody removed, did not mount or forgot to copy is no
all-clear: what was open of it stays open.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import PurePath

from replica_audit.errors import UsageError
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements, AckState, AckSubject, MissingCode
from replica_audit.report.facts.question import is_whole
from replica_audit.rows import AUDIT_RUNS, TABLES
from replica_audit.rows.codes import Severity
from replica_audit.rows.runs import NO_CLUSTER, AuditRun
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


_DATE = re.compile(r"\d{4}[-_.]?\d{2}[-_.]?\d{2}([T_-]?\d{2}[-_.:]?\d{2}([-_.:]?\d{2})?Z?)?")
_NO_NAMES = frozenset({"", ".", "..", "/"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentCluster:
    """A cluster of this run's input. `named_broker_ids` are those that its metadata knows; empty: there is no metadata."""

    cluster_id: str
    path: str
    broker_ids: Collection[int]
    named_broker_ids: Collection[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingInput:
    """What is missing of a cluster: all of it, or some brokers (`broker_ids`; None: all of it). `last` is the row of its latest run."""

    last: AuditRun
    broker_ids: tuple[int, ...] | None = None

    @property
    def cluster_id(self) -> str:
        """The cluster."""
        return self.last.cluster_id


def missing_input(
    rows: Iterable[AuditRun], run_id: str, present: Sequence[PresentCluster], inputs: Sequence[str], places: Sequence[str]
) -> Iterator[MissingInput]:
    """Compare this run's input with that of the latest run of each cluster, as far as this run's inputs cover it.

    A run's inputs cover a cluster whose folder lies in one of them, or whose latest run had the same inputs; dates in paths are ignored
    (`/backup/2026-11-26`). A cluster that a later run covered and lacked, without a row for it, was dropped then.

    Args:
        rows: of `audit_runs`.
        run_id: of this run, which may have rows already.
        present: the clusters that this run's input has.
        inputs: of this run, as given.
        places: absolute paths of the inputs.
    """
    counting = runs_before(rows, run_id)
    latest = {row.cluster_id: row for row in counting if row.cluster_id != NO_CLUSTER}
    here = {cluster.cluster_id: cluster for cluster in present}
    later_inputs = {row.run_id: (row.started_at, row.inputs or ()) for row in counting}
    for cluster_id, last in sorted(latest.items()):
        if cluster_id in here:
            yield from _missing_brokers(last, here[cluster_id])
        elif (_covers(inputs, last) or any(_is_below(last.path, place) for place in places)) and not any(
            started_at > last.started_at and _covers(given, last) for started_at, given in later_inputs.values()
        ):
            yield MissingInput(last=last)


def without_acknowledged(missing: Iterable[MissingInput], acknowledged: Acknowledgements) -> Iterator[MissingInput]:
    """Leave out what somebody acknowledged to be gone; only an entry that names a verdict says so."""
    for one in missing:
        of_cluster = acknowledged.of_cluster(one.cluster_id)
        if one.broker_ids is None:
            if not _is_gone(of_cluster, MissingCode.CLUSTER_MISSING, -1):
                yield one
        elif left := tuple(broker for broker in one.broker_ids if not _is_gone(of_cluster, MissingCode.BROKER_MISSING, broker)):
            yield MissingInput(last=one.last, broker_ids=left)


def _is_gone(acknowledged: Acknowledgements, code: MissingCode, broker_id: int) -> bool:
    subject = AckSubject(code=str(code), severity=str(Severity.WARNING), topic="", partition=-1, broker_id=broker_id, records=0)
    decided = acknowledged.decide(subject)
    return decided is not None and decided[0].verdict is not None and decided[1] is AckState.ACKNOWLEDGED


def _missing_brokers(last: AuditRun, now: PresentCluster) -> Iterator[MissingInput]:
    """The brokers of the latest run of the same folder that are not here, unless the metadata no longer knows them."""
    before = {*(last.broker_ids or ()), *(last.missing_broker_ids or ())}
    gone = before.difference(now.broker_ids)
    if now.named_broker_ids:
        gone &= set(now.named_broker_ids)
    if gone and last.path is not None and _undated(last.path) == _undated(now.path):
        yield MissingInput(last=last, broker_ids=tuple(sorted(gone)))


def _covers(inputs: Sequence[str], row: AuditRun) -> bool:
    same = {_undated(given) for given in inputs} == {_undated(given) for given in row.inputs or ()}
    return any(_is_below(row.path, given) for given in inputs) or (same and all(_has_name(given) for given in inputs))


def _is_below(path: str | None, given: str) -> bool:
    """Whether a cluster's folder is an input, given as an absolute or a relative path, or lies in it."""
    root, parts = _undated(path or ""), _undated(given)
    return _has_name(given) and any(root[at : at + len(parts)] == parts for at in range(len(root) - len(parts) + 1))


def _has_name(given: str) -> bool:
    """Whether a path names a folder: `.` may be any."""
    return not _NO_NAMES.issuperset(PurePath(given).parts)


def _undated(given: str) -> tuple[str, ...]:
    return tuple(_DATE.sub("DATE", part) for part in PurePath(given.removeprefix("file:")).parts)
