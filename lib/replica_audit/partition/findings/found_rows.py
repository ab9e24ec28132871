"""What was found of one partition → its findings with their facts, and what was found in order, which closes earlier findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from replica_audit.partition.findings.audited import MOST_NESTED, NOBODY, Audited, of_verdict
from replica_audit.partition.findings.transactions import hanging_of
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.replicas.copied_at import copied_at_ms
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.comparison.observed import EventKind
from replica_audit.protocol.comparison.pair import missing_everywhere
from replica_audit.protocol.exchange.cuts import lies_inside_a_batch
from replica_audit.protocol.exchange.replica import Replica, lost_to_recovery
from replica_audit.protocol.transactions.open_transactions import hanging_sentence, marker_missing_sentence
from replica_audit.protocol.verdict.partition_findings import (
    FETCH_FAILS,
    FailedFetch,
    FindingAbout,
    LostEnd,
    PartitionCode,
    electable_by,
    gone_sentence,
    last_leader,
    leaderless_since_ms,
    looks_at_table,
    lost_ends,
    missing_epoch,
    missing_sentence,
    offline_sentence,
    outside_isr,
    severity_of_offline,
    torn_sentence,
    was_stopped_in_order,
)
from replica_audit.protocol.verdict.reasons import recovery_cuts_batches
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.rows.codes import Severity
from replica_audit.rows.columns import utc
from replica_audit.rows.findings import CheckedPartition, ElectionChoice, FoundFinding
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.records import HangingTransaction


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


def found_rows(audited: Audited) -> Iterator[FoundFinding]:
    """Every finding."""
    yield from _of_partition(audited)
    yield from _of_topic_ids(audited)
    yield from _of_leader(audited)
    yield from _of_followers(audited)
    yield from _of_logs(audited)
    yield from replica_findings(audited)


def checked_row(audited: Audited) -> CheckedPartition:
    """What was found in order."""
    metadata, leader = audited.metadata, audited.replicas.get(audited.leadership.leader_id)
    known = audited.known_leader
    has_epoch = known is not None and looks_at_table(known, audited.context) and not list(_missing_epoch(audited))
    leads = [leader.broker_id] if leader is not None and not leader.unreadable and leader.log.went_back is None else []
    clean = [row.follower_id for row in audited.made.verdicts if row.severity == Severity.NONE] if leads else []
    return CheckedPartition(
        topic=metadata.topic,
        partition=metadata.partition,
        leader_id=audited.leadership.leader_id,
        leader_source=audited.leadership.source,
        leader_has_epoch=has_epoch,
        has_no_hanging_transaction=audited.open_transactions is not None and not hanging_of(audited.open_transactions),
        isr=metadata.isr,
        clean=(*leads, *clean),
        same_batches=tuple(sorted(audited.made.same_batches)),
        same_records=tuple(row.follower_id for row in audited.made.verdicts if row.differing_keys == ()),
    )


def _of_followers(audited: Audited) -> Iterator[FoundFinding]:
    applied = {row.follower_id: row for row in audited.made.points if row.applies}
    for verdict in audited.made.verdicts:
        if verdict.severity != Severity.NONE:
            point = applied.get(verdict.follower_id)
            yield replace(
                of_verdict(audited, verdict, verdict.verdict, verdict.severity, verdict.reason),
                fetcher_fails=bool(point and point.fetcher_fails),
                still_diverged=bool(point and point.still_diverged),
            )
    for verdict in audited.made.verdicts:
        opened = [one.opened for one in audited.without_markers if one.follower_id == verdict.follower_id]
        if opened:
            yield of_verdict(audited, verdict, PartitionCode.MARKER_MISSING, str(Severity.ERROR), marker_missing_sentence(opened))
    yield from _outside_isr(audited)


def recovery_takes(broker: int, leader_id: int, replicas: Mapping[int, Replica]) -> tuple[int, int] | None:
    """What log recovery takes of a replica and its leader does not hold, as offsets [first, end); None: nothing.

    `leader_id`: of a leader, and where the leader is a guess, the replica's own: then what nobody else holds.
    """
    own = replicas.get(broker)
    others = [one for other, one in replicas.items() if other != broker and leader_id in (broker, other)]
    lost = [] if own is None else lost_to_recovery(own, others or [one for other, one in replicas.items() if other != broker])
    return (lost[0].first_offset, lost[-1].end_offset) if lost else None


def _recovery_cuts(audited: Audited, leader: Loaded) -> str | None:
    """What log recovery takes away of the leader's log that no other replica will hold, in words; None if nothing."""
    cut = recovery_takes(leader.broker_id, leader.broker_id, audited.replicas)
    return None if cut is None or leader.log is None else recovery_cuts_batches(leader.log, *cut)


def _of_leader(audited: Audited) -> Iterator[FoundFinding]:
    leader = audited.compared.get(audited.leadership.leader_id)
    why = None if leader is None or leader.not_whole else leader.unreadable or leader.goes_back or _recovery_cuts(audited, leader)
    if leader is not None and why:
        found = _leads(audited, Verdict.UNREADABLE, SEVERITIES[Verdict.UNREADABLE], f"the leader itself: {why}")
        yield replace(found, damaged=audited.damage_of(leader.broker_id))
    yield from _missing_epoch(audited)
    yield from _missing_offsets(audited)
    hangs = hanging_of(audited.open_transactions or ())
    if hangs:
        said = hanging_sentence([(one.first_offset, one.producer_id, one.producer_epoch) for one in hangs], hangs[0].last_stable_offset)
        found = _leads(audited, PartitionCode.HANGING_TRANSACTION, Severity.ERROR, said)
        yield replace(found, hanging=tuple(map(HangingTransaction.of, hangs[:MOST_NESTED])))


def _of_logs(audited: Audited) -> Iterator[FoundFinding]:
    for incident in audited.incidents:
        if incident.severity != Severity.NONE:
            broker = NOBODY if incident.broker_id is None else incident.broker_id  # a log that does not say whose it is
            yield FoundFinding(
                finding_key=audited.finding_key(incident.kind, broker),
                code=incident.kind,
                severity=incident.severity,
                topic=incident.topic,
                partition=incident.partition,
                broker_id=broker,
                summary=incident.summary,
                about=str(FindingAbout.BROKER_LOG),
            )


def _leads(audited: Audited, code: Verdict | PartitionCode, severity: Severity, summary: str) -> FoundFinding:
    """A finding about the leader's own replica."""
    leadership = audited.leadership
    return FoundFinding(
        finding_key=audited.finding_key(code, leadership.leader_id),
        code=str(code),
        severity=str(severity),
        topic=audited.metadata.topic,
        partition=audited.metadata.partition,
        broker_id=leadership.leader_id,
        summary=summary,
        about=str(FindingAbout.LEADER),
        leader_id=leadership.leader_id,
        leader_source=leadership.source,
        inferred_because=audited.inferred_because,
        leader_epoch=audited.metadata.leader_epoch,
    )


def _missing_epoch(audited: Audited) -> Iterator[FoundFinding]:
    leader, metadata = audited.known_leader, audited.metadata
    if leader is None:
        return
    began = next((e.timestamp_ms for e in metadata.elections if e.leader_epoch == metadata.leader_epoch), metadata.known_at_ms)
    copy = audited.copies.get(leader.broker_id)
    found = missing_epoch(
        leader,
        audited.context,
        began_at_ms=began,
        copied_at_ms=copied_at_ms(leader.broker_id, audited.compared),
        known_epoch=copy.leader_epoch if copy else None,
    )
    if found is not None:
        yield replace(
            _leads(audited, PartitionCode.LEADER_EPOCH_MISSING, found.severity, found.reason),
            table_epoch=found.table_epoch,
            known_epoch=found.known_epoch,
            is_certain=found.is_certain,
        )


def _missing_offsets(audited: Audited) -> Iterator[FoundFinding]:
    """Holes that every replica has: no two of them differ there."""
    leader = audited.replicas.get(audited.leadership.leader_id)
    if leader is None or leader.unreadable or audited.is_compacted:
        return
    holes = missing_everywhere(leader, (one for one in audited.replicas.values() if one is not leader))
    if holes:
        yield _leads(audited, PartitionCode.OFFSETS_MISSING, Severity.ERROR, missing_sentence(holes))


def _outside_isr(audited: Audited) -> Iterator[FoundFinding]:
    leader = audited.known_leader
    for verdict in audited.made.verdicts if leader is not None else ():
        follower = audited.replicas.get(verdict.follower_id)
        if leader is None or follower is None:
            continue
        copied = [audited.compared[replica.broker_id].files.captured_at_ms for replica in (leader, follower)]
        found = outside_isr(
            verdict.verdict,
            leader,
            follower,
            audited.metadata,
            fenced=bool(audited.cluster.fenced.get(follower.broker_id)),
            copied_at_ms=None if None in copied else max(at for at in copied if at is not None),
        )
        if found is not None:
            yield replace(
                of_verdict(audited, verdict, str(PartitionCode.IN_SYNC_OUTSIDE_ISR), str(found.severity), found.reason),
                isr=tuple(found.isr),
                is_certain=found.is_certain,
            )


def _of_partition(audited: Audited) -> Iterator[FoundFinding]:
    metadata = audited.metadata
    if not metadata.no_leader:
        return
    cleanly = [broker for broker, one in audited.compared.items() if one.files.clean_shutdown]
    losing = [one.candidate_id for one in audited.choices if one.lost_offsets != 0 or one.followers_diverged or one.followers_failing]
    losing += [found.broker_id for found in replica_findings(audited)]  # what is found of a partition as a whole is of broker -1
    stopped = was_stopped_in_order(metadata, cleanly, _running(audited.cluster, cleanly), losing)
    since = utc(leaderless_since_ms(metadata))
    led = last_leader(metadata)
    yield FoundFinding(
        finding_key=audited.finding_key(PartitionCode.OFFLINE_PARTITION, NOBODY),
        code=str(PartitionCode.OFFLINE_PARTITION),
        severity=str(severity_of_offline(stopped=stopped)),
        topic=metadata.topic,
        partition=metadata.partition,
        broker_id=NOBODY,
        summary=offline_sentence(metadata, led, stopped=stopped),
        about=str(FindingAbout.PARTITION),
        leader_id=NOBODY,
        leader_source=metadata.source,
        leader_epoch=metadata.leader_epoch,
        isr=metadata.isr,
        elr=metadata.elr,
        last_leader_id=led,
        leaderless_since=since,
        cluster_stopped=stopped,
        candidates=tuple(ElectionChoice.of(choice) for choice in audited.choices),
    )


def _of_topic_ids(audited: Audited) -> Iterator[FoundFinding]:
    """That nobody can tell which topic id is right: an error where records may be under the wrong one by what the metadata says."""
    doubt, metadata = audited.ids_in_doubt, audited.metadata
    if doubt is not None:
        yield FoundFinding(
            finding_key=audited.finding_key(PartitionCode.TOPIC_ID_CONFLICT, NOBODY),
            code=str(PartitionCode.TOPIC_ID_CONFLICT),
            severity=str(Severity.WARNING if doubt.known is None else Severity.ERROR),
            topic=metadata.topic,
            partition=metadata.partition,
            broker_id=NOBODY,
            summary=doubt.sentence,
            about=str(FindingAbout.PARTITION),
            leader_id=audited.leadership.leader_id,
            leader_source=audited.leadership.source,
        )


def _running(cluster: ClusterFacts, stopped_cleanly: Collection[int]) -> list[bool]:
    """Of every broker that is known, whether it runs; fenced by the metadata log, or with the marker of a clean shutdown, it does not."""
    brokers = {*cluster.broker_states, *cluster.fenced, *stopped_cleanly}
    stopped = {*stopped_cleanly, *(broker for broker, fenced in cluster.fenced.items() if fenced)}
    return [broker not in stopped and cluster.broker_states.get(broker) in ("up", "paused") for broker in brokers]
