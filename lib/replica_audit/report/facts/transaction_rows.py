"""What a report reads of transactions that are open, and of records missing from producers' sequences: rows of the tables of one run.

A column with a default may be missing from an older warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOfTransaction:
    """The same transaction in the log of another replica: an element of `open_transactions.elsewhere`."""

    broker_id: int
    standing: str
    marker_offset: int | None
    is_removed: bool | None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTransaction:
    """A row of `open_transactions`, also as `findings.hanging` has it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    began_at: datetime | None
    last_written_at: datetime | None
    last_stable_offset: int
    elsewhere: tuple[ReplicaOfTransaction, ...]
    transactional_id: str | None
    coordinator_state: str | None
    coordinator_epoch: int | None
    timeout_ms: int | None
    hangs_because: str | None
    waiting_groups: tuple[str, ...]
    may_be_committed: bool | None = None
    coordinator_producer_id: int | None = None
    abort_form: str | None = None
    marker_coordinator_epoch: int | None = None
    approaching_groups: tuple[str, ...] | None = None
    groups_beyond: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedGap:
    """A row of `sequence_gaps`."""

    broker_id: int
    producer_id: int
    producer_epoch: int
    sequence_before: int | None
    sequence_after: int
    missing_records: int
    last_offset_before: int | None
    first_offset_after: int
    written_after: datetime | None
    written_before: datetime | None
    is_certain: bool
    doubt: str | None
    held_by: tuple[int, ...] | None
