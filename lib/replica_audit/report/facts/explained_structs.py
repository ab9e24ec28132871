"""What single columns of the tables hold: structs, named as their fields."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.protocol.exchange.exchange_cases import Case, EpochRequest, FallsBack, OutOfRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """The fetch that the leader refuses for good: `replica_verdicts.stuck`."""

    fetch_offset: int
    requested_epoch: int | None
    answered_epoch: int | None
    answered_end_offset: int | None
    back_to_offset: int
    before_records: bool
    fresh_replica_too: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWrongLine:
    """A line of a leader-epoch-checkpoint that its batches contradict: an element of `replica_verdicts.wrong_lines`."""

    epoch: int
    start_offset: int | None
    found_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedHole:
    """Offsets [first, end) that one of the two logs misses: `replica_verdicts.hole`."""

    broker_id: int
    first_offset: int
    end_offset: int
    segment_before: int | None
    segment_after: int | None
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One answer of the leader: an element of `truncation_points.rounds`. Runs of older versions lack what decided it, and what follows."""

    requested_epoch: int | None
    answered_epoch: int | None
    answered_end_offset: int | None
    truncate_to: int | None
    complete: bool
    request: EpochRequest | None = None
    decided_by: Case | None = None
    log_end_offset: int | None = None
    own_epoch: int | None = None
    own_end_offset: int | None = None
    out_of_range: OutOfRange | None = None
    restart_offset: int | None = None
    dropped_epochs: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFallback:
    """How the follower falls back to its high watermark: `truncation_points.fallback`."""

    because: FallsBack
    after_round: int
    high_watermark: int
    in_memory: bool
    log_end_offset: int
    truncate_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntEpoch:
    """An entry that the follower's table gets with what it fetches: an element of `truncation_points.learnt_epochs`."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDifference:
    """Offsets [first, end) at which two logs differ: an element of `replica_verdicts.differences` and `conflicts`. None: it misses them."""

    first_offset: int
    end_offset: int
    leader_epoch: int | None
    follower_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWrongEpoch:
    """Where a leader-epoch-checkpoint contradicts its batches: `replica_verdicts.wrong_epoch`."""

    broker_id: int
    offset: int
    table_epoch: int | None
    batch_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedContradiction:
    """A line of a server.log that contradicts the rule: `replica_verdicts.did_otherwise`."""

    offset: int
    path: str
    line: int
    rule_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MismatchedBatch:
    """A batch that is not the other side's: `leader` and `follower` of `replica_verdicts.mismatch`."""

    path: str
    byte_offset: int | None
    first_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int | None
    max_timestamp_ms: int
    size_bytes: int
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MismatchedSizes:
    """A record without its contents."""

    timestamp_ms: int
    key_bytes: int | None
    value_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MismatchedRecord:
    """The first record that is not the other side's: `record` of `replica_verdicts.mismatch`."""

    offset: int
    parts: tuple[str, ...]
    leader: MismatchedSizes | None
    follower: MismatchedSizes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMismatch:
    """Where the batches of two logs first differ: `replica_verdicts.mismatch`."""

    kind: str
    leader: MismatchedBatch | None
    follower: MismatchedBatch | None
    record: MismatchedRecord | None
    compared_end_offset: int | None
    unread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDamage:
    """A row of `damaged_batches`, also as `findings.damaged` has it."""

    broker_id: int
    damage: str
    first_offset: int
    last_offset: int | None
    path: str
    byte_offset: int | None
    stored_crc: int | None
    computed_crc: int | None
    wrong_fields: tuple[str, ...]
    good_broker_ids: tuple[int, ...]
    recovery: str
    recover_from_id: int | None
    cut_by_recovery: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A file, and what it has: an element of `replica_verdicts.rests_on`."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKeyCount:
    """How many keys differ for one cause: an element of `replica_verdicts.differing_keys`."""

    cause: str
    broker_id: int
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRecordCount:
    """How many records differ in one part: an element of `replica_verdicts.differing_records`."""

    part: str
    lacking_id: int | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCopy:
    """A record on one side: a column of `record_differences`."""

    timestamp_ms: int
    key_hash: str
    key_bytes: int | None
    value_bytes: int | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRecord:
    """The newest record of a key on one side: a column of `compaction_differences`."""

    offset: int
    timestamp_ms: int
    is_tombstone: bool
