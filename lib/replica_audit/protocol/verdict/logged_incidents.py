"""What brokers logged about committed records that a truncation removed, truncations that were refused, and unclean elections.

Sources: UnifiedLog.updateHighWatermarkMetadata (2.8 and later) and truncateTo (4.2), ReplicaFetcherThread.handleOffsetOutOfRange (0.8 to
1.0), PartitionRegistration.maybeLogPartitionChange (KRaft), OfflinePartitionLeaderSelector (ZooKeeper, until 1.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from replica_audit.protocol.cluster.log_events import EventKind, LogEvent
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.rows.history import LoggedIncident
from replica_audit.rows.pairs import ReplicaVerdict


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


# a broker truncates what its leader does not hold: below its high watermark committed records are gone
_SEVERITIES = {
    IncidentKind.REMOVED_BELOW_HIGH_WATERMARK: Severity.ERROR,
    IncidentKind.TRUNCATION_REFUSED: Severity.WARNING,
    IncidentKind.UNCLEAN_ELECTION: Severity.NONE,
}


def incidents(events: Iterable[LogEvent]) -> list[LoggedIncident]:
    """The incidents of one partition, each once; none is a finding yet.

    A truncation has up to two lines, and a controller logs an election again whenever it reads the metadata log again, each controller for
    itself: of equal ones the first counts. Two truncations of a broker from one high watermark to one offset are told apart by what it
    logged between them: that it loaded the log, or began to follow.

    Args:
        events: of one topic-partition, by log in the order of its lines.
    """
    found: list[LoggedIncident] = []
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
            found.append(
                LoggedIncident(
                    topic=event.topic,
                    partition=event.partition,
                    broker_id=event.broker_id,
                    kind=str(kind),
                    logged_at=event.time or None,
                    truncation_offset=event.offset,
                    end_offset=end,
                    leader_id=event.leader_id,
                    leader_epoch=event.leader_epoch,
                    severity=str(Severity.NONE),
                    summary=_summary(kind, event, end),
                    path=event.path,
                    line=event.line,
                )
            )
    return found


def incident_rows(events: Iterable[LogEvent], verdicts: Iterable[ReplicaVerdict]) -> Iterator[LoggedIncident]:
    """Decide which incidents of a partition are findings.

    Of a broker's incidents of one kind the last is a finding, and the others are not. Removed records are none where the verdict on this
    broker's replica is about the same truncation, and an unclean election alone is none.

    Args:
        events: the lines about the partition, in the order of the logs.
        verdicts: rows of `replica_verdicts` of the partition.
    """
    found = incidents(events)
    last = {(one.broker_id, one.kind): one for one in found}
    covered = {
        (row.follower_id, row.truncation_offset)
        for row in verdicts
        if row.verdict in (Verdict.COMMITTED_LOSS, Verdict.LOG_MATCHING_VIOLATION)
    }
    for one in found:
        is_covered = one.kind == IncidentKind.REMOVED_BELOW_HIGH_WATERMARK and (one.broker_id, one.truncation_offset) in covered
        is_finding = last[one.broker_id, one.kind] is one and not is_covered
        yield replace(one, severity=str(_SEVERITIES[IncidentKind(one.kind)])) if is_finding else one


def _summary(kind: IncidentKind, event: LogEvent, end: int | None) -> str:
    where = f"according to {event.path or 'server.log'}, line {event.line}"
    when = f" at {event.time}" if event.time else ""
    match kind:
        case IncidentKind.REMOVED_BELOW_HIGH_WATERMARK:
            return (
                f"{where}, broker {event.broker_id} truncated to {event.offset}{when}, below its high watermark {end}: "
                f"offsets {event.offset}..{(end or 0) - 1} had been committed"
            )
        case IncidentKind.TRUNCATION_REFUSED:
            return (
                f"{where}, broker {event.broker_id} exited{when} because it must not truncate from {end} to the log end "
                f"{event.offset} of its leader: a replica outside the ISR was elected, or the leader lost its tail"
            )
        case IncidentKind.UNCLEAN_ELECTION:
            epoch = "" if event.leader_epoch is None else f" in epoch {event.leader_epoch}"
            return f"{where}, broker {event.leader_id} was elected leader{epoch} by an unclean election (logged{when or ' without a date'})"
