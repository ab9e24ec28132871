"""What a run says of one cluster that somebody has to act upon: what a plan and the decisions at the top of a report are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from replica_audit.protocol.cluster.fencing import DOWN
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.still_open import NOTHING_OPEN, MissingPart, StillOpen
from replica_audit.rows.codes import Cause
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.records import OpenTransactionRow
from replica_audit.rows.replicas import FollowerOnceCorrected, ReplicaLog, ReplicaRole
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.starts import BrokerStart, ReplicaStart, StartBecause
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader

PartitionKey = tuple[str, int]
ReplicaKey = tuple[str, int, int]  # topic, partition, broker id
_LOSES = (Verdict.STALE_TAIL, Verdict.COMMITTED_LOSS)
_SHARES = (*_LOSES, Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT)


def will_be_cut(verdict: ReplicaVerdict) -> bool:
    """Whether a follower truncates records that are on its disk still and that its leader does not hold.

    Of an inconclusive one nobody knows, retention is not loss, and where the logs agree the same records are fetched again.
    """
    is_cut = verdict.truncation_offset is not None or verdict.restart_offset is not None
    differs = verdict.divergence_offset is not None or verdict.verdict in _LOSES
    is_open = not verdict.already_truncated and verdict.verdict != Verdict.INCONCLUSIVE
    return is_cut and differs and is_open and verdict.lost_offsets != 0


def is_emptied(verdict: ReplicaVerdict) -> bool:
    """Whether a follower ends below its leader's log start and starts again with an empty log: whether the leader held that is unknown."""
    return verdict.cause == Cause.NO_COMMON_RANGE and verdict.restart_offset is not None


def known_cut(verdict: ReplicaVerdict) -> bool:
    """Whether a follower, once it runs, removes records that its leader does not hold, and how many is known.

    Besides `will_be_cut` one that the leader's retention makes empty its log: nothing can be compared, but what it removes is certain.
    """
    return will_be_cut(verdict) or (is_emptied(verdict) and not verdict.already_truncated and verdict.removed_records not in (None, 0))


def lacks_keys(verdict: ReplicaVerdict) -> bool:
    """Whether a follower lacks keys, or may, once it has truncated below what its cleaner had compacted: the broker does not notice."""
    return will_be_cut(verdict) and bool(verdict.cleaned_beyond_cut) and verdict.differing_keys != ()


def may_hold_more(verdict: ReplicaVerdict) -> bool:
    """Whether a follower has, or may have, on its disk what its leader does not, so that a truncation would remove it."""
    differs = verdict.divergence_offset is not None or verdict.verdict in (*_LOSES, Verdict.INCONCLUSIVE)
    return differs and not verdict.already_truncated


def as_cut(verdict: ReplicaVerdict) -> FollowerCut:
    """The truncation of a verdict, as `what_if_leaders` has those of candidates."""
    names = ("truncation_offset", "restart_offset", "divergence_offset", "removed_offsets", "removed_records", "removed_bytes")
    return FollowerCut(
        broker_id=verdict.follower_id,
        **{name: getattr(verdict, name) for name in names},
        removed_committed=verdict.removed_committed,
        catches_up=True,
        still_diverged=False,
        lost_by_transaction=verdict.lost_by_transaction,
    )


def unknown_cut(
    broker: int, truncation_offset: int | None = None, restart_offset: int | None = None, divergence_offset: int | None = None
) -> FollowerCut:
    """A truncation of which it is not known how much it removes."""
    return FollowerCut(
        broker_id=broker,
        truncation_offset=truncation_offset,
        restart_offset=restart_offset,
        divergence_offset=divergence_offset,
        removed_offsets=None,
        removed_records=None,
        removed_bytes=None,
        removed_committed=None,
        catches_up=True,
        still_diverged=False,
    )


def cut_as_corrected(corrected: FollowerOnceCorrected, verdict: ReplicaVerdict | None) -> FollowerCut:
    """What a replica truncates with the corrected files; how much is known only if it is cut there without them, too."""
    offsets = corrected.truncation_offset, corrected.restart_offset
    if verdict is not None and (verdict.truncation_offset, verdict.restart_offset) == offsets:
        return as_cut(verdict)
    return unknown_cut(corrected.follower_id, *offsets, None if verdict is None else verdict.divergence_offset)


@dataclass(frozen=True, kw_only=True)
class RecoveryFacts:
    """One cluster of a run. `verdicts` are those that are findings; `logs` and `roles` those of partitions that have any of the rest.

    `candidates` are of partitions without a leader. `brokers` are all of the cluster, where some of them are `gone`: those that an operator
    says will never come back. `cut_copies`: verdicts on replicas of these, whose copies hold what their leaders do not. `protocol`: the
    cluster's truncation rule. `not_read`: unreadable replicas of which the audit could not read a file, or the directory; `had_a_tail`:
    those that by an earlier run hold what their leader does not, which this run could not check; `bad_ends`: one for each finding about the
    end of a replica's log; `short_copies` those of them whose copies end below their own high watermark; `never_fetch`: followers whose
    fetcher fails forever; `lack_markers`: replicas without the end of a transaction, which they do not fetch any more; `agreeing`: the
    verdicts of these two, and of partitions with a log without topic id, where they are no findings.
    `doubted`: problems of the input that make it a guess whose files they are.
    `kafka_version`: the lowest of the brokers. `starts`: what brokers' starts do to replicas for which they are not plainly safe;
    `broker_starts`: a row for each broker. `held`: brokers that the plan does not start as they are.
    `holding_alone`: replicas with a log that was set aside or deleted, and holds what no current one does.
    """

    run_id: str
    cluster_id: str
    offline: tuple[RunFinding, ...] = ()
    verdicts: tuple[ReplicaVerdict, ...] = ()
    roles: tuple[ReplicaRole, ...] = ()
    logs: tuple[ReplicaLog, ...] = ()
    groups: tuple[ConsumerImpact, ...] = ()
    transactions: tuple[OpenTransactionRow, ...] = ()
    candidates: tuple[WhatIfLeader, ...] = ()
    brokers: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    cut_copies: tuple[ReplicaVerdict, ...] = ()
    protocol: str | None = None
    not_read: frozenset[ReplicaKey] = frozenset()
    had_a_tail: frozenset[ReplicaKey] = frozenset()
    bad_ends: tuple[ReplicaKey, ...] = ()
    still_open: StillOpen = NOTHING_OPEN
    missing: MissingPart | None = None
    short_copies: frozenset[ReplicaKey] = frozenset()
    never_fetch: frozenset[ReplicaKey] = frozenset()
    lack_markers: frozenset[ReplicaKey] = frozenset()
    agreeing: tuple[ReplicaVerdict, ...] = ()
    doubted: tuple[ReportedProblem, ...] = ()
    kafka_version: str | None = None
    starts: tuple[ReplicaStart, ...] = ()
    broker_starts: tuple[BrokerStart, ...] = ()
    held: frozenset[int] = frozenset()
    holding_alone: frozenset[ReplicaKey] = frozenset()

    @cached_property
    def replicas(self) -> dict[PartitionKey, list[ReplicaRole]]:
        """The replicas of each partition, in the order of their assignment, where it is known."""
        found: dict[PartitionKey, list[ReplicaRole]] = {}
        for role in sorted(self.roles, key=lambda one: (one.position is None, one.position or 0, one.broker_id)):
            found.setdefault((role.topic, role.partition), []).append(role)
        return found

    @cached_property
    def partitions_on(self) -> dict[int, list[PartitionKey]]:
        """The partitions of each broker."""
        found: dict[int, list[PartitionKey]] = {}
        for key, roles in self.replicas.items():
            for role in roles:
                found.setdefault(role.broker_id, []).append(key)
        return found

    @cached_property
    def leaderless(self) -> dict[PartitionKey, RunFinding]:
        """The partitions that nobody leads."""
        return {(one.topic, one.partition): one for one in self.offline}

    @cached_property
    def corrected(self) -> frozenset[ReplicaKey]:
        """The replicas whose own leader-epoch-checkpoint is to be corrected."""
        return frozenset((log.topic, log.partition, log.broker_id) for log in self.logs if log.state == "current" and log.is_healed)

    @cached_property
    def healed_by_leader(self) -> dict[ReplicaKey, FollowerOnceCorrected]:
        """Followers that come right with the corrected file of their leader; with its wrong one they may truncate elsewhere."""
        return {replica: one for replica, one in self._once_leader_corrected.items() if not one.still_diverged}

    @cached_property
    def _once_leader_corrected(self) -> dict[ReplicaKey, FollowerOnceCorrected]:
        return {
            (log.topic, log.partition, one.follower_id): one
            for log in self.logs
            if (log.topic, log.partition, log.broker_id) in self.corrected and (log.topic, log.partition) not in self.leaderless
            for one in log.rejoins_once_corrected or ()
            if log.state == "current" and one.leader_id == log.broker_id
            if one.follower_id not in self.gone and (log.topic, log.partition, one.follower_id) not in self.corrected
        }

    @cached_property
    def cut_once_corrected(self) -> dict[ReplicaKey, FollowerOnceCorrected]:
        """What followers truncate with the corrected files: their own, or their leader's where they may hold what it does not."""
        found = {
            (log.topic, log.partition, log.broker_id): one
            for log in self.logs
            if (log.topic, log.partition, log.broker_id) in self.corrected and (log.topic, log.partition) not in self.leaderless
            for one in log.rejoins_once_corrected or ()
            if log.state == "current" and one.follower_id == log.broker_id
        }
        for verdict in self.verdicts:
            replica = (*verdict.key, verdict.follower_id)
            if may_hold_more(verdict) and replica in self._once_leader_corrected:
                found[replica] = self._once_leader_corrected[replica]
        return {replica: one for replica, one in found.items() if one.is_cut}

    @cached_property
    def perhaps_cut_once_corrected(self) -> frozenset[ReplicaKey]:
        """Replicas of partitions without a leader that truncate with a corrected file, their own or another one's, under some leader."""
        return frozenset(
            (log.topic, log.partition, one.follower_id)
            for log in self.logs
            if (log.topic, log.partition, log.broker_id) in self.corrected and (log.topic, log.partition) in self.leaderless
            for one in log.rejoins_once_corrected or ()
            if one.is_cut
        )

    @cached_property
    def torn(self) -> frozenset[ReplicaKey]:
        """Replicas that end in half a batch after a clean stop, and that nothing else is known of."""
        return frozenset(one for one in self.bad_ends if one not in self.short_copies and one[2] not in self.gone)

    def cut_of_verdict(self, verdict: ReplicaVerdict) -> FollowerCut:
        """The truncation of a verdict; how much it removes is not known where log recovery takes more of the replica before."""
        replica = (*verdict.key, verdict.follower_id)
        if replica not in self.recovering:
            return as_cut(verdict)
        return unknown_cut(verdict.follower_id, verdict.truncation_offset, verdict.restart_offset, verdict.divergence_offset)

    @cached_property
    def recovering(self) -> dict[ReplicaKey, ReplicaStart]:
        """Replicas of which log recovery takes what nobody else holds; then they follow as any other."""
        found = (one for one in self.starts if StartBecause.RECOVERY_TRUNCATES in one.because)
        return {(one.topic, one.partition, one.broker_id): one for one in found if (one.topic, one.partition) not in self.leaderless}

    @cached_property
    def lost_at_start(self) -> frozenset[ReplicaKey]:
        """Replicas of which their broker's start truncates, sets aside or deletes what nobody else holds."""
        reasons = {
            StartBecause.TRUNCATES,
            StartBecause.RECOVERY_TRUNCATES,
            StartBecause.SETS_ASIDE,
            StartBecause.BECOMES_STRAY,
            StartBecause.DELETES,
        }
        return frozenset((one.topic, one.partition, one.broker_id) for one in self.starts if reasons & {*one.because})

    @cached_property
    def topic_ids(self) -> dict[ReplicaKey, str]:
        """Replicas that are set aside for want of a partition.metadata as soon as their brokers start, each with the id of its topic.

        Only where another replica has the id, which no broker sets aside, and holds the same records; of brokers that run only those
        that certainly have none.
        """
        strays = {one for one in self.starts if {StartBecause.BECOMES_STRAY, StartBecause.MAY_BECOME_STRAY} & {*one.because}}
        doubted = {(one.topic, one.partition, one.broker_id) for one in strays if StartBecause.BECOMES_STRAY not in one.because}
        gone = {(one.topic, one.partition, one.broker_id) for one in strays}
        found: dict[ReplicaKey, str] = {}
        for replica in sorted(gone):
            log, key = self.log_of(*replica), replica[:2]
            others = [self.log_of(*key, role.broker_id) for role in self.replicas.get(key, ()) if role.broker_id != replica[2]]
            ids = {one.topic_id: (*key, one.broker_id) for one in others if one is not None and one.topic_id is not None}
            is_doubted = replica in doubted and self.is_stopped(replica[2]) is False
            if log is None or log.topic_id is not None or is_doubted or len(ids) != 1 or {*ids.values()} & gone:
                continue
            ((topic_id, _of),) = ids.items()
            known = [one for one in others if one is not None and one.topic_id == topic_id]
            if any(self._holds_the_same(log, other) for other in known):
                found[replica] = topic_id
        return found

    def _holds_the_same(self, log: ReplicaLog, other: ReplicaLog) -> bool:
        """Whether two replicas, one of which follows the other, hold the same records where both begin."""
        key = (log.topic, log.partition)
        pair = {log.broker_id, other.broker_id}
        verdicts = [self.compared((*key, broker)) for broker in pair]
        verdict = next((one for one in verdicts if one is not None and {one.follower_id, one.leader_id} == pair), None)
        begins, ends = (log.log_start_offset, other.log_start_offset), (log.log_end_offset, other.log_end_offset)
        if verdict is None or verdict.verdict not in _SHARES or None in (*begins, *ends):
            return False
        start = max(offset for offset in begins if offset is not None)
        end = min(offset for offset in (*ends, verdict.divergence_offset) if offset is not None)
        return start < end

    @cached_property
    def settled(self) -> frozenset[ReplicaKey]:
        """Replicas of which a replay with the corrected files says what they do."""
        return self.corrected | self.healed_by_leader.keys() | self.cut_once_corrected.keys()

    @cached_property
    def verdict_of(self) -> dict[ReplicaKey, ReplicaVerdict]:
        """The finding about each follower that has one."""
        return {(*one.key, one.follower_id): one for one in self.verdicts}

    def compared(self, replica: ReplicaKey) -> ReplicaVerdict | None:
        """What a follower came to, whether that is a finding or not; None where it was not asked for."""
        return self.verdict_of.get(replica) or self._agreeing.get(replica)

    @cached_property
    def _agreeing(self) -> dict[ReplicaKey, ReplicaVerdict]:
        return {(*one.key, one.follower_id): one for one in self.agreeing}

    def is_stopped(self, broker: int) -> bool | None:
        """Whether the run saw a broker stopped; None where nothing shows it."""
        ran = self._ran.get(broker)
        if ran is not None:
            return not ran
        return False if broker in self.seen_running else True if broker in self._down else None

    @cached_property
    def lead_where_anybody_may(self) -> frozenset[int]:
        """Brokers that lead a partition of which the controller elects any replica that runs."""
        return frozenset(role.leader_id for role in self.roles if role.unclean_leader_election)

    @property
    def anybody_runs(self) -> bool:
        """Whether the run saw a broker running, which can be asked."""
        return bool(self.seen_running) or any(self._ran.values())

    @cached_property
    def _ran(self) -> dict[int, bool | None]:
        return {one.broker_id: one.runs for one in self.broker_starts}

    @property
    def held_stopped(self) -> frozenset[int]:
        """The brokers that are not started: of those that may not run."""
        return frozenset(broker for broker in self.held if self.is_stopped(broker) is not False)

    @cached_property
    def seen_running(self) -> dict[int, str]:
        """Brokers that ran when they were copied, each with what shows it: part of a sentence."""
        found: dict[int, str] = {}
        for role in self.roles:
            name = f"{role.topic}-{role.partition}"
            if role.broker_id == role.leader_id:
                found.setdefault(role.broker_id, f"it leads {name}")
            elif role.leader_id >= 0 and role.in_isr and role.standing != DOWN:
                found.setdefault(role.broker_id, f"it is in the ISR of {name}, which broker {role.leader_id} leads")
        for one in self.offline:
            for choice in one.candidates or ():
                if choice.broker_up:
                    found.setdefault(choice.candidate_id, "it is up according to the cluster's metadata")
        return found

    @cached_property
    def _down(self) -> frozenset[int]:
        stopped = {choice.candidate_id for one in self.offline for choice in one.candidates or () if choice.broker_up is False}
        return frozenset(stopped | {role.broker_id for role in self.roles if role.standing == DOWN})

    def cuts_under(self, topic: str, partition: int, candidate_id: int) -> tuple[FollowerCut, ...]:
        """What each replica of a partition without a leader does when it follows a candidate; empty where that is not known."""
        return self._cuts.get((topic, partition, candidate_id)) or ()

    def log_of(self, topic: str, partition: int, broker_id: int) -> ReplicaLog | None:
        """The current directory of a replica; None if it is not in the input."""
        return self._current.get((topic, partition, broker_id))

    @cached_property
    def logs_of(self) -> dict[ReplicaKey, list[ReplicaLog]]:
        """The directories of each replica: the current one first, then what was set aside, is deleted, or moves."""
        found: dict[ReplicaKey, list[ReplicaLog]] = {}
        for log in sorted(self.logs, key=lambda one: (one.state != "current", one.log_dir, one.directory)):
            found.setdefault((log.topic, log.partition, log.broker_id), []).append(log)
        return found

    @cached_property
    def _cuts(self) -> dict[tuple[str, int, int], tuple[FollowerCut, ...] | None]:
        return {(one.topic, one.partition, one.candidate_id): one.follower_cuts for one in self.candidates}

    @cached_property
    def _current(self) -> dict[tuple[str, int, int], ReplicaLog]:
        return {(one.topic, one.partition, one.broker_id): one for one in self.logs if one.state == "current"}


def keys_of(
    rows: Iterable[ReplicaVerdict | ConsumerImpact | OpenTransactionRow | RunFinding | ReplicaLog | ReplicaStart],
) -> set[PartitionKey]:
    """The partitions of rows."""
    return {(row.topic, row.partition) for row in rows}
