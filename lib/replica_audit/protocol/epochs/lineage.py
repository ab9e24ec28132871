"""Comparing the histories of two replicas, offset by offset.

A history is a sequence of `Span`: the offsets that a log holds, with their epochs, ascending. What no span covers is missing from the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH, BatchRun
from replica_audit.protocol.epochs.epoch_table import EpochTable

UNSTAMPED = -2  # the epoch of a batch of magic 2 that has none: no broker writes it, and no conversion makes it
_END = attrgetter("end_offset")


class Span(NamedTuple):
    """Offsets [first, end) written in one leader epoch; -1 where the record format has none, -2 where it has one that is none."""

    leader_epoch: int
    first_offset: int
    end_offset: int


class Piece(NamedTuple):
    """Offsets [first, end) over which neither history changes; an epoch of None means that the history misses them."""

    first_offset: int
    end_offset: int
    left_epoch: int | None
    right_epoch: int | None


History = Sequence[Span]


def history_of_runs(runs: Iterable[BatchRun]) -> list[Span]:
    """Runs as spans, neighbours of one epoch joined, so that segment borders do not show."""
    spans: list[Span] = []
    for run in runs:
        epoch = run.leader_epoch if run.leader_epoch >= 0 else UNDEFINED_EPOCH if run.magic < 2 else UNSTAMPED
        if spans and spans[-1].leader_epoch == epoch and spans[-1].end_offset == run.first_offset:
            spans[-1] = spans[-1]._replace(end_offset=run.last_offset + 1)
        else:
            spans.append(Span(epoch, run.first_offset, run.last_offset + 1))
    return spans


def history_of_table(epochs: EpochTable, log_start_offset: int, log_end_offset: int) -> list[Span]:
    """A table as spans over [log start, log end), for when there are no batches to look at."""
    ends = [*(entry.start_offset for entry in epochs[1:]), log_end_offset][: len(epochs)]
    clipped = (
        Span(entry.epoch, max(entry.start_offset, log_start_offset), min(end, log_end_offset))
        for entry, end in zip(epochs, ends, strict=True)
    )
    told = [span for span in clipped if span.first_offset < span.end_offset]
    first = told[0].first_offset if told else log_end_offset
    # of what lies below its first entry a table tells nothing
    return [Span(-1, log_start_offset, first), *told] if log_start_offset < first else told


def history_with_remote(epochs: EpochTable, begins: int, local: History, local_start: int) -> tuple[Span, ...]:
    """The history of a log of which remote storage has what lies below the local log: there the table alone tells."""
    remote = history_of_table(epochs, begins, local_start)
    if remote and local and remote[-1].leader_epoch == local[0].leader_epoch and remote[-1].end_offset == local[0].first_offset:
        return (*remote[:-1], local[0]._replace(first_offset=remote[-1].first_offset), *local[1:])
    return (*remote, *local)


def until(history: History, end_offset: int) -> list[Span]:
    """The history below an exclusive end."""
    return [span._replace(end_offset=min(span.end_offset, end_offset)) for span in history if span.first_offset < end_offset]


def pieces(left: History, right: History, start: int, end: int) -> Iterator[Piece]:
    """Cut [start, end) at every change of either history, in order; pieces that both miss are left out."""
    offset, i, j = start, _index(left, start), _index(right, start)
    while offset < end:
        while i < len(left) and left[i].end_offset <= offset:
            i += 1
        while j < len(right) and right[j].end_offset <= offset:
            j += 1
        left_epoch, left_until = _at(left, i, offset, end)
        right_epoch, right_until = _at(right, j, offset, end)
        until_offset = min(left_until, right_until)
        if left_epoch is not None or right_epoch is not None:
            yield Piece(offset, until_offset, left_epoch, right_epoch)
        offset = until_offset


def _index(history: History, offset: int) -> int:
    """The place of the first span that ends behind an offset."""
    return bisect_right(history, offset, key=_END)


def _at(history: History, index: int, offset: int, end: int) -> tuple[int | None, int]:
    """The epoch at the offset (None: missing) and where that ends."""
    if index == len(history):
        return None, end
    span = history[index]
    if offset < span.first_offset:
        return None, min(span.first_offset, end)
    return span.leader_epoch, min(span.end_offset, end)


def first_difference(left: History, right: History, start: int, end: int, *, gaps_count: bool) -> Piece | None:
    """The first piece of [start, end) on which the histories differ: another epoch, or, where `gaps_count`, held by one side only."""
    return next(differences(left, right, start, end, gaps_count=gaps_count), None)


def differences(left: History, right: History, start: int, end: int, *, gaps_count: bool) -> Iterator[Piece]:
    """All such pieces, in order.

    Nearly all histories begin with the same spans, over which nothing can differ: those are skipped.
    """
    if left != right:
        yield from walked_differences(left, right, max(start, agreed_until(left, right)), end, gaps_count=gaps_count)


def agreed_until(left: History, right: History) -> int:
    """Up to where both histories surely agree, exclusive: the end of the shorter one, if all its spans are also the other's.

    Its last span may end earlier or later than the other's. 0 where they differ anywhere before.
    """
    last = min(len(left), len(right)) - 1
    if last < 0 or left[last][:2] != right[last][:2] or left[:last] != right[:last]:
        return 0
    return min(left[last].end_offset, right[last].end_offset)


def walked_differences(left: History, right: History, start: int, end: int, *, gaps_count: bool) -> Iterator[Piece]:
    """`differences`, piece by piece from the start."""
    for piece in pieces(left, right, start, end):
        if piece.left_epoch is None or piece.right_epoch is None:
            if gaps_count:
                yield piece
        elif differ(piece):
            yield piece


def differ(piece: Piece) -> bool:
    """Whether both sides hold the offsets, in different epochs. A batch of a format without epochs may be the same, converted down."""
    epochs = (piece.left_epoch, piece.right_epoch)
    return epochs[0] != epochs[1] and None not in epochs and UNDEFINED_EPOCH not in epochs


def covered(ranges: Iterable[tuple[int, int]]) -> int:
    """How many offsets a set of ranges [first, end) covers."""
    total, reached = 0, 0
    for first, end in sorted(ranges):
        total += max(0, end - max(first, reached))
        reached = max(reached, end)
    return total


def lacking(left: History, right: History, start: int, end: int, *, missing_from: int = 0) -> Iterator[Span]:
    """The offsets of [start, end) that the left history holds and the right one does not hold in the same epoch, as spans of the left.

    What the right one misses below `missing_from` may be a batch that compaction took. It never held it where it goes on in an older epoch:
    along a log epochs only grow. Where the two have parted, a format without epochs says nothing of it, and holds other records: nothing is
    appended behind batches that differ and is the same.
    """
    have_parted = False
    for piece in pieces(left, right, start, end):
        if piece.left_epoch is None:
            continue
        if piece.right_epoch is not None:
            is_told = UNDEFINED_EPOCH not in (piece.left_epoch, piece.right_epoch)
            have_parted = differ(piece) if is_told else have_parted
            first = piece.first_offset if have_parted else piece.end_offset
        else:
            goes_on = _index(right, piece.end_offset - 1)
            never_held = goes_on < len(right) and 0 <= right[goes_on].leader_epoch < piece.left_epoch
            first = piece.first_offset if never_held else max(piece.first_offset, missing_from)
        if first < piece.end_offset:
            yield Span(piece.left_epoch, first, piece.end_offset)


def shared(left: History, right: History, start: int, end: int) -> Iterator[Span]:
    """The offsets of [start, end) that both hold in the same epoch; those of a format without epochs, too, though that proves little."""
    for piece in pieces(left, right, start, end):
        if piece.left_epoch is not None and piece.left_epoch == piece.right_epoch:
            yield Span(piece.left_epoch, piece.first_offset, piece.end_offset)


def only_in_left(left: History, right: History, start: int, end: int) -> Iterator[Span]:
    """The offsets of [start, end) that the left history holds and the right one misses."""
    for piece in pieces(left, right, start, end):
        if piece.left_epoch is not None and piece.right_epoch is None:
            yield Span(piece.left_epoch, piece.first_offset, piece.end_offset)


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Spans less the offsets that others hold in the same epoch, each offset of an epoch once; ascending by first offset."""
    taken = {epoch: _joined(found) for epoch, found in _by_epoch(others).items()}
    found: list[Span] = []
    for epoch, own in _by_epoch(spans).items():
        for span in _joined(own):
            others_own = taken.get(epoch, [])
            first, place = span.first_offset, _index(others_own, span.first_offset)
            while place < len(others_own) and others_own[place].first_offset < span.end_offset:
                if others_own[place].first_offset > first:
                    found.append(Span(epoch, first, others_own[place].first_offset))
                first = others_own[place].end_offset
                place += 1
            if first < span.end_offset:
                found.append(Span(epoch, first, span.end_offset))
    return sorted(found, key=attrgetter("first_offset"))


def _by_epoch(spans: Iterable[Span]) -> dict[int, list[Span]]:
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(span.leader_epoch, []).append(span)
    return found


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans of one epoch, in order and disjoint."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.first_offset <= joined[-1].end_offset:
            joined[-1] = joined[-1]._replace(end_offset=max(joined[-1].end_offset, span.end_offset))
        else:
            joined.append(span)
    return joined


def held(history: History, start: int, end: int) -> int:
    """How many offsets of [start, end) a history holds."""
    total = 0
    for place in range(_index(history, start), len(history)):
        span = history[place]
        if span.first_offset >= end:
            break
        total += min(span.end_offset, end) - max(span.first_offset, start)
    return total


def epoch_at(history: History, offset: int) -> int | None:
    """The epoch of an offset; None if the history misses it."""
    place = _index(history, offset)
    return history[place].leader_epoch if place < len(history) and history[place].first_offset <= offset else None
