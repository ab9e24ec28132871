"""Offsets on a line of text: every offset that matters gets a column of its own, what lies between is drawn as long as there is room.

Where one scale does for all, it is one; else long stretches are drawn shorter than short ones. Where there are more offsets than columns,
those far from the focus are left out, and a stretch that hides some is told from one that does not.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

_HIDING = 8  # columns that a stretch needs to say that it hides something
_SHORTENED = 4  # times shorter than the longest drawn one: then a stretch is marked
_NEARLY_TO_SCALE = 4  # offsets for each column: up to here lengths are compared as they are, beyond by their orders of magnitude
_MOST = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A stretch between two offsets that needs some columns from the first to the second, to hold a label."""

    first_offset: int
    end_offset: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Ascending offsets and their ascending columns.

    `hiding` and `shortened` hold the indices of stretches, from one offset to the next, that leave out offsets, or are drawn shorter than
    the others.
    """

    offsets: tuple[int, ...]
    columns: tuple[int, ...]
    hiding: frozenset[int]
    shortened: frozenset[int]

    def column(self, offset: int) -> int:
        """The column of an offset; of one that is left out, a column inside its stretch if there is one. Never descending."""
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets):
            return self.columns[-1]
        if index == 0 or self.offsets[index] == offset:
            return self.columns[index]
        left, right = self.columns[index - 1], self.columns[index]
        part = (offset - self.offsets[index - 1]) * (right - left) // (self.offsets[index] - self.offsets[index - 1])
        return min(max(left + part, left + 1), right - 1) if right - left > 1 else left

    def shows(self, offset: int) -> bool:
        """Whether the offset has a column of its own."""
        index = bisect_left(self.offsets, offset)
        return index < len(self.offsets) and self.offsets[index] == offset

    def stretches(self, first_offset: int, end_offset: int) -> range:
        """The stretches that lie at least partly in [first, end), as indices."""
        return range(
            max(bisect_right(self.offsets, first_offset) - 1, 0), min(bisect_left(self.offsets, end_offset), len(self.offsets) - 1)
        )


def axis(offsets: Iterable[int], focus: Iterable[int], needs: Sequence[Need], width: int) -> Axis:
    """Lay out offsets.

    Args:
        offsets: that matter; at least one.
        focus: what must stay, and around which the others stay longest; the smallest and the largest offset always do.
        needs: stretches that want room for a label; where there is none at all, they get less.
        width: columns, at least 16.
    """
    known = sorted(set(offsets))
    if len(known) == 1:
        return Axis(offsets=tuple(known), columns=(0,), hiding=frozenset(), shortened=frozenset())
    order, least = _by_importance(known, sorted(set(focus)))
    fitting = [need for need in needs if need.columns < width]
    for room, counts in ((fitting, range(min(len(known), _MOST), least - 1, -1)), ((), range(least, 1, -1))):
        for count in counts:
            kept = sorted(order[:count])
            shown = [known[index] for index in kept]
            hiding = frozenset(place for place, (left, right) in enumerate(pairwise(kept)) if right > left + 1)
            smallest = _smallest(shown, hiding, room)
            if smallest[-1] < width:
                return _spread(shown, hiding, room, smallest, width)
    raise AssertionError("two offsets always have room")


def _by_importance(known: Sequence[int], focus: Sequence[int]) -> tuple[list[int], int]:
    """The indices of the offsets, most important first: the ends, the focus, then by distance from the focus; and how many must stay."""
    ends = {0, len(known) - 1}
    points = [index for offset in focus if (index := bisect_left(known, offset)) < len(known)] or sorted(ends)

    def rank(index: int) -> tuple[int, int, int]:
        place = bisect_left(points, index)
        distance = min(abs(index - point) for point in points[max(place - 1, 0) : place + 1])
        return (0 if index in ends else 1, distance, index)

    return sorted(range(len(known)), key=rank), len(ends | set(points))


def _smallest(shown: Sequence[int], hiding: frozenset[int], needs: Sequence[Need]) -> list[int]:
    """The leftmost columns at which everything has room."""
    index = {offset: place for place, offset in enumerate(shown)}
    wants: dict[int, list[tuple[int, int]]] = {}
    for need in needs:
        if need.first_offset in index and need.end_offset in index:
            first, end = index[need.first_offset], index[need.end_offset]
            if end == first + 1 and first in hiding:
                continue
            wants.setdefault(end, []).append((first, need.columns))
    columns = [0]
    for place in range(1, len(shown)):
        step = _HIDING if place - 1 in hiding else 1
        columns.append(max([columns[-1] + step, *(columns[first] + room for first, room in wants.get(place, ()))]))
    return columns


def _spread(shown: Sequence[int], hiding: frozenset[int], needs: Sequence[Need], smallest: Sequence[int], width: int) -> Axis:
    """Give the columns that are left over: by one scale if that does, else to what is shorter than its share."""
    total = shown[-1] - shown[0]
    by_scale = [(offset - shown[0]) * (width - 1) // total for offset in shown]
    if not hiding and _has_room(shown, by_scale, needs):
        return Axis(offsets=tuple(shown), columns=tuple(by_scale), hiding=hiding, shortened=frozenset())
    lengths = [right - left for left, right in pairwise(shown)]
    # a long log would leave its short stretches, where things happen, no more than they need
    weights = [float(length) if total <= _NEARLY_TO_SCALE * width else math.log2(1 + length) for length in lengths]
    widths = _shares(weights, [right - left for left, right in pairwise(smallest)], width - 1)
    scales = [columns / length for columns, length in zip(widths, lengths, strict=True)]
    shortened = frozenset(place for place, scale in enumerate(scales) if scale * _SHORTENED < max(scales) and place not in hiding)
    return Axis(offsets=tuple(shown), columns=tuple(accumulate(widths, initial=0)), hiding=hiding, shortened=shortened)


def _shares(weights: Sequence[float], least: Sequence[int], room: int) -> list[int]:
    """Whole numbers that fill the room, as near to the weights' proportions as what each needs at least allows."""

    def at(scale: float) -> list[int]:
        return [max(need, int(scale * weight)) for weight, need in zip(weights, least, strict=True)]

    low, high = 0.0, room / min(weights)
    for _halved in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) <= room else (low, middle)
    shares = at(low)
    shares[weights.index(max(weights))] += room - sum(shares)
    return shares


def _has_room(shown: Sequence[int], columns: Sequence[int], needs: Sequence[Need]) -> bool:
    at = dict(zip(shown, columns, strict=True))
    if any(left >= right for left, right in pairwise(columns)):
        return False
    return all(
        at[need.end_offset] - at[need.first_offset] >= need.columns for need in needs if need.first_offset in at and need.end_offset in at
    )
