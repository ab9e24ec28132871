"""What a run tells a person: the single source of the terminal's text and of the head of `--json`. Counts and the worst, never all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.facts.assessment import NO_DOUBTS, Doubts, compared_followers, exit_code_of_start
from replica_audit.rows.codes import Severity
from replica_audit.rows.columns import hints_of
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.runs import NOTHING_READ, ReportedProblem
from replica_audit.rows.starts import BrokerStart, ReplicaStart
from replica_audit.rows.what_if import WhatIfLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """A partition of a cluster."""

    cluster_id: str
    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedGroup:
    """Open findings that one entry of the file is about, `count` of them; `partitions` are of the first. `until`: the last day."""

    state: AckState
    reason: str
    who: str
    until: date
    line: int
    count: int
    codes: tuple[str, ...]
    partitions: tuple[PartitionPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A verdict on a follower that is a finding, and what becomes of the truncation that applies."""

    cluster_id: str
    row: ReplicaVerdict
    fetcher_fails: bool
    still_diverged: bool


class BrokerAnswer(NamedTuple):
    """Whether a broker may be started. `replicas` are the worst of those with something at stake."""

    start: BrokerStart
    replicas: tuple[ReplicaStart, ...]

    @property
    def exit_code(self) -> int:
        """That of the answer."""
        return exit_code_of_start(self.start)


class ProblemKind(NamedTuple):
    """Input problems of one code and one kind of file: `first` of `number`, and the paths of the next few."""

    first: ReportedProblem
    number: int
    next_paths: tuple[str, ...] = ()


class Impact(NamedTuple):
    """A position of a consumer group that a truncation affects."""

    cluster_id: str
    row: ConsumerImpact

    @property
    def place(self) -> PartitionPlace:
        """Its partition."""
        return PartitionPlace(cluster_id=self.cluster_id, topic=self.row.topic, partition=self.row.partition)


class Choice(NamedTuple):
    """A replica as the leader."""

    cluster_id: str
    row: WhatIfLeader

    @property
    def place(self) -> PartitionPlace:
        """Its partition."""
        return PartitionPlace(cluster_id=self.cluster_id, topic=self.row.topic, partition=self.row.partition)


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
    `proven_healthy` counts followers of partitions that were proven healthy before any pair was compared, None if that is not known.
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
    proven_healthy: int | None = None
    never_checked: int = 0
    last_seen_run_id: str | None = None
    missing_broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDecision:
    """What somebody has to decide, in a sentence. `partitions` are the first that it is about, `urgency` what kind of thing it is."""

    text: str
    urgency: str
    partitions: tuple[PartitionPlace, ...]


def findings_about_followers(clusters: Sequence[Cluster]) -> int:
    """Followers whose verdict is a finding."""
    counts = ((SEVERITIES[Verdict(verdict)], count) for cluster in clusters for verdict, count in cluster.verdicts.items())
    return sum(count for severity, count in counts if severity is not Severity.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, of `inputs`; `warehouse` is empty if it keeps no tables.

    `decisions` are what somebody has to decide, in plain sentences, worst first.
    `findings` are the worst about followers, of `finding_count` in all; `problems` the first, of `problem_count`,
    `problem_kinds` all of them by kind: first what leaves something unread.
    `offline` are the first of the partitions that nobody leads, `others` the first findings that are neither these nor about a follower's
    verdict; `partition_codes` counts both by code, without leaders that cannot be read.
    `impacts` are the worst of the affected positions. `candidates` are all replicas of the partitions in which another leader would lose
    less, `best_led_partitions` counts those with a loss that no other leader would make smaller, `already_lost_partitions` those where
    brokers have truncated since what no other one holds; all only if every replica was tried.
    `new_findings` counts those that no earlier run left open by severity, `newest` are the worst of them; `is_compared`: an earlier run
    left some open. `not_confirmed` are the worst of those that an earlier run found, and this one could not check;
    `kept_runs`: those of the runs that saw them last that are still there to be asked. Nothing of this counts
    findings that are acknowledged: of these `acknowledged_count` are open, `acknowledgements` are the entries about open findings, also
    those that no longer hold, and `acknowledged_verdicts` counts followers. `doubts`: what else keeps it from being an all-clear.
    `broker_starts`: whether each broker may be started; empty where an older version wrote the run.
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
    problems: tuple[ReportedProblem, ...]
    problem_count: int
    changes: dict[str, int]
    offline: tuple[RunFinding, ...] = ()
    others: tuple[RunFinding, ...] = ()
    partition_codes: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    decisions: tuple[ReportedDecision, ...] = ()
    new_findings: Mapping[str, int] = field(default_factory=dict)
    newest: tuple[RunFinding, ...] = ()
    not_confirmed: tuple[RunFinding, ...] = ()
    kept_runs: frozenset[str] = frozenset()
    is_compared: bool = False
    acknowledged_count: int = 0
    acknowledgements: tuple[AcknowledgedGroup, ...] = ()
    acknowledged_verdicts: Mapping[str, int] = field(default_factory=dict)
    doubts: Doubts = NO_DOUBTS
    broker_starts: tuple[BrokerStart, ...] = ()
    problem_kinds: tuple[ProblemKind, ...] = ()

    @property
    def read_nothing(self) -> bool:
        """Whether the run found nothing to read."""
        return self.exit_code == NOTHING_READ

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
        """The head of `--json` as plain values: without the findings, all of which follow it."""
        rows = {
            "impacts": [{"cluster_id": one.cluster_id, **_columns(one.row, _OF_IMPACT)} for one in self.impacts],
            "candidates": [{"cluster_id": one.cluster_id, **_columns(one.row, _OF_CHOICE)} for one in self.candidates],
            "broker_starts": [_columns(one, _OF_BROKER) for one in self.broker_starts],
            "problems": [_columns(one, _OF_PROBLEM) for one in self.problems],
            "newest": [_columns(one, _OF_FINDING) | {"hanging": None} for one in self.newest],
            "not_confirmed": [
                _columns(one, _OF_FINDING) | {"last_seen_run_id": self.kept(one.last_seen_run_id), "hanging": None}
                for one in self.not_confirmed
            ],
        }
        names = [one.name for one in fields(self) if one.name not in ("findings", "offline", "others", "kept_runs", "problem_kinds")]
        found = {name: rows[name] if name in rows else _plain(getattr(self, name)) for name in names}
        return found | {"compared_followers": self.compared_followers}

    def kept(self, run_id: str) -> str | None:
        """An earlier run, if the warehouse still has it; None if it was removed."""
        return run_id if run_id in self.kept_runs else None


# columns in the head of `--json`
_OF_IMPACT = (
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "committed_leader_epoch",
    "validation_result",
    "reset_offset",
    "records_gone",
    "records_reread",
    "records_missed",
    "reason",
)
_OF_CHOICE = (
    "topic",
    "partition",
    "candidate_id",
    "rank",
    "is_leader",
    "lost_records",
    "lost_bytes",
    "lost_committed",
    "reason",
    "lost_below_high_watermark",
)
_OF_PROBLEM = ("path", "line", "byte_offset", "code", "detail", "remedy")
_OF_FINDING = (
    "cluster_id",
    "code",
    "severity",
    "topic",
    "partition",
    "broker_id",
    "summary",
    "status",
    "leader_id",
    "hanging",
    "last_seen_run_id",
)


_OF_BROKER = tuple(name for name in hints_of(BrokerStart) if name != "run_id")


def _columns(row: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: _plain(getattr(row, name)) for name in names}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def counts_of(report: Report) -> dict[str, Any]:
    """The run's id and counts. `findings` and its split by `codes` are without those that are acknowledged."""
    return {
        "run_id": report.run_id,
        "clusters": len(report.clusters),
        "partitions": sum(cluster.partitions for cluster in report.clusters),
        "replicas": sum(cluster.replicas for cluster in report.clusters),
        "findings": report.finding_count,
        "new": sum(report.new_findings.values()),
        "codes": _codes(report),
        "acknowledged": report.acknowledged_count,
        "input_errors": report.problem_count,
    }


def _codes(report: Report) -> dict[str, int]:
    """How many findings have each code: verdicts on followers, leaders that cannot be read, partitions."""
    counts: Counter[str] = Counter()
    for cluster in report.clusters:
        counts.update({code: count for code, count in cluster.verdicts.items() if SEVERITIES[Verdict(code)] is not Severity.NONE})
    counts.subtract(report.acknowledged_verdicts)
    counts[Verdict.UNREADABLE] += report.unreadable_leaders
    counts.update(report.partition_codes)
    return {str(code): count for code, count in counts.items() if count > 0}
