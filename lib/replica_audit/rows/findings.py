"""The findings of a run, each with the facts that it rests on, so that one table holds all that a list of findings shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

from replica_audit.frozen import made_quickly
from replica_audit.rows.columns import (
    NOT_NULL_KEPT,
    Bigint,
    Int,
    PartitionNumber,
    RankedRow,
    RunKeys,
    SeverityRank,
    Topic,
    hints_of,
    same_columns,
    table,
)
from replica_audit.rows.pairs import (
    AlreadyTruncated,
    FirstMismatch,
    LogHole,
    NeverCatchesUp,
    NotComparedBecause,
    RecordsByTransaction,
    WrongLines,
)
from replica_audit.rows.records import DamagedBatch, HangingTransaction, LostRecords
from replica_audit.rows.what_if import WhatIfLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionChoice:
    """Of a replica that could be elected, as in `what_if_leaders`, as much as a list of findings shows."""

    candidate_id: Int
    rank: Int | None
    in_isr: bool
    log_end_offset: Bigint | None
    lost_offsets: Bigint | None
    lost_records: Bigint | None
    lost_below_high_watermark: Bigint | None
    lost_committed: Bigint | None
    followers_failing: Int | None
    followers_diverged: Int | None
    reason: str
    unread_replicas: Int | None
    in_elr: bool | None
    election: str | None
    broker_up: bool | None
    stopped_cleanly: bool | None

    @classmethod
    def of(cls, choice: WhatIfLeader) -> ElectionChoice:
        """The same columns of the row."""
        return same_columns(cls, choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDamage:
    """Of a damaged batch, as in `damaged_batches`, as much as a list of findings shows."""

    damage: str
    first_offset: Bigint
    last_offset: Bigint | None
    path: str
    byte_offset: Bigint | None
    stored_crc: Bigint | None
    computed_crc: Bigint | None
    good_broker_ids: tuple[Int, ...]
    recovery: str
    recover_from_id: Int | None
    cut_by_recovery: bool

    @classmethod
    def of(cls, damaged: DamagedBatch) -> BatchDamage:
        """The same columns of the row."""
        return same_columns(cls, damaged)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideLog:
    """A log that its broker does not use, or will not once it starts: why, what it does with it, and what it alone holds."""

    log_dir: str
    directory: str
    topic_id: str | None
    because: str | None
    at_start: str | None
    log_start_offset: Bigint | None
    log_end_offset: Bigint | None
    held_alone_offsets: Bigint
    held_alone_by_transaction: RecordsByTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedBy:
    """The acknowledgement that is about a finding."""

    state: str
    reason: str
    who: str
    until: date
    severity: str
    at_most_records: Bigint
    line: Int


@dataclass(frozen=True, kw_only=True)
class FindingKey(RankedRow):
    """What a finding is, and where."""

    __slots__ = ()

    finding_key: Annotated[str, "stable over runs: CODE:TOPIC-PARTITION:BROKER, without BROKER if it is about the partition"]
    code: Annotated[
        str,
        "the verdict; or offline_partition, leader_epoch_missing, in_sync_outside_isr, sequence_gap, hanging_transaction, "
        "transaction_marker_missing, offsets_missing, torn_after_clean_stop, ends_below_high_watermark, committed_records_gone, "
        "fetch_fails_forever, "
        "topic_id_conflict, will_become_stray, stray_holds_records; or removed_below_high_watermark, truncation_refused",
    ]
    severity: Annotated[str, "critical, error or warning"]
    severity_rank: SeverityRank = None
    topic: Topic
    partition: PartitionNumber
    broker_id: Annotated[Int, "broker that holds the replica; -1: the finding is about the partition as a whole"]
    summary: Annotated[str, "the finding in one sentence"]


@dataclass(frozen=True, kw_only=True)
class FindingHistory:
    """What a finding is against those of earlier runs."""

    __slots__ = ()

    first_seen_run_id: Annotated[str, "first run of the unbroken series in which it was open"]
    last_seen_run_id: Annotated[str, "last run that found it"]
    status: Annotated[
        str,
        "new or persisting: this run found it; resolved: this run compared the same and found it clean; unconfirmed: an earlier run "
        "found it, and this one could not check, so it stays open",
    ]


@dataclass(frozen=True, kw_only=True)
class FindingFacts:
    """What a finding rests on; null where it is about something else."""

    __slots__ = ()

    about: Annotated[str | None, "follower, leader (its own replica), replica, partition or broker-log; null: of an older version"] = None
    leader_id: Annotated[Int | None, "leader, or the inferred leader that was compared with; -1: none"] = None
    leader_source: Annotated[str | None, "cluster-metadata, metadata-log or inferred"] = None
    inferred_because: Annotated[str | None, "why the leader is inferred, as in replica_verdicts"] = None
    leader_epoch: Annotated[Int | None, "leader epoch according to the metadata; null: the finding is about a follower"] = None
    divergence_offset: Annotated[Bigint | None, "as in replica_verdicts"] = None
    truncation_offset: Annotated[Bigint | None, "as in replica_verdicts"] = None
    restart_offset: Annotated[Bigint | None, "as in replica_verdicts"] = None
    fetcher_fails: Annotated[bool | None, "as in truncation_points, of the protocol that applies"] = None
    still_diverged: Annotated[bool | None, "as in truncation_points, of the protocol that applies"] = None
    removed_records: Annotated[Bigint | None, "as in replica_verdicts"] = None
    records_lost: Annotated[Bigint | None, "lost_records of replica_verdicts; null also where an older version wrote the row"] = None
    removed_below_high_watermark: Annotated[Bigint | None, "as in replica_verdicts"] = None
    removed_committed: Annotated[Bigint | None, "as in replica_verdicts"] = None
    commit_evidence: Annotated[str | None, "as in replica_verdicts"] = None
    already_truncated: AlreadyTruncated = None
    stuck: NeverCatchesUp = None
    wrong_lines: WrongLines = None
    hole: LogHole = None
    cause: NotComparedBecause = None
    evidence: Annotated[str | None, "files, offsets and epochs that the finding rests on"] = None
    isr: Annotated[tuple[Int, ...] | None, "offline_partition, in_sync_outside_isr: the ISR according to the metadata"] = None
    elr: Annotated[tuple[Int, ...] | None, "offline_partition: the eligible leader replicas (KIP-966)"] = None
    last_leader_id: Annotated[Int | None, "offline_partition: the last leader; null: unknown"] = None
    leaderless_since: Annotated[datetime | None, "offline_partition: when it lost its leader, UTC; null: no metadata log shows it"] = None
    cluster_stopped: Annotated[
        bool | None, "offline_partition: the whole cluster was shut down cleanly; starting it elects a leader cleanly"
    ] = None
    candidates: Annotated[
        tuple[Annotated[ElectionChoice, NOT_NULL_KEPT], ...] | None,
        "offline_partition: what electing each replica loses, as in what_if_leaders",
    ] = None
    table_epoch: Annotated[Int | None, "leader_epoch_missing: last epoch of the leader's table; -1: none"] = None
    known_epoch: Annotated[Int | None, "leader_epoch_missing: leader epoch in the broker's own copy of the metadata log; null: no copy"] = (
        None
    )
    is_certain: Annotated[
        bool | None,
        "leader_epoch_missing, in_sync_outside_isr: a copy of another moment cannot explain it; will_become_stray: the input has topic ids",
    ] = None
    mismatch: FirstMismatch = None
    damaged: Annotated[
        tuple[BatchDamage, ...] | None,
        "damaged batches of this replica, and which brokers have good copies, as in damaged_batches; the first 5",
    ] = None
    hanging: Annotated[
        tuple[HangingTransaction, ...] | None,
        "hanging_transaction: those that hang, as in open_transactions; the first 5",
    ] = None
    lost_records: Annotated[
        tuple[LostRecords, ...] | None,
        "sequence_gap: where records are certainly missing, as in sequence_gaps; the first 5",
    ] = None
    set_aside: Annotated[
        tuple[SetAsideLog, ...] | None,
        "will_become_stray, stray_holds_records: the logs, the worst first, at most 5. because: no-topic-id, unknown-topic-id or "
        "not-assigned; at_start: sets-aside (renames to -stray), deletes or does-not-start; both null: it is not a current log, or of "
        "a second copy of the broker. held_alone_offsets: that no current log in the input holds in the same epoch; "
        "held_alone_by_transaction: of one that its broker will set aside, the records in them, as lost_by_transaction of replica_starts; "
        "null: none, or not read",
    ] = None
    acknowledgement: Annotated[
        AcknowledgedBy | None,
        "the matching entry of --acknowledged: state is acknowledged, or why it does not hold: expired (after until), more-severe "
        "(than severity), more-records (lost than at_most_records); line is its line in the file; null: no entry matches",
    ] = None


# the columns of the last of the bases come first
@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFinding(FindingFacts, FindingKey):
    """A finding as the audit of its partition has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinding(FindingFacts, FindingHistory, FindingKey, RunKeys):
    """A finding as a run has it, with what earlier runs say of it."""

    @classmethod
    def of(
        cls, found: FoundFinding, *, run_id: str, cluster_id: str, first_seen_run_id: str, last_seen_run_id: str, status: str
    ) -> RunFinding:
        """A finding of a partition with the columns of its run."""
        return cls(
            **{name: getattr(found, name) for name in hints_of(FoundFinding)},
            run_id=run_id,
            cluster_id=cluster_id,
            first_seen_run_id=first_seen_run_id,
            last_seen_run_id=last_seen_run_id,
            status=status,
        )


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPartition:
    """What of a partition was found in order.

    `leader_id` is who leads, or is taken to lead if `leader_source` is inferred; -1: nobody. `leader_has_epoch`: the table of a live leader
    has the metadata's epoch. `clean` are the replicas that can be read and whose logs agree: the leader, and each follower with a clean
    verdict. `same_batches` are those followers among them whose batches were compared, too, `same_records` those whose records were.
    `proven_pairs`: how many pairs were proven healthy before any was compared; all of the partition, or none.
    """

    topic: str
    partition: Int
    leader_id: Int
    leader_source: str
    leader_has_epoch: bool
    has_no_hanging_transaction: bool
    isr: tuple[Int, ...]
    clean: tuple[Int, ...]
    same_batches: tuple[Int, ...]
    same_records: tuple[Int, ...]
    proven_pairs: Int = 0


FINDINGS = table(
    RunFinding,
    name="findings",
    grain="one row per finding of the run, and per finding that earlier runs left open and this run did not find",
    constraints={"known_status": "status IN ('new', 'persisting', 'resolved', 'unconfirmed')"},
    widened=("known_status",),
    has_change_feed=True,
    is_dated=True,
)
