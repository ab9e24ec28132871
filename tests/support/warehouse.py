"""Warehouses of real audits, made without Spark: the rows of an audit in this process, written as the pipeline writes them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.partition.findings.acknowledging import history_row
from replica_audit.past.starts import broker_starts
from replica_audit.report.facts.assessment import exit_code
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, INPUT_ERRORS, OF_PARTITIONS, REPLICA_LOGS, REPLICA_STARTS, TABLES, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.encoding import as_dict, row_of
from replica_audit.rows.findings import CheckedPartition, FoundFinding, RunFinding
from replica_audit.storage.inputs.sources import discover
from replica_audit.storage.warehouse.arrow_tables import MemoryTables
from replica_audit.storage.warehouse.rewrites import CHANGE_FEED
from tests.support.in_process import audit_cluster

Row = dict[str, Any]
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def write_warehouse(
    warehouse: Path,
    *roots: Path,
    run_id: str = "first",
    started_at: datetime = STARTED,
    settings: Settings | None = None,
    status: str = "complete",
) -> Path:
    """Audit roots, one cluster each, and add that as a run to a warehouse, which is created if it is not there.

    Findings are new, persisting, resolved or unconfirmed against each cluster's complete run before. `status` running leaves the run
    unfinished.
    """
    settings = settings or Settings()
    tables: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    audited = [(root, *_audited(root, settings)) for root in roots]
    run = {"run_id": run_id, "started_at": started_at, "run_date": started_at.date(), "inputs": [str(root) for root in roots]}
    run |= {"status": status, "config": json.dumps(settings.model_dump(), sort_keys=True)}
    if status == "complete":
        found = [row for _root, _cluster, of_cluster in audited for row in of_cluster["found"]]
        verdicts = [row["verdict"] for _root, _cluster, of_cluster in audited for row in of_cluster["replica_verdicts"]]
        run |= {
            "finished_at": started_at + timedelta(seconds=5),
            "exit_code": _exit_code(settings, found, verdicts),
            "versions": {"replica-audit": "0"},
        }
    for root, cluster_id, of_cluster in audited:
        keys = {"run_id": run_id, "cluster_id": cluster_id, "run_date": started_at.date()}
        history = _with_history(cluster_id, of_cluster["found"], _before(warehouse, cluster_id), of_cluster["checked"], run_id)
        of_cluster["findings"] = [as_dict(row) for row in history]
        of_cluster["audit_runs"] = [run | (_counts(root, of_cluster) if status == "complete" else {})]
        for name, rows in of_cluster.items():
            if name in tables:
                tables[name] += [row | keys for row in rows]
    if status == "complete":
        tables[BROKER_STARTS.name] = [as_dict(row) | {"run_date": started_at.date()} for row in broker_starts(_in_memory(tables), run_id)]
        table_rows = {name: len(rows) for name, rows in tables.items() if name != AUDIT_RUNS.name}
        tables[AUDIT_RUNS.name] = [row | {"table_rows": table_rows} for row in tables[AUDIT_RUNS.name]]
    write_rows(warehouse, tables)
    return warehouse


def keep_triage(warehouse: Path, inputs: Sequence[Path], settings: Settings, run_id: str = "first") -> Path:
    """Write what `triage` makes of the inputs, every table of it, as a run of a new warehouse on the day of `STARTED`."""
    made = triage([str(path) for path in inputs], settings, tell=lambda _event: None, run_id=run_id)
    for table in TABLES:
        rows = made.tables.arrow(table.name)
        if rows is not None and "run_date" in table.names:
            days = pa.array([STARTED.date()] * len(rows), rows.schema.field("run_date").type)
            rows = rows.set_column(rows.column_names.index("run_date"), rows.schema.field("run_date"), days)
        if rows is not None:
            write_deltalake(str(warehouse / table.name), rows)
    return warehouse


def _in_memory(tables: Mapping[str, Sequence[Row]]) -> MemoryTables:
    return MemoryTables({table.name: _arrow(table, tables[table.name]) for table in (REPLICA_STARTS, REPLICA_LOGS, INPUT_ERRORS)})


def _arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([_arrow_row(table, row) for row in rows], schema=schema_of(table))


def write_rows(warehouse: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Append rows, keys and all, to the tables of these names; what a row leaves out is null."""
    for table in TABLES:
        if table.name in tables:
            rows = _arrow(table, tables[table.name])
            made_with = {CHANGE_FEED: "true"} if table.has_change_feed else None
            write_deltalake(str(warehouse / table.name), rows, mode="append", schema_mode="merge", configuration=made_with)


def forget_rows_of_tables(warehouse: Path) -> None:
    """Let the runs of a warehouse be of a version that did not write down how many rows each table has."""
    rows = [row | {"table_rows": None} for row in _rows(warehouse, AUDIT_RUNS)]
    shutil.rmtree(warehouse / AUDIT_RUNS.name)
    write_rows(warehouse, {AUDIT_RUNS.name: rows})


def _arrow_row(table: Table, row: Row) -> Row:
    """Maps as Arrow wants them, as pairs."""
    values = {name: row.get(name) for name in table.names}
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in values.items()}


def _audited(root: Path, settings: Settings) -> tuple[str, dict[str, list[Row]]]:
    found = discover([str(root)])
    (cluster,) = found.roots
    rows, facts = audit_cluster(root, settings=settings)
    of_cluster = {table.name: list(rows.get(table.name, [])) for table in OF_PARTITIONS}
    of_files = [{name: getattr(problem, name) for name in problem.__slots__} for _cluster, problem in found.problems]
    of_cluster["input_errors"] = [{"broker_id": None} | row for row in (*of_files, *rows["problems"], *rows["input_errors"])]
    of_cluster |= {name: list(rows.get(name, [])) for name in ("found", "checked")}
    about = {"protocol": str(facts.applies), "protocol_reason": facts.generation.reason}
    of_cluster["facts"] = [about | {"brokers": len(cluster.brokers), "has_metadata": cluster.head is not None}]
    return cluster.cluster_id, of_cluster


def _exit_code(settings: Settings, found: Iterable[Row], verdicts: Iterable[str]) -> int:
    severities = Counter(row["severity"] for row in found)
    return exit_code(severities, Counter(verdicts), fail_on=settings.fail_on, has_replicas=True, all_inputs_read=True)


def _counts(root: Path, of_cluster: Mapping[str, Sequence[Row]]) -> Row:
    verdicts = of_cluster["replica_verdicts"]
    return {
        **of_cluster["facts"][0],
        "replicas": len(of_cluster["replica_logs"]),
        "partitions": len({(row["topic"], row["partition"]) for row in verdicts}),
        "verdict_counts": dict(Counter(str(row["verdict"]) for row in verdicts)),
        "proven_healthy": sum(row["proven_pairs"] for row in of_cluster["checked"]),
        "input_errors": len(of_cluster["input_errors"]),
        "path": str(root),
    }


def _before(warehouse: Path, cluster_id: str) -> list[Row]:
    """The findings that each cluster's latest complete run left open."""
    runs = [row for row in _rows(warehouse, AUDIT_RUNS) if row["cluster_id"] == cluster_id and row["status"] == "complete"]
    latest = max(runs, key=lambda row: row["started_at"], default=None)
    of_run = [row for row in _rows(warehouse, FINDINGS) if latest is not None and row["run_id"] == latest["run_id"]]
    return [row for row in of_run if row["cluster_id"] == cluster_id and row["status"] != "resolved"]


def _rows(warehouse: Path, table: Table) -> list[Row]:
    path = warehouse / table.name
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist() if path.exists() else []


def _with_history(
    cluster_id: str, current: Sequence[Row], before: Sequence[Row], checks: Sequence[Row], run_id: str
) -> Iterator[RunFinding]:
    known = {row["finding_key"]: row_of(RunFinding, row, of_any_version=True) for row in before}
    checked = {(row["topic"], row["partition"]): row_of(CheckedPartition, row) for row in checks}
    for row in current:
        yield history_row(cluster_id, row_of(FoundFinding, row), known.pop(row["finding_key"], None), None, run_id)
    for earlier in known.values():
        yield history_row(cluster_id, None, earlier, checked.get((earlier.topic, earlier.partition)), run_id)
