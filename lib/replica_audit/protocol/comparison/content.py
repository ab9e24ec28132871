"""Whether two logs hold the same batches, by the digests of their windows.

The rule is the product's own. It rests on this: a follower appends the batches of its leader byte by byte (ReplicaFetcherThread,
UnifiedLog.appendAsFollower), so equal offsets of equal epochs are equal batches, unless a replica compacts its log or is sent another
format. Neither is evidence here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from replica_audit.model import BatchRun, Window
from replica_audit.protocol.comparison.differing_records import DifferingRecords
from replica_audit.protocol.comparison.located import LocatedDifference
from replica_audit.protocol.epochs.replica_log import LoadedLog

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
    """What comparing the batches of a pair gave: the first that differ, None if none do; `whole`: all that both must hold was compared."""

    difference: ContentDifference | None
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowComparison:
    """`differing`: windows whose digests are not equal. `open`: parts of the common range that the windows cannot tell.

    `excused` is True where a part of the range is not evidence; `no_evidence`: such windows, of those that were looked at.
    """

    differing: tuple[Offsets, ...]
    open: tuple[Offsets, ...]
    excused: bool
    no_evidence: tuple[Offsets, ...] = field(default=(), compare=False)


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

    A window counts where neither side has batches in it beyond the range that is compared. Batches of different formats do not count as
    evidence: a follower of an older version is sent another one.
    """
    if leader.log_end_offset <= end and _are_the_same(leader, follower, floor):
        return WindowComparison(differing=(), open=(), excused=False)
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
    differing, unknown, no_evidence = [], [], []
    for one in _windows_in(sides, start, end):
        part = max(one[0], start), min(one[1], end)
        if not _is_evidence(leader.runs, follower.runs, part):
            no_evidence.append(part)
        elif not all(_is_whole(log, one, start, end) for log in (leader, follower)):
            unknown.append(part)
        elif [_told(side.get(one[0])) for side in sides[:1]] != [_told(side.get(one[0])) for side in sides[1:]]:
            differing.append(part)
    return WindowComparison(
        differing=tuple(differing), open=tuple(_joined(unknown)), excused=bool(no_evidence), no_evidence=tuple(no_evidence)
    )


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


def _is_evidence(leader: Sequence[BatchRun], follower: Sequence[BatchRun], part: Offsets) -> bool:
    formats = [
        {(run.magic, run.leader_epoch < 0) for run in runs if run.last_offset >= part[0] and run.first_offset < part[1]}
        for runs in (leader, follower)
    ]
    return formats[0] == formats[1]


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
