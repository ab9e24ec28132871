"""A run's tables against each other: whatever row is missing from one of them, the run is not taken for complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from replica_audit.config import Settings
from replica_audit.local_run import Triaged, triage
from replica_audit.past.agreement import RunNumbers, disagreement
from replica_audit.rows import AUDIT_RUNS, BROKER_STARTS, FINDINGS, OF_PARTITIONS, REPLICA_STARTS, REPLICA_VERDICTS
from replica_audit.rows.runs import AuditRun
from replica_audit.storage.warehouse.arrow_tables import MemoryTables

COUNTED_TWICE = {"committed_loss", "copy-first", "order", "repair-first", "unknown"}
SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"


@pytest.fixture(scope="module")
def run() -> Triaged:
    return triage([str(SAMPLE)], Settings(), tell=lambda _event: None)


def numbers(run: Triaged) -> RunNumbers:
    rows = run.tables.rows(AUDIT_RUNS.name, AuditRun)
    of_cluster = {
        row.cluster_id: {"replicas": row.replicas, "partitions": row.partitions, "verdict_counts": row.verdict_counts} for row in rows
    }
    found = Counter(map(str, table(run, FINDINGS.name)["cluster_id"].to_pylist()))
    return RunNumbers(table_rows=rows[0].table_rows or {}, of_cluster=of_cluster, found=found)


def table(run: Triaged, name: str) -> pa.Table:
    found = run.tables.arrow(name)
    assert found is not None
    return found


def without(run: Triaged, name: str, lost: int) -> MemoryTables:
    """The tables, one of them without one of its rows."""
    tables = {one: rows for one in numbers(run).table_rows if (rows := run.tables.arrow(one)) is not None}
    kept = [row for row in range(len(tables[name])) if row != lost]
    return MemoryTables(tables | {name: tables[name].take(kept)})


def test_a_whole_run_agrees_with_itself(run: Triaged) -> None:
    assert len(table(run, FINDINGS.name)) > 1
    assert disagreement(run.tables, run.run_id, numbers(run)) is None


def test_a_row_that_was_lost(run: Triaged) -> None:
    names = [one.name for one in (*OF_PARTITIONS, BROKER_STARTS, FINDINGS) if len(table(run, one.name))]
    assert len(names) > 10
    for name in names:
        lost = disagreement(without(run, name, 0), run.run_id, numbers(run))
        assert lost is not None
        assert (lost.what, lost.there - lost.here) == ((name,), 1)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        (FINDINGS.name, REPLICA_VERDICTS.name, FINDINGS.name),
        (REPLICA_VERDICTS.name, REPLICA_VERDICTS.name, FINDINGS.name),
        (REPLICA_STARTS.name, REPLICA_STARTS.name, BROKER_STARTS.name),
        (BROKER_STARTS.name, REPLICA_STARTS.name, BROKER_STARTS.name),
    ],
)
def test_rows_that_were_lost_before_they_were_counted(run: Triaged, name: str, first: str, second: str) -> None:
    rows = table(run, name).to_pylist()
    lost = next(place for place, row in enumerate(rows) if COUNTED_TWICE & {row.get(key) for key in ("code", "verdict", "outcome")})
    whole = numbers(run)
    counted = RunNumbers(
        table_rows={key: rows - (key == name) for key, rows in whole.table_rows.items()},
        of_cluster=whole.of_cluster,
        found=whole.found,
    )
    found = disagreement(without(run, name, lost), run.run_id, counted)
    assert found is not None
    assert (found.first, found.second) == (first, second)
    assert found.there != found.here
    assert str(found.there) in found.sentence()
    assert str(found.here) in found.sentence()


def test_numbers_of_audit_runs_that_its_tables_do_not_have(run: Triaged) -> None:
    whole = numbers(run)
    cluster = min(whole.of_cluster)
    for name in ("replicas", "partitions"):
        changed = {**whole.of_cluster, cluster: {**whole.of_cluster[cluster], name: whole.of_cluster[cluster][name] + 1}}
        found = disagreement(run.tables, run.run_id, RunNumbers(table_rows=whole.table_rows, of_cluster=changed, found=whole.found))
        assert found is not None
        assert (found.first, found.what, found.there - found.here) == (AUDIT_RUNS.name, (cluster,), 1)


def test_findings_that_no_verdict_is_about(run: Triaged) -> None:
    whole = numbers(run)
    cluster = min(whole.found)
    more = RunNumbers(table_rows=whole.table_rows, of_cluster=whole.of_cluster, found={**whole.found, cluster: whole.found[cluster] + 1})
    found = disagreement(run.tables, run.run_id, more)
    assert found is not None
    assert (found.second, found.what) == (FINDINGS.name, (cluster,))
