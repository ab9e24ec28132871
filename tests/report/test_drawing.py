"""The drawing: never wider than a terminal, never out of order, and what matters always there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.report.layout.drawing import HIDDEN, SHORTENED, WIDTH, Axis, Bar, Mark, Need, Stroke, axis, draw

OFFSETS = st.one_of(st.integers(0, 60), st.integers(0, 10**6), st.integers(0, 2**63 - 1))


@st.composite
def strokes(draw: st.DrawFn) -> tuple[Stroke, ...]:
    borders = sorted(draw(st.lists(OFFSETS, max_size=draw(st.sampled_from([4, 12, 80])), unique=True)))
    labels = st.one_of(st.integers(0, 20), st.integers(0, 2**31 - 1)).map(str)
    return tuple(Stroke(first, end, draw(labels), draw(st.sampled_from("-x!"))) for first, end in pairwise(borders) if draw(st.booleans()))


@st.composite
def bars(draw: st.DrawFn) -> Bar:
    return Bar(
        name=draw(st.sampled_from(["leader 1", "follower 2147483647", "a name longer than any that there is", ""])),
        strokes=draw(strokes()),
        posts=tuple(draw(st.lists(OFFSETS, max_size=2))),
        marks=tuple(Mark(offset, "M") for offset in draw(st.lists(OFFSETS, max_size=6))),
        note=draw(st.sampled_from(["", "(not in the input)"])),
    )


def held(lines: tuple[str, ...]) -> None:
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line == line.rstrip() and line.isascii() for line in lines)


@given(st.lists(bars(), max_size=3), st.lists(OFFSETS, max_size=4))
def test_any_bars_fit_the_width(given_bars: list[Bar], focus: list[int]) -> None:
    held(draw(given_bars, focus).lines)


@given(st.lists(OFFSETS, min_size=1, max_size=200), st.lists(OFFSETS, max_size=5), st.integers(16, 80), st.data())
def test_offsets_stay_in_order(offsets: list[int], focus: list[int], width: int, data: st.DataObject) -> None:
    needs = [
        Need(first_offset=first, end_offset=end, columns=data.draw(st.integers(1, 14)))
        for first, end in pairwise(sorted(set(offsets)))
        if data.draw(st.booleans())
    ]
    laid_out = axis(offsets, focus, needs, width)
    assert list(laid_out.offsets) == sorted(set(laid_out.offsets))
    assert all(left < right for left, right in pairwise(laid_out.columns)), "every offset has a column of its own"
    assert laid_out.columns[0] == 0
    assert laid_out.columns[-1] < width
    assert {min(offsets), max(offsets)} <= set(laid_out.offsets) <= set(offsets)
    columns = [laid_out.column(offset) for offset in sorted(offsets)]
    assert columns == sorted(columns)
    left_out = set(offsets) - set(laid_out.offsets)
    hidden_in = [(laid_out.offsets[place], laid_out.offsets[place + 1]) for place in laid_out.hiding]
    assert all(any(first < offset < end for first, end in hidden_in) for offset in left_out)
    assert all(any(first < offset < end for offset in left_out) for first, end in hidden_in)


@given(st.lists(OFFSETS, min_size=2, max_size=300, unique=True), st.integers(0, 2**63 - 1))
def test_the_focus_stays(offsets: list[int], seed: int) -> None:
    focus = [offsets[seed % len(offsets)], offsets[seed // 7 % len(offsets)]]
    assert set(focus) <= set(axis(offsets, focus, [], 60).offsets)


def test_few_offsets_are_drawn_to_scale() -> None:
    assert axis([0, 10, 15, 30], [10], [], 61) == Axis(
        offsets=(0, 10, 15, 30), columns=(0, 20, 30, 60), hiding=frozenset(), shortened=frozenset()
    )


def bar(name: str, *history: tuple[int, int, int], fill: str = "-", marks: str = "") -> Bar:
    drawn = tuple(Stroke(first, end, str(epoch), fill) for epoch, first, end in history)
    return Bar(name=name, strokes=drawn, marks=tuple(Mark(int(mark[1:]), mark[0]) for mark in marks.split()))


def test_a_committed_loss() -> None:
    lost = Bar(
        name="follower 1", strokes=(Stroke(0, 10, "0", "-"), Stroke(10, 30, "0", "x")), marks=(Mark(10, "D"), Mark(10, "C"), Mark(30, "E"))
    )
    drawing = draw([bar("leader 2", (0, 0, 10), (2, 10, 15), marks="S0 H15"), lost], [10])
    assert "\n".join(drawing.lines) == (
        "  offset      0                    10         15                              30\n"
        "              |                    |          |                                |\n"
        "  leader 2    |-0------------------|-2--------|\n"
        "              S                               H\n"
        "  follower 1  |-0------------------|x0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx|\n"
        "                                   D                                           E\n"
        "                                   C"
    )
    assert not drawing.symbols


def test_a_hole_is_blank() -> None:
    (line,) = (line for line in draw([bar("x", (1, 0, 11), (3, 21, 31))]).lines if "|-1" in line)
    assert line.split("|")[2].isspace()


def test_a_long_stretch_is_shortened_and_short_ones_keep_their_columns() -> None:
    drawing = draw([bar("leader 1", (1, 0, 10**9), (2, 10**9, 10**9 + 3), (12, 10**9 + 3, 10**9 + 4))])
    (line,) = (line for line in drawing.lines if "-1-" in line)
    assert SHORTENED in line.split("|")[1]
    assert "-2-|-12-|" in line
    assert drawing.symbols == {SHORTENED}


def test_a_long_history_keeps_what_lies_around_the_focus() -> None:
    epochs = [(epoch, 100 * epoch, 100 * epoch + 100) for epoch in range(300)]
    drawing = draw([bar("leader 1", *epochs), bar("follower 2", *epochs[:200], (400, 20_000, 20_050), fill="x")], [20_000])
    leader, follower = (line for line in drawing.lines if "|" in line and ("leader" in line or "follower" in line))
    assert "-200-" in leader
    assert "x400x" in follower
    assert HIDDEN * 2 in leader
    assert drawing.symbols >= {HIDDEN}
    assert any("20000" in line for line in drawing.lines)
    held(drawing.lines)


def test_long_numbers_are_told_in_steps() -> None:
    base = 8_123_456_789
    drawing = draw([bar("leader 1", (1, base, base + 1000), (2, base + 1000, base + 1020), (3, base + 1020, base + 2000))])
    told = " ".join(drawing.lines)
    assert all(str(base + more) in told for more in (0, 1000, 1020, 2000))
    held(drawing.lines)


@pytest.mark.parametrize("offset", [0, 7, 2**63 - 1])
def test_an_empty_log_is_a_post(offset: int) -> None:
    lines = draw([Bar(name="leader 1", posts=(offset, offset), marks=(Mark(offset, "S"), Mark(offset, "E")))]).lines
    assert [line.split()[-1] for line in lines] == [str(offset), "|", "|", "S", "E"]


def test_without_any_offset_there_are_notes() -> None:
    assert draw([Bar(name="leader 1", note="(not in the input)")]).lines == ("  leader 1  (not in the input)",)
