"""Every table, as the class of its rows: columns, types, comments, constraints. The only place.

And all rows that the audit of one partition makes, as one row: for each table, a list of its rows without the run's keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.frozen import made_quickly
from replica_audit.rows.columns import Column, Table
from replica_audit.rows.findings import FINDINGS, CheckedPartition, FoundFinding
from replica_audit.rows.history import CONSUMER_IMPACTS, LEADER_EPOCHS, LOGGED_INCIDENTS, ConsumerImpact, LeaderEpoch, LoggedIncident
from replica_audit.rows.pairs import EPOCH_END_OFFSETS, REPLICA_VERDICTS, TRUNCATION_POINTS, EpochEndOffset, ReplicaVerdict, TruncationPoint
from replica_audit.rows.records import (
    DAMAGED_BATCHES,
    DIFFERENCES,
    OPEN_TRANSACTIONS,
    SEQUENCE_GAPS,
    DamagedBatch,
    Difference,
    MissingSequences,
    OpenTransactionRow,
)
from replica_audit.rows.replicas import (
    EPOCH_START_OFFSETS,
    FUTURE_REPLICAS,
    REPLICA_LOGS,
    REPLICA_ROLES,
    SEGMENT_EPOCHS,
    EpochStartOffset,
    FutureReplica,
    ReplicaLog,
    ReplicaRole,
    SegmentEpoch,
)
from replica_audit.rows.runs import AUDIT_RUNS, INPUT_ERRORS, ReportedProblem
from replica_audit.rows.starts import BROKER_STARTS, REPLICA_STARTS, ReplicaStart
from replica_audit.rows.what_if import WHAT_IF_LEADERS, WhatIfLeader

# what the audit of one partition makes rows of
OF_PARTITIONS: tuple[Table, ...] = (
    SEGMENT_EPOCHS,
    REPLICA_LOGS,
    EPOCH_START_OFFSETS,
    EPOCH_END_OFFSETS,
    TRUNCATION_POINTS,
    REPLICA_VERDICTS,
    REPLICA_ROLES,
    FUTURE_REPLICAS,
    WHAT_IF_LEADERS,
    LEADER_EPOCHS,
    LOGGED_INCIDENTS,
    CONSUMER_IMPACTS,
    SEQUENCE_GAPS,
    DAMAGED_BATCHES,
    DIFFERENCES,
    OPEN_TRANSACTIONS,
    REPLICA_STARTS,
)
TABLES: tuple[Table, ...] = (AUDIT_RUNS, BROKER_STARTS, INPUT_ERRORS, *OF_PARTITIONS, FINDINGS)
# an older version's: nothing writes them, `maintain` goes on removing the rows of runs that go, and `storage.warehouse.former_tables` reads
# what is part of another table now
FORMER_TABLES: tuple[Table, ...] = tuple(
    Table(name=name, grain="", columns=(), constraints={})
    for name in ("partition_fingerprints", "content_windows", "compaction_differences", "record_differences", "what_if_rules")
)
# the tables whose rows are counted before they are visible
COUNTED: tuple[Table, ...] = (*OF_PARTITIONS, INPUT_ERRORS)


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
    leader_epochs: Sequence[LeaderEpoch] = ()
    logged_incidents: Sequence[LoggedIncident] = ()
    consumer_impacts: Sequence[ConsumerImpact] = ()
    sequence_gaps: Sequence[MissingSequences] = ()
    damaged_batches: Sequence[DamagedBatch] = ()
    differences: Sequence[Difference] = ()
    open_transactions: Sequence[OpenTransactionRow] = ()
    replica_starts: Sequence[ReplicaStart] = ()
    input_errors: Sequence[ReportedProblem] = ()
    found: Sequence[FoundFinding] = ()
    checked: Sequence[CheckedPartition] = ()


__all__ = [
    "AUDIT_RUNS",
    "BROKER_STARTS",
    "CONSUMER_IMPACTS",
    "COUNTED",
    "DAMAGED_BATCHES",
    "DIFFERENCES",
    "EPOCH_END_OFFSETS",
    "EPOCH_START_OFFSETS",
    "FINDINGS",
    "FORMER_TABLES",
    "FUTURE_REPLICAS",
    "INPUT_ERRORS",
    "LEADER_EPOCHS",
    "LOGGED_INCIDENTS",
    "OF_PARTITIONS",
    "OPEN_TRANSACTIONS",
    "REPLICA_LOGS",
    "REPLICA_ROLES",
    "REPLICA_STARTS",
    "REPLICA_VERDICTS",
    "SEGMENT_EPOCHS",
    "SEQUENCE_GAPS",
    "TABLES",
    "TRUNCATION_POINTS",
    "WHAT_IF_LEADERS",
    "AuditedPartition",
    "Column",
    "Table",
]
