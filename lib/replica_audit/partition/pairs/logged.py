"""What a follower did according to its server.log, compared with the rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_audit.protocol.comparison.observed import LogEvent, ObservedTruncation, agrees
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.rows.pairs import ContradictingLine


def in_log_order(events: Iterable[LogEvent]) -> Sequence[LogEvent]:
    """Events in the order of their times; of equal ones in that of the file, or the other way round where it has the newest line first.

    A line without a date stands where its file has it. Times of different files are compared by UTC where every line tells it, else as
    the logs have them.
    """
    by_file: dict[str, list[LogEvent]] = {}
    for event in sorted(events, key=lambda event: (event.path, event.line, event.byte_offset)):
        by_file.setdefault(event.path, []).append(event)
    is_utc = all(event.time_ms is not None for found in by_file.values() for event in found)
    placed: list[tuple[str | int, str, int, LogEvent]] = []
    for path, found in by_file.items():
        oriented = found[::-1] if found[0].newest_first else found
        dated = [event.time for event in oriented if event.time]
        told = dated[0] if dated else ""
        for place, event in enumerate(oriented):
            told = event.time or told
            placed.append((event.time_ms if is_utc and event.time_ms is not None else told, path, place, event))
    began = {path: min(time for time, of, _, _ in placed if of == path) for path in by_file}
    return [event for *_, event in sorted(placed, key=lambda one: (one[0], began[one[1]], one[1], one[2]))]


def did_otherwise(seen: ObservedTruncation, comparison: Comparison, *, leader_epoch: int, after_copy: bool) -> ContradictingLine | None:
    """What the broker did that the rule does not say, with file and line; None if nothing contradicts the rule."""
    return agrees(
        seen,
        comparison.effect.truncation,
        comparison.follower.log.log_end_offset,
        leader_id=comparison.leader.broker_id,
        leader_epoch=leader_epoch if leader_epoch >= 0 else None,
        after_copy=after_copy,
    )
