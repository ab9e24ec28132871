"""Tables of any cells: never wider than 80 columns, nothing lost, words whole while there is room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replica_audit.report.layout.paragraphs import fitted

CELLS = st.text(st.sampled_from("ab -,019\u00f6\x1b"), max_size=70).map(str.strip)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    columns = draw(st.integers(1, 9))
    head = draw(st.lists(st.sampled_from(["epoch", "round\ntrips", "high\nwatermark"]), min_size=columns, max_size=columns))
    return head, draw(st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=5))


@given(tables())
def test_it_is_never_wider_than_a_terminal(drawn: tuple[list[str], list[list[str]]]) -> None:
    for line in fitted(*drawn):
        assert len(line) <= 80
        assert line.isascii()
        assert line == line.rstrip()


@given(st.lists(st.text(st.sampled_from("abc019-"), min_size=1, max_size=200), min_size=2, max_size=2))
def test_nothing_is_lost(row: list[str]) -> None:
    shown = list(fitted(("x", "y"), [row]))
    told = [cell for cell in row if cell != "-"]  # a column that says nothing is left out
    assert len("".join("".join(shown).split())) == len(told) + sum(map(len, told))


def test_columns_without_a_cell_are_dropped() -> None:
    assert list(fitted(("one", "two", "three"), [("1", "", "3"), ("11", "", "")])) == ["  one  three", "  1    3", "  11"]


def test_the_column_that_costs_the_fewest_lines_is_wrapped_and_at_a_blank_or_hyphen() -> None:
    names = ("leave-isr-on-preferred-election", *("high-watermark-epoch",) * 3)
    lines = list(fitted(("rule", "number", "cost"), [(name, "1", "x" * 42) for name in names]))
    assert [line.split()[0] for line in lines] == ["rule", "leave-isr-on-preferred-", "election", *names[1:]]
    assert all(len(line) <= 80 for line in lines)


def test_a_word_is_broken_only_where_nothing_else_helps() -> None:
    lines = list(fitted(("group", "offset"), [("g" * 100, "12345678901")]))
    assert "".join(line.split()[0] for line in lines[1:]) == "g" * 100
    assert lines[1].endswith("12345678901")
