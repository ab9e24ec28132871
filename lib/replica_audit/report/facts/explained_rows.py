"""What an explanation reads: the rows of one run's tables, as far as it needs their columns.

Fields are named as the columns. A column that an older version's table may lack has a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from replica_audit.protocol.verdict.verdict import Cause
from replica_audit.report.facts.explained_structs import (
    ExplainedContradiction,
    ExplainedCopy,
    ExplainedDifference,
    ExplainedFallback,
    ExplainedHole,
    ExplainedKeyCount,
    ExplainedMismatch,
    ExplainedRecord,
    ExplainedRecordCount,
    ExplainedWrongEpoch,
    ExplainedWrongLine,
    Fact,
    LearntEpoch,
    Round,
    Stuck,
)

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


NOTHING_READ = 2  # the exit code of a run that found nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRun:
    """A row of `audit_runs`."""

    run_id: str
    cluster_id: str
    status: str
    started_at: datetime
    run_date: date
    protocol: str | None = None
    protocol_reason: str | None = None
    exit_code: int | None = None
    last_seen_run_id: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it says anything of its cluster: it is complete, and could read something."""
        return self.status == "complete" and self.exit_code != NOTHING_READ


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCluster:
    """The cluster that a row is about."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """The partition that a row is about."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedVerdict:
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
    removed_committed: int | None = None
    removed_committed_offsets: tuple[tuple[str, int], ...] | None = None
    first_removed_timestamp_ms: int | None = None
    last_removed_timestamp_ms: int | None = None
    open_transactions: tuple[int, ...] | None = None
    observed_truncation_offset: int | None = None
    already_truncated: bool | None = None
    stuck: Stuck | None = None
    wrong_lines_broker_id: int | None = None
    wrong_lines: tuple[ExplainedWrongLine, ...] | None = None
    hole: ExplainedHole | None = None
    compacted: bool | None = None
    evidence: str | None = None
    inferred_because: str | None = None
    leader_diverged_end_offset: int | None = None
    cause: Cause | None = None
    wrong_epoch: ExplainedWrongEpoch | None = None
    did_otherwise: ExplainedContradiction | None = None
    differences: tuple[ExplainedDifference, ...] | None = None
    conflicts: tuple[ExplainedDifference, ...] | None = None
    cleaned_beyond_cut: bool | None = None
    rests_on: tuple[Fact, ...] | None = None
    mismatch: ExplainedMismatch | None = None
    differing_keys: tuple[ExplainedKeyCount, ...] | None = None
    records_unread: str | None = None
    differing_records: tuple[ExplainedRecordCount, ...] | None = None
    lost_offsets: int | None = None
    lost_records: int | None = None
    lost_bytes: int | None = None

    @property
    def loses_records(self) -> int | None:
        """Truncated records that the leader does not hold; of a run of an older version all that are truncated."""
        return self.removed_records if self.lost_records is None else self.lost_records

    @property
    def committed(self) -> int | None:
        """Committed offsets that are lost; a run of an older version counted only those below a high watermark."""
        return self.removed_below_high_watermark if self.removed_committed is None else self.removed_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPoint:
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
    catches_up: bool | None = None
    physical_offset: int | None = None
    fetch_offset: int | None = None
    stuck: bool | None = None
    ends_with_election: bool | None = None
    restarts_once_failed: bool | None = None
    fallback: ExplainedFallback | None = None
    learnt_epochs: tuple[LearntEpoch, ...] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the run kept what was decided in each round; one of an older version did not."""
        return self.fetch_offset is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinOnceCorrected:
    """What a follower does once a corrected file is in place."""

    leader_id: int
    follower_id: int
    truncation_offset: int | None
    restart_offset: int | None
    catches_up: bool
    still_diverged: bool | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it truncates."""
        return self.truncation_offset is not None or self.restart_offset is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLog:
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
    corrected_checkpoint: str | None = None
    rejoins_once_corrected: tuple[RejoinOnceCorrected, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSegment:
    """A row of `segment_epochs`."""

    broker_id: int
    log_dir: str
    leader_epoch: int
    first_offset: int
    last_offset: int
    segment_base_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedEpoch:
    """A row of `epoch_start_offsets`."""

    broker_id: int
    leader_epoch: int
    start_offset: int
    checkpoint_start_offset: int | None
    segment_start_offset: int | None
    in_effect: bool = True
    difference: str | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedProblem:
    """A row of `input_errors`."""

    broker_id: int | None
    path: str
    line: int | None
    byte_offset: int | None
    code: str
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """A row of `what_if_rules`."""

    follower_id: int
    rule: str
    accepted: bool
    truncation_offset: int | None
    falls_back_to_high_watermark: bool
    round_trips: int | None
    request_bytes: int | None
    response_bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKey:
    """A row of `compaction_differences`."""

    follower_id: int
    cause: str
    broker_id: int
    key_hash: str
    leader: ExplainedRecord | None
    follower: ExplainedRecord | None
    key: str | None = None

    @property
    def offset(self) -> int:
        """Of the newest record that either side has."""
        return max((record.offset for record in (self.leader, self.follower) if record is not None), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRecordDifference:
    """A row of `record_differences`."""

    follower_id: int
    offset: int
    parts: tuple[str, ...]
    leader: ExplainedCopy | None
    follower: ExplainedCopy | None
