"""Which of many cases that are alike run by day; the others run in the night."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def by_day(cases: Iterable[Any], *, every: int = 3, always: Callable[[Any], bool] = lambda _case: False) -> Sequence[Any]:
    """Each third case, and those that are always wanted; the others are marked `nightly`."""
    return [
        case if number % every == 0 or always(case) else pytest.param(case, marks=pytest.mark.nightly) for number, case in enumerate(cases)
    ]
