"""An audit in this process, for a person who waits: the tables of a run in memory, without Spark and without a warehouse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.config import Settings
from replica_audit.engine.local import ClusterAudit, audit_cluster, listed_amounts
from replica_audit.model import BytesToRead, Problem
from replica_audit.past.doubts import doubts_of
from replica_audit.past.findings import with_acknowledgement
from replica_audit.past.starts import broker_starts, known_of_brokers, open_outcomes
from replica_audit.program import versions
from replica_audit.progress import Progress, Stage, TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.protocol.verdict.verdict import Severity
from replica_audit.report.facts.assessment import exit_code
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, REPLICA_LOGS, REPLICA_VERDICTS, Table
from replica_audit.rows.arrow import batch_of, schema_of
from replica_audit.rows.runs import NO_CLUSTER
from replica_audit.rows.starts import BrokerStart
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.sources import Root, about_cluster, discover, problems_of_input
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
    audits = {root.cluster_id: _audited(root, settings, acknowledged, progress, is_alone=len(found.roots) == 1) for root in found.roots}
    progress.end()
    is_readable = any(audit.replicas for audit in audits.values())
    facts = {cluster: audit.facts for cluster, audit in audits.items()}
    found.problems += problems_of_input(found, facts, inputs, settings.topics, has_replicas=is_readable)
    run_id = run_id or triage_id(started_at)
    tables = {table.name: _of_clusters(table, [audit.tables[table.name] for audit in audits.values()], run_id) for table in OF_PARTITIONS}
    errors = [pa.Table.from_pylist(found.problem_rows(), schema=schema_of(INPUT_ERRORS))]
    errors += [part for audit in audits.values() for part in (audit.problems, audit.tables[INPUT_ERRORS.name])]
    tables[INPUT_ERRORS.name] = _of_clusters(INPUT_ERRORS, errors, run_id)
    tables[FINDINGS.name] = _findings([audit.tables["found"] for audit in audits.values()], run_id)
    starts = batch_of(BrokerStart, broker_starts(MemoryTables(tables), run_id, known_of_brokers(facts)), schema_of(BROKER_STARTS))
    tables[BROKER_STARTS.name] = pa.Table.from_batches([starts])
    covered = with_acknowledgement(tables[FINDINGS.name])
    ended = {
        "exit_code": exit_code(
            Counter(_texts(tables[FINDINGS.name].filter(pc.invert(covered)), "severity")),
            Counter(_texts(tables[REPLICA_VERDICTS.name], "verdict")),
            Counter(_texts(tables[FINDINGS.name].filter(covered), "code")),
            starts=open_outcomes(MemoryTables(tables), run_id),
            doubts=doubts_of(MemoryTables(tables), run_id),
            records_unread=_records_unread(tables[REPLICA_VERDICTS.name]),
            fail_on=settings.fail_on,
            has_replicas=is_readable,
            all_inputs_read=found.every_input_was_read,
        ),
        "finished_at": started_at + timedelta(seconds=progress.seconds),
        "input_errors": len(tables[INPUT_ERRORS.name]),
        "table_rows": [(name, len(rows)) for name, rows in tables.items()],
    }
    about: dict[str, Any] = {
        "run_id": run_id,
        "started_at": started_at,
        "run_date": started_at.date(),
        "status": "complete",
        "inputs": [str(given) for given in inputs],
        "config": json.dumps(settings.model_dump(), sort_keys=True),
        "versions": list(versions("pyarrow")),
        **ended,
    }
    rows = [about | _counts(root, audits[root.cluster_id], tables[INPUT_ERRORS.name]) for root in found.roots]
    tables[AUDIT_RUNS.name] = pa.Table.from_pylist(rows or [{**about, "cluster_id": NO_CLUSTER}], schema=schema_of(AUDIT_RUNS))
    return Triaged(run_id=run_id, tables=MemoryTables(tables))


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


def _audited(root: Root, settings: Settings, acknowledged: Acknowledgements | None, progress: Progress, *, is_alone: bool) -> ClusterAudit:
    def told(stage: Stage, replicas: int) -> None:
        text = ""
        if is_alone and replicas:
            text = f"{stage} {count(replicas, 'replica')}"
        elif stage is Stage.READING:
            text = f"{root.path.name}: {count(replicas, 'replica')}"
        known = {} if stage is Stage.LISTING else {"replicas": replicas}
        progress.begin(stage, text, clusters=[root.cluster_id], **known)

    known = acknowledged.of_cluster(root.cluster_id) if acknowledged else None
    return audit_cluster(root.sources(), root.head, settings, acknowledged=known, tell=told)


def _of_clusters(table: Table, parts: Sequence[pa.Table], run_id: str) -> pa.Table:
    """The rows of one table of every cluster, as the table has them."""
    names = [name for name in table.names if name != "run_id"]
    schema = pa.schema([schema_of(table).field(name) for name in names])
    rows = pa.concat_tables([part.select(names).cast(schema) for part in parts] or [schema.empty_table()])
    return _with(rows, table, run_id=run_id)


def _findings(parts: Sequence[pa.Table], run_id: str) -> pa.Table:
    """The findings of a run that is compared with none before: every one is new."""
    rows = pa.concat_tables(parts) if parts else schema_of(FINDINGS).empty_table()
    return _with(rows, FINDINGS, run_id=run_id, first_seen_run_id=run_id, last_seen_run_id=run_id, status="new")


def _with(rows: pa.Table, table: Table, **same: str) -> pa.Table:
    """Rows with columns that hold one value, in the order of the table."""
    columns: list[Any] = [pa.array([same[name]] * len(rows), pa.string()) if name in same else rows[name] for name in table.names]
    return pa.Table.from_arrays(columns, schema=schema_of(table))


def _counts(root: Root, audit: ClusterAudit, errors: pa.Table) -> dict[str, Any]:
    verdicts = audit.tables[REPLICA_VERDICTS.name]
    partitions = verdicts.group_by(["topic", "partition"]).aggregate([])
    return {
        **about_cluster(root, audit.facts),
        "cluster_id": root.cluster_id,
        "replicas": len(audit.tables[REPLICA_LOGS.name]),
        "partitions": len(partitions),
        "verdict_counts": list(Counter(_texts(verdicts, "verdict")).items()),
        "proven_healthy": pc.sum(audit.tables["checked"]["proven_pairs"]).as_py() or 0,
        "records_unread": _records_unread(verdicts),
        "input_errors": _texts(errors, "cluster_id").count(root.cluster_id),
    }


def _records_unread(verdicts: pa.Table) -> int:
    """How many clean followers have records that were to be compared, and could not be."""
    return len(verdicts.filter((pc.field("severity") == str(Severity.NONE)) & pc.field("records_unread").is_valid()))


def _texts(table: pa.Table, name: str) -> list[str]:
    return [str(value) for value in table[name].to_pylist()]
