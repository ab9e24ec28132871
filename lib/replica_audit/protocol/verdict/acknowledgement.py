"""Findings of earlier runs: which are acknowledged, and which are over."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import CheckedPartition, RunFinding

_WORST_FIRST = tuple(Severity)


class AckState(StrEnum):
    """What an acknowledgement is to a finding that it is about."""

    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    MORE_SEVERE = "more-severe"
    MORE_RECORDS = "more-records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """One entry of the file of acknowledgements.

    `cluster`, `topic` and `verdict` are regular expressions that the whole value must match, `partitions` and `replicas` (ids of brokers)
    lists; None: any. `until` is the last day on which it holds. It covers findings that are no worse than `severity` and lose no more than
    `at_most_records`.
    """

    line: int
    reason: str
    who: str
    until: date
    cluster: str | None = None
    topic: str | None = None
    partitions: Collection[int] | None = None
    replicas: Collection[int] | None = None
    verdict: str | None = None
    severity: Severity = Severity.ERROR
    at_most_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AckSubject:
    """A finding, as far as an acknowledgement is about it. `broker_id` is -1 where it is about a partition; `records` are those lost."""

    code: str
    severity: str
    topic: str
    partition: int
    broker_id: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgements:
    """All entries, in the order of the file, as of a day (`on`: that of the run)."""

    entries: tuple[Acknowledgement, ...] = ()
    on: date = field(default=date.min)

    def of_cluster(self, cluster_id: str) -> Acknowledgements:
        """Those that are about a cluster."""
        return replace(self, entries=tuple(one for one in self.entries if _matches(one.cluster, cluster_id)))

    def decide(self, finding: AckSubject) -> tuple[Acknowledgement, AckState] | None:
        """The first entry that covers the finding; else the first that is about it, and why it does not; None: none is about it."""
        first: tuple[Acknowledgement, AckState] | None = None
        for entry in self.entries:
            if _is_about(entry, finding):
                state = _state(entry, finding, self.on)
                if state is AckState.ACKNOWLEDGED:
                    return entry, state
                first = first or (entry, state)
        return first


def _matches(pattern: str | None, value: str) -> bool:
    return pattern is None or re.fullmatch(pattern, value) is not None


def _is_about(entry: Acknowledgement, finding: AckSubject) -> bool:
    return (
        (entry.partitions is None or finding.partition in entry.partitions)
        and (entry.replicas is None or finding.broker_id in entry.replicas)
        and _matches(entry.topic, finding.topic)
        and _matches(entry.verdict, finding.code)
    )


def _state(entry: Acknowledgement, finding: AckSubject, on: date) -> AckState:
    """Whether the entry covers the finding; that it expired is told before that the finding got worse."""
    if on > entry.until:
        return AckState.EXPIRED
    if _WORST_FIRST.index(Severity(finding.severity)) < _WORST_FIRST.index(entry.severity):
        return AckState.MORE_SEVERE
    return AckState.MORE_RECORDS if finding.records > entry.at_most_records else AckState.ACKNOWLEDGED


# Whether a finding of an earlier run is over: only where this run looked at the same thing and found it in order.
# A replica that can no longer be read, compared or found proves nothing about it.


class Status(StrEnum):
    """What a finding is against those of earlier runs."""

    NEW = "new"
    PERSISTING = "persisting"
    RESOLVED = "resolved"
    UNCONFIRMED = "unconfirmed"


class MissingCode(StrEnum):
    """What an earlier run had and this one lacks, as acknowledgements name it (`verdict`)."""

    CLUSTER_MISSING = "cluster_missing"
    BROKER_MISSING = "broker_missing"


FOUND_NOW = (str(Status.NEW), str(Status.PERSISTING))


def is_resolved(finding: RunFinding, check: CheckedPartition) -> bool:
    """Whether the run confirms that the finding, which it does not have, is over.

    A pair counts as compared and clean also where both replicas were compared with another leader: each is then a prefix of that log, so
    they agree with each other. A leader that is only inferred confirms nothing that was found under one that was known. What a broker's log
    showed is over once the replica is clean and the line is no longer in the input.
    """
    is_known = check.leader_id >= 0 and check.leader_source != INFERRED
    match finding.code:
        case PartitionCode.OFFLINE_PARTITION:
            return is_known
        case PartitionCode.LEADER_EPOCH_MISSING:
            return is_known and check.leader_has_epoch
        case PartitionCode.HANGING_TRANSACTION:
            return is_known and check.has_no_hanging_transaction
        case PartitionCode.IN_SYNC_OUTSIDE_ISR:
            return is_known and finding.broker_id in check.isr
        case (
            PartitionCode.SEQUENCE_GAP
            | PartitionCode.OFFSETS_MISSING
            | PartitionCode.COMMITTED_RECORDS_GONE
            | PartitionCode.TOPIC_ID_CONFLICT
        ):
            return check.leader_id in check.clean
    if finding.about in (FindingAbout.LEADER, FindingAbout.REPLICA, FindingAbout.BROKER_LOG):
        return finding.broker_id in check.clean
    if not is_known and finding.leader_source not in (None, INFERRED):
        return False
    pair = {finding.broker_id, *([finding.leader_id] if finding.leader_id is not None and finding.leader_id >= 0 else [])}
    followers = pair - {check.leader_id}
    if finding.code == Verdict.CONTENT_MISMATCH and not followers <= set(check.same_batches):
        return False
    if finding.code == Verdict.COMPACTION_DIFFERS and not followers <= set(check.same_records):
        return False
    return pair <= set(check.clean)
