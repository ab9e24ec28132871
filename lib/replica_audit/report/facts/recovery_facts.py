"""What a run says that somebody has to act upon, of one cluster: what a plan and the decisions at the top of a report are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.explained_rows import RejoinOnceCorrected
from replica_audit.report.facts.run_report import OfflinePartition
from replica_audit.report.facts.still_open import NOTHING_OPEN, MissingPart, StillOpen
from replica_audit.report.facts.transaction_rows import ExplainedTransaction

PartitionKey = tuple[str, int]
ReplicaKey = tuple[str, int, int]  # topic, partition, broker id


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedVerdict:
    """A follower whose verdict is a finding. Columns of `replica_verdicts`."""

    topic: str
    partition: int
    leader_id: int
    follower_id: int
    leader_source: str
    verdict: str
    severity: str
    truncation_offset: int | None = None
    restart_offset: int | None = None
    removed_records: int | None = None
    lost_records: int | None = None
    removed_committed: int | None = None
    already_truncated: bool | None = None
    wrong_lines_broker_id: int | None = None
    cause: str | None = None
    removed_offsets: int | None = None
    lost_offsets: int | None = None
    divergence_offset: int | None = None

    @property
    def key(self) -> PartitionKey:
        """Its partition."""
        return self.topic, self.partition

    @property
    def will_be_cut(self) -> bool:
        """Whether it truncates records that are on its disk still and that its leader does not hold.

        Of an inconclusive one nobody knows, retention is not loss, and where the logs agree the same records are fetched again.
        """
        is_cut = self.truncation_offset is not None or self.restart_offset is not None
        differs = self.divergence_offset is not None or self.verdict in (Verdict.STALE_TAIL, Verdict.COMMITTED_LOSS)
        is_open = not self.already_truncated and self.verdict != Verdict.INCONCLUSIVE
        return is_cut and differs and is_open and self.lost_offsets != 0

    @property
    def may_hold_more(self) -> bool:
        """Whether it has, or may have, on its disk what its leader does not, so that a truncation would remove it."""
        differs = self.divergence_offset is not None or self.verdict in (Verdict.STALE_TAIL, Verdict.COMMITTED_LOSS, Verdict.INCONCLUSIVE)
        return differs and not self.already_truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedSetAside:
    """A log that its broker sets aside when it starts. Columns of `findings`."""

    topic: str
    partition: int
    broker_id: int

    @property
    def key(self) -> PartitionKey:
        """Its partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedRole:
    """A replica. Columns of `replica_roles`."""

    topic: str
    partition: int
    broker_id: int
    leader_id: int
    standing: str
    in_isr: bool
    position: int | None = None
    min_insync_replicas: int | None = None
    unclean_leader_election: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSource:
    """A line of a corrected file, and where its start offset is from."""

    epoch: int
    start_offset: int
    source: str
    from_broker_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedLog:
    """A replica directory. Columns of `replica_logs`."""

    topic: str
    partition: int
    broker_id: int
    log_dir: str
    directory: str
    state: str
    log_start_offset: int | None
    log_end_offset: int | None
    unreadable_reason: str | None
    corrected_checkpoint: str | None = None
    corrected_entries: tuple[LineSource, ...] | None = None
    rejoins_once_corrected: tuple[RejoinOnceCorrected, ...] | None = None
    not_corrected_because: str | None = None

    @property
    def is_healed(self) -> bool:
        """Whether there is a corrected leader-epoch-checkpoint with which, replayed, every follower catches up, and this one with it."""
        rejoins = self.rejoins_once_corrected or ()
        return self.corrected_checkpoint is not None and all(one.catches_up for one in rejoins) and not self.stays_diverged

    @property
    def stays_diverged(self) -> bool:
        """Whether this replica, as a follower with its file corrected, keeps batches that are not the leader's."""
        return any(one.still_diverged for one in self.rejoins_once_corrected or () if one.follower_id == self.broker_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedCut:
    """What a replica does when it follows a candidate: an element of `what_if_leaders.follower_cuts`.

    `log_end_offset`: where its log ends, said where nobody counted what it truncates.
    """

    broker_id: int
    truncation_offset: int | None
    restart_offset: int | None
    removed_offsets: int | None
    removed_records: int | None
    removed_committed: int | None
    catches_up: bool
    still_diverged: bool
    divergence_offset: int | None = None
    removed_bytes: int | None = None
    log_end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedCandidate:
    """A replica that could lead a partition without a leader. Columns of `what_if_leaders`."""

    topic: str
    partition: int
    candidate_id: int
    log_end_offset: int | None
    follower_cuts: tuple[ActedCut, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedGroup:
    """A group that a truncation affects. Columns of `consumer_impacts`."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    validation_result: str
    reset_offset: int | None
    records_gone: int | None
    records_reread: int | None
    records_missed: int | None
    affected: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedTransaction(ExplainedTransaction):
    """A transaction that hangs. Columns of `open_transactions`."""

    topic: str
    partition: int
    leader_id: int = -1
    leader_source: str = ""


@dataclass(frozen=True, kw_only=True)
class RecoveryFacts:
    """One cluster of a run. `verdicts` are those that are findings; `logs` and `roles` those of partitions that have any of the rest.

    `candidates` are of partitions without a leader. `inconclusive` counts the followers that could not be compared, `problems` the rows of
    `input_errors`. `brokers` are all of the cluster, where some of them are `gone`: those that an operator says will never come back.
    `cut_copies`: verdicts on replicas of these, whose copies hold what their leaders do not. `protocol`: the cluster's truncation rule.
    `not_read`: unreadable replicas of which the audit could not read a file, or the directory; `had_a_tail`: those that by an earlier run
    hold what their leader does not, which this run could not check; `bad_ends`: one for each finding about the end of a replica's log.
    """

    run_id: str
    cluster_id: str
    offline: tuple[OfflinePartition, ...] = ()
    verdicts: tuple[ActedVerdict, ...] = ()
    roles: tuple[ActedRole, ...] = ()
    logs: tuple[ActedLog, ...] = ()
    groups: tuple[ActedGroup, ...] = ()
    transactions: tuple[ActedTransaction, ...] = ()
    candidates: tuple[ActedCandidate, ...] = ()
    inconclusive: int = 0
    problems: int = 0
    brokers: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    cut_copies: tuple[ActedVerdict, ...] = ()
    protocol: str | None = None
    not_read: frozenset[ReplicaKey] = frozenset()
    had_a_tail: frozenset[ReplicaKey] = frozenset()
    bad_ends: tuple[ReplicaKey, ...] = ()
    still_open: StillOpen = NOTHING_OPEN
    set_aside: tuple[ActedSetAside, ...] = ()
    missing: MissingPart | None = None

    @cached_property
    def replicas(self) -> dict[PartitionKey, list[ActedRole]]:
        """The replicas of each partition, in the order of their assignment, where it is known."""
        found: dict[PartitionKey, list[ActedRole]] = {}
        for role in sorted(self.roles, key=lambda one: (one.position is None, one.position or 0, one.broker_id)):
            found.setdefault((role.topic, role.partition), []).append(role)
        return found

    @cached_property
    def leaderless(self) -> dict[PartitionKey, OfflinePartition]:
        """The partitions that nobody leads."""
        return {(one.topic, one.partition): one for one in self.offline}

    @cached_property
    def corrected(self) -> frozenset[ReplicaKey]:
        """The replicas whose own leader-epoch-checkpoint is to be corrected."""
        return frozenset((log.topic, log.partition, log.broker_id) for log in self.logs if log.state == "current" and log.is_healed)

    @cached_property
    def healed_by_leader(self) -> dict[ReplicaKey, RejoinOnceCorrected]:
        """Followers that come right with the corrected file of their leader; with its wrong one they may truncate elsewhere."""
        return {replica: one for replica, one in self._once_leader_corrected.items() if not one.still_diverged}

    @cached_property
    def _once_leader_corrected(self) -> dict[ReplicaKey, RejoinOnceCorrected]:
        return {
            (log.topic, log.partition, one.follower_id): one
            for log in self.logs
            if (log.topic, log.partition, log.broker_id) in self.corrected and (log.topic, log.partition) not in self.leaderless
            for one in log.rejoins_once_corrected or ()
            if log.state == "current" and one.leader_id == log.broker_id
            if one.follower_id not in self.gone and (log.topic, log.partition, one.follower_id) not in self.corrected
        }

    @cached_property
    def cut_once_corrected(self) -> dict[ReplicaKey, RejoinOnceCorrected]:
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
            if verdict.may_hold_more and replica in self._once_leader_corrected:
                found[replica] = self._once_leader_corrected[replica]
        return {replica: one for replica, one in found.items() if one.is_cut}

    def cuts_under(self, topic: str, partition: int, candidate_id: int) -> tuple[ActedCut, ...]:
        """What each replica of a partition without a leader does when it follows a candidate; empty where that is not known."""
        return self._cuts.get((topic, partition, candidate_id)) or ()

    def log_of(self, topic: str, partition: int, broker_id: int) -> ActedLog | None:
        """The current directory of a replica; None if it is not in the input."""
        return self._current.get((topic, partition, broker_id))

    @cached_property
    def _cuts(self) -> dict[tuple[str, int, int], tuple[ActedCut, ...] | None]:
        return {(one.topic, one.partition, one.candidate_id): one.follower_cuts for one in self.candidates}

    @cached_property
    def _current(self) -> dict[tuple[str, int, int], ActedLog]:
        return {(one.topic, one.partition, one.broker_id): one for one in self.logs if one.state == "current"}


def keys_of(rows: Iterable[ActedVerdict | ActedGroup | ActedTransaction | OfflinePartition | ActedLog]) -> set[PartitionKey]:
    """The partitions of rows."""
    return {(row.topic, row.partition) for row in rows}
