"""The batches of a pair compared: by the digests of their windows, and one by one where a window differs or cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from replica_audit.formats.segment.segment_fold import digest_offset
from replica_audit.model import BatchHeader
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.content import (
    ContentComparison,
    ContentDifference,
    LocatedDifference,
    Offsets,
    WindowComparison,
    compare_windows,
    lacks_epochs,
    locate,
)
from replica_audit.protocol.comparison.pair import Comparison, removal_start
from replica_audit.protocol.comparison.record_cursor import DifferingRecords, differing_records
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.epochs.replica_log import LoadedLog

_FEW = 1_000  # batches that are read again of a log where windows cannot tell: some 10 ms
_MANY = 100_000  # the same where nothing but the batches can tell whether the logs agree
_SPANS = 16  # that are compared: each is looked up in both logs, and a log whose epochs alternate has thousands
# in the place of a batch that could not be read again
_UNREAD = BatchHeader(-1, 0, 0, 0, 0, -1, None, -1, 0, None, "none", False, False, -1, -1, -1)


class ChangedBatchesError(Exception):
    """A replica's batches are not what they were when they were scanned."""


def compare(comparison: Comparison, leader: Loaded, follower: Loaded, *, every_record: bool = False) -> ContentComparison:
    """Compare what both logs must hold.

    Windows tell it, except those at the ends of the logs where the two do not reach equally far: there the batches are read again, unless
    they are many.

    Args:
        comparison: of a pair for which `content_decides`.
        leader: as it was loaded; it has a log, as has the follower.
        follower: as it was loaded.
        every_record: whether all records from the first difference on are compared, however many there are.
    """
    end, logs = comparison.content_end, (comparison.leader.log, comparison.follower.log)
    is_compacted = comparison.context.compacted  # of which all records are there: a cleaner may have written its batches again
    windows = compare_windows(*logs, comparison.start if is_compacted else max(comparison.start, comparison.cleaned), end)
    whole = end == comparison.end
    unproven: list[Offsets] = []
    for part in sorted((*windows.differing, *windows.open, *windows.other_formats)):
        differs, has_epochs = part in windows.differing, not any(lacks_epochs(log, part) for log in logs)
        if part in windows.other_formats:
            found: ContentDifference | bool = _converted(leader, follower, part, is_limited=not every_record)
        else:
            most = _FEW if has_epochs else _MANY
            is_read = differs or max(_to_read(leader, part), _to_read(follower, part)) <= most
            found = _first_difference(leader, follower, part) if is_read else False
            if isinstance(found, ContentDifference):
                located = _located(leader, follower, found.first_offset, end, is_limited=not every_record)
                if located is not None and located.formats_only:
                    whole, unproven = whole and located.whole, [*unproven, *([] if located.whole else [(found.first_offset, end)])]
                    break  # all that comes behind was compared, or cannot be
                if is_compacted and (located is None or located.record is None):
                    whole = whole and located is not None and located.has_equal_records
                    break
                found = replace(found, located=located)
        if isinstance(found, ContentDifference):
            if every_record:
                found = replace(found, records=_differing(comparison, leader, follower, found))
            return ContentComparison(difference=found, whole=False)
        if differs and not found and not is_compacted:
            return ContentComparison(difference=ContentDifference(first_offset=part[0], end_offset=part[1]), whole=False)
        whole = whole and found and not differs  # what differed and no longer does was being written
        if not found and not has_epochs:
            unproven.append(part)
    return ContentComparison(difference=None, whole=whole, unproven=tuple(unproven))


def holds_the_beginning(leader: Loaded, follower: Loaded) -> bool:
    """Whether a follower that is shorter certainly has its leader's batches, as far as its log goes; both have a log in one format."""
    logs = leader.log, follower.log
    if logs[0] is None or logs[1] is None:
        return False
    windows = compare_windows(logs[0], logs[1], logs[1].log_start_offset)
    if windows.differing or windows.other_formats:
        return False
    return _walked(leader, follower, windows, (logs[0], logs[1])) == (None, True)


def found_again(comparison: Comparison, leader: Loaded, follower: Loaded) -> tuple[Span, ...]:
    """Of what the follower's files lose and the leader holds by its epochs, what no batch tells to be other records.

    In a log that is compacted equal epochs are all that tells. Without epochs nothing counts but what was compared whole. Of very many
    spans the first are compared: behind them, too, equal epochs are all that tells.
    """
    by_epochs = comparison.held_by_epochs
    if comparison.context.compacted:
        return tuple(span for span in by_epochs if span.leader_epoch >= 0)
    kept, logs = [], (comparison.leader.log, comparison.follower.log)
    for number, span in enumerate(by_epochs):
        differs_at, whole = None, False
        if number < _SPANS:
            differs_at, whole = _walked(leader, follower, compare_windows(*logs, span.first_offset, span.end_offset), logs)
        end = span.end_offset if differs_at is None else differs_at
        if span.first_offset < end and (whole or span.leader_epoch >= 0):
            kept.append(span._replace(end_offset=end))
    return tuple(kept)


def _walked(leader: Loaded, follower: Loaded, windows: WindowComparison, logs: tuple[LoadedLog, LoadedLog]) -> tuple[int | None, bool]:
    """Where windows, and the batches read again where they cannot tell, first differ; whether all below it was compared."""
    whole = True
    for part in sorted((*windows.differing, *windows.open, *windows.other_formats)):
        differs = part in windows.differing
        if part in windows.other_formats:
            found: ContentDifference | bool = _converted(leader, follower, part, is_limited=True)
        else:
            most = _MANY if any(lacks_epochs(log, part) for log in logs) else _FEW
            is_read = differs or max(_to_read(leader, part), _to_read(follower, part)) <= most
            found = _first_difference(leader, follower, part) if is_read else False
        if isinstance(found, ContentDifference):
            return found.first_offset, whole
        if differs and not found:
            return part[0], whole
        whole = whole and found and not differs
    return None, whole


def _converted(leader: Loaded, follower: Loaded, part: Offsets, *, is_limited: bool) -> ContentDifference | bool:
    """The first record of a range that is not the same in the two formats; True if all are, False if they could not be compared."""
    located = _located(leader, follower, *part, is_limited=is_limited)
    if located is None or located.unread is not None:
        return False
    if located.record is None:
        return True
    return ContentDifference(first_offset=located.record.offset, end_offset=located.record.offset + 1, located=located)


def _located(leader: Loaded, follower: Loaded, first: int, end: int, *, is_limited: bool) -> LocatedDifference | None:
    """What differs from a batch on, down to the record."""
    try:
        return locate(leader.stored_from(first), follower.stored_from(first), first, end, is_limited=is_limited)
    except UnreadBatchesError:
        return None


def _differing(comparison: Comparison, leader: Loaded, follower: Loaded, found: ContentDifference) -> DifferingRecords | None:
    """All records that differ, of what the follower keeps; None if its batches or the leader's can no longer be read."""
    record = found.located.record if found.located else None
    first = found.first_offset if record is None else record.offset  # below it all are equal
    cut = removal_start(comparison.follower, comparison.effect)
    end = comparison.content_end if cut is None else min(comparison.content_end, cut)
    brokers = comparison.leader.broker_id, comparison.follower.broker_id
    sides = leader.stored_from(first), follower.stored_from(first)
    try:
        return differing_records(*sides, first, end, brokers=brokers)
    except UnreadBatchesError:
        return None


def only_in_follower(leader: Loaded, follower: Loaded, part: Offsets) -> list[Span]:
    """The batches of a follower's log that begin in a part and are not the leader's, as spans; none where the formats differ.

    Raises:
        ChangedBatchesError: the batches cannot be read again, though they could when they were scanned.
    """
    formats = [{run.magic for run in one.log.runs} if one.log else set() for one in (leader, follower)]
    if formats[0] != formats[1]:
        return []  # converted when they were fetched
    found: list[Span] = []
    theirs = _batches_in(leader, part)
    left = next(theirs, None)
    for batch in _batches_in(follower, part):
        while left is not None and digest_offset(left) < digest_offset(batch) and left is not _UNREAD:
            left = next(theirs, None)
        if _UNREAD in (left, batch):
            raise ChangedBatchesError
        if left is not None and _identity(left) == _identity(batch):
            continue
        if found and found[-1].end_offset == batch.base_offset:
            found[-1] = found[-1]._replace(end_offset=batch.last_offset + 1)
        else:
            found.append(Span(batch.leader_epoch, batch.base_offset, batch.last_offset + 1))
    return found


def _to_read(replica: Loaded, part: Offsets) -> int:
    """How many batches have to be read of a log to have those of a part: from the beginning of a segment."""
    bases = [file.base_offset for file in replica.files_in_log if file.base_offset <= part[0]]
    runs = replica.log.runs if replica.log else ()
    return sum(run.batch_count for run in runs if run.last_offset >= max(bases, default=0) and run.first_offset < part[1])


def _first_difference(leader: Loaded, follower: Loaded, part: Offsets) -> ContentDifference | bool:
    """The first batch that begins in a part and is not the same on both sides; True if all are, False if they cannot be read."""
    for left, right in zip_longest(_batches_in(leader, part), _batches_in(follower, part)):
        if any(one is not None and one.position < 0 for one in (left, right)):
            return False
        if left is None or right is None or _identity(left) != _identity(right):
            return _different(left, right)
    return True


def _different(left: BatchHeader | None, right: BatchHeader | None) -> ContentDifference:
    first = min(digest_offset(one) for one in (left, right) if one is not None)
    at_first = [one if one is not None and digest_offset(one) == first else None for one in (left, right)]
    return ContentDifference(
        first_offset=min(one.base_offset for one in at_first if one is not None),
        end_offset=1 + max(one.last_offset for one in at_first if one is not None),
        leader_crc=at_first[0].crc if at_first[0] else None,
        follower_crc=at_first[1].crc if at_first[1] else None,
    )


def _identity(batch: BatchHeader) -> tuple[int, int, int]:
    """What a digest is made of."""
    return digest_offset(batch), batch.last_offset, batch.crc


def _batches_in(replica: Loaded, part: Offsets) -> Iterator[BatchHeader]:
    """The batches that begin in a part; _UNREAD where they cannot be read, or end before the log did when it was scanned."""
    next_offset = part[0]
    try:
        for batch in replica.batches_from(part[0]):
            if digest_offset(batch) >= part[1]:
                return
            if digest_offset(batch) >= part[0]:
                yield batch
            next_offset = batch.last_offset + 1
    except UnreadBatchesError:
        yield _UNREAD
        return
    if replica.log is None or next_offset < min(part[1], replica.log.log_end_offset):
        yield _UNREAD
