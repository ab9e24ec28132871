"""Where the batches of two logs first differ, down to the record, and what kind of difference it is.

The rule is the product's own. A follower appends its leader's batches byte by byte (UnifiedLog.appendAsFollower): it neither splits, joins
nor compresses anything again, whatever its version. A leader converts only for a follower of an older format (`message.format.version`,
until 4.0), and the records stay the same. The cleaner writes batches again only below its checkpoint, which is not compared here. So other
batches of one format never come of replication alone. But if the records in them are equal, offset by offset, no consumer can tell the two
logs apart, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import StoredBatch, StoredDamage
from replica_audit.protocol.comparison.record_cursor import (
    UNLIMITED,
    DifferingRecord,
    RecordCursor,
    UnreadRecordsError,
    begins,
    bounds,
    identity,
    record_difference,
)

MOST_RECORDS = 200_000  # that are decoded of each log: a second or two
MOST_BYTES = 64 << 20  # of batches, likewise


class MismatchKind(StrEnum):
    """How two logs differ that have equal offsets and epochs."""

    OTHER_RECORDS = "other_records"  # a record is not the same, or only one of them has it
    OTHER_BATCHING = "other_batching"  # the same records, in other batches
    OTHER_ENCODING = "other_encoding"  # the same records in the same batches, compressed differently
    OTHER_FORMAT = "other_format"  # the same records; batches that are not the same are of different message formats
    NOT_READ = "not_read"  # records could not be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDifference:
    """The first batches that are not the same, None for a side that has none there, and the first such record.

    `compared_end_offset`: all records below it were compared or stand in equal batches. `whole`: so were all that both logs must hold.
    `unread`: why records could not be compared from there on. `formats_only`: as far as they were, nothing differs but message formats.
    """

    kind: MismatchKind
    leader: StoredBatch | None
    follower: StoredBatch | None
    record: DifferingRecord | None = None
    compared_end_offset: int | None = None
    whole: bool = False
    unread: str | None = None
    formats_only: bool = False

    @property
    def has_equal_records(self) -> bool:
        """Whether it is proven that both logs hold the same records."""
        return self.whole and self.kind in (MismatchKind.OTHER_BATCHING, MismatchKind.OTHER_ENCODING)


def locate(
    leader: Iterator[StoredBatch | StoredDamage],
    follower: Iterator[StoredBatch | StoredDamage],
    first: int,
    end: int,
    *,
    is_limited: bool = True,
) -> LocatedDifference:
    """Find the first difference of two logs.

    Args:
        leader: its batches, from one that begins at or before `first` on.
        follower: the same.
        first: the offset of the first batch that is known to differ, inclusive.
        end: up to where both logs must hold the same, exclusive.
        is_limited: whether no more than MOST_RECORDS and MOST_BYTES of either log are decoded.
    """
    limits = (MOST_RECORDS, MOST_BYTES) if is_limited else (UNLIMITED, UNLIMITED)
    heads: list[StoredBatch | None] = [None, None]
    sides: list[RecordCursor] = []
    record: DifferingRecord | None = None
    unread, compared = None, first
    seen: set[MismatchKind] = set()  # how the batches differ that were looked at
    try:
        sides = [
            RecordCursor(batches, first, end, name, most_records=limits[0], most_bytes=limits[1])
            for batches, name in ((leader, "the leader"), (follower, "the follower"))
        ]
        heads = _at_first(sides)
        while True:
            left, right = sides
            how = _batches_differ(left, right)
            if how is None and left.head is not None:
                compared = left.head.header.last_offset + 1
                left.next_batch()
                right.next_batch()
                continue
            if how is not None:
                seen.add(how)
            ours, theirs = left.record(), right.record()
            if ours is None and theirs is None:
                compared = end
                break
            record = record_difference(ours, theirs, left.head, right.head)
            if record is not None:
                compared = record.offset
                break
            compared = ours.offset + 1 if ours else compared
            left.next_record()
            right.next_record()
    except UnreadRecordsError as error:
        unread = str(error)
    kind = next((one for one in (MismatchKind.OTHER_BATCHING, MismatchKind.OTHER_ENCODING) if one in seen), MismatchKind.OTHER_FORMAT)
    if unread is not None:
        kind = MismatchKind.NOT_READ
    elif record is not None:
        kind = MismatchKind.OTHER_RECORDS
    return LocatedDifference(
        kind=kind,
        leader=heads[0],
        follower=heads[1],
        record=record,
        compared_end_offset=compared,
        whole=unread is None and record is None,
        unread=unread,
        formats_only=record is None and seen == {MismatchKind.OTHER_FORMAT},
    )


def _batches_differ(left: RecordCursor, right: RecordCursor) -> MismatchKind | None:
    """How the batches differ at which two logs are; None if they are equal, or both have come to their end."""
    are_fresh = left.is_between_batches and right.is_between_batches
    if left.head is None or right.head is None:
        return None if left.head is right.head else MismatchKind.OTHER_BATCHING
    ours, theirs = left.head.header, right.head.header
    if are_fresh and identity(ours) == identity(theirs):
        return None
    if ours.magic != theirs.magic:
        return MismatchKind.OTHER_FORMAT
    if are_fresh and bounds(ours) == bounds(theirs):
        return MismatchKind.OTHER_ENCODING
    if left.is_between_batches == right.is_between_batches and not are_fresh:
        return MismatchKind.OTHER_ENCODING
    return MismatchKind.OTHER_BATCHING


def _at_first(sides: list[RecordCursor]) -> list[StoredBatch | None]:
    """The batches at the lowest offset that any begins with."""
    begin = min((begins(side.head.header) for side in sides if side.head is not None), default=0)
    return [side.head if side.head is not None and begins(side.head.header) == begin else None for side in sides]
