"""Columns of `replica_verdicts` that keep what was decided beside the verdict, each as values: nothing of it is read from the reason."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.model import HashedRecord, StoredBatch
from replica_audit.protocol.comparison.compaction import RecordComparison
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.comparison.record_cursor import DifferingRecord, DifferingRecords
from replica_audit.protocol.epochs.lineage import Piece
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pairs import (
    BatchFacts,
    BatchMismatch,
    DifferingKeyCount,
    DifferingOffsets,
    DifferingRecordCounted,
    RecordMismatch,
    RecordSizes,
)


def record_differences(comparison: Comparison) -> DifferingRecords | None:
    """The records of which a pair differs; None where they were not compared."""
    return comparison.content.difference.records if comparison.content and comparison.content.difference else None


def record_counts(found: DifferingRecords | None) -> tuple[DifferingRecordCounted, ...] | None:
    """How many records differ in each part; None where they were not compared."""
    if found is None or (found.unread and not found.counts):
        return None
    return tuple(DifferingRecordCounted(part=str(one.part), lacking_id=one.lacking_id, records=one.records) for one in found.counts)


def key_counts(found: RecordComparison | None) -> tuple[DifferingKeyCount, ...] | None:
    """How many keys differ for each cause; None where they were not compared."""
    if found is None or found.unread:
        return None
    return tuple(DifferingKeyCount(cause=str(one.cause), broker_id=one.broker_id, keys=one.number) for one in found.found)


def mismatch_column(comparison: Comparison, judgement: Judgement) -> BatchMismatch | None:
    """Where the batches first differ; None if the verdict is about something else."""
    difference = comparison.content.difference if comparison.content else None
    found = difference.located if difference else None
    if found is None or judgement.verdict not in (Verdict.CONTENT_MISMATCH, Verdict.REBATCHED):
        return None
    return BatchMismatch(
        kind=str(found.kind),
        leader=_batch(found.leader),
        follower=_batch(found.follower),
        record=_record(found.record),
        compared_end_offset=found.compared_end_offset,
        unread=found.unread,
    )


def _batch(found: StoredBatch | None) -> BatchFacts | None:
    if found is None:
        return None
    header = found.header
    return BatchFacts(
        path=found.path,
        byte_offset=header.position if header.position >= 0 else None,
        first_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        crc=header.crc,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
        max_timestamp_ms=header.max_timestamp_ms,
        size_bytes=header.size_bytes,
        codec=header.codec,
    )


def _record(found: DifferingRecord | None) -> RecordMismatch | None:
    if found is None:
        return None
    parts = tuple(map(str, found.parts))
    return RecordMismatch(offset=found.offset, parts=parts, leader=_sizes(found.leader), follower=_sizes(found.follower))


def _sizes(found: HashedRecord | None) -> RecordSizes | None:
    if found is None:
        return None
    return RecordSizes(timestamp_ms=found.timestamp_ms, key_bytes=found.key_bytes, value_bytes=found.value_bytes)


def differing_offsets(pieces: Iterable[Piece]) -> tuple[DifferingOffsets, ...]:
    """Stretches in which two logs differ."""
    return tuple(
        DifferingOffsets(
            first_offset=one.first_offset, end_offset=one.end_offset, leader_epoch=one.left_epoch, follower_epoch=one.right_epoch
        )
        for one in pieces
    )
