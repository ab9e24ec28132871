"""Columns of `replica_verdicts` that keep what was decided beside the verdict, each as values: nothing of it is read from the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.frozen import made_quickly
from replica_audit.model import HashedRecord, StoredBatch
from replica_audit.protocol.comparison.afterwards import conflicts, differences
from replica_audit.protocol.comparison.differing_keys import RecordComparison
from replica_audit.protocol.comparison.differing_records import DifferingRecords
from replica_audit.protocol.comparison.observed import Disobedience
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.comparison.record_cursor import DifferingRecord
from replica_audit.protocol.epochs.lineage import Piece
from replica_audit.protocol.verdict.reasons import WrongEpoch
from replica_audit.protocol.verdict.verdict import Judgement, Severity, Verdict
from replica_audit.rows.codes import Cause
from replica_audit.rows.pair_structs import (
    BatchFacts,
    BatchMismatch,
    ContradictingLine,
    DifferingKeyCount,
    DifferingOffsets,
    DifferingRecordCounted,
    RecordMismatch,
    RecordSizes,
    WrongTableEpoch,
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedColumns:
    """The columns of the same names."""

    cause: Cause | None
    wrong_epoch: WrongTableEpoch | None
    did_otherwise: ContradictingLine | None
    differences: tuple[DifferingOffsets, ...]
    conflicts: tuple[DifferingOffsets, ...]
    cleaned_beyond_cut: bool | None
    mismatch: BatchMismatch | None
    differing_keys: tuple[DifferingKeyCount, ...] | None
    records_unread: str | None
    not_compared_offsets: int | None
    bounded_by: str | None
    differing_records: tuple[DifferingRecordCounted, ...] | None
    keys_may_differ: bool | None


def decided_columns(comparison: Comparison, judgement: Judgement) -> DecidedColumns:
    """What was decided of a pair."""
    differing = record_differences(comparison)
    unread = [one.unread for one in (comparison.records, differing) if one is not None and one.unread]
    return DecidedColumns(
        cause=judgement.cause,
        wrong_epoch=_wrong_epoch(judgement.wrong_epoch),
        did_otherwise=_line(comparison.did_otherwise),
        differences=_pieces(differences(comparison)),
        conflicts=_pieces(conflicts(comparison)),
        cleaned_beyond_cut=comparison.cleaned_beyond_the_cut,
        mismatch=_mismatch(comparison, judgement),
        differing_keys=_key_counts(comparison.records),
        not_compared_offsets=comparison.written_since,
        bounded_by=optional_text(comparison.follower.seen.bound) if comparison.follower.seen else None,
        records_unread=unread[0] if unread else None,
        differing_records=_record_counts(differing),
        keys_may_differ=comparison.keys_may_differ if judgement.severity is Severity.NONE else None,
    )


def record_differences(comparison: Comparison) -> DifferingRecords | None:
    """The records of which a pair differs; None where they were not compared."""
    return comparison.content.difference.records if comparison.content and comparison.content.difference else None


def _record_counts(found: DifferingRecords | None) -> tuple[DifferingRecordCounted, ...] | None:
    if found is None or (found.unread and not found.counts):
        return None
    return tuple(DifferingRecordCounted(part=str(one.part), lacking_id=one.lacking_id, records=one.records) for one in found.counts)


def _key_counts(found: RecordComparison | None) -> tuple[DifferingKeyCount, ...] | None:
    if found is None or found.unread:
        return None
    return tuple(DifferingKeyCount(cause=str(one.cause), broker_id=one.broker_id, keys=one.number) for one in found.found)


def _wrong_epoch(found: WrongEpoch | None) -> WrongTableEpoch | None:
    if found is None:
        return None
    return WrongTableEpoch(broker_id=found.broker_id, offset=found.offset, table_epoch=found.table_epoch, batch_epoch=found.batch_epoch)


def _line(found: Disobedience | None) -> ContradictingLine | None:
    if found is None:
        return None
    return ContradictingLine(offset=found.offset, path=found.path, line=found.line, rule_offset=found.rule_offset)


def _mismatch(comparison: Comparison, judgement: Judgement) -> BatchMismatch | None:
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


def optional_text(value: StrEnum | None) -> str | None:
    """A code as a column holds it."""
    return None if value is None else str(value)


def _pieces(pieces: Iterable[Piece]) -> tuple[DifferingOffsets, ...]:
    return tuple(
        DifferingOffsets(
            first_offset=one.first_offset, end_offset=one.end_offset, leader_epoch=one.left_epoch, follower_epoch=one.right_epoch
        )
        for one in pieces
    )
