"""Holes: offsets that a log misses between others that it holds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.protocol.epochs.lineage import UNSTAMPED, Span, without
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.pairs import MissingOffsets


def hole_at(replica: Replica, offset: int) -> MissingOffsets:
    """The whole hole around an offset that the replica misses; it ends with the log at the latest."""
    history, log = replica.history, replica.log
    place = bisect_right(history, offset, key=attrgetter("end_offset"))
    first = history[place - 1].end_offset if place else log.log_start_offset
    end = history[place].first_offset if place < len(history) else log.log_end_offset
    is_between = any(missing_first <= offset <= last for missing_first, last in log.missing)
    before = bisect_right(log.segment_bases, offset) - 1
    is_between = is_between and before + 1 < len(log.segment_bases)
    return MissingOffsets(
        broker_id=replica.broker_id,
        first_offset=first,
        end_offset=end,
        segment_before=log.segment_bases[before] if is_between else None,
        segment_after=log.segment_bases[before + 1] if is_between else None,
        is_cut=False,
    )


def inside_a_segment(replica: Replica, first: int, end: int, *, is_cut: bool = False) -> MissingOffsets:
    """A hole inside a segment, or in one that is not there yet; `is_cut`: the cut makes it, because it falls inside a batch."""
    return MissingOffsets(
        broker_id=replica.broker_id, first_offset=first, end_offset=end, segment_before=None, segment_after=None, is_cut=is_cut
    )


def missing_everywhere(replica: Replica, others: Iterable[Replica]) -> list[MissingOffsets]:
    """The holes in a log that is not compacted and can be read, as far as no other replica holds these offsets either.

    The rule is the product's own. A leader gives offsets without a gap, and retention takes whole segments from the front: what lies below
    the cleaner checkpoint, or beside batches of a format before v2, which may have been converted without control batches
    (RecordsUtil.downConvert), proves nothing.
    """
    log, history = replica.log, replica.history
    if not history:
        return []
    begin = max(log.log_start_offset, replica.cleaner_offset or 0)
    edges = [Span(UNSTAMPED, begin, begin), *history, Span(UNSTAMPED, log.log_end_offset, log.log_end_offset)]
    gaps = [
        (max(left.end_offset, begin), right.first_offset) for left, right in pairwise(edges) if UNDEFINED_EPOCH not in (left[0], right[0])
    ]
    found = [Span(UNSTAMPED, first, end) for first, end in gaps if first < end]
    held = [span._replace(leader_epoch=UNSTAMPED) for other in others for span in other.history]
    return [inside_a_segment(replica, span.first_offset, span.end_offset) for span in without(found, held)]
