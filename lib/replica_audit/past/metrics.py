"""The tables of a past run → the numbers that monitoring is told. Counted and summed in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.past.doubts import never_checked, oldest_capture, oldest_check
from replica_audit.past.findings import OPEN, findings, found, known_verdicts_by_cluster
from replica_audit.past.run import PastRun, counted
from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.metrics import ACKNOWLEDGED, REMOVED, TO_REMOVE, ClusterMetrics
from replica_audit.rows import CONSUMER_IMPACTS, INPUT_ERRORS, REPLICA_LOGS, REPLICA_VERDICTS
from replica_audit.rows.runs import NO_CLUSTER, AuditRun


def run_metrics(run: PastRun) -> Iterator[ClusterMetrics]:
    """What to tell of each cluster of a run.

    Raises:
        UsageError: a table cannot be read.
    """
    verdicts = run.counts(REPLICA_VERDICTS, ["cluster_id", "verdict"])
    of_severity = ["cluster_id", "severity"]
    by_status = counted(findings(run, [*of_severity, "status"], list(Status)), [*of_severity, "status"])
    known = counted(findings(run, of_severity, OPEN, acknowledged=True), of_severity)
    by_status.update({(*key, ACKNOWLEDGED): count for key, count in known.items()})
    problems = run.counts(INPUT_ERRORS, ["cluster_id"])
    codes = counted(found(run, ["cluster_id", "code"]), ["cluster_id", "code"])
    known_of = known_verdicts_by_cluster(run)
    groups = Counter(cluster for cluster, _group in run.counts(CONSUMER_IMPACTS, ["cluster_id", "group_id"], ds.field("affected")))
    for row in run.runs:
        if row.cluster_id == NO_CLUSTER or row.finished_at is None:
            continue
        if row.last_seen_run_id is not None and (seen := _when_last_seen(run, row)) is not None:
            yield seen
            continue
        yield ClusterMetrics(
            cluster_id=row.cluster_id,
            finished_at=row.finished_at,
            seconds=(row.finished_at - row.started_at).total_seconds(),
            exit_code=row.exit_code or 0,
            brokers=row.brokers or 0,
            replicas=row.replicas or 0,
            partitions=row.partitions or 0,
            replica_bytes=_bytes(run, row),
            input_errors=problems[(row.cluster_id,)],
            verdicts=Counter(
                {key: count - known_of[cluster, key] for (cluster, key), count in verdicts.items() if cluster == row.cluster_id}
            )
            + _on_missing_brokers(run, row),
            findings=Counter({tuple(key): count for (cluster, *key), count in by_status.items() if cluster == row.cluster_id}),
            codes=Counter({code: count for (cluster, code), count in codes.items() if cluster == row.cluster_id}),
            affected_groups=groups[row.cluster_id],
            oldest_capture=oldest_capture(run, row.cluster_id, row.started_at),
            oldest_check=oldest_check(run, row.cluster_id),
            never_checked=never_checked(run, row.cluster_id),
            is_missing=row.last_seen_run_id is not None,
            missing_brokers=len(row.missing_broker_ids or ()),
            **_truncated(run, row),
            truncations_not_counted=_not_counted(run, row),
            proven_healthy=row.proven_healthy,
        )


def _when_last_seen(run: PastRun, row: AuditRun) -> ClusterMetrics | None:
    """The numbers of the run that read a missing cluster last, so that no alert on it ends; None if that run is no longer kept."""
    try:
        last = PastRun(run.tables, row.last_seen_run_id)
    except UsageError:
        return None
    found = next((one for one in run_metrics(last) if one.cluster_id == row.cluster_id), None)
    return None if found is None else replace(found, is_missing=True, exit_code=row.exit_code or 0)


def _on_missing_brokers(run: PastRun, row: AuditRun) -> Counter[str]:
    """The last verdicts on followers of brokers that the input lacks: an alert on them does not end because a folder is gone."""
    missing = ds.field("broker_id").isin(list(row.missing_broker_ids or ())) & (ds.field("cluster_id") == row.cluster_id)
    open_before = findings(run, ["code"], [Status.UNCONFIRMED], missing) if row.missing_broker_ids else None
    codes = [] if open_before is None else open_before["code"].to_pylist()
    return Counter(code for code in codes if code in set(Verdict))


def _bytes(run: PastRun, row: AuditRun) -> int:
    return _sum(run.read(REPLICA_LOGS, ["size_bytes"], ds.field("cluster_id") == row.cluster_id)["size_bytes"])


def _truncated(run: PastRun, row: AuditRun) -> dict[str, dict[str, int]]:
    """What of what followers will truncate, or have truncated since they were copied, their leaders do not hold."""
    # how many records is unknown where a batch index is damaged; how many committed offsets is not
    is_removed = (ds.field("cluster_id") == row.cluster_id) & ((ds.field("removed_records") > 0) | (ds.field("removed_committed") > 0))
    found = run.read(REPLICA_VERDICTS, ["lost_records", "removed_committed", "already_truncated"], is_removed)
    is_done = ds.field("already_truncated")  # null: nothing tells of it
    by_state = {TO_REMOVE: found.filter(is_done.is_null() | ~is_done), REMOVED: found.filter(is_done)}
    return {
        "truncated_records": {state: _sum(rows["lost_records"]) for state, rows in by_state.items()},
        "truncated_committed": {state: _sum(rows["removed_committed"]) for state, rows in by_state.items()},
    }


def _not_counted(run: PastRun, row: AuditRun) -> int:
    """How many followers truncate records of which the number is unknown, and so in no sum."""
    truncates = ds.field("truncation_offset").is_valid() | ds.field("restart_offset").is_valid()
    own = ds.field("cluster_id") == row.cluster_id
    return run.read(REPLICA_VERDICTS, ["lost_records"], own & truncates)["lost_records"].null_count


def _sum(values: Any) -> int:
    return pc.sum(values).as_py() or 0
