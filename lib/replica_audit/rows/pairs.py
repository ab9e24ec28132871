"""Tables with rows per leader and follower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from replica_audit.frozen import made_quickly
from replica_audit.rows.codes import Case, Cause, EpochRequest, FallsBack, OutOfRange, RuleKind
from replica_audit.rows.columns import (
    Bigint,
    Int,
    LeaderSource,
    OfPair,
    RankedRow,
    SeverityRank,
    table,
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRound:
    """One answer of the leader. From `request` on the columns are null by a version that did not write them."""

    requested_epoch: Int | None
    answered_epoch: Int | None
    answered_end_offset: Bigint | None
    truncate_to: Bigint | None
    complete: bool
    request: EpochRequest | None
    decided_by: Case | None
    log_end_offset: Bigint | None
    own_epoch: Int | None
    own_end_offset: Bigint | None
    out_of_range: OutOfRange | None
    restart_offset: Bigint | None
    dropped_epochs: tuple[Int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFetch:
    """The fetch that the leader refuses for good.

    `requested_epoch` is the last fetched epoch in it, None if it carries none. `answered_*` are None where the answer is
    OFFSET_OUT_OF_RANGE. `back_to_offset`: from where the follower then fetches again. `before_records`: no fetch is ever answered with
    records. `fresh_replica_too`: a follower that starts with an empty log is refused as well.
    """

    fetch_offset: Bigint
    requested_epoch: Int | None
    answered_epoch: Int | None
    answered_end_offset: Bigint | None
    back_to_offset: Bigint
    before_records: bool
    fresh_replica_too: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongCheckpointLine:
    """A line of a leader-epoch-checkpoint that its batches contradict.

    `start_offset` is the right one, None where the line should not be there; `found_offset` what the file says, None where it has no line.
    """

    epoch: Int
    start_offset: Bigint | None
    found_offset: Bigint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOffsets:
    """Offsets [first, end) that one of two logs misses."""

    broker_id: Int
    first_offset: Bigint
    end_offset: Bigint
    segment_before: Bigint | None
    segment_after: Bigint | None
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSpan:
    """Offsets [first, end) of one leader epoch that were committed, and what proves it."""

    evidence: str
    leader_epoch: Int
    first_offset: Bigint
    end_offset: Bigint
    broker_id: Int | None
    metadata_offset: Bigint | None
    not_ruled_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsByTransaction:
    """Records by how their transaction ended, according to the log that holds them: each is counted once.

    `plain`: of no transaction. `open`: no marker ends their transaction in that log. `markers`: the control records that end transactions,
    which no consumer gets. `unknown`: their batches were not read, or nothing tells how their transaction ended.
    """

    committed: Bigint = 0
    plain: Bigint = 0
    aborted: Bigint = 0
    open: Bigint = 0
    markers: Bigint = 0
    unknown: Bigint = 0

    @property
    def total(self) -> int:
        """Records and markers."""
        return self.records + self.markers

    @property
    def records(self) -> int:
        """Records without the markers."""
        return self.committed + self.plain + self.aborted + self.open + self.unknown

    @property
    def is_plain(self) -> bool:
        """Whether none of them is of a transaction, or may be."""
        return self.plain == self.total

    def __add__(self, other: RecordsByTransaction) -> RecordsByTransaction:
        """The records of both."""
        return RecordsByTransaction(
            committed=self.committed + other.committed,
            plain=self.plain + other.plain,
            aborted=self.aborted + other.aborted,
            open=self.open + other.open,
            markers=self.markers + other.markers,
            unknown=self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkFallback:
    """How a follower falls back to its high watermark, after so many answers; `truncate_to` is None where that cuts nothing.

    `in_memory`: its broker runs, so a newer one than the file's counts.
    """

    because: FallsBack
    after_round: Int
    high_watermark: Bigint
    in_memory: bool
    log_end_offset: Bigint
    truncate_to: Bigint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTableEntry:
    """An entry that a follower's table gets with what it fetches."""

    epoch: Int
    start_offset: Bigint


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingOffsets:
    """Offsets [first, end) that two logs hold in different epochs; an epoch of null: missing."""

    first_offset: Bigint
    end_offset: Bigint
    leader_epoch: Int | None
    follower_epoch: Int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongTableEpoch:
    """Where a leader-epoch-checkpoint first contradicts its batches."""

    broker_id: Int
    offset: Bigint
    table_epoch: Int | None
    batch_epoch: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContradictingLine:
    """The line of a broker's own log by which it truncated otherwise than the rule says."""

    offset: Bigint
    path: str
    line: Bigint
    rule_offset: Bigint | None

    @property
    def sentence(self) -> str:
        """What differs, in one sentence."""
        rule = "does not truncate" if self.rule_offset is None else f"truncates to {self.rule_offset}"
        return f"the broker truncated to {self.offset} ({self.path or 'server.log'}, line {self.line}), the rule {rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """A batch as its header tells it; offsets are inclusive, `byte_offset` is its place in the file."""

    path: str
    byte_offset: Bigint | None
    first_offset: Bigint
    last_offset: Bigint
    leader_epoch: Int
    crc: Bigint
    producer_id: Bigint
    producer_epoch: Int
    base_sequence: Int
    record_count: Int | None
    max_timestamp_ms: Bigint
    size_bytes: Bigint
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSizes:
    """A record, without what it holds; a size of null: it has none."""

    timestamp_ms: Bigint
    key_bytes: Int | None
    value_bytes: Int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMismatch:
    """A record that two logs do not hold alike; null for a side that does not hold it."""

    offset: Bigint
    parts: tuple[str, ...]
    leader: RecordSizes | None
    follower: RecordSizes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMismatch:
    """Where the batches of two logs first differ, and how."""

    kind: str
    leader: BatchFacts | None
    follower: BatchFacts | None
    record: RecordMismatch | None
    compared_end_offset: Bigint | None
    unread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFact:
    """A file, and what it has at an offset, also in words."""

    path: str
    broker_id: Int
    offset: Bigint | None
    leader_epoch: Int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingKeyCount:
    """How many keys differ for one cause, of which one replica is wrong."""

    cause: str
    broker_id: Int
    keys: Bigint


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRecordCounted:
    """How many records differ in a part, and in none before it; of presence, the replica that lacks them."""

    part: str
    lacking_id: Int | None
    records: Bigint


AlreadyTruncated = Annotated[bool | None, "whether it has truncated since it was copied, according to its broker's server.log"]
NeverCatchesUp = Annotated[
    RefusedFetch | None,
    "the fetch that the leader refuses forever, and where the follower then fetches from again; null: it catches up. Null in it: "
    "answered_epoch and answered_end_offset where the answer is OFFSET_OUT_OF_RANGE. fresh_replica_too: so is an empty log",
]
WrongLines = Annotated[
    tuple[WrongCheckpointLine, ...] | None,
    "its lines that its batches contradict: start_offset is right, null if the line must be removed; found_offset is what the file "
    "has, null if the line is missing",
]
ByTransaction = Annotated[
    RecordsByTransaction | None,
    "lost_records by how their transaction ended, according to the log that loses them. committed, aborted, open (no marker), plain (of no "
    "transaction), markers (which no consumer gets), unknown (their batches were not read, or nothing tells how the transaction ended). "
    "Null: nothing is lost, or not known how many, or of an older version",
]
LogHole = Annotated[
    MissingOffsets | None,
    "if one log of a log_matching_violation lacks offsets: the broker that misses them, [first, end), the base offsets of"
    " the segments before and after it (null: inside a segment), and whether the truncation makes the hole",
]
FirstMismatch = Annotated[
    BatchMismatch | None,
    "for content_mismatch and rebatched: the first batches that differ (null: that side has none there) and the first such record,"
    " by its offset, sizes and timestamps. kind: other_records, other_batching (the same records in other batches), other_encoding (in the"
    " same batches, compressed differently) or not_read. parts: presence, key, value, headers, timestamp or producer (id, epoch, sequence,"
    " transaction). compared_end_offset: all records below it were compared; unread: why the rest was not compared",
]
NotComparedBecause = Annotated[
    Cause | None,
    "why an inconclusive follower cannot be compared: not collected, leader copied earlier, follower copied earlier, no common "
    "range, leader unknown or unreadable, no epochs, text not whole, records not compared, deleted while copied, segments not copied, "
    "topic id in doubt or unknown broker; null: it is "
    "compared",
]


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset(OfPair):
    """What the leader answers to OffsetsForLeaderEpoch for an epoch in the follower's table."""

    requested_epoch: Annotated[Int, "epoch that the follower has"]
    answered_epoch: Annotated[Int, "epoch in the leader's answer (KIP-279); -1: undefined"]
    end_offset: Annotated[Bigint, "exclusive end offset in that answer; -1: undefined"]
    kip101_end_offset: Annotated[Bigint, "the answer of a leader of 0.11 to 1.1; -1: undefined"]


EPOCH_END_OFFSETS = table(
    EpochEndOffset,
    name="epoch_end_offsets",
    grain="one row per leader, follower and epoch in the follower's table: what the leader answers to OffsetsForLeaderEpoch; "
    "of partitions that are proven healthy only with --detail all",
    constraints={"undefined_together": "(answered_epoch = -1 AND end_offset = -1) OR (answered_epoch != -1 AND end_offset != -1)"},
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationPoint(OfPair):
    """What one protocol, or a rule that was rejected, makes a follower truncate."""

    leader_source: LeaderSource
    kind: Annotated[
        RuleKind | None,
        "protocol, or rejected: an alternative of KIP-279, of followers that are cut or differ; of these only the cut, the fallback and "
        "the requests are known, the rest is null. Null: of an older version, a protocol",
    ] = None
    protocol: Annotated[
        str,
        "high-watermark, kip-101, kip-279 or truncate-on-fetch; of a rejected rule unknown-offset-rounds, epoch-sequence-exchange, "
        "high-watermark-epoch or leave-isr-on-preferred-election",
    ]
    applies: Annotated[bool, "whether the cluster runs this protocol"]
    truncation_offset: Annotated[Bigint | None, "offset to which the follower truncates its log; null: it does not"]
    restart_offset: Annotated[Bigint | None, "the leader's log start, at which it restarts with an empty log; null: it does not"] = None
    fetcher_fails: Annotated[bool | None, "whether the next fetch offset lies inside a batch of the leader: appending fails"] = None
    round_trips: Annotated[Int | None, "requests to the leader before the fetch that brings records"] = None
    epoch_requests: Annotated[Int | None, "OffsetsForLeaderEpoch requests, or fetches that are answered with an epoch"] = None
    request_bytes: Annotated[Bigint | None, "bytes of the partition in these requests"] = None
    response_bytes: Annotated[Bigint | None, "bytes of the partition in their answers"] = None
    rounds: Annotated[
        tuple[ExchangeRound, ...] | None,
        "the leader's answers in order. request: fetch or offset_for_leader_epoch. decided_by: the case of the rule: common-epoch, "
        "unknown-epoch (it asks again), later-epoch (above all of its own), no-epoch, undefined, records, out-of-range-longer, out-of-"
        "range-restart or out-of-range-again. log_end_offset: the follower's when it asks, where a fetch begins. own_epoch, "
        "own_end_offset: what its own table has for the answered epoch; null: not looked up, or none that high. out_of_range: why: "
        "epoch, below-start or beyond-end. dropped_epochs: those that the truncation removes from its table",
    ] = None
    falls_back_to_high_watermark: Annotated[bool, "whether the follower falls back to its high watermark"]
    removed_offsets: Annotated[Bigint | None, "offsets from the start of the first truncated batch to the log end offset"] = None
    still_diverged: Annotated[bool | None, "whether what remains after the truncation conflicts with the leader"] = None
    catches_up: Annotated[bool | None, "whether its fetches then continue until it holds everything that the leader holds"] = None
    physical_offset: Annotated[
        Bigint | None,
        "first offset that the files lose: the base offset of the batch that holds the truncation offset; the log start "
        "on a restart; null: nothing is truncated",
    ] = None
    fetch_offset: Annotated[Bigint | None, "where it fetches records again, or the offset to which an endless exchange returns"] = None
    stuck: Annotated[bool | None, "whether the exchange never ends: the same request gets the same answer"] = None
    ends_with_election: Annotated[bool | None, "whether it ends once the leader, which is down, is elected again"] = None
    restarts_once_failed: Annotated[bool | None, "whether a restart after the failed fetch empties the log, so that it catches up"] = None
    fallback: Annotated[
        HighWatermarkFallback | None,
        "how it falls back to its high watermark, and after how many rounds; because: asks-nothing, undefined (the answer) or no-epochs; "
        "in_memory: its broker runs, so a newer one than the file's counts; truncate_to null: it truncates nothing",
    ] = None
    learnt_epochs: Annotated[
        tuple[AddedTableEntry, ...] | None, "entries that its later fetches add to its table; only for the protocol that applies"
    ] = None
    reason: Annotated[str | None, "of a rejected rule: what happens, in one sentence"] = None

    @property
    def is_recorded(self) -> bool:
        """Whether the run kept what was decided in each round; one of an older version did not."""
        return self.fetch_offset is not None


TRUNCATION_POINTS = table(
    TruncationPoint,
    name="truncation_points",
    grain="one row per leader, follower and rule: the four protocols, and of followers that are cut or differ the rejected alternatives of "
    "KIP-279; of partitions that are proven healthy only with --detail all",
    constraints={
        "known_kind": "kind IS NULL OR kind IN ('protocol', 'rejected')",
        "known_protocol": "protocol IN ('high-watermark', 'kip-101', 'kip-279', 'truncate-on-fetch', 'unknown-offset-rounds', "
        "'epoch-sequence-exchange', 'high-watermark-epoch', 'leave-isr-on-preferred-election')",
        "removes_what_is_there": "removed_offsets IS NULL OR removed_offsets >= 0",
    },
    widened=("known_protocol", "removes_what_is_there"),
    relaxed=("fetcher_fails", "round_trips", "rounds", "removed_offsets", "still_diverged"),
)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaVerdict(RankedRow, OfPair):
    """What is found of a leader and a follower."""

    leader_source: LeaderSource
    verdict: Annotated[str, "the first rule that holds"]
    severity: Annotated[str, "critical, error, warning or none"]
    severity_rank: SeverityRank = None
    common_prefix_end_offset: Annotated[Bigint | None, "exclusive end of what both logs share; null: not comparable"]
    divergence_offset: Annotated[Bigint | None, "first offset at which the logs diverge; null: they do not"]
    follower_diverged_end_offset: Annotated[Bigint | None, "exclusive end of the follower's part of the divergence"]
    leader_diverged_end_offset: Annotated[Bigint | None, "exclusive end of the leader's part of the divergence"]
    truncation_offset: Annotated[Bigint | None, "offset to which the follower truncates under the protocol that applies; null: it does not"]
    restart_offset: Annotated[Bigint | None, "offset at which it restarts with an empty log; null: it does not"]
    protocol: Annotated[str, "the protocol that applies"]
    removed_offsets: Annotated[
        Bigint | None, "offsets that the follower's files lose, from the start of the first truncated batch to the log end"
    ]
    removed_records: Annotated[Bigint | None, "records in the truncated batches"]
    removed_bytes: Annotated[Bigint | None, "their bytes"]
    lost_offsets: Annotated[
        Bigint | None,
        "of the removed offsets those that the leader does not hold in the same epochs; the others are fetched again. Where the leader is "
        "inferred, all; null: not known, or of an older version, which lacks the difference",
    ]
    lost_records: Annotated[
        Bigint | None, "records in them, transaction markers among them; of a batch that the leader holds in part as many as offsets"
    ]
    lost_bytes: Annotated[Bigint | None, "bytes of the batches whose last offset is among them"]
    removed_below_high_watermark: Annotated[
        Bigint | None,
        "removed offsets below the checkpointed high watermark of a replica that holds them, and that the leader does not hold",
    ]
    commit_evidence: Annotated[
        str | None,
        "the strongest proof that removed offsets, which the leader does not hold, were committed: checkpointed-high-watermark, sole-"
        "in-sync-replica or all-in-sync-replicas; null: none, so it is unknown whether they were",
    ]
    removed_committed: Annotated[
        Bigint | None, "removed offsets that were committed, according to any evidence, and that the leader does not hold"
    ]
    removed_committed_offsets: Annotated[
        Mapping[str, Bigint] | None, "those offsets by evidence; each counts once, under its strongest evidence"
    ]
    removed_commits: Annotated[
        tuple[CommittedSpan, ...] | None,
        "those offsets as spans [first, end) with their leader epoch; broker_id: whose checkpoint, or who led; metadata_offset: of the"
        " record that set the ISR; not_ruled_out: why it is only very likely",
    ]
    first_removed_timestamp_ms: Annotated[Bigint | None, "smallest max timestamp of the truncated batches"]
    last_removed_timestamp_ms: Annotated[Bigint | None, "largest max timestamp of the truncated batches"]
    open_transactions: Annotated[
        tuple[Bigint, ...] | None,
        "producer ids whose marker is truncated, and whose transaction started below the truncation offset: in its segment, "
        "or only the marker is truncated",
    ]
    observed_truncation_offset: Annotated[Bigint | None, "what the broker did according to its server.log, if that is in the input"]
    already_truncated: AlreadyTruncated
    stuck: NeverCatchesUp
    wrong_lines_broker_id: Annotated[Int | None, "the broker whose leader-epoch-checkpoint is the cause; null: none"]
    wrong_lines: WrongLines
    hole: LogHole
    compacted: Annotated[
        bool | None,
        "whether batches may be missing without harm: cleanup.policy or a cleaner checkpoint says so, or, without both, the logs show it",
    ]
    evidence: Annotated[str | None, "files, offsets and epochs that the verdict rests on"]
    reason: Annotated[str, "the verdict in one sentence"]
    inferred_because: Annotated[
        str | None,
        "why the leader is inferred: no-metadata, metadata-outdated, no-leader (by the metadata there is none) or leader-not-named; "
        "null: it is known",
    ]
    cause: NotComparedBecause
    wrong_epoch: Annotated[
        WrongTableEpoch | None,
        "for epoch_table_only: the broker whose leader-epoch-checkpoint is wrong, the first offset at which it is, its epoch there "
        "(null: none) and that of the batches (-1: none)",
    ]
    did_otherwise: Annotated[
        ContradictingLine | None,
        "the line of its broker's server.log that contradicts the rule: where it truncated, and where the rule does (null: nowhere)",
    ]
    differences: Annotated[
        tuple[DifferingOffsets, ...] | None, "offsets [first, end) that both hold in different epochs, from the divergence on"
    ]
    conflicts: Annotated[
        tuple[DifferingOffsets, ...] | None,
        "offsets [first, end) that still differ once it fetches records again; an epoch of null: missing",
    ]
    cleaned_beyond_cut: Annotated[bool | None, "whether the follower's cleaner had gone on beyond the truncation offset"]
    rests_on: Annotated[tuple[EvidenceFact, ...] | None, "the evidence, fact by fact: a file and what it has at an offset, also in words"]
    mismatch: FirstMismatch
    differing_keys: Annotated[
        tuple[DifferingKeyCount, ...] | None,
        "keys and transaction markers whose records differ in a way that compaction does not allow, counted by cause and by the replica "
        "that is wrong; only those that the follower keeps. Null: records were not compared; the keys are in differences",
    ]
    records_unread: Annotated[str | None, "why records could not be compared although requested; null: they were, or it was not requested"]
    not_compared_offsets: Annotated[
        Bigint | None, "of consistent: offsets of the follower beyond the leader's copy, which its log got since; null: none"
    ]
    bounded_by: Annotated[
        str | None,
        "of consistent, what proves that nothing diverges among these offsets. current-epoch: they are of the epoch in which the leader "
        "leads, and nobody else writes; second-look: collect looked at the leader's log again, and it held them in the same epochs; "
        "later-table: so does its epoch table, which was copied after its log",
    ]
    differing_records: Annotated[
        tuple[DifferingRecordCounted, ...] | None,
        "differing records of a partition that is not compacted, those that the follower keeps, "
        "each counted once, by the first of presence (lacking_id: the replica that lacks them), key, value, headers, timestamp and "
        "producer that differs. Null: records were not compared; the first ones are in differences",
    ]
    keys_may_differ: Annotated[
        bool | None,
        "of a compacted partition whose keys were not compared, where the verdict is clean: whether an unclean election, a truncation "
        "or an emptied segment has touched it, so that its replicas may hold other keys at equal offsets. "
        "Null: batches or keys were compared, or need not be",
    ] = None
    lost_by_transaction: ByTransaction = None

    @property
    def key(self) -> tuple[str, int]:
        """Its partition."""
        return self.topic, self.partition

    @property
    def loses_records(self) -> int | None:
        """Truncated records that the leader does not hold; of a run of an older version all that are truncated."""
        return self.removed_records if self.lost_records is None else self.lost_records

    @property
    def proven_committed(self) -> int | None:
        """Lost offsets that were committed; None where something is lost, or may be, and nothing proves that it was."""
        return None if not self.removed_committed and self.loses_records != 0 else self.removed_committed

    @property
    def committed(self) -> int | None:
        """Committed offsets that are lost; a run of an older version counted only those below a high watermark."""
        return self.removed_below_high_watermark if self.removed_committed is None else self.removed_committed


def is_clean_but_unread(verdict: ReplicaVerdict) -> bool:
    """Whether a follower is clean though its records were to be compared and could not be."""
    return verdict.severity == "none" and verdict.records_unread is not None


REPLICA_VERDICTS = table(
    ReplicaVerdict,
    name="replica_verdicts",
    grain="one row per leader and follower",
    constraints={
        "known_severity": "severity IN ('critical', 'error', 'warning', 'none')",
        "removes_what_is_there": "removed_offsets IS NULL OR removed_offsets >= 0",
    },
    is_dated=True,
)
