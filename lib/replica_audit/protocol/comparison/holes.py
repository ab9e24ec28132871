"""Holes: offsets that a log misses between others that it holds."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

from replica_audit.protocol.exchange.replica import Replica


class Hole(NamedTuple):
    """Offsets [first, end) that a broker's log misses.

    `segments`: base offsets of the segments before and after it, None where it lies inside a segment, or is not there yet. `is_cut`: the
    cut makes it, because it falls inside a batch.
    """

    broker_id: int
    first_offset: int
    end_offset: int
    segments: tuple[int, int] | None
    is_cut: bool = False


def hole_at(replica: Replica, offset: int) -> Hole:
    """The whole hole around an offset that the replica misses; it ends with the log at the latest."""
    history, log = replica.history, replica.log
    place = bisect_right(history, offset, key=attrgetter("end_offset"))
    first = history[place - 1].end_offset if place else log.log_start_offset
    end = history[place].first_offset if place < len(history) else log.log_end_offset
    is_between = any(missing_first <= offset <= last for missing_first, last in log.missing)
    before = bisect_right(log.segment_bases, offset) - 1
    segments = (log.segment_bases[before], log.segment_bases[before + 1]) if is_between and before + 1 < len(log.segment_bases) else None
    return Hole(replica.broker_id, first, end, segments)
