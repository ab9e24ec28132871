"""What the strategies of the oracle tests share."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[_T], odd: st.SearchStrategy[_T], *, one_in: int = 10) -> _T:
    """The usual values with an odd one now and then; `one_of` counts a strategy that is given twice once."""
    return draw(odd if draw(st.integers(1, one_in)) == one_in else usual)
