"""Every record of which two logs of one history do not hold the same, from the first difference on: counted, and the first ones kept.

What counts is what a consumer can tell apart, and who wrote it: see `record_cursor`. Batches that are equal are skipped unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.model import StoredBatch, StoredDamage
from replica_audit.protocol.comparison.record_cursor import (
    DifferingRecord,
    RecordCursor,
    RecordPart,
    UnreadRecordsError,
    identity,
    record_difference,
)

FIRST_ONES = 100  # records that are kept of a pair


class DifferingRecordCount(NamedTuple):
    """How many records differ in a part, and in none that comes before it in `RecordPart`; of presence, the replica that lacks them."""

    part: RecordPart
    lacking_id: int | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRecords:
    """What comparing all records gave.

    `counts`: of every record that differs below `compared_end_offset`, exclusive, each record once. `first_ones`: those of the lowest
    offsets. `unread`: why records were not compared from there on; None if all were.
    """

    counts: tuple[DifferingRecordCount, ...]
    first_ones: tuple[DifferingRecord, ...]
    compared_end_offset: int
    unread: str | None = None


def differing_records(
    leader: Iterator[StoredBatch | StoredDamage],
    follower: Iterator[StoredBatch | StoredDamage],
    first: int,
    end: int,
    *,
    brokers: tuple[int, int],
) -> DifferingRecords:
    """Compare the records of two logs.

    Args:
        leader: its batches, from one that begins at or before `first` on.
        follower: the same.
        first: the offset to begin at, inclusive.
        end: up to where both logs must hold the same, exclusive.
        brokers: the ids of both.
    """
    counts: Counter[tuple[RecordPart, int | None]] = Counter()
    first_ones: list[DifferingRecord] = []
    compared, unread = first, None
    try:
        sides = RecordCursor(leader, first, end, "the leader"), RecordCursor(follower, first, end, "the follower")
        while True:
            found, compared = _next(*sides, end)
            if found is None:
                if compared >= end:
                    break
                continue
            counts[found.parts[0], _lacking(found, brokers)] += 1
            if len(first_ones) < FIRST_ONES:
                first_ones.append(found)
    except UnreadRecordsError as error:
        unread = str(error)
    order = list(RecordPart)
    counted = sorted(counts.items(), key=lambda one: (order.index(one[0][0]), one[0][1] or 0))
    return DifferingRecords(
        counts=tuple(DifferingRecordCount(part, lacking, number) for (part, lacking), number in counted),
        first_ones=tuple(first_ones),
        compared_end_offset=compared,
        unread=unread,
    )


def _next(left: RecordCursor, right: RecordCursor, end: int) -> tuple[DifferingRecord | None, int]:
    """Go on by a batch or a record: how it differs, None if it does not, and how far both were compared, exclusive."""
    if left.is_between_batches and right.is_between_batches and left.head is not None and right.head is not None:
        header = left.head.header
        if identity(header) == identity(right.head.header):
            left.next_batch()
            right.next_batch()
            return None, min(header.last_offset + 1, end)
    ours, theirs = left.record(), right.record()
    for side, record in ((left, ours), (right, theirs)):
        if record is None and side.reached < end:
            raise UnreadRecordsError(f"{side.name} ends at offset {side.reached}, earlier than during the scan")
    if ours is None and theirs is None:
        return None, end
    found = record_difference(ours, theirs, left.head, right.head)
    offset = min(one.offset for one in (ours, theirs) if one is not None)
    if ours is not None and ours.offset == offset:
        left.next_record()
    if theirs is not None and theirs.offset == offset:
        right.next_record()
    return found, offset + 1


def _lacking(found: DifferingRecord, brokers: tuple[int, int]) -> int | None:
    if found.leader is not None and found.follower is not None:
        return None
    return brokers[0] if found.leader is None else brokers[1]
