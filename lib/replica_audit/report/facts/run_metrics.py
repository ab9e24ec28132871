"""What monitoring is told of a run: numbers by cluster, from which `text/metrics_text` makes the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from replica_audit.report.facts.run_report import OldestCapture

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
