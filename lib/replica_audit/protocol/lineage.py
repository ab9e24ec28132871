"""Comparing the histories of two replicas, offset by offset.

A history is a sequence of `Span`: the offsets that a log holds, with their epochs, ascending. What no span covers is missing from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replica_audit.model import Run
from replica_audit.protocol.epoch_table import EpochTable


class Span(NamedTuple):
    """Offsets [first, end) written in one leader epoch; -1 where the record format has none."""

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


def history_of_runs(runs: Iterable[Run]) -> list[Span]:
    """Runs as spans, neighbours of one epoch joined, so that segment borders do not show."""
    spans: list[Span] = []
    for run in runs:
        if spans and spans[-1].leader_epoch == run.leader_epoch and spans[-1].end_offset == run.first_offset:
            spans[-1] = spans[-1]._replace(end_offset=run.last_offset + 1)
        else:
            spans.append(Span(run.leader_epoch, run.first_offset, run.last_offset + 1))
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


def until(history: History, end_offset: int) -> list[Span]:
    """The history below an exclusive end."""
    return [span._replace(end_offset=min(span.end_offset, end_offset)) for span in history if span.first_offset < end_offset]


def pieces(left: History, right: History, start: int, end: int) -> Iterator[Piece]:
    """Cut [start, end) at every change of either history, in order; pieces that both miss are left out."""
    offset, i, j = start, 0, 0
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
    for piece in pieces(left, right, start, end):
        if piece.left_epoch is None or piece.right_epoch is None:
            if gaps_count:
                return piece
        elif differ(piece):
            return piece
    return None


def differ(piece: Piece) -> bool:
    """Whether both sides hold the offsets, in different epochs. A batch without an epoch may be the same record, converted down."""
    return piece.left_epoch != piece.right_epoch and min(_known(piece.left_epoch), _known(piece.right_epoch)) >= 0


def _known(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def covered(ranges: Iterable[tuple[int, int]]) -> int:
    """How many offsets a set of ranges [first, end) covers."""
    total, reached = 0, 0
    for first, end in sorted(ranges):
        total += max(0, end - max(first, reached))
        reached = max(reached, end)
    return total


def only_in(left: History, right: History, start: int, end: int) -> list[Span]:
    """The offsets of [start, end) that the left history holds and the right one does not hold in the same epoch.

    Offsets without an epoch on either side count as held where both hold them.
    """
    return [
        Span(piece.left_epoch, piece.first_offset, piece.end_offset)
        for piece in pieces(left, right, start, end)
        if piece.left_epoch is not None and (piece.right_epoch is None or differ(piece))
    ]


def held(history: History, start: int, end: int) -> int:
    """How many offsets of [start, end) a history holds."""
    return sum(max(0, min(span.end_offset, end) - max(span.first_offset, start)) for span in history)


def epoch_at(history: History, offset: int) -> int | None:
    """The epoch of an offset; None if the history misses it."""
    return next((span.leader_epoch for span in history if span.first_offset <= offset < span.end_offset), None)
