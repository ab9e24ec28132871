"""What an explanation reads of a partition as a whole: rows of one run's tables, as far as it needs their columns.

A column with a default may be missing from an older warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedElection:
    """A row of `leader_epochs`."""

    leader_epoch: int
    leader_id: int
    election: str
    began_at: datetime | None
    start_offset: int | None
    given_up_offsets: int | None
    given_up_held_by: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRole:
    """A row of `replica_roles`."""

    broker_id: int
    leader_id: int
    leader_epoch: int
    known_leader_id: int | None
    known_leader_epoch: int | None
    standing: str
    fetch_error: str | None
    in_isr: bool
    in_elr: bool
    fenced: bool | None
    log_end_offset: int | None
    high_watermark: int | None
    isr_objection: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedIncident:
    """A row of `logged_incidents`."""

    kind: str
    logged_at: str | None
    summary: str
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedGroup:
    """A row of `consumer_impacts`."""

    group_id: str
    committed_offset: int
    committed_leader_epoch: int
    validation_result: str
    reset_offset: int | None
    nearest_offset: int | None
    records_gone: int | None
    records_reread: int | None
    records_missed: int | None
    history_rewritten: bool
    affected: bool | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChoice:
    """A row of `what_if_leaders`."""

    candidate_id: int
    rank: int | None
    is_leader: bool
    in_isr: bool
    last_epoch: int | None
    log_end_offset: int | None
    lost_bytes: int | None
    followers_cut: int | None
    followers_restarted: int | None
    reason: str
    lost_offsets: int | None = None
    lost_records: int | None = None
    lost_committed: int | None = None
    followers_failing: int | None = None
    followers_diverged: int | None = None
    unread_replicas: int | None = None
    election: str | None = None
    broker_up: bool | None = None
    stopped_cleanly: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFuture:
    """A row of `future_replicas`."""

    broker_id: int
    log_dir: str | None
    future_log_dir: str
    directory: str
    protocol: str
    verdict: str
    severity: str
    lag_offsets: int | None
    truncation_offset: int | None
    restart_offset: int | None
    removed_records: int | None
    reason: str
