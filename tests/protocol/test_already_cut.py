"""When a line of a broker's log is about the very batches that a copy holds."""

from __future__ import annotations

from typing import Any

import pytest

from replica_audit.protocol.comparison.copied_earlier import Since
from replica_audit.protocol.comparison.observed import EventKind, LogEvent, ObservedCut, observe

AT = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
DAY = 86_400_000


def _since(**given: Any) -> Since:
    return Since(**{"newest_ms": AT, "last_epoch": 4, "succeeded_at_ms": None, "log_end_offset": 30, "until_ms": AT + 9 * DAY} | given)


def _cut(after_ms: int | None, *, epoch: int | None = None, end: int | None = None, is_local: bool = False) -> ObservedCut:
    """A cut so long after the newest batch: by UTC, or by a clock whose zone is not known."""
    moment = None if after_ms is None else AT + after_ms
    time = "" if moment is None else f"2027-01-{15 + (moment - AT + DAY // 3) // DAY:02d} {(moment // 3_600_000) % 24:02d}:00:00,000"
    events = [
        LogEvent(1, "t", 0, EventKind.LOADED, time, 1, 0, log_end_offset=end),
        LogEvent(1, "t", 0, EventKind.BECAME_FOLLOWER, time, 2, 0, leader_epoch=epoch),
        LogEvent(1, "t", 0, EventKind.LOG_TRUNCATION, time, 3, 0, offset=10, time_ms=None if is_local else moment),
    ]
    (found,) = observe(events).cuts
    return found


@pytest.mark.parametrize(
    ("since", "cut", "expected"),
    [
        pytest.param(_since(), _cut(1000), True, id="soon after the batches"),
        pytest.param(_since(), _cut(0), False, id="at the same moment"),
        pytest.param(_since(), _cut(-1), False, id="before them"),
        pytest.param(_since(), _cut(None), False, id="nobody knows when"),
        pytest.param(_since(newest_ms=None), _cut(DAY, epoch=5), False, id="a batch without a timestamp"),
        pytest.param(_since(newest_ms=AT + 2 * DAY), _cut(DAY, epoch=5), False, id="a producer's clock is ahead"),
        pytest.param(_since(), _cut(DAY), False, id="a day later: a producer's clock may be behind"),
        pytest.param(_since(), _cut(DAY, epoch=5), True, id="the broker told a later epoch before"),
        pytest.param(_since(), _cut(DAY, epoch=4), False, id="the epoch of the batches themselves"),
        pytest.param(_since(), _cut(DAY, end=30), True, id="its log ended where the copy does"),
        pytest.param(_since(), _cut(DAY, end=31), False, id="it ended elsewhere"),
        pytest.param(_since(succeeded_at_ms=AT + 500), _cut(DAY), True, id="after the next epoch began"),
        pytest.param(_since(succeeded_at_ms=AT + 2 * DAY), _cut(DAY, epoch=5), False, id="before it began"),
        pytest.param(_since(), _cut(10 * DAY, epoch=5), False, id="a time yet to come"),
        pytest.param(_since(), _cut(9 * DAY + 7_200_000, epoch=5, is_local=True), True, id="of a zone that is ahead"),
        pytest.param(_since(), _cut(-7_200_000, epoch=5, is_local=True), False, id="the zone is not known: it counts as UTC"),
    ],
)
def test_whether_a_cut_came_after_the_batches(since: Since, cut: ObservedCut, expected: bool) -> None:
    assert since.covers(cut) is expected
