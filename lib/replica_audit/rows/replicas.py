"""Tables with a row per replica, or per part of one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from replica_audit.frozen import made_quickly
from replica_audit.rows.columns import (
    Bigint,
    Int,
    OfReplica,
    RankedRow,
    SeverityRank,
    table,
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEpoch(OfReplica):
    """Consecutive batches of one leader epoch in a segment of a replica."""

    log_dir: Annotated[str, "log directory"]
    segment_base_offset: Annotated[Bigint, "base offset in the segment's file name"]
    leader_epoch: Annotated[Int, "epoch of the batches; -1: the format has none"]
    first_offset: Annotated[Bigint, "base offset of the first batch"]
    last_offset: Annotated[Bigint, "last offset of the last batch, inclusive"]
    batch_count: Annotated[Bigint, "batches"]
    record_count: Annotated[Bigint, "number of records according to the batch headers"]
    size_bytes: Annotated[Bigint, "bytes of the batches"]
    min_timestamp_ms: Annotated[Bigint, "smallest of the batches' max timestamps"]
    max_timestamp_ms: Annotated[Bigint, "largest of the batches' max timestamps"]
    source: Annotated[str, "raw, dump or collected: what the rows were read from"]


SEGMENT_EPOCHS = table(
    SegmentEpoch,
    name="segment_epochs",
    grain="one row per replica, segment and run of consecutive batches of one leader epoch",
    constraints={
        "epoch_or_none": "leader_epoch >= -1",
        "ascending": "last_offset >= first_offset",
        "has_batches": "batch_count >= 1 AND record_count >= 0 AND size_bytes > 0",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedLine:
    """A line of a corrected leader-epoch-checkpoint, and where its start offset is from."""

    epoch: Int
    start_offset: Bigint
    source: str
    from_broker_id: Int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerOnceCorrected:
    """What a follower does once the corrected file is in place; offsets are null where it is not cut or does not restart.

    `still_diverged` is null by a version that did not look.
    """

    leader_id: Int
    follower_id: Int
    truncation_offset: Bigint | None
    restart_offset: Bigint | None
    catches_up: bool
    still_diverged: bool | None

    @property
    def is_cut(self) -> bool:
        """Whether it truncates."""
        return self.truncation_offset is not None or self.restart_offset is not None


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog(OfReplica):
    """A replica directory."""

    log_dir: Annotated[str, "log directory"]
    directory: Annotated[str, "name of the replica directory"]
    topic_id: Annotated[str | None, "topic id in partition.metadata"]
    state: Annotated[str, "current, future, deleted or stray"]
    log_start_offset: Annotated[Bigint | None, "first offset of the log; null if unreadable"]
    log_end_offset: Annotated[Bigint | None, "offset after the last batch, as the broker would load it; null if unreadable"]
    high_watermark: Annotated[Bigint | None, "entry of replication-offset-checkpoint"]
    recovery_point: Annotated[Bigint | None, "entry of recovery-point-offset-checkpoint"]
    cleaner_offset: Annotated[Bigint | None, "entry of cleaner-offset-checkpoint"]
    last_epoch: Annotated[Int | None, "leader epoch of the last batch; -1: none"]
    batch_count: Annotated[Bigint, "batches inside the log"]
    record_count: Annotated[Bigint, "number of records according to the batch headers"]
    size_bytes: Annotated[Bigint, "their bytes"]
    checkpoint_state: Annotated[
        str, "leader-epoch-checkpoint: ok, healed, empty, missing, unreadable, not-collected, or not-used: its log is in a format before v2"
    ]
    corrected_checkpoint: Annotated[
        str | None,
        "the content that leader-epoch-checkpoint should have, if the file is malformed, contradicts the batches or keeps followers out;"
        " else null",
    ]
    corrected_entries: Annotated[
        tuple[CorrectedLine, ...] | None,
        "its lines. source: batches (exact), file, other_replica (the table of from_broker_id) or first_batch_left (the epoch may have "
        "started earlier)",
    ]
    not_corrected_because: Annotated[
        str | None,
        "why the batches do not determine a table although the file is wrong: corrupt-batch, broken-segment, batch-without-epoch or "
        "epochs-go-backwards; else null",
    ]
    rejoins_once_corrected: Annotated[
        tuple[FollowerOnceCorrected, ...] | None,
        "what each follower does once every corrected file of the partition is in place: where it truncates, whether it catches up, "
        "and whether what it keeps then differs from the leader's log",
    ]
    recovery_cut_offset: Annotated[Bigint | None, "where log recovery would end the log; null if it truncates nothing or does not run"]
    unreadable_reason: Annotated[str | None, "why the replica cannot be compared; null if it can"]
    captured_at: Annotated[datetime | None, "when the replica was copied, if the input says so"]
    crcs_verified_at: Annotated[
        datetime | None,
        "for a collection: the oldest last CRC check of its segments; null: the CRCs of some segment were never verified",
    ]
    looked_again_at: Annotated[
        datetime | None, "of a collection: when collect looked at the log's end again; null: it did not, or the log had changed"
    ]
    later_log_end_offset: Annotated[Bigint | None, "how far the log reached then, or farther"]
    broker_ran: Annotated[bool | None, "whether its broker ran when the replica was copied; null: unknown"] = None
    checkpoint_sha256: Annotated[str | None, "SHA-256 of leader-epoch-checkpoint as it was audited; null: there are no bytes of it"] = None

    @property
    def is_healed(self) -> bool:
        """Whether there is a corrected leader-epoch-checkpoint with which, replayed, every follower catches up, and this one with it."""
        rejoins = self.rejoins_once_corrected or ()
        return self.corrected_checkpoint is not None and all(one.catches_up for one in rejoins) and not self.stays_diverged

    @property
    def stays_diverged(self) -> bool:
        """Whether this replica, as a follower with its file corrected, keeps batches that are not the leader's."""
        return any(one.still_diverged for one in self.rejoins_once_corrected or () if one.follower_id == self.broker_id)


REPLICA_LOGS = table(
    ReplicaLog,
    name="replica_logs",
    grain="one row per replica directory",
    constraints={
        "ends_after_start": "log_end_offset IS NULL OR log_end_offset >= log_start_offset",
        "known_state": "state IN ('current', 'future', 'deleted', 'stray')",
    },
    is_dated=True,
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStartOffset(OfReplica):
    """A leader epoch of a current replica."""

    leader_epoch: Annotated[Int, "epoch"]
    leader_id: Annotated[Int | None, "broker that led the epoch according to the metadata log; -1: none; null: unknown"]
    start_offset: Annotated[Bigint, "where the epoch starts, according to the table in effect, else the checkpoint, else the batches"]
    end_offset: Annotated[Bigint | None, "start of the next epoch, or the log end offset; exclusive"]
    checkpoint_start_offset: Annotated[Bigint | None, "start offset in the file leader-epoch-checkpoint"]
    segment_start_offset: Annotated[Bigint | None, "start offset in the batches: base offset of the first one of the epoch"]
    source: Annotated[str, "both, checkpoint or segments"]
    agrees: Annotated[bool, "whether checkpoint and batches give the same start"]
    in_effect: Annotated[bool, "whether the entry is in the table that the broker uses after loading the log"]
    difference: Annotated[str | None, "why they differ; null if they agree"]


EPOCH_START_OFFSETS = table(
    EpochStartOffset,
    name="epoch_start_offsets",
    grain="one row per current replica and leader epoch",
    constraints={
        "starts_in_log": "start_offset >= 0",
        "known_source": "source IN ('both', 'checkpoint', 'segments')",
        "known_difference": "difference IS NULL OR difference IN ('trivial-epoch', 'legal-lag', 'log-start', 'compaction', "
        "'refetched-compacted-range', 'not-collected', 'corrupt')",
    },
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRole(OfReplica):
    """What a replica is, and what its broker takes it for."""

    leader_id: Annotated[Int, "leader according to the newest metadata; -1: none or unknown"]
    leader_epoch: Annotated[Int, "leader epoch according to the newest metadata; -1: unknown"]
    known_leader_id: Annotated[Int | None, "leader according to the broker's own copy of the metadata log; null: no such copy"]
    known_leader_epoch: Annotated[Int | None, "leader epoch according to that copy"]
    standing: Annotated[
        str,
        "leader, follower, zombie-leader or zombie-follower (it acts in an epoch that ended), ahead (of the leader), behind (its "
        "metadata is older: copied earlier, or a zombie), down or unknown",
    ]
    fetch_error: Annotated[str | None, "what the leader answers to a fetch with that epoch; null: records"]
    in_isr: Annotated[bool, "whether it is in the ISR"]
    in_elr: Annotated[bool, "whether it is an eligible leader replica (KIP-966)"]
    fenced: Annotated[bool | None, "whether its broker is fenced according to the metadata log; null: unknown"]
    log_end_offset: Annotated[Bigint | None, "its log end offset; null: not in the input, or unreadable"]
    high_watermark: Annotated[Bigint | None, "its checkpointed high watermark"]
    isr_objection: Annotated[str | None, "why it should not be in the ISR; null: no reason, or not in it"]
    position: Annotated[Int | None, "place in the partition's assignment, 0 is the preferred leader; null: not assigned, or unknown"]
    min_insync_replicas: Annotated[
        Int | None, "min.insync.replicas of the topic, from the metadata log, else from cluster-metadata.json; null: neither has it"
    ]
    unclean_leader_election: Annotated[
        bool | None,
        "unclean.leader.election.enable of the topic, from the metadata log, else from cluster-metadata.json; null: neither has it",
    ] = None


REPLICA_ROLES = table(
    ReplicaRole,
    name="replica_roles",
    grain="one row per replica that the metadata names or the input holds: what it is, and what its broker considers it to be",
    constraints={
        "known_standing": "standing IN ('leader', 'follower', 'zombie-leader', 'zombie-follower', 'ahead', 'behind', 'down', 'unknown')",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureReplica(RankedRow, OfReplica):
    """A future replica of a move between log directories."""

    log_dir: Annotated[str | None, "log directory of the current replica; null: it is not in the input"]
    future_log_dir: Annotated[str, "log directory of the future replica"]
    directory: Annotated[str, "name of the future replica's directory"]
    protocol: Annotated[str, "rule of moves: kip-101 up to 1.1, else kip-279, never truncate-on-fetch"]
    verdict: Annotated[str, "as in replica_verdicts, with the current replica as the leader"]
    severity: Annotated[str, "severity of the verdict: a truncated move loses nothing, so warning at most"]
    severity_rank: SeverityRank = None
    log_end_offset: Annotated[Bigint | None, "of the future replica"]
    lag_offsets: Annotated[Bigint | None, "how far it lags behind the current replica; 0: it does not"]
    divergence_offset: Annotated[Bigint | None, "first offset at which the two diverge; null: they do not"]
    truncation_offset: Annotated[Bigint | None, "offset to which it truncates; null: it does not"]
    restart_offset: Annotated[Bigint | None, "offset at which it restarts with an empty log; null: it does not"]
    removed_records: Annotated[Bigint | None, "records that it truncates, all of which the current replica serves in its own version"]
    reason: Annotated[str, "the verdict in one sentence"]


FUTURE_REPLICAS = table(
    FutureReplica,
    name="future_replicas",
    grain="one row per future replica of a move between log directories, against the current replica of the same broker",
    constraints={"known_severity": "severity IN ('warning', 'none')"},
)
