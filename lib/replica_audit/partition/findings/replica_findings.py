"""What endangers a replica, or a partition, though no two logs differ → findings besides the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from replica_audit.partition.findings.audited import NOBODY, Audited, of_verdict
from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.comparison.observed import EventKind
from replica_audit.protocol.exchange.cuts import lies_inside_a_batch
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.partition_findings import (
    FETCH_FAILS,
    FailedFetch,
    FindingAbout,
    LostEnd,
    PartitionCode,
    electable_by,
    gone_sentence,
    lost_ends,
    torn_sentence,
)
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.rows.findings import FoundFinding
from replica_audit.rows.pairs import ReplicaVerdict


def replica_findings(audited: Audited) -> Iterator[FoundFinding]:
    """Those of a partition; each is an error."""
    yield from _gone(audited)
    for broker, one in sorted(audited.compared.items()):
        if one.torn_end is not None and not one.unreadable:
            said = torn_sentence(one.torn_end.path, one.torn_end.byte_offset, one.torn_end.detail)
            yield _found(audited, PartitionCode.TORN_AFTER_CLEAN_STOP, broker, said)
    for lost in _lost_ends(audited):
        yield _found(audited, PartitionCode.ENDS_BELOW_HIGH_WATERMARK, lost.broker_id, lost.reason)
    yield from _fetch_fails(audited)


def _gone(audited: Audited) -> Iterator[FoundFinding]:
    found = audited.gone_everywhere
    if found is not None:
        yield _found(audited, PartitionCode.COMMITTED_RECORDS_GONE, NOBODY, gone_sentence(*found))


def _lost_ends(audited: Audited) -> list[LostEnd]:
    if audited.gone_everywhere is not None:
        return []  # of all of them, and told once
    metadata, leads = audited.metadata, audited.leadership.leader_id
    copy = audited.copies.get(leads) if audited.leadership.source != INFERRED else None
    is_of_now = copy is not None and copy.leader_epoch == metadata.leader_epoch and copy.leader == leads
    isr = copy.isr if copy is not None and is_of_now else None
    return lost_ends(
        [replica for replica in audited.replicas.values() if not metadata.topic_id or replica.topic_id in (None, metadata.topic_id)],
        leader_id=leads,
        electable=electable_by(metadata.isr, metadata.elr, isr, audited.cluster.broker_states),
        agreeing=[row.follower_id for row in audited.made.verdicts if row.severity == Severity.NONE],
    )


def _fetch_fails(audited: Audited) -> Iterator[FoundFinding]:
    """Of followers whose logs agree: what else is wrong with one is its verdict."""
    clean = {row.follower_id: row for row in audited.made.verdicts if row.severity == Severity.NONE}
    for point in audited.made.points:
        if point.applies and point.fetcher_fails and not point.restarts_once_failed and point.follower_id in clean:
            code = PartitionCode.FETCH_FAILS_FOREVER
            said = FETCH_FAILS.format(offset=point.fetch_offset)
            yield replace(of_verdict(audited, clean[point.follower_id], str(code), str(Severity.ERROR), said), fetcher_fails=True)
            del clean[point.follower_id]
    yield from _fetch_failed(audited, [*clean.values(), *(row for row in audited.made.verdicts if row.verdict == Verdict.INCONCLUSIVE)])


def _fetch_failed(audited: Audited, rows: Iterable[ReplicaVerdict]) -> Iterator[FoundFinding]:
    """Of followers that run outside the ISR of a leader that runs, and have stopped fetching."""
    leader, metadata = audited.known_leader, audited.metadata
    if leader is None or not leader.alive or leader.unreadable or not metadata.isr:
        return
    for row in rows:
        follower = audited.replicas.get(row.follower_id)
        if follower is None or not follower.alive or follower.frozen or follower.unreadable or row.follower_id in metadata.isr:
            continue
        failed = _failed_at(audited, leader, follower)
        if failed is not None:
            code, severity = str(PartitionCode.FETCH_FAILS_FOREVER), str(Severity.ERROR)
            yield replace(of_verdict(audited, row, code, severity, failed.reason), fetcher_fails=True)


def _failed_at(audited: Audited, leader: Replica, follower: Replica) -> FailedFetch | None:
    """Where its fetcher failed, by the last line of its broker's log about the partition, or by its checkpoint.

    A high watermark passes no log end, and log ends lie between batches, except in the memory of a broker that truncated into a batch.
    """
    end, start = follower.log.log_end_offset, leader.log.log_start_offset
    event, line = audited.last_events.get(follower.broker_id), None
    offset = follower.high_watermark or 0
    if event is not None and event.kind is EventKind.FETCHER_FAILED and event.offset is not None and end <= event.offset:
        offset, line = event.offset, f"{event.path or 'server.log'}, line {event.line}"
    if not end <= offset < leader.log.log_end_offset or (offset == end and line is None):
        return None
    batch = next((one for one in audited.compared[leader.broker_id].batches_from(offset) if one.last_offset >= offset), None)
    is_proven = line is not None or (batch is not None and lies_inside_a_batch([batch], offset) and batch.base_offset <= end)
    is_inside = batch is not None and lies_inside_a_batch([batch], end)
    return FailedFetch(offset, end, start, is_inside, line) if is_proven else None


def _found(audited: Audited, code: PartitionCode, broker: int, summary: str) -> FoundFinding:
    """A finding about a replica, or about the partition."""
    return FoundFinding(
        finding_key=audited.finding_key(code, broker),
        code=str(code),
        severity=str(Severity.ERROR),
        topic=audited.metadata.topic,
        partition=audited.metadata.partition,
        broker_id=broker,
        summary=summary,
        about=str(FindingAbout.PARTITION if broker == NOBODY else FindingAbout.REPLICA),
        leader_id=audited.leadership.leader_id,
        leader_source=audited.leadership.source,
        inferred_because=audited.inferred_because,
    )
