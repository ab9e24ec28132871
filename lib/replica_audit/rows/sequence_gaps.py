"""The table of records that are missing from a producer's sequence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from replica_audit.rows.columns import BY_PARTITION, PARTITION_CHECK, Bigint, Int, PartitionNumber, Topic, same_columns, table


@dataclass(frozen=True, kw_only=True)
class GapPlace:
    """The partition of a gap."""

    __slots__ = ()

    topic: Topic
    partition: PartitionNumber


@dataclass(frozen=True, kw_only=True)
class GapFacts:
    """What is known of sequences that are missing."""

    __slots__ = ()

    broker_id: Annotated[Int, "broker whose log it is: the leader, or without a leader the best replica"]
    producer_id: Annotated[Bigint, "producer id"]
    producer_epoch: Annotated[Int, "its epoch in the batch after the gap"]
    sequence_before: Annotated[Bigint | None, "last sequence before the gap; null: the producer has no batch before it"]
    sequence_after: Annotated[Bigint, "first sequence behind it"]
    missing_records: Annotated[Bigint, "records that are missing"]
    last_offset_before: Annotated[Bigint | None, "offset of the last record before the gap"]
    first_offset_after: Annotated[Bigint, "offset of the first record after the gap"]
    written_after: Annotated[datetime | None, "max timestamp of the batch before the gap, the client's, UTC"]
    written_before: Annotated[datetime | None, "max timestamp of the batch after the gap, the client's, UTC"]
    is_certain: Annotated[bool, "whether the records certainly were in the leader's log and no replica in the input holds them"]
    doubt: Annotated[
        str | None,
        "why they may not have been lost: first-in-log (the producer's first batches may have been refused), damaged-batches, "
        "log-start-moved (retention, DeleteRecords), state-expired (producer.id.expiration.ms) or time-unknown; null: no reason",
    ]
    held_by: Annotated[tuple[Int, ...] | None, "brokers whose replica still has them, at least the first"]


# the columns of the last of the bases come first
@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSequences(GapFacts, GapPlace):
    """Sequences of a producer that are missing between two of its batches, or before its first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords(GapFacts):
    """The same as a finding has it."""

    @classmethod
    def of(cls, row: MissingSequences) -> LostRecords:
        """The same columns of the row."""
        return same_columns(cls, row)


SEQUENCE_GAPS = table(
    MissingSequences,
    name="sequence_gaps",
    grain="one row per place in the leader's log where sequences of an idempotent producer are missing; no rows for compacted logs",
    constraints={
        **PARTITION_CHECK,
        "known_doubt": "doubt IS NULL OR doubt IN ('first-in-log', 'damaged-batches', 'log-start-moved', 'state-expired', 'time-unknown')",
        "something_missing": "missing_records > 0",
    },
    cluster_by=BY_PARTITION,
)
