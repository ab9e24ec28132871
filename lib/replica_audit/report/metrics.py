"""Numbers of a run for monitoring, by cluster, and the file in the text format of Prometheus, for the textfile collector of node_exporter.

Each name is declared once, here. All are gauges: a run replaces what the run before said. A series that may be 0 is always there, so that
an alert on it can end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import OldestCapture
from replica_audit.rows.codes import Severity

TO_REMOVE, REMOVED = TRUNCATION_STATES = ("to_remove", "removed")  # once the follower follows again; since it was copied

ACKNOWLEDGED = "acknowledged"  # in the place of a status: of whatever status, somebody knows of it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """One cluster of a complete run.

    `verdicts` counts followers by verdict, `findings` findings by severity and status, of which unconfirmed ones were found by an earlier
    run only; those that are acknowledged are in no other number than the `acknowledged` ones of `findings`. `codes` counts those that this
    run found by code. `truncated_records` counts by `TRUNCATION_STATES` the records that followers truncate, `truncated_committed` the
    offsets among them that were committed and that the leader does not hold. `replica_bytes` are the bytes of all replicas' batches.
    `oldest_capture` is the replica that was collected first, None if none was, `oldest_check` the oldest check of the CRCs of a collected
    segment, None if none is known, `never_checked` how many collected replicas have a segment of which they never were.
    `is_missing`: the newest run lacked the cluster, and all but the exit code is of the run that read it last; `missing_brokers`: how many
    brokers that an earlier run read it lacked. `proven_healthy`: followers of partitions that were proven healthy before any pair was
    compared, None if that is not known. `truncations_not_counted`: followers that truncate an unknown number of records.
    """

    cluster_id: str
    finished_at: datetime
    seconds: float
    exit_code: int
    brokers: int
    replicas: int
    partitions: int
    replica_bytes: int
    input_errors: int
    verdicts: Mapping[str, int]
    findings: Mapping[tuple[str, str], int]
    codes: Mapping[str, int]
    truncated_records: Mapping[str, int]
    truncated_committed: Mapping[str, int]
    affected_groups: int
    oldest_capture: OldestCapture | None
    oldest_check: datetime | None
    never_checked: int
    is_missing: bool = False
    missing_brokers: int = 0
    truncations_not_counted: int = 0
    proven_healthy: int | None = None


_PREFIX = "kafka_replica_audit_"
_NUMBERS: dict[str, tuple[str, Callable[[ClusterMetrics], float]]] = {
    "last_run_timestamp_seconds": ("When the newest complete run finished, in seconds since 1970", lambda one: one.finished_at.timestamp()),
    "last_run_duration_seconds": ("How long that run took, from its beginning to its last table", lambda one: one.seconds),
    "last_run_exit_code": (
        "Exit code of that run: 0 nothing found, 1 findings, 3 not everything could be compared",
        lambda one: one.exit_code,
    ),
    "missing": (
        "1 if the newest run's input lacked the cluster, which an earlier run read: all other numbers but the exit code are that run's",
        lambda one: one.is_missing,
    ),
    "missing_brokers": ("Brokers that an earlier run read and the newest run's input lacks", lambda one: one.missing_brokers),
    "brokers": ("Brokers that the input has a folder of", lambda one: one.brokers),
    "partitions": ("Partitions whose followers have a verdict", lambda one: one.partitions),
    "replicas": ("Replicas that were read", lambda one: one.replicas),
    "replica_bytes": ("Bytes of the batches of all replicas", lambda one: one.replica_bytes),
    "input_errors": ("Input problems: files that could not be read, or not to their end", lambda one: one.input_errors),
    "replicas_never_verified": ("Collected replicas with a segment whose CRCs were never verified", lambda one: one.never_checked),
    "truncations_not_counted": (
        "Followers that truncate records of which the number is unknown, and so in no sum",
        lambda one: one.truncations_not_counted,
    ),
    "affected_groups": ("Consumer groups with a committed offset that a truncation affects", lambda one: one.affected_groups),
}
_WHERE_KNOWN: dict[str, tuple[str, Callable[[ClusterMetrics], float | None]]] = {
    "followers_proven_healthy": (
        "Followers of partitions that were proven healthy before any pair was compared; not of runs of versions that did not count them",
        lambda one: one.proven_healthy,
    ),
    "oldest_crc_check_timestamp_seconds": (
        "When the CRCs of that collected segment were verified whose last check is the oldest, in seconds since 1970; only of collections",
        lambda one: one.oldest_check.timestamp() if one.oldest_check else None,
    ),
    "oldest_collection_timestamp_seconds": (
        "When that replica was collected whose collection is the oldest, in seconds since 1970; only of collections",
        lambda one: one.oldest_capture.captured_at.timestamp() if one.oldest_capture else None,
    ),
}
_OF_FOUND = tuple(severity for severity in Severity if severity is not Severity.NONE)


def metrics_text(clusters: Iterable[ClusterMetrics]) -> str:
    """The text of the file."""
    registry = CollectorRegistry()
    numbers = {name: _gauge(registry, name, meaning) for name, (meaning, _of) in _NUMBERS.items()}
    known = {name: _gauge(registry, name, meaning) for name, (meaning, _of) in _WHERE_KNOWN.items()}
    followers = _gauge(registry, "followers", "Followers by verdict, without acknowledged findings", "verdict")
    findings = _gauge(
        registry,
        "findings",
        "Findings by severity and status: new, persisting, resolved, unconfirmed (found by an earlier run, and this one could not look) or "
        "acknowledged (somebody knows of it; then it has no other status)",
        "severity",
        "status",
    )
    codes = _gauge(
        registry, "partition_findings", "Findings of the run that are no verdict on a follower, such as offline_partition", "code"
    )
    states = "by state: to_remove when the follower follows its leader again, removed since it was copied"
    records = _gauge(registry, "truncated_records", f"Records that followers truncate and their leaders do not hold, {states}", "state")
    committed = _gauge(registry, "truncated_committed_offsets", f"Committed offsets that the leader does not hold, {states}", "state")
    for one in clusters:
        for name, (_meaning, of) in _NUMBERS.items():
            numbers[name].labels(one.cluster_id).set(of(one))
        for name, (_meaning, find) in _WHERE_KNOWN.items():
            value = find(one)
            if value is not None:
                known[name].labels(one.cluster_id).set(value)
        for verdict in Verdict:
            followers.labels(one.cluster_id, str(verdict)).set(one.verdicts.get(str(verdict), 0))
        for severity in _OF_FOUND:
            for status in (*map(str, Status), ACKNOWLEDGED):
                findings.labels(one.cluster_id, str(severity), status).set(one.findings.get((str(severity), status), 0))
        for code in PartitionCode:
            codes.labels(one.cluster_id, str(code)).set(one.codes.get(str(code), 0))
        for state in TRUNCATION_STATES:
            records.labels(one.cluster_id, state).set(one.truncated_records[state])
            committed.labels(one.cluster_id, state).set(one.truncated_committed[state])
    return generate_latest(registry).decode("utf-8")


def _gauge(registry: CollectorRegistry, name: str, meaning: str, *labels: str) -> Gauge:
    return Gauge(_PREFIX + name, meaning, ("cluster_id", *labels), registry=registry)
