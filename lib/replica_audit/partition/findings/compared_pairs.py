"""What was made of the pairs of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from replica_audit.partition.choices.what_if import Cut
from replica_audit.partition.pairs.record_rows import RecordRows
from replica_audit.rows.pairs import EpochEndOffset, ReplicaVerdict, TruncationPoint
from replica_audit.rows.records import CompactionDifference, RecordDifference
from replica_audit.rows.what_if import WhatIfRule


@dataclass(slots=True, kw_only=True)
class ComparedPairs:
    """The rows about a partition's pairs, and the followers all of whose batches were found on the leader."""

    points: list[TruncationPoint] = field(default_factory=list)
    verdicts: list[ReplicaVerdict] = field(default_factory=list)
    lookups: list[EpochEndOffset] = field(default_factory=list)
    rules: list[WhatIfRule] = field(default_factory=list)
    same_batches: list[int] = field(default_factory=list)
    differences: list[CompactionDifference] = field(default_factory=list)
    records: list[RecordDifference] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)

    def add_records(self, rows: RecordRows) -> None:
        """Take what comparing the records of a pair gave."""
        self.differences += rows.differences
        self.records += rows.records
