"""One partition with what was made of it: what its findings are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replica_audit.model import PartitionMetadata
from replica_audit.partition.choices.what_if import Cut
from replica_audit.partition.findings.transactions import MarkerMissing
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause, Leadership
from replica_audit.protocol.cluster.topic_ids import TopicIdsInDoubt
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.partition_findings import FindingAbout
from replica_audit.rows.findings import BatchDamage, FoundFinding
from replica_audit.rows.history import LoggedIncident
from replica_audit.rows.pairs import EpochEndOffset, ReplicaVerdict, TruncationPoint
from replica_audit.rows.records import DamagedBatch, Difference, OpenTransactionRow
from replica_audit.rows.what_if import WhatIfLeader

NOBODY, MOST_NESTED = -1, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One partition with what was made of it.

    `metadata` is what is believed of it, without a leader where it is outdated; `because`: why the leader is inferred. `copies` is what
    each broker's own copy of the metadata log says, `compared` every replica that takes part in verdicts, `replicas` those with a log.
    `gone_everywhere` is as of `unreached_high_watermark`. `open_transactions` are those of the leader, None where they are not known.
    `is_compacted`: batches of its log may be missing. `without_markers`: transactions that never end in followers' logs.
    `last_events`: by broker what its own log says last.
    """

    metadata: PartitionMetadata
    because: InferredBecause | None
    ids_in_doubt: TopicIdsInDoubt | None
    leadership: Leadership
    compared: Mapping[int, Loaded]
    replicas: Mapping[int, Replica]
    copies: Mapping[int, PartitionMetadata]
    cluster: ClusterFacts
    context: Context
    is_compacted: bool
    made: ComparedPairs
    choices: Sequence[WhatIfLeader]
    incidents: Sequence[LoggedIncident] = ()
    damaged: Sequence[DamagedBatch] = ()
    gone_everywhere: tuple[int, int, int] | None = None
    open_transactions: Sequence[OpenTransactionRow] | None = None
    without_markers: Sequence[MarkerMissing] = ()
    last_events: Mapping[int, LogEvent] = field(default_factory=dict)

    def damage_of(self, broker_id: int) -> tuple[BatchDamage, ...] | None:
        """The column `damaged` of a finding about a replica."""
        found = [BatchDamage.of(one) for one in self.damaged if one.broker_id == broker_id]
        return tuple(found[:MOST_NESTED]) or None

    def finding_key(self, code: str, broker_id: int) -> str:
        """What names a finding in every run; `broker_id` is -1 where it is about the partition."""
        whose = "" if broker_id == NOBODY else f":{broker_id}"
        return f"{code}:{self.metadata.topic}-{self.metadata.partition}{whose}"

    @property
    def inferred_because(self) -> str | None:
        """The column of that name."""
        return None if self.because is None else str(self.because)

    @property
    def known_leader(self) -> Replica | None:
        """The leader by the metadata, with a log of this topic; None if it is inferred or was not read."""
        leader = self.replicas.get(self.leadership.leader_id) if self.leadership.source != INFERRED else None
        known = self.metadata.topic_id
        return leader if leader is not None and (not known or leader.topic_id in (None, known)) else None


def of_verdict(audited: Audited, verdict: ReplicaVerdict, code: str, severity: str, summary: str) -> FoundFinding:
    """A finding about a follower, with the facts of its verdict."""
    return FoundFinding(
        finding_key=audited.finding_key(code, verdict.follower_id),
        code=code,
        severity=severity,
        topic=verdict.topic,
        partition=verdict.partition,
        broker_id=verdict.follower_id,
        summary=summary,
        about=str(FindingAbout.FOLLOWER),
        leader_id=verdict.leader_id,
        leader_source=verdict.leader_source,
        inferred_because=verdict.inferred_because,
        divergence_offset=verdict.divergence_offset,
        truncation_offset=verdict.truncation_offset,
        restart_offset=verdict.restart_offset,
        fetcher_fails=False,
        still_diverged=False,
        removed_records=verdict.removed_records,
        records_lost=verdict.lost_records,
        removed_below_high_watermark=verdict.removed_below_high_watermark,
        removed_committed=verdict.removed_committed,
        commit_evidence=verdict.commit_evidence,
        already_truncated=verdict.already_truncated,
        stuck=verdict.stuck,
        wrong_lines=verdict.wrong_lines,
        hole=verdict.hole,
        cause=verdict.cause,
        evidence=verdict.evidence,
        mismatch=verdict.mismatch,
        damaged=audited.damage_of(verdict.follower_id),
    )


@dataclass(slots=True, kw_only=True)
class ComparedPairs:
    """The rows about a partition's pairs, and the followers all of whose batches were found on the leader."""

    points: list[TruncationPoint] = field(default_factory=list)
    verdicts: list[ReplicaVerdict] = field(default_factory=list)
    lookups: list[EpochEndOffset] = field(default_factory=list)
    same_batches: list[int] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)
