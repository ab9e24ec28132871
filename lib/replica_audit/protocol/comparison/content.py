"""Whether two logs hold the same batches, by the digests of their windows.

The rule is the product's own. It rests on this: a follower appends the batches of its leader byte by byte (ReplicaFetcherThread,
UnifiedLog.appendAsFollower), so equal offsets of equal epochs are equal batches, unless a replica compacts its log or is sent another
format (a leader up to 3.x converts for a follower of an older one). What a cleaner took is no evidence. Where the formats differ digests
tell nothing, and epochs neither, for the older format has none: only the records do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from replica_audit.model import StoredBatch, StoredDamage, Window
from replica_audit.protocol.comparison.record_cursor import (
    UNLIMITED,
    DifferingRecord,
    DifferingRecords,
    RecordCursor,
    UnreadRecordsError,
    begins,
    bounds,
    identity,
    record_difference,
)
from replica_audit.protocol.epochs.lineage import Span, pieces
from replica_audit.protocol.epochs.replica_log import LoadedLog

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


_LAST_OFFSET = (1 << 63) - 1
_MASK = (1 << 64) - 1
Offsets = tuple[int, int]  # first, inclusive, and end, exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentDifference:
    """The first batch that is not the same on both sides.

    `leader_crc` and `follower_crc` are the batches' stored CRCs, None where that side has no batch at `first_offset`. Where the batches
    could not be read again, both are None, and the difference lies somewhere in [first_offset, end_offset). `located`: looked at closely,
    down to the record; None if that could not be. `records`: all that differ from there on; None where nobody asked, or they could not be
    compared.
    """

    first_offset: int
    end_offset: int
    leader_crc: int | None = None
    follower_crc: int | None = None
    located: LocatedDifference | None = None
    records: DifferingRecords | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentComparison:
    """What comparing the batches of a pair gave: the first that differ, None if none do; `whole`: all that both must hold was compared.

    `unproven`: ranges in which a log has no epochs, and batches and records could not be compared: nothing tells whether they are the same.
    """

    difference: ContentDifference | None
    whole: bool
    unproven: tuple[Offsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowComparison:
    """`differing`: windows whose digests are not equal. `open`: parts of the common range that the windows cannot tell.

    `other_formats`: ranges that the two hold in different message formats; no part of them is in the others.
    """

    differing: tuple[Offsets, ...]
    open: tuple[Offsets, ...]
    other_formats: tuple[Offsets, ...] = ()


def merged(windows: Iterable[Window], width: int = 0) -> tuple[Window, ...]:
    """The windows of a log from those of its segments, by offset: all as wide as the widest of them, and `width` offsets at least."""
    parts = tuple(windows)
    if _are_merged(parts, width):
        return parts
    bits = max([width, *(part.window_end_offset - part.window_start_offset for part in parts), 1]) - 1
    shift = bits.bit_length()
    sums: dict[int, tuple[int, int]] = {}
    for part in parts:
        add_digest(sums, part.window_start_offset >> shift, part.digest, part.batch_count)
    return tuple(window(number, shift, *both) for number, both in sorted(sums.items()))


def _are_merged(parts: Sequence[Window], width: int) -> bool:
    """Whether windows are of one width, wide enough, each once and in order, as those of a log of one segment are."""
    if not parts:
        return True
    first, end, _digest, _count = parts[0]
    own = end - first
    if own < width or own & (own - 1):
        return False
    starts = [part.window_start_offset for part in parts if part.window_end_offset - part.window_start_offset == own]
    in_order = all(before < after for before, after in pairwise(starts))
    return len(starts) == len(parts) and in_order and not any(start % own for start in starts)


def add_digest(sums: dict[int, tuple[int, int]], number: int, digest: int, batch_count: int) -> None:
    """Add batches to the digest and count of the window of a number."""
    before, count = sums.get(number, (0, 0))
    sums[number] = (before + digest & _MASK, count + batch_count)


def window(number: int, bits: int, digest: int, batch_count: int) -> Window:
    """The window of a number among those of 2**bits offsets."""
    signed = digest - (1 << 64) if digest >> 63 else digest
    return Window(number << bits, min(number + 1 << bits, _LAST_OFFSET), signed, batch_count)


def compare_windows(leader: LoadedLog, follower: LoadedLog, floor: int, end: int = _LAST_OFFSET) -> WindowComparison:
    """Compare the windows of two logs over what both hold, from `floor` on and below `end`.

    A window counts where neither side has batches in it beyond the range that is compared, and both have them in one format.
    """
    if leader.log_end_offset <= end and _are_the_same(leader, follower, floor):
        return WindowComparison(differing=(), open=())
    return walk_windows(leader, follower, floor, end)


def _are_the_same(leader: LoadedLog, follower: LoadedLog, floor: int) -> bool:
    """Whether runs and digests are the same over both logs as wholes: then no window is cut by the floor or by an end."""
    if leader.windows != follower.windows or leader.runs != follower.runs or not leader.runs or floor > leader.runs[0].first_offset:
        return False
    return leader.log_end_offset == leader.digested_until == follower.log_end_offset == follower.digested_until


def walk_windows(leader: LoadedLog, follower: LoadedLog, floor: int, end: int = _LAST_OFFSET) -> WindowComparison:
    """`compare_windows`, window by window."""
    start = max(floor, *(log.runs[0].first_offset if log.runs else log.log_end_offset for log in (leader, follower)))
    end = min(leader.log_end_offset, follower.log_end_offset, end)
    sides = [{each.window_start_offset: each for each in windows} for windows in _equally_wide(leader.windows, follower.windows)]
    other_formats = tuple(_joined(_in_other_formats(leader, follower, start, end)))
    differing, unknown = [], []
    for one in _windows_in(sides, start, end):
        part = max(one[0], start), min(one[1], end)
        rest = list(_outside(other_formats, part))
        if rest != [part] or not all(_is_whole(log, one, start, end) for log in (leader, follower)):
            unknown += rest
        elif [_told(side.get(one[0])) for side in sides[:1]] != [_told(side.get(one[0])) for side in sides[1:]]:
            differing.append(part)
    return WindowComparison(differing=tuple(differing), open=tuple(_joined(unknown)), other_formats=other_formats)


def _in_other_formats(leader: LoadedLog, follower: LoadedLog, start: int, end: int) -> Iterator[Offsets]:
    """Ranges of [start, end) that both logs hold, one of them in an older format."""
    held = [[Span(run.magic, run.first_offset, run.last_offset + 1) for run in log.runs] for log in (leader, follower)]
    for piece in pieces(held[0], held[1], start, end):
        if None not in (piece.left_epoch, piece.right_epoch) and piece.left_epoch != piece.right_epoch:
            yield piece.first_offset, piece.end_offset


def _outside(others: Sequence[Offsets], part: Offsets) -> Iterator[Offsets]:
    """What of a part lies in none of the ascending others."""
    first, end = part
    for other_first, other_end in others:
        if other_first < end and other_end > first:
            if first < other_first:
                yield first, other_first
            first = other_end
    if first < end:
        yield first, end


def lacks_epochs(log: LoadedLog, part: Offsets) -> bool:
    """Whether a log holds batches of a format without epochs in a range."""
    return any(run.magic < 2 and run.last_offset >= part[0] and run.first_offset < part[1] for run in log.runs)


def _equally_wide(left: Sequence[Window], right: Sequence[Window]) -> tuple[tuple[Window, ...], tuple[Window, ...]]:
    width = max((each.window_end_offset - each.window_start_offset for each in (*left[:1], *right[:1])), default=1)
    return merged(left, width), merged(right, width)


def _windows_in(sides: Sequence[dict[int, Window]], start: int, end: int) -> Iterator[Offsets]:
    ends = {first: each.window_end_offset for side in sides for first, each in side.items()}
    yield from ((first, ends[first]) for first in sorted(ends) if first < end and ends[first] > start)


def _is_whole(log: LoadedLog, one: Offsets, start: int, end: int) -> bool:
    """Whether the log has digested all its batches in a window, and none of them lies outside [start, end)."""
    from_start = one[0] >= start or (bool(log.runs) and log.runs[0].first_offset >= start)
    to_end = one[1] <= min(end, log.digested_until) or log.digested_until == log.log_end_offset <= end
    return from_start and to_end


def _told(one: Window | None) -> tuple[int, int] | None:
    return (one.digest, one.batch_count) if one else None


def _joined(parts: Iterable[Offsets]) -> Iterator[Offsets]:
    """Ranges in order, neighbours as one."""
    last: Offsets | None = None
    for part in parts:
        if last is not None and last[1] == part[0]:
            last = last[0], part[1]
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


# How closely two replicas are compared: what is read of their logs, and what of it counts.


class CompareMode(StrEnum):
    """What an audit compares, each mode all that those before it do."""

    EPOCHS = "epochs"  # checkpoints and the headers of batches: neither CRCs nor digests are taken
    CONTENT = "content"  # the bytes of batches: each by its CRC, and by digests with those of the other replica
    RECORDS = "records"  # of compacted topics also the records: for each key the newest one that survives
