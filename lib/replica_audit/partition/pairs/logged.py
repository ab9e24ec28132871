"""What a follower did according to its server.log, compared with the rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.protocol.cluster.log_events import LogEvent
from replica_audit.protocol.comparison.observed import Disobedience, ObservedTruncation, agrees
from replica_audit.protocol.comparison.pair import Comparison


def in_log_order(events: Iterable[LogEvent]) -> Sequence[LogEvent]:
    """Events by log, each in the order of its lines; a broker rolls its log, so files come in the order of their first lines."""
    by_line = sorted(events, key=lambda event: event.line)
    began: dict[str, str] = {}
    for event in by_line:
        began.setdefault(event.path, event.time)
    return sorted(by_line, key=lambda event: (began[event.path], event.path, event.line))


def did_otherwise(seen: ObservedTruncation, comparison: Comparison, *, leader_epoch: int, after_copy: bool) -> Disobedience | None:
    """What the broker did that the rule does not say, with file and line; None if nothing contradicts the rule."""
    return agrees(
        seen,
        comparison.effect.truncation,
        comparison.follower.log.log_end_offset,
        leader_id=comparison.leader.broker_id,
        leader_epoch=leader_epoch if leader_epoch >= 0 else None,
        after_copy=after_copy,
    )
