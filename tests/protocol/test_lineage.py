"""Histories compared offset by offset, held against brute force over offsets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.epochs.epoch_table import epoch_for_offset, table
from replica_audit.protocol.epochs.lineage import (
    UNSTAMPED,
    History,
    Piece,
    Span,
    differ,
    epoch_at,
    first_difference,
    held,
    history_of_runs,
    history_of_table,
    lacking,
    pieces,
    until,
    without,
)
from tests.protocol.lineages import batches, tables
from tests.protocol.logs import Batch, run, runs


def _spans(found: list[Batch]) -> list[Span]:
    return history_of_runs(run(*batch) for batch in found)


def _by_offset(found: list[Batch]) -> dict[int, int]:
    return {offset: epoch for epoch, base, last in found for offset in range(base, last + 1)}


def _every(spans: Iterable[Span]) -> list[tuple[int, int]]:
    return [(span.leader_epoch, offset) for span in spans for offset in range(span.first_offset, span.end_offset)]


# any that a log can have, epochs that are none among them; neighbours of one epoch stand apart
HISTORIES = batches(lowest_epoch=UNSTAMPED, count=12).map(lambda found: [Span(epoch, base, last + 1) for epoch, base, last in found])


def test_segment_borders_do_not_show() -> None:
    assert history_of_runs([run(1, 0, 9), run(1, 10, 19), run(2, 20, 29)]) == [Span(1, 0, 20), Span(2, 20, 30)]


def test_a_gap_and_another_epoch_do() -> None:
    assert history_of_runs(runs([(1, 0, 9), (1, 12, 19), (-1, 20, 21)])) == [Span(1, 0, 10), Span(1, 12, 20), Span(-1, 20, 22)]


def test_a_batch_without_an_epoch_is_told_from_one_of_a_format_without_epochs() -> None:
    found = history_of_runs([run(-1, 0, 9), run(-1, 10, 19, magic=2), run(-1, 20, 29, magic=2), run(-1, 30, 39, magic=0)])
    assert found == [Span(-1, 0, 10), Span(UNSTAMPED, 10, 30), Span(-1, 30, 40)]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(3, 3, False, id="one epoch"),
        pytest.param(3, 0, True, id="two epochs"),
        pytest.param(3, -1, False, id="a format without epochs: the same record, converted down"),
        pytest.param(UNSTAMPED, 3, True, id="no epoch where the format has one"),
        pytest.param(UNSTAMPED, UNSTAMPED, False, id="no epoch on either side"),
        pytest.param(UNSTAMPED, -1, False, id="no epoch, converted down"),
        pytest.param(3, None, False, id="missing"),
        pytest.param(UNSTAMPED, None, False, id="no epoch, and missing"),
    ],
)
def test_differ(left: int | None, right: int | None, expected: bool) -> None:
    assert differ(Piece(0, 5, left, right)) is differ(Piece(0, 5, right, left)) is expected


def test_a_table_as_history_is_clipped_to_the_log() -> None:
    epochs = table([(1, 0), (3, 10), (5, 30)])
    assert history_of_table(epochs, 5, 30) == [Span(1, 5, 10), Span(3, 10, 30)], "an epoch at the log end holds nothing"
    assert history_of_table(epochs, 12, 35) == [Span(3, 12, 30), Span(5, 30, 35)]


def test_a_table_without_entries_tells_no_epoch() -> None:
    assert all(span.leader_epoch < 0 for span in history_of_table(table([]), 0, 30))
    assert history_of_table(table([]), 30, 30) == []


def test_what_a_table_does_not_tell_is_of_no_epoch() -> None:
    assert history_of_table(table([(2, 10)]), 0, 30) == [Span(-1, 0, 10), Span(2, 10, 30)]
    assert history_of_table(table([]), 0, 30) == [Span(-1, 0, 30)]


def test_until_cuts_inside_a_span() -> None:
    history = [Span(1, 0, 10), Span(2, 10, 20)]
    assert until(history, 15) == [Span(1, 0, 10), Span(2, 10, 15)]
    assert until(history, 10) == [Span(1, 0, 10)]
    assert until(history, 0) == []


@pytest.mark.parametrize(
    ("left", "right", "gaps_count", "expected"),
    [
        pytest.param([(1, 0, 9)], [(1, 0, 9)], True, None, id="equal"),
        pytest.param([(1, 0, 9)], [(1, 0, 4), (2, 5, 9)], True, Piece(5, 10, 1, 2), id="another epoch"),
        pytest.param([(1, 0, 9)], [(1, 0, 4), (1, 7, 9)], True, Piece(5, 7, 1, None), id="missing on the right"),
        pytest.param([(1, 0, 4), (1, 7, 9)], [(1, 0, 9)], True, Piece(5, 7, None, 1), id="missing on the left"),
        pytest.param([(1, 0, 9)], [(1, 0, 4), (1, 7, 9)], False, None, id="missing counts for nothing"),
        pytest.param([(1, 0, 9)], [(1, 0, 2), (2, 8, 9)], False, Piece(8, 10, 1, 2), id="another epoch behind what is missing"),
        pytest.param([(1, 0, 4), (1, 7, 9)], [(1, 0, 4), (1, 7, 9)], True, None, id="missing on both sides"),
        pytest.param([], [], True, None, id="nothing"),
        pytest.param([(-1, 0, 9)], [(-1, 0, 9)], True, None, id="no epochs on either side"),
        pytest.param([(3, 0, 9)], [(-1, 0, 9)], True, None, id="no epoch on one side: the same records, converted down"),
        pytest.param([(3, 0, 9)], [(0, 0, 9)], True, Piece(0, 10, 3, 0), id="epoch 0 is an epoch"),
        pytest.param([(3, 0, 9)], [(-1, 0, 4)], True, Piece(5, 10, 3, None), id="no epoch, and missing behind"),
    ],
)
def test_first_difference(left: list[Batch], right: list[Batch], gaps_count: bool, expected: Piece | None) -> None:
    assert first_difference(_spans(left), _spans(right), 0, 10, gaps_count=gaps_count) == expected


def test_first_difference_looks_at_its_range_only() -> None:
    left, right = _spans([(1, 0, 9), (2, 10, 19)]), _spans([(4, 0, 4), (1, 5, 9), (3, 10, 19)])
    assert first_difference(left, right, 5, 10, gaps_count=True) is None
    assert first_difference(left, right, 3, 10, gaps_count=True) == Piece(3, 5, 1, 4), "it begins at the range"
    assert first_difference(left, right, 5, 12, gaps_count=True) == Piece(10, 12, 2, 3), "it ends at the range"
    assert first_difference(left, right, 12, 12, gaps_count=True) is None
    assert first_difference(left, right, 15, 12, gaps_count=True) is None


@given(batches(), batches(), st.integers(0, 20), st.integers(0, 40))
def test_pieces_by_every_offset(left: list[Batch], right: list[Batch], start: int, end: int) -> None:
    found = list(pieces(_spans(left), _spans(right), start, end))
    ours, theirs = _by_offset(left), _by_offset(right)
    covered = {offset: (piece.left_epoch, piece.right_epoch) for piece in found for offset in range(piece.first_offset, piece.end_offset)}
    assert covered == {o: (ours.get(o), theirs.get(o)) for o in range(start, end) if o in ours or o in theirs}
    assert all(piece.first_offset < piece.end_offset for piece in found)
    assert all(a.end_offset <= b.first_offset for a, b in pairwise(found))


@given(batches(), batches(), st.integers(0, 20), st.integers(0, 40), st.booleans())
def test_first_difference_by_every_offset(left: list[Batch], right: list[Batch], start: int, end: int, gaps_count: bool) -> None:
    ours, theirs = _by_offset(left), _by_offset(right)

    def differs(offset: int) -> bool:
        if offset in ours and offset in theirs:
            return ours[offset] != theirs[offset] and min(ours[offset], theirs[offset]) >= 0
        return gaps_count and (offset in ours) != (offset in theirs)

    found = first_difference(_spans(left), _spans(right), start, end, gaps_count=gaps_count)
    expected = next((offset for offset in range(start, end) if differs(offset)), None)
    assert (found and found.first_offset) == expected


@given(tables(count=5).filter(bool), st.integers(0, 15), st.integers(0, 40))
def test_a_table_as_history_by_every_offset(entries: list[tuple[int, int]], start: int, end: int) -> None:
    spans = [span for span in history_of_table(table(entries), start, end) if span.leader_epoch >= 0]
    held = {offset: span.leader_epoch for span in spans for offset in range(span.first_offset, span.end_offset)}
    epochs = {offset: epoch_for_offset(table(entries), offset) for offset in range(start, end)}
    assert held == {offset: epoch for offset, epoch in epochs.items() if epoch is not None}


@given(batches(), st.integers(0, 40))
def test_until_by_every_offset(found: list[Batch], end: int) -> None:
    held = {o: span.leader_epoch for span in until(_spans(found), end) for o in range(span.first_offset, span.end_offset)}
    assert held == {offset: epoch for offset, epoch in _by_offset(found).items() if offset < end}


# --- what one side lacks ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "missing_from", "expected"),
    [
        pytest.param([(1, 0, 9), (4, 10, 19)], 0, [], id="nothing"),
        pytest.param([(1, 0, 9)], 0, [(4, 10, 20)], id="the end"),
        pytest.param([(1, 0, 9)], 15, [(4, 15, 20)], id="the end, in part perhaps compacted"),
        pytest.param([(1, 0, 9)], 20, [], id="the end, all of it perhaps compacted"),
        pytest.param([(1, 0, 9), (2, 10, 14)], 99, [(4, 10, 15)], id="another epoch is no work of the cleaner"),
        pytest.param([(1, 0, 3), (1, 7, 9), (4, 10, 19)], 5, [(1, 5, 7)], id="a hole"),
        pytest.param([(1, 0, 9), (4, 15, 19)], 99, [], id="a hole that its own epoch follows"),
        pytest.param([(1, 0, 9), (6, 15, 19)], 99, [(4, 15, 20)], id="a hole that a later epoch follows"),
        pytest.param([(1, 0, 9), (2, 15, 19)], 99, [(4, 10, 15), (4, 15, 20)], id="a hole that an older epoch follows was never filled"),
        pytest.param([(1, 0, 9), (-1, 15, 19)], 99, [], id="a hole that a format without epochs follows"),
        pytest.param([(1, 0, 9), (2, 30, 39)], 99, [(4, 10, 20)], id="an older epoch far behind"),
    ],
)
def test_lacking(right: list[Batch], missing_from: int, expected: list[Batch]) -> None:
    left = _spans([(1, 0, 9), (4, 10, 19)])
    assert list(lacking(left, _spans(right), 0, 20, missing_from=missing_from)) == [Span(*span) for span in expected]


@given(HISTORIES, HISTORIES, st.integers(0, 20), st.integers(0, 40), st.integers(0, 40))
def test_lacking_by_every_offset(left: History, right: History, start: int, end: int, missing_from: int) -> None:
    ours, theirs = ({offset: epoch for epoch, offset in _every(side)} for side in (left, right))

    def is_lacking(offset: int) -> bool:
        if offset in theirs:  # of a format without epochs, as it was where both last had one
            told = (one for one in range(offset, start - 1, -1) if -1 not in (ours.get(one, -1), theirs.get(one, -1)))
            last = next(told, None)
            return last is not None and ours[last] != theirs[last]
        goes_on_in = next((theirs[later] for later in sorted(theirs) if later > offset), None)
        never_held = goes_on_in is not None and 0 <= goes_on_in < ours[offset]
        return never_held or offset >= missing_from

    found = list(lacking(left, right, start, end, missing_from=missing_from))
    assert _every(found) == [(ours[offset], offset) for offset in sorted(ours) if start <= offset < end and is_lacking(offset)]
    assert all(span.first_offset < span.end_offset for span in found)


def test_without() -> None:
    spans = [Span(4, 10, 20), Span(1, 0, 5), Span(4, 18, 25), Span(1, 5, 12)]
    assert without(spans, []) == [Span(1, 0, 12), Span(4, 10, 25)], "each offset of an epoch once"
    assert without(spans, [Span(1, 10, 25)]) == [Span(1, 0, 10), Span(4, 10, 25)], "another epoch at the same offsets is another record"
    assert without(spans, [Span(4, 22, 23), Span(4, 0, 12), Span(4, 20, 22)]) == [Span(1, 0, 12), Span(4, 12, 20), Span(4, 23, 25)]
    assert without(spans, reversed(spans)) == []


@given(st.lists(HISTORIES, max_size=3), st.lists(HISTORIES, max_size=3))
def test_without_by_every_offset(some: list[History], others: list[History]) -> None:
    spans, taken = ([span for history in histories for span in history] for histories in (some, others))
    found = _every(without(spans, taken))
    assert sorted(found) == sorted({*_every(spans)} - {*_every(taken)})


# --- the place of an offset is found by bisection -----------------------------------------------------------------------------------------


@given(HISTORIES, HISTORIES, st.integers(0, 60), st.integers(0, 60))
def test_pieces_from_anywhere(left: History, right: History, start: int, end: int) -> None:
    """As by a walk from the beginning: the pieces of everything, clipped."""
    clipped = (
        piece._replace(first_offset=max(piece.first_offset, start), end_offset=min(piece.end_offset, end))
        for piece in pieces(left, right, 0, 60)
    )
    assert list(pieces(left, right, start, end)) == [piece for piece in clipped if piece.first_offset < piece.end_offset]


@given(HISTORIES, st.integers(0, 60), st.integers(0, 60))
def test_held_by_every_offset(history: History, start: int, end: int) -> None:
    assert held(history, start, end) == sum(start <= offset < end for _epoch, offset in _every(history))


@given(HISTORIES, st.integers(-1, 60))
def test_epoch_at_by_every_offset(history: History, offset: int) -> None:
    assert epoch_at(history, offset) == {at: epoch for epoch, at in _every(history)}.get(offset)
