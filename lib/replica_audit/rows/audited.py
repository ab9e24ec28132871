"""All rows that the audit of one partition makes, as one row: for each table, a list of its rows without the run's keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.frozen import made_quickly
from replica_audit.rows.findings import CheckedPartition, FoundFinding
from replica_audit.rows.history import ConsumerImpact, LeaderEpoch, LoggedIncident
from replica_audit.rows.pairs import EpochEndOffset, ReplicaVerdict, TruncationPoint
from replica_audit.rows.records import CompactionDifference, DamagedBatch, MissingSequences, OpenTransactionRow, RecordDifference
from replica_audit.rows.replicas import EpochStartOffset, FutureReplica, ReplicaLog, ReplicaRole, SegmentEpoch
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.starts import ReplicaStart
from replica_audit.rows.what_if import WhatIfLeader, WhatIfRule


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """The rows of every table about a partition; `found` are its findings, `checked` what was found in order."""

    cluster_id: str
    segment_epochs: Sequence[SegmentEpoch] = ()
    replica_logs: Sequence[ReplicaLog] = ()
    epoch_start_offsets: Sequence[EpochStartOffset] = ()
    epoch_end_offsets: Sequence[EpochEndOffset] = ()
    truncation_points: Sequence[TruncationPoint] = ()
    replica_verdicts: Sequence[ReplicaVerdict] = ()
    replica_roles: Sequence[ReplicaRole] = ()
    future_replicas: Sequence[FutureReplica] = ()
    what_if_leaders: Sequence[WhatIfLeader] = ()
    what_if_rules: Sequence[WhatIfRule] = ()
    leader_epochs: Sequence[LeaderEpoch] = ()
    logged_incidents: Sequence[LoggedIncident] = ()
    consumer_impacts: Sequence[ConsumerImpact] = ()
    sequence_gaps: Sequence[MissingSequences] = ()
    damaged_batches: Sequence[DamagedBatch] = ()
    compaction_differences: Sequence[CompactionDifference] = ()
    record_differences: Sequence[RecordDifference] = ()
    open_transactions: Sequence[OpenTransactionRow] = ()
    replica_starts: Sequence[ReplicaStart] = ()
    input_errors: Sequence[ReportedProblem] = ()
    found: Sequence[FoundFinding] = ()
    checked: Sequence[CheckedPartition] = ()
