"""Brokers' own logs → rows of `logged_incidents`, and which of them are findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.protocol.cluster.log_events import LogEvent
from replica_audit.protocol.verdict.logged_incidents import Incident, IncidentKind, incidents
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.rows.history import LoggedIncident
from replica_audit.rows.pairs import ReplicaVerdict

# a broker truncates what its leader does not hold: below its high watermark committed records are gone
_SEVERITIES = {
    IncidentKind.REMOVED_BELOW_HIGH_WATERMARK: Severity.ERROR,
    IncidentKind.TRUNCATION_REFUSED: Severity.WARNING,
    IncidentKind.UNCLEAN_ELECTION: Severity.NONE,
}


def incident_rows(topic: str, partition: int, events: Sequence[LogEvent], verdicts: Sequence[ReplicaVerdict]) -> Iterator[LoggedIncident]:
    """The incidents of a partition as rows of `logged_incidents`, without the run's keys.

    Of a broker's incidents of one kind the last is a finding, and the others are not. Removed records are none where the verdict on this
    broker's replica is about the same truncation, and an unclean election alone is none.

    Args:
        topic: of the partition.
        partition: its number.
        events: the lines about it, in the order of the logs.
        verdicts: rows of `replica_verdicts` of the partition.
    """
    found = incidents(events)
    last = {(one.broker_id, one.kind): one for one in found}
    told = {
        (row.follower_id, row.truncation_offset)
        for row in verdicts
        if row.verdict in (Verdict.COMMITTED_LOSS, Verdict.LOG_MATCHING_VIOLATION)
    }
    for one in found:
        is_finding = (
            last[one.broker_id, one.kind] is one
            and one.kind is not IncidentKind.UNCLEAN_ELECTION
            and (one.kind is IncidentKind.TRUNCATION_REFUSED or (one.broker_id, one.truncation_offset) not in told)
        )
        yield LoggedIncident(
            topic=topic,
            partition=partition,
            broker_id=one.broker_id,
            kind=str(one.kind),
            logged_at=one.logged_at or None,
            truncation_offset=one.truncation_offset,
            end_offset=one.end_offset,
            leader_id=one.leader_id,
            leader_epoch=one.leader_epoch,
            severity=str(_SEVERITIES[one.kind] if is_finding else Severity.NONE),
            summary=_summary(one),
            path=one.path,
            line=one.line,
        )


def _summary(one: Incident) -> str:
    where = f"according to {one.path or 'server.log'}, line {one.line}"
    when = f" at {one.logged_at}" if one.logged_at else ""
    match one.kind:
        case IncidentKind.REMOVED_BELOW_HIGH_WATERMARK:
            return (
                f"{where}, broker {one.broker_id} truncated to {one.truncation_offset}{when}, below its high watermark {one.end_offset}: "
                f"offsets {one.truncation_offset}..{(one.end_offset or 0) - 1} had been committed"
            )
        case IncidentKind.TRUNCATION_REFUSED:
            return (
                f"{where}, broker {one.broker_id} exited{when} because it must not truncate from {one.end_offset} to the log end "
                f"{one.truncation_offset} of its leader: a replica outside the ISR was elected, or the leader lost its tail"
            )
        case IncidentKind.UNCLEAN_ELECTION:
            epoch = "" if one.leader_epoch is None else f" in epoch {one.leader_epoch}"
            return f"{where}, broker {one.leader_id} was elected leader{epoch} by an unclean election (logged{when or ' without a date'})"
