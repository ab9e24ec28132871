"""What brokers logged about committed records that a truncation removed, truncations that were refused, and unclean elections.

Sources: UnifiedLog.updateHighWatermarkMetadata (2.8 and later) and truncateTo (4.2), ReplicaFetcherThread.handleOffsetOutOfRange (0.8 to
1.0), PartitionRegistration.maybeLogPartitionChange (KRaft), OfflinePartitionLeaderSelector (ZooKeeper, until 1.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from replica_audit.protocol.cluster.log_events import EventKind, LogEvent
from replica_audit.protocol.verdict.partition_findings import PartitionCode


class IncidentKind(StrEnum):
    """What happened to a partition, by the log of one node."""

    REMOVED_BELOW_HIGH_WATERMARK = PartitionCode.REMOVED_BELOW_HIGH_WATERMARK
    TRUNCATION_REFUSED = PartitionCode.TRUNCATION_REFUSED
    UNCLEAN_ELECTION = "unclean_election"


_KINDS = {
    EventKind.BELOW_HIGH_WATERMARK: IncidentKind.REMOVED_BELOW_HIGH_WATERMARK,
    EventKind.HIGH_WATERMARK_FELL: IncidentKind.REMOVED_BELOW_HIGH_WATERMARK,
    EventKind.TRUNCATION_REFUSED: IncidentKind.TRUNCATION_REFUSED,
    EventKind.UNCLEAN_ELECTION: IncidentKind.UNCLEAN_ELECTION,
}


class Incident(NamedTuple):
    """One incident, with the first line that shows it.

    `broker_id` is the broker whose log has the line; None if unknown. `truncation_offset` is truncated to, or the leader's log end where
    the broker refused; the removed offsets are from there to `end_offset`, exclusive: the high watermark before, or the replica's log end.
    Of an unclean election there is the leader that was elected, and its epoch where the line has it. `logged_at` as `time` in `LogEvent`.
    """

    broker_id: int | None
    kind: IncidentKind
    logged_at: str
    truncation_offset: int | None
    end_offset: int | None
    leader_id: int | None
    leader_epoch: int | None
    path: str
    line: int


def incidents(events: Iterable[LogEvent]) -> list[Incident]:
    """The incidents of one partition, each once.

    A truncation has up to two lines, and a controller logs an election again whenever it reads the metadata log again, each controller for
    itself: of equal ones the first counts. Two truncations of a broker from one high watermark to one offset are told apart by what it
    logged between them: that it loaded the log, or began to follow.

    Args:
        events: of one topic-partition, by log in the order of its lines.
    """
    found: list[Incident] = []
    seen: set[tuple[object, ...]] = set()
    change: dict[int | None, int] = {}
    for event in events:
        if event.kind in (EventKind.LOADED, EventKind.BECAME_FOLLOWER, EventKind.FETCHER_ADDED):
            change[event.broker_id] = change.get(event.broker_id, 0) + 1
        kind = _KINDS.get(event.kind)
        if kind is None:
            continue
        refused = kind is IncidentKind.TRUNCATION_REFUSED
        end = event.log_end_offset if refused else event.high_watermark
        if kind is IncidentKind.UNCLEAN_ELECTION:
            same: tuple[object, ...] = (kind, event.leader_id, event.time if event.leader_epoch is None else event.leader_epoch)
        else:
            same = (kind, event.broker_id, event.offset, end, 0 if refused else change.get(event.broker_id, 0))
        if same not in seen:
            seen.add(same)
            place = (event.offset, end, event.leader_id, event.leader_epoch)
            found.append(Incident(event.broker_id, kind, event.time, *place, event.path, event.line))
    return found
