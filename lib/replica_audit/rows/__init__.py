"""Every table, as the class of its rows: columns, types, comments, constraints. The only place."""

from __future__ import annotations

from replica_audit.rows.columns import Column, Table
from replica_audit.rows.findings import FINDINGS
from replica_audit.rows.history import CONSUMER_IMPACTS, LEADER_EPOCHS, LOGGED_INCIDENTS
from replica_audit.rows.pairs import EPOCH_END_OFFSETS, REPLICA_VERDICTS, TRUNCATION_POINTS
from replica_audit.rows.records import COMPACTION_DIFFERENCES, DAMAGED_BATCHES, OPEN_TRANSACTIONS, RECORD_DIFFERENCES, SEQUENCE_GAPS
from replica_audit.rows.replicas import (
    EPOCH_START_OFFSETS,
    FUTURE_REPLICAS,
    REPLICA_LOGS,
    REPLICA_ROLES,
    SEGMENT_EPOCHS,
)
from replica_audit.rows.runs import AUDIT_RUNS, INPUT_ERRORS
from replica_audit.rows.starts import BROKER_STARTS, REPLICA_STARTS
from replica_audit.rows.what_if import WHAT_IF_LEADERS, WHAT_IF_RULES

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
    WHAT_IF_RULES,
    LEADER_EPOCHS,
    LOGGED_INCIDENTS,
    CONSUMER_IMPACTS,
    SEQUENCE_GAPS,
    DAMAGED_BATCHES,
    COMPACTION_DIFFERENCES,
    RECORD_DIFFERENCES,
    OPEN_TRANSACTIONS,
    REPLICA_STARTS,
)
TABLES: tuple[Table, ...] = (AUDIT_RUNS, BROKER_STARTS, INPUT_ERRORS, *OF_PARTITIONS, FINDINGS)
# an older version's: nothing reads or writes it, and `maintain` goes on removing the rows of runs that go
FORMER_TABLES: tuple[Table, ...] = (
    Table(name="partition_fingerprints", grain="one row per partition", columns=(), constraints={}),
    Table(name="content_windows", grain="one row per replica and window of its log", columns=(), constraints={}),
)
# the tables whose rows are counted before they are visible
COUNTED: tuple[Table, ...] = (*OF_PARTITIONS, INPUT_ERRORS)

__all__ = [
    "AUDIT_RUNS",
    "BROKER_STARTS",
    "COMPACTION_DIFFERENCES",
    "CONSUMER_IMPACTS",
    "COUNTED",
    "DAMAGED_BATCHES",
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
    "RECORD_DIFFERENCES",
    "REPLICA_LOGS",
    "REPLICA_ROLES",
    "REPLICA_STARTS",
    "REPLICA_VERDICTS",
    "SEGMENT_EPOCHS",
    "SEQUENCE_GAPS",
    "TABLES",
    "TRUNCATION_POINTS",
    "WHAT_IF_LEADERS",
    "WHAT_IF_RULES",
    "Column",
    "Table",
]
