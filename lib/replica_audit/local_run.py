"""An audit in this process, for a person who waits: the tables of a run in memory, without Spark and without a warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_audit.audit import ClusterInput, Judged, Row, Run, judge_clusters, run_audit, run_rows
from replica_audit.config import Settings
from replica_audit.engine.local import LocalEngine, listed_amounts
from replica_audit.engine.mapped import Facts
from replica_audit.engine.tally import Tally
from replica_audit.garbage import uncollected
from replica_audit.model import Amounts, BytesToRead, Problem
from replica_audit.past.earlier_runs import MissingInput
from replica_audit.program import versions
from replica_audit.progress import Progress, Stage, TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, Table
from replica_audit.rows.arrow import batch_of, schema_of, schema_of_audited, schema_of_row, with_run
from replica_audit.rows.starts import BrokerStart
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.sources import Root, discover
from replica_audit.storage.warehouse.arrow_tables import MemoryTables
from replica_audit.words import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """The run and its tables, named as those of a warehouse."""

    run_id: str
    tables: MemoryTables


def triage(
    inputs: Sequence[str],
    settings: Settings,
    *,
    metadata: Path | None = None,
    acknowledged: Acknowledgements | None = None,
    tell: TellsEvent,
    run_id: str | None = None,
) -> Triaged:
    """Audit every cluster of the inputs.

    Args:
        inputs: roots or folders of roots, as of `sources.discover`.
        settings: of the run.
        metadata: a cluster-metadata.json given apart.
        acknowledged: findings that somebody knows of.
        tell: takes its progress.
        run_id: of the run; None for that of a run of this second.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
    """
    progress, started_at = Progress(tell), datetime.now(UTC)
    found = discover(inputs, metadata, follow_links=settings.follow_links)
    refuse_useless(found)
    brokers = sum(len(root.brokers) for root in found.roots)
    progress.say(f"found {count(brokers, 'broker folder')} in {count(len(found.roots), 'cluster')}", brokers=brokers)
    run_id = run_id or triage_id(started_at)
    run = Run(run_id=run_id, run_date=started_at.date(), inputs=inputs, settings=settings, found=found)
    store = _Memory(run, progress, started_at, acknowledged)
    run_audit(run, store)
    progress.end()
    return Triaged(run_id=run.run_id, tables=store.tables)


def triage_id(at: datetime) -> str:
    """The id of a run that begins now."""
    return f"triage-{at:%Y%m%dT%H%M%SZ}"


def amounts_to_read(
    inputs: Sequence[str], settings: Settings, *, metadata: Path | None = None
) -> tuple[dict[str, BytesToRead], list[Problem]]:
    """How much there is to read of each cluster, as of `local.listed_amounts`, and what of the inputs is not counted.

    The rest as of `triage`.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
    """
    found = discover(inputs, metadata, follow_links=settings.follow_links)
    refuse_useless(found)
    listed = {root.cluster_id: listed_amounts(root.sources(), settings.topics) for root in found.roots}
    return listed, found.unread_inputs


class _Memory:
    """The tables of a run in memory; its clusters are audited one after the other."""

    def __init__(self, run: Run, progress: Progress, started_at: datetime, acknowledged: Acknowledgements | None) -> None:
        self._run, self._progress, self._started_at, self._acknowledged = run, progress, started_at, acknowledged
        self._made: dict[str, pa.Table] = {}
        self._engines: list[LocalEngine] = []
        self.tables = MemoryTables(self._made)

    def judge(self, roots: Sequence[Root]) -> Sequence[Judged]:
        return [self._judged(root, is_alone=len(roots) == 1) for root in roots]

    def _judged(self, root: Root, *, is_alone: bool) -> Judged:
        def tell(stage: Stage, amounts: Amounts) -> None:
            replicas, text = count(amounts.replicas, "replica"), ""
            if is_alone and amounts.replicas:
                text = f"{stage} {replicas}"
            elif stage is Stage.READING:
                text = f"{root.path.name}: {replicas}"
            known = {} if stage is Stage.LISTING else {"replicas": amounts.replicas}
            self._progress.begin(stage, text, clusters=[root.cluster_id], **known)

        self._engines.append(LocalEngine())
        with uncollected():
            return judge_clusters(self._engines[-1], [ClusterInput.of(root, self._acknowledged)], self._run.settings, tell)

    def missing(self, facts: Facts) -> Sequence[MissingInput]:
        """Return nothing: no earlier run is known."""
        return []

    def write(self, judged: Judged, problems: Sequence[Row]) -> None:
        of_run, run_id = self._run.columns, self._run.run_id
        for table in OF_PARTITIONS:
            self._made[table.name] = with_run(self._rows(table.name), table, of_run)
        of_inputs = pa.Table.from_pylist(list(problems), schema=schema_of_audited(INPUT_ERRORS.name))
        self._made[INPUT_ERRORS.name] = with_run(pa.concat_tables([of_inputs, self._rows(INPUT_ERRORS.name)]), INPUT_ERRORS, of_run)
        # a run that is compared with none before: every finding is new
        new = {"first_seen_run_id": run_id, "last_seen_run_id": run_id, "status": "new"}
        self._made[FINDINGS.name] = _with(with_run(self._rows("found"), FINDINGS, of_run), FINDINGS, **new)

    def _rows(self, name: str) -> pa.Table:
        parts = [engine.rows(name) for engine in self._engines]
        return pa.concat_tables(parts) if parts else LocalEngine().rows(name)

    def write_starts(self, starts: Sequence[BrokerStart]) -> None:
        made = pa.Table.from_batches([batch_of(BrokerStart, starts, schema_of_row(BROKER_STARTS))])
        self._made[BROKER_STARTS.name] = with_run(made, BROKER_STARTS, self._run.columns)

    def complete(self, of_run: Row, of_cluster: Mapping[str, Row], tally: Tally) -> None:
        of_run = of_run | {
            "started_at": self._started_at,
            "finished_at": self._started_at + timedelta(seconds=self._progress.seconds),
            "status": "complete",
            "versions": dict(versions("pyarrow")),
        }
        self._made[AUDIT_RUNS.name] = pa.Table.from_pylist(run_rows(self._run, of_run, of_cluster), schema=schema_of(AUDIT_RUNS))


def _with(rows: pa.Table, table: Table, **same: str) -> pa.Table:
    """Rows with columns that hold one value, in the order of the table."""
    columns: list[Any] = [pa.array([same[name]] * len(rows), pa.string()) if name in same else rows[name] for name in table.names]
    return pa.Table.from_arrays(columns, schema=schema_of(table))
