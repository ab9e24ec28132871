"""What happens to each replica of a partition when its broker starts, decided once, from the rows that the audit has of the partition.

The replays behind the rows are those of `protocol`: what a follower truncates is in its verdict, under each leader that could be elected in
`what_if_leaders`. A member of the ISR, or of the ELR where that is empty, leads as soon as its broker runs if nobody does
(PartitionChangeBuilder); any replica does where the topic allows unclean elections. For a broker that runs the same is said of a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT
from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.model.replicas import NOT_READ_WHOLE
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import is_emptied, will_be_cut
from replica_audit.recovery.start_order import lead_at_once, price_of
from replica_audit.rows.codes import Cause, Severity
from replica_audit.rows.findings import FoundFinding
from replica_audit.rows.pairs import RecordsByTransaction, ReplicaVerdict
from replica_audit.rows.replicas import ReplicaLog, ReplicaRole
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.starts import OUTCOME_OF, WORST, ReplicaStart, StartBecause, StartOutcome
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader

_OF_VERDICTS: Mapping[str, StartBecause] = {
    Verdict.LOG_MATCHING_VIOLATION: StartBecause.STAYS_DIVERGED,
    Verdict.CANNOT_REJOIN: StartBecause.CANNOT_FOLLOW,
    Verdict.TRUNCATED_OTHERWISE: StartBecause.NOT_COMPARED,
    Verdict.CONTENT_MISMATCH: StartBecause.OTHER_RECORDS,
    Verdict.COMPACTION_DIFFERS: StartBecause.OTHER_RECORDS,
    Verdict.INCONCLUSIVE: StartBecause.NOT_COMPARED,
    Verdict.STALE_TOPIC_ID: StartBecause.BECOMES_STRAY,
}
_OF_FINDINGS: Mapping[str, StartBecause] = {
    PartitionCode.TORN_AFTER_CLEAN_STOP: StartBecause.TORN_END,
    PartitionCode.ENDS_BELOW_HIGH_WATERMARK: StartBecause.SHORT_COPY,
    PartitionCode.FETCH_FAILS_FOREVER: StartBecause.CANNOT_FOLLOW,
}
GARBLED_TABLE = ("malformed", EPOCH_CHECKPOINT)
"""Code and kind of the problem of a leader-epoch-checkpoint that a broker cannot load: one replica is broken, and nothing is unread."""
_LOUD = (Severity.CRITICAL, Severity.ERROR)
_CLEAN = (Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRows:
    """The rows of one partition that decide about starts.

    `choices`: of a partition without a leader. `recovered`: the offsets [first, end) that log recovery takes of a replica and that its
    leader, or of a leader nobody, holds, by broker; `cut_by_recovery`: all whole batches that it takes.
    """

    topic: str
    partition: int
    verdicts: Sequence[ReplicaVerdict] = ()
    logs: Sequence[ReplicaLog] = ()
    roles: Sequence[ReplicaRole] = ()
    choices: Sequence[WhatIfLeader] = ()
    found: Sequence[FoundFinding] = ()
    problems: Sequence[ReportedProblem] = ()
    recovered: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    cut_by_recovery: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """What a start removes that its leader does not hold; None: not known."""

    first_offset: int | None = None
    offsets: int | None = 0
    records: int | None = 0
    committed: int | None = 0
    by_transaction: RecordsByTransaction | None = None


_NOTHING = _Loss()


def replica_starts(rows: AuditedRows) -> list[ReplicaStart]:
    """A row for each replica whose start is not plainly safe, and for each that is to lead where nobody does, by broker."""
    offline = next((one for one in rows.found if one.code == PartitionCode.OFFLINE_PARTITION), None)
    made = [_start(rows, broker, offline) for broker in _brokers(rows)]
    return [one for one in made if one.outcome != StartOutcome.SAFE or one.election is not None]


def _brokers(rows: AuditedRows) -> list[int]:
    """Whoever holds a current log, or should."""
    held = {one.broker_id for one in rows.logs if one.state == "current"}
    assigned = {one.broker_id for one in rows.roles if one.position is not None}
    stray = {one.broker_id for one in rows.found if one.code == PartitionCode.WILL_BECOME_STRAY}
    followers = {one.follower_id for one in rows.verdicts}
    return sorted(held | assigned | stray | followers)


def _start(rows: AuditedRows, broker: int, offline: FoundFinding | None) -> ReplicaStart:
    verdict = next((one for one in rows.verdicts if one.follower_id == broker), None)
    found = [one for one in rows.found if one.broker_id == broker]
    reasons = {*_of_log(rows, broker, verdict), *_of_findings(found), *_of_deleted(rows, broker, found)}
    if _is_short_everywhere(rows.found):
        reasons.add(StartBecause.SHORT_COPY)
    loss, leader_id, election = _NOTHING, _leader_of(rows, verdict), None
    if offline is None and verdict is not None:
        is_final = _fetches_nothing(rows, broker) or any(one.code == PartitionCode.FETCH_FAILS_FOREVER for one in found)
        reasons |= set(_under_leader(verdict, is_final=is_final, fails=any(one.fetcher_fails for one in found)))
        if _is_clean_under_undated(rows, verdict):
            reasons.add(StartBecause.LEADER_GUESSED)
        loss = _cut(verdict) if _truncates_alone(verdict) or StartBecause.EMPTIES in reasons else _NOTHING
        if StartBecause.LEADER_GUESSED not in reasons and _takes_the_end(verdict):
            reasons.discard(StartBecause.TORN_END)  # nothing is appended behind it
    elif offline is not None:
        best = next((one for one in rows.choices if one.rank == 1), None)
        leader_id = None if best is None else best.candidate_id
        if any(one.code == PartitionCode.WILL_BECOME_STRAY and one.broker_id == leader_id for one in rows.found):  # leads an empty log
            leader_id, led = None, _Led(reasons=(StartBecause.ELECTION_UNKNOWN,))
        else:
            led = _without_leader(rows, broker, best, offline)
        reasons |= set(led.reasons)
        loss, election = led.loss, led.election
    else:
        reasons |= set(_without_verdict(rows, broker))
    reasons, loss = _once_recovered(rows, broker, found, reasons, loss)
    if StartBecause.LEADER_DAMAGED in reasons:
        reasons.discard(StartBecause.DOES_NOT_LOAD)
    if StartBecause.TRUNCATES in reasons and _is_set_aside(found):  # what its leader lacks is set aside, not truncated
        reasons = reasons - {StartBecause.TRUNCATES} | {StartBecause.BECOMES_STRAY, StartBecause.SETS_ASIDE}
        loss = replace(loss, first_offset=None)
    alone = _held_alone(found)
    if StartBecause.BECOMES_STRAY in reasons and alone.offsets:
        reasons.add(StartBecause.SETS_ASIDE)
        loss = alone
    ordered = sorted(reasons, key=lambda one: (-WORST[OUTCOME_OF[one]], one))
    outcome = OUTCOME_OF[ordered[0]] if ordered else StartOutcome.SAFE
    return ReplicaStart(
        topic=rows.topic,
        partition=rows.partition,
        broker_id=broker,
        outcome=str(outcome),
        because=tuple(map(str, ordered)),
        leader_id=leader_id,
        election=election,
        first_offset=loss.first_offset,
        lost_offsets=loss.offsets,
        lost_records=loss.records,
        lost_committed=loss.committed,
        is_acknowledged=_is_acknowledged(found),
        lost_by_transaction=loss.by_transaction,
    )


def _without_verdict(rows: AuditedRows, broker: int) -> Iterator[StartBecause]:
    """What the start of a leader does, or of the only replica in the input."""
    if any(one.leader_id == broker and one.cause == Cause.LEADER_COPIED_EARLIER for one in rows.verdicts):
        yield StartBecause.NOT_COMPARED  # its copy is short, or of before: whether its disk holds more, nobody saw
    if not rows.verdicts and not rows.roles:
        yield StartBecause.NOT_COMPARED  # no metadata says whether there are others
    running = {one.broker_id for one in rows.logs if one.state == "current" and one.broker_ran}
    losing = (one for one in rows.verdicts if one.leader_id == broker and one.follower_id in running)
    if _is_stopped(rows, broker) and any(map(_truncates_alone, losing)):
        yield StartBecause.OTHERS_TRUNCATE


def _of_deleted(rows: AuditedRows, broker: int, found: Collection[FoundFinding]) -> Iterator[StartBecause]:
    """Whether a broker that is stopped will delete, once it starts (LogManager.loadLog), what no current log holds."""
    deleted = {
        (one.log_dir, one.directory) for one in rows.logs if one.broker_id == broker and one.state == "deleted" and not one.broker_ran
    }
    held = (one for one in found if one.code == PartitionCode.STRAY_HOLDS_RECORDS and one.severity in _LOUD)
    if any((log.log_dir, log.directory) in deleted and log.held_alone_offsets for one in held for log in one.set_aside or ()):
        yield StartBecause.DELETES


def _is_short_everywhere(found: Iterable[FoundFinding]) -> bool:
    """Whether no copy holds all committed records, so that what a start does cannot be known."""
    return any(one.code == PartitionCode.COMMITTED_RECORDS_GONE for one in found)


def _is_set_aside(found: Collection[FoundFinding]) -> bool:
    return any(one.code == PartitionCode.WILL_BECOME_STRAY and one.is_certain for one in found)


def _once_recovered(
    rows: AuditedRows, broker: int, found: Collection[FoundFinding], reasons: set[StartBecause], loss: _Loss
) -> tuple[set[StartBecause], _Loss]:
    """The reasons and the loss with what log recovery takes before anybody is asked for the end of an epoch."""
    if broker in rows.recovered and any(one.code == Verdict.UNREADABLE for one in found):
        cut, end = rows.recovered[broker]
        reasons = reasons - {StartBecause.DOES_NOT_LOAD, StartBecause.LEADER_DAMAGED} | {StartBecause.RECOVERY_TRUNCATES}
        return reasons, _Loss(first_offset=cut, offsets=end - cut, records=None, committed=None)
    is_over = any(one.follower_id == broker and one.already_truncated for one in rows.verdicts)
    if broker in rows.recovered and StartBecause.TRUNCATES not in reasons and not is_over:
        first, end = rows.recovered[broker]
        reasons = reasons | {StartBecause.RECOVERY_TRUNCATES}  # whoever leads
        return reasons, _Loss(
            first_offset=first, offsets=None if loss.offsets is None else loss.offsets + end - first, records=None, committed=None
        )
    cut, end = rows.cut_by_recovery.get(broker, (-1, -1))
    if StartBecause.TRUNCATES in reasons and loss.first_offset is not None and loss.first_offset <= cut:
        reasons = reasons | {StartBecause.RECOVERY_TRUNCATES}  # behind where the logs part: nobody counted it
        return reasons, _Loss(first_offset=loss.first_offset, offsets=end - loss.first_offset, records=None, committed=None)
    return reasons, loss


def _held_alone(found: Collection[FoundFinding]) -> _Loss:
    """What the logs of a replica that its broker sets aside alone hold."""
    logs = [log for one in found if one.code == PartitionCode.WILL_BECOME_STRAY for log in one.set_aside or () if log.held_alone_offsets]
    read = [log.held_alone_by_transaction for log in logs if log.held_alone_by_transaction is not None]
    records = sum(read, RecordsByTransaction()) if len(read) == len(logs) else None
    return _Loss(
        offsets=sum(log.held_alone_offsets for log in logs),
        records=None if records is None else records.total,
        committed=None,
        by_transaction=records,
    )


def _leader_of(rows: AuditedRows, verdict: ReplicaVerdict | None) -> int | None:
    known = verdict.leader_id if verdict is not None else next((one.leader_id for one in rows.roles), -1)
    return known if known >= 0 else None


def _is_acknowledged(found: Collection[FoundFinding]) -> bool:
    """Whether everything that was found of a replica is acknowledged."""
    loud = [one for one in found if one.severity != Severity.NONE]
    return bool(loud) and all(one.acknowledgement is not None and one.acknowledgement.state == AckState.ACKNOWLEDGED for one in loud)


def _of_log(rows: AuditedRows, broker: int, verdict: ReplicaVerdict | None) -> Iterator[StartBecause]:
    """What the replica's own directory says: whether it is there, and loads."""
    log = next((one for one in rows.logs if one.broker_id == broker and one.state == "current"), None)
    if log is None and (verdict is None or verdict.verdict == Verdict.INCONCLUSIVE):
        yield StartBecause.MISSING
    is_unreadable = log is not None and log.unreadable_reason is not None
    if is_unreadable or (verdict is not None and verdict.verdict == Verdict.UNREADABLE):
        is_read = not any(one.broker_id == broker and _is_unread(one) for one in rows.problems)
        yield StartBecause.DOES_NOT_LOAD if is_read else StartBecause.NOT_READ


def _is_unread(problem: ReportedProblem) -> bool:
    """Whether a file was not read; of a table that is garbled it is known what its broker does: it does not load the log."""
    return problem.code in NOT_READ_WHOLE and (problem.code, problem.kind) != GARBLED_TABLE


def _of_findings(found: Collection[FoundFinding]) -> Iterator[StartBecause]:
    for one in found:
        if one.code in _OF_FINDINGS:
            yield _OF_FINDINGS[one.code]
        elif one.code == PartitionCode.WILL_BECOME_STRAY and not one.is_certain:
            yield StartBecause.MAY_BECOME_STRAY
        elif one.code == PartitionCode.WILL_BECOME_STRAY and one.severity in _LOUD:  # else it fetches all of it again
            yield StartBecause.BECOMES_STRAY
        elif one.code == Verdict.UNREADABLE and one.about == "leader":
            yield StartBecause.LEADER_DAMAGED


def _is_stopped(rows: AuditedRows, broker: int) -> bool:
    """Whether the broker did not run when its replica was copied: the copy is what it starts with."""
    return any(one.broker_id == broker and one.state == "current" and one.broker_ran is False for one in rows.logs)


def _fetches_nothing(rows: AuditedRows, broker: int) -> bool:
    """Whether the broker did not run, or is fenced and nothing shows that it ran: a crash leaves no sign of its own."""
    ran = any(one.broker_id == broker and one.state == "current" and one.broker_ran for one in rows.logs)
    return _is_stopped(rows, broker) or (not ran and any(one.broker_id == broker and one.fenced for one in rows.roles))


def _under_leader(verdict: ReplicaVerdict, *, is_final: bool, fails: bool) -> Iterator[StartBecause]:
    """What a follower does where somebody leads.

    `is_final`: its copy is what it starts with: it was stopped, or fetches nothing. `fails`: it cannot append what it fetches then.
    """
    if is_final and is_emptied(verdict):
        yield StartBecause.EMPTIES
    elif verdict.verdict in _OF_VERDICTS:
        yield _OF_VERDICTS[verdict.verdict]
    is_guess = verdict.leader_source == INFERRED and verdict.inferred_because != InferredBecause.NO_LEADER
    if is_guess and verdict.verdict not in (Verdict.IDENTICAL, Verdict.INCONCLUSIVE):
        yield StartBecause.LEADER_GUESSED
    if verdict.keys_may_differ:
        yield StartBecause.NOT_COMPARED
    if _truncates_alone(verdict):
        yield from (StartBecause.TRUNCATES, *([StartBecause.CANNOT_FOLLOW] if fails else []))


def _is_clean_under_undated(rows: AuditedRows, verdict: ReplicaVerdict) -> bool:
    """Whether a follower only lacks records of a leader of which nobody says in which epoch it leads: it may be of before an election."""
    is_undated = any(one.leader_id >= 0 and one.leader_epoch == UNDEFINED_EPOCH for one in rows.roles)
    return is_undated and verdict.verdict in _CLEAN and verdict.verdict != Verdict.IDENTICAL


def _truncates_alone(verdict: ReplicaVerdict) -> bool:
    return will_be_cut(verdict) and verdict.verdict not in _CLEAN


def _takes_the_end(verdict: ReplicaVerdict) -> bool:
    """Whether a truncation takes the last batch, and with it whatever the file holds behind that (LogSegment.truncateTo)."""
    is_cut = verdict.restart_offset is not None or (verdict.truncation_offset is not None and bool(verdict.removed_offsets))
    return is_cut and not verdict.already_truncated and verdict.verdict != Verdict.INCONCLUSIVE


def _cut(verdict: ReplicaVerdict) -> _Loss:
    return _Loss(
        first_offset=verdict.truncation_offset if verdict.restart_offset is None else None,
        offsets=verdict.lost_offsets,
        records=verdict.lost_records,
        committed=verdict.removed_committed,
        by_transaction=verdict.lost_by_transaction,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Led:
    """A replica of a partition that nobody leads: why its start is not safe, what it loses, and how it is to be elected itself."""

    reasons: tuple[StartBecause, ...] = ()
    loss: _Loss = _NOTHING
    election: str | None = None


def _without_leader(rows: AuditedRows, broker: int, best: WhatIfLeader | None, offline: FoundFinding) -> _Led:
    own = next((one for one in rows.choices if one.candidate_id == broker), None)
    if not offline.cluster_stopped and (best is None or best.unread_replicas):
        return _Led(reasons=(StartBecause.ELECTION_UNKNOWN,))
    if best is None:
        return _Led()
    if broker == best.candidate_id:
        return _Led(election=None if best.unread_replicas else best.election)
    led = _following(next((one for one in best.follower_cuts or () if one.broker_id == broker), None))
    if own is not None and own.rank is not None and broker in lead_at_once(offline, rows.roles) and price_of(own) > price_of(best):
        return _Led(reasons=(*led.reasons, StartBecause.OTHER_LOSES_LESS), loss=led.loss)
    return led


def _following(cut: FollowerCut | None) -> _Led:
    """What a replica does under the leader that is to be elected."""
    if cut is None:
        return _Led()
    reasons = []
    if cut.still_diverged:
        reasons.append(StartBecause.STAYS_DIVERGED)
    if not cut.catches_up:
        reasons.append(StartBecause.CANNOT_FOLLOW)
    is_cut = (cut.truncation_offset is not None or cut.restart_offset is not None) and cut.lost_offsets != 0
    if not is_cut:
        return _Led(reasons=tuple(reasons))
    first = cut.truncation_offset if cut.restart_offset is None else None
    loss = _Loss(
        first_offset=first,
        offsets=cut.lost_offsets,
        records=cut.lost_records,
        committed=cut.removed_committed,
        by_transaction=cut.lost_by_transaction,
    )
    return _Led(reasons=(*reasons, StartBecause.TRUNCATES), loss=loss)
