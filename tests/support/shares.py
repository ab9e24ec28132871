"""Which of many cases that are alike run by day; the others run in the night."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest


def by_day(cases: Iterable[Any], *, every: int = 3, always: Callable[[Any], bool] = lambda _case: False) -> Sequence[Any]:
    """Each third case, and those that are always wanted; the others are marked `nightly`."""
    return [
        case if number % every == 0 or always(case) else pytest.param(case, marks=pytest.mark.nightly) for number, case in enumerate(cases)
    ]


def without_pairs_that_recur(items: Iterable[pytest.Item]) -> None:
    """Of tests that are parametrised three times or more, leave to the night the combinations that add no pair of values to the day.

    So by day each value meets each value of every other parameter, and in the night all combinations run.
    """
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if len(list(item.iter_markers("parametrize"))) > 2 and item.get_closest_marker("nightly") is None:
            by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for alike in by_function.values():
        left = {item: set(combinations(_values(item), 2)) for item in alike}
        while any(left.values()):
            covered = left.pop(max(left, key=lambda item: len(left[item])))
            left = {item: pairs - covered for item, pairs in left.items()}
        for item in left:
            item.add_marker(pytest.mark.nightly)


def _values(item: Any) -> list[tuple[int, ...]]:
    """What a test is called with: one entry for each time that it is parametrised."""
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    split = [one.split(",") if isinstance(one, str) else one for one in names]
    return [(place, *(id(item.callspec.params[name.strip()]) for name in group)) for place, group in enumerate(split)]
