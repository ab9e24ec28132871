"""What a run tells a person: the single source of the terminal's text and of the head of `--json`. Counts and the worst, never all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import SEVERITIES, Severity, Verdict
from replica_audit.report.facts.acknowledged_findings import AcknowledgedGroup
from replica_audit.report.facts.doubts import NO_DOUBTS, Doubts
from replica_audit.report.facts.exit_code import compared_followers
from replica_audit.report.facts.transaction_rows import ExplainedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding, as its line shows it. Offsets as in `replica_verdicts`; None where there is nothing to say.

    `fetcher_fails` and `still_diverged` are of the truncation that applies.
    """

    cluster_id: str
    verdict: str
    severity: str
    topic: str
    partition: int
    leader_id: int
    follower_id: int
    leader_source: str
    divergence_offset: int | None
    truncation_offset: int | None
    restart_offset: int | None
    fetcher_fails: bool
    still_diverged: bool
    removed_records: int | None
    removed_committed: int | None
    already_truncated: bool | None
    reason: str
    evidence: str | None
    inferred_because: str | None = None
    removed_below_high_watermark: int | None = None
    commit_evidence: str | None = None
    cause: str | None = None
    records_lost: int | None = None

    @property
    def loses_records(self) -> int | None:
        """Truncated records that the leader does not hold; of a run of an older version all that are truncated."""
        return self.removed_records if self.records_lost is None else self.records_lost

    @property
    def proven_committed(self) -> int | None:
        """Lost offsets that were committed; None where something is lost, or may be, and nothing proves that it was."""
        return None if not self.removed_committed and self.loses_records != 0 else self.removed_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class InputProblem:
    """One row of `input_errors`."""

    path: str
    line: int | None
    byte_offset: int | None
    code: str
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One group's position that a truncation affects. Columns of `consumer_impacts`."""

    cluster_id: str
    group_id: str
    topic: str
    partition: int
    committed_offset: int
    committed_leader_epoch: int
    validation_result: str
    reset_offset: int | None
    records_gone: int | None
    records_reread: int | None
    records_missed: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One replica as the leader. Columns of `what_if_leaders`; what a replica that cannot be read would lose is None."""

    cluster_id: str
    topic: str
    partition: int
    candidate_id: int
    rank: int | None
    is_leader: bool
    lost_records: int | None
    lost_bytes: int | None
    lost_committed: int | None
    reason: str
    lost_below_high_watermark: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Electable:
    """One replica of a partition without a leader. Columns of `what_if_leaders`; what cannot be told is None."""

    candidate_id: int
    rank: int | None
    in_isr: bool
    in_elr: bool | None
    election: str | None
    broker_up: bool | None
    stopped_cleanly: bool | None
    log_end_offset: int | None
    lost_offsets: int | None
    lost_records: int | None
    lost_committed: int | None
    followers_failing: int | None
    followers_diverged: int | None
    unread_replicas: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflinePartition:
    """One partition that nobody leads, by the metadata. Columns of `findings`."""

    cluster_id: str
    severity: str
    topic: str
    partition: int
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_leader_id: int | None = None
    leaderless_since: datetime | None = None
    cluster_stopped: bool | None = None
    candidates: tuple[Electable, ...] | None = None
    summary: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFinding:
    """A row of `findings` that is not a verdict on a follower, or that this run did not see.

    `hanging` are the first transactions that hang, where it is about such and the list that has it shows them. `last_seen_run_id`: which
    run shows it; of one that this run did not see None if that run is no longer kept.
    """

    cluster_id: str
    code: str
    severity: str
    topic: str
    partition: int
    broker_id: int
    summary: str
    status: str
    leader_id: int | None = None
    hanging: tuple[ExplainedTransaction, ...] | None = None
    last_seen_run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestCapture:
    """The replica that was collected first: when, of which broker, and whole days before the run began."""

    broker_id: int
    captured_at: datetime
    days_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One audited cluster.

    `label` is the end of its path, as short as it can be while no other cluster has the same. `verdicts` counts followers, worst first.
    `oldest_capture` is None if nothing of it was collected. `oldest_check` is when that collected segment was verified whose last check is
    the longest ago, None if none is known; `never_checked` how many collected replicas have a segment that never was.
    `last_seen_run_id`: the run that read the cluster last; None: this one did.
    `missing_broker_ids`: brokers that an earlier run had and this one lacks.
    """

    cluster_id: str
    path: str
    label: str
    brokers: int
    replicas: int
    partitions: int
    protocol: str
    protocol_reason: str
    metadata: bool
    inferred_leaders: int
    verdicts: dict[str, int]
    input_errors: int
    unclean_elections: int
    affected_groups: int
    affected_positions: int
    offline_partitions: int = 0
    oldest_capture: OldestCapture | None = None
    oldest_check: datetime | None = None
    records_unread: int = 0
    never_checked: int = 0
    last_seen_run_id: str | None = None
    missing_broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlace:
    """A partition that a decision is about."""

    cluster_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDecision:
    """What somebody has to decide, in a sentence. `partitions` are the first that it is about, `urgency` what kind of thing it is."""

    text: str
    urgency: str
    partitions: tuple[DecisionPlace, ...]


def findings_about_followers(clusters: Sequence[Cluster]) -> int:
    """Followers whose verdict is a finding."""
    counts = ((SEVERITIES[Verdict(verdict)], count) for cluster in clusters for verdict, count in cluster.verdicts.items())
    return sum(count for severity, count in counts if severity is not Severity.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, of `inputs`; `warehouse` is empty if it keeps no tables.

    `decisions` are what somebody has to decide, in plain sentences, worst first.
    `findings` are the worst about followers, of `finding_count` in all; `problems` the first, of `problem_count`.
    `offline` are the first of the partitions that nobody leads, `others` the first findings that are neither these nor about a follower's
    verdict; `partition_codes` counts both by code, without leaders that cannot be read.
    `impacts` are the worst of the affected positions. `candidates` are all replicas of the partitions in which another leader would lose
    less, `best_led_partitions` counts those with a loss that no other leader would make smaller, `already_lost_partitions` those where
    brokers have truncated since what no other one holds; all only if every replica was tried.
    `new_findings` counts those that no earlier run left open by severity, `newest` are the worst of them; `is_compared`: an earlier run
    left some open. `not_confirmed` are the worst of those that an earlier run found, and this one could not check. Nothing of this counts
    findings that are acknowledged: of these `acknowledged_count` are open, `acknowledgements` are the entries about open findings, also
    those that no longer hold, and `acknowledged_verdicts` counts followers. `doubts`: what else keeps it from being an all-clear.
    """

    run_id: str
    warehouse: str
    exit_code: int
    fail_on: str
    seconds: float
    clusters: tuple[Cluster, ...]
    findings: tuple[Finding, ...]
    finding_count: int
    impacts: tuple[Impact, ...]
    candidates: tuple[Choice, ...]
    best_led_partitions: int
    already_lost_partitions: int
    problems: tuple[InputProblem, ...]
    problem_count: int
    changes: dict[str, int]
    offline: tuple[OfflinePartition, ...] = ()
    others: tuple[ReplicaFinding, ...] = ()
    partition_codes: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    decisions: tuple[ReportedDecision, ...] = ()
    new_findings: Mapping[str, int] = field(default_factory=dict)
    newest: tuple[ReplicaFinding, ...] = ()
    not_confirmed: tuple[ReplicaFinding, ...] = ()
    is_compared: bool = False
    acknowledged_count: int = 0
    acknowledgements: tuple[AcknowledgedGroup, ...] = ()
    acknowledged_verdicts: Mapping[str, int] = field(default_factory=dict)
    doubts: Doubts = NO_DOUBTS

    @property
    def follower_findings(self) -> int:
        """Followers whose verdict is a finding that is not acknowledged."""
        return findings_about_followers(self.clusters) - sum(self.acknowledged_verdicts.values())

    @property
    def unreadable_leaders(self) -> int:
        """The findings about leaders whose logs cannot be read."""
        return self.finding_count - self.follower_findings - sum(self.partition_codes.values())

    @property
    def offline_count(self) -> int:
        """Partitions that nobody leads."""
        return self.partition_codes.get(PartitionCode.OFFLINE_PARTITION, 0)

    @property
    def compared_followers(self) -> int:
        """Followers that could be compared with their leaders; 0: the run proves nothing."""
        return sum(compared_followers(cluster.verdicts) for cluster in self.clusters)

    def as_json(self) -> dict[str, Any]:
        """The same content as plain values."""
        return {**asdict(self), "compared_followers": self.compared_followers}
