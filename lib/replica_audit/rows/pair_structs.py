"""What single columns of `truncation_points`, `replica_verdicts` and `findings` hold: rows in a row."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.frozen import made_quickly
from replica_audit.rows.codes import Case, EpochRequest, FallsBack, OutOfRange
from replica_audit.rows.columns import Bigint, Int


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
