"""What an explanation reads: the rows of one run's tables, as far as it needs their columns.

Fields are named as the columns. A column that an older version's table may lack has a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")


class Tables(Protocol):
    """Where rows come from: tables by name, a row type whose fields name the wanted columns, and the values that columns must equal.

    `cut_short` names the tables that held more rows than were read.
    """

    location: str
    cut_short: list[str]

    def has(self, table: str) -> bool:
        """Whether there is such a table."""

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, in no order."""

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, each value once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A row of `audit_runs`."""

    run_id: str
    cluster_id: str
    status: str
    started_at: datetime
    run_date: date
    protocol: str | None = None
    protocol_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """The partition that a row is about."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A row of `replica_verdicts`."""

    cluster_id: str
    leader_id: int
    follower_id: int
    leader_source: str
    verdict: str
    severity: str
    divergence_offset: int | None
    truncation_offset: int | None
    restart_offset: int | None
    protocol: str
    reason: str
    removed_offsets: int | None = None
    removed_records: int | None = None
    removed_bytes: int | None = None
    removed_below_high_watermark: int | None = None
    first_removed_timestamp_ms: int | None = None
    last_removed_timestamp_ms: int | None = None
    open_transactions: tuple[int, ...] | None = None
    observed_truncation_offset: int | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One answer of the leader: an element of `truncation_points.rounds`."""

    requested_epoch: int | None
    answered_epoch: int | None
    answered_end_offset: int | None
    truncate_to: int | None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationPoint:
    """A row of `truncation_points`."""

    follower_id: int
    protocol: str
    applies: bool
    truncation_offset: int | None
    restart_offset: int | None
    fetcher_fails: bool
    round_trips: int
    rounds: tuple[Round, ...]
    falls_back_to_high_watermark: bool
    removed_offsets: int
    still_diverged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """A row of `replica_logs`."""

    broker_id: int
    log_dir: str
    directory: str
    state: str
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    checkpoint_state: str
    cleaner_offset: int | None = None
    recovery_cut_offset: int | None = None
    unreadable_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEpoch:
    """A row of `segment_epochs`."""

    broker_id: int
    log_dir: str
    leader_epoch: int
    first_offset: int
    last_offset: int
    segment_base_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """A row of `epoch_start_offsets`."""

    broker_id: int
    leader_epoch: int
    start_offset: int
    checkpoint_start_offset: int | None
    segment_start_offset: int | None
    in_effect: bool = True
    difference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputError:
    """A row of `input_errors`."""

    broker_id: int | None
    path: str
    line: int | None
    byte_offset: int | None
    code: str
    detail: str
    remedy: str
