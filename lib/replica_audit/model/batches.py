"""What is read of a segment: batches, runs of them, and where it ends; producers and transactions. Offsets are record offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.frozen import made_quickly

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class BatchHeader(NamedTuple):
    """One record batch as its header tells it (magic 2), or one entry of a legacy message set (magic 0, 1).

    `last_offset` is inclusive. `leader_epoch` is -1 where the format has none. For a compressed legacy entry only the
    last offset is stored: `base_offset` is then the lower bound that the entry before it leaves.
    `crc_valid` is None where the checksum was not verified. `record_count` is None where the text does not tell it.
    """

    position: int
    base_offset: int
    last_offset: int
    size_bytes: int
    magic: int
    leader_epoch: int
    record_count: int | None
    max_timestamp_ms: int
    crc: int = 0
    crc_valid: bool | None = None
    codec: str = "none"
    is_transactional: bool = False
    is_control: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where a segment, or its text, stops being a log: the last item that a reader yields, unless `goes_on`.

    `goes_on`: only offsets are wrong, which go back at a batch that matches its CRC. It is yielded next, and what is behind it is read.

    `code` is one of `torn-batch`, `trailing-bytes`, `zero-filled-tail`, `bad-batch-length`, `bad-batch-header`,
    `offsets-not-increasing`, `dump-truncated`, `dump-malformed`. `byte_offset` is a position in the segment (also when it was read from
    text);
    `line` is a line of the text, counted from 1.
    """

    code: str
    detail: str
    byte_offset: int | None = None
    line: int | None = None
    goes_on: bool = False


class BatchRun(NamedTuple):
    """Consecutive batches of one segment with one leader epoch and no offset missing between them.

    Offsets are inclusive at both ends. Timestamps are the smallest and largest of the batches' max timestamps, in milliseconds.
    `magic` is the newest format in the run. `intact` is False where the run is batches whose CRC does not match.
    """

    leader_epoch: int
    first_offset: int
    last_offset: int
    batch_count: int
    record_count: int
    size_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    magic: int
    intact: bool


class Window(NamedTuple):
    """The batches that begin in one window of offsets, and a digest of them.

    `window_start_offset` is inclusive, `window_end_offset` exclusive; their difference is a power of two and divides both (except the
    window at the very end of 64 bits, whose end is one less). `digest` is a signed 64-bit number, the sum of a number for each batch.
    """

    window_start_offset: int
    window_end_offset: int
    digest: int
    batch_count: int


class ProducerSpan(NamedTuple):
    """What the batches of one producer id in a segment, or in several that follow each other, come to.

    Offsets are inclusive, -1 where there is nothing of the kind; so are epochs and sequences. Batches of records are counted apart from
    transaction markers, and only they have sequences: of the first one `first_data_offset`, `first_epoch`, `first_sequence` and
    `first_timestamp_ms`; of the last one `last_data_offset`, `last_epoch`, `last_sequence` (of its last record) and `last_timestamp_ms`. A
    sequence of -1: the batch has none, as a transaction's committed offsets. `min_` and `max_timestamp_ms` are over the max timestamps of
    all batches, markers too. `gap_count` and `missing_count`: how often sequences are missing between two batches of the span, and how
    many in all.

    The first marker also ends a transaction that began before the span. `open_first_offset` and `open_timestamp_ms` are those of the first
    batch of the transaction that no marker of the span ends, as far as it lies in the span.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    batch_count: int
    record_count: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    first_data_offset: int
    first_epoch: int
    first_sequence: int
    first_timestamp_ms: int
    last_data_offset: int
    last_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    gap_count: int
    missing_count: int
    marker_count: int
    first_marker_offset: int
    last_marker_offset: int
    last_marker_epoch: int
    open_first_offset: int
    open_timestamp_ms: int


class SequenceGap(NamedTuple):
    """Two batches of a producer id that follow each other, and between whose sequences others are missing.

    `last_offset_before` and `first_offset_after` are where the one before ends and the next begins, both inclusive: what lies between them
    is of other producers. The next one has the sequence `found_sequence` in the place of `expected_sequence`: that behind the last one
    before, or 0 if its epoch `producer_epoch` is another than `producer_epoch_before`. `missing_count` is 0 where sequences went back.
    """

    producer_id: int
    last_offset_before: int
    first_offset_after: int
    producer_epoch_before: int
    producer_epoch: int
    expected_sequence: int
    found_sequence: int
    missing_count: int
    timestamp_before_ms: int
    timestamp_after_ms: int


class Producers(NamedTuple):
    """Who wrote a segment: a span for each producer id, by first offset, and the first gaps in their sequences, by offset.

    Spans count all gaps, also those that are not listed. `untold_batches`: batches with a producer id that are in no span, as there were
    too many ids, or the batch does not match its CRC. Where there are any, what is not told here may still be in the segment.
    """

    spans: tuple[ProducerSpan, ...]
    gaps: tuple[SequenceGap, ...]
    untold_batches: int


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment as it was read: its runs in file order, digests of its batches, and whether the reader stopped before its end.

    `base_offset` is the number in the file name. `swap` marks a `.swap` file, a finished replacement that was not yet renamed.
    `producers` are those of the batches before the damage; None where an older version collected it: then nothing is known of them.
    """

    base_offset: int
    runs: tuple[BatchRun, ...]
    damaged: bool = False
    swap: bool = False
    windows: tuple[Window, ...] = ()
    producers: Producers | None = None

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset of a segment without batches (LogSegment.readNextOffset)."""
        return self.runs[-1].last_offset + 1 if self.runs else self.base_offset


# What is known of producers and their transactions beside the log: from their coordinators, snapshots, indexes of aborted ones.


@dataclass(frozen=True, slots=True)
class TransactionState:
    """The state of one transactional id as its coordinator wrote it last.

    `state` is Kafka's name: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead or PrepareEpochFence.
    `producer_id` and `producer_epoch` are those that its next transaction uses, or its open one. `timeout_ms` is the transaction's, which
    the producer chose. `partitions` are (topic, partition), those of the transaction that is not complete. `last_update_ms` and `start_ms`
    are -1 where the record tells none: `start_ms` is when the open transaction began.

    `previous_producer_id` is the producer id that it used before, `next_producer_id` the one that it goes on with once the present
    transaction is completed (KIP-890: when the epochs of an id are used up); -1 where there is none, or the record does not tell.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1


class ProducerState(NamedTuple):
    """What a producer snapshot says of one producer id; -1 for what it does not have.

    `last_sequence` and `last_offset` (inclusive) are those of the last record that it wrote in its current epoch, `offset_delta` the number
    of records before it in its batch. `open_first_offset` is that of the transaction that is not ended, inclusive.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    open_first_offset: int


class EndMarker(NamedTuple):
    """A transaction marker: whether it commits, and the epoch of the coordinator that had it written, None where that is not known.

    The epoch of a coordinator is the leader epoch of its partition of `__transaction_state`.
    """

    is_commit: bool
    coordinator_epoch: int | None


class AbortedTransaction(NamedTuple):
    """One entry of an index of aborted transactions.

    Offsets are inclusive: of the transaction's first record, and of its marker. `last_stable_offset` is that when it ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


# Batches as they are stored, read a second time with all their bytes: what tells two replicas apart beyond a header.


class HashedRecord(NamedTuple):
    """One record without its contents: enough to tell whether two are equal.

    `key_bytes` and `value_bytes` are their sizes, None where there is none. Digests are of 128 bits; that of the headers is of all of them.
    """

    offset: int
    timestamp_ms: int
    key_bytes: int | None
    value_bytes: int | None
    key: bytes
    value: bytes
    headers: bytes


class BatchBody(NamedTuple):
    """What lies behind a batch's header: the CRC of its bytes as they are, and its records, or why they cannot be had."""

    computed_crc: int
    records: tuple[HashedRecord, ...]
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch and the file that holds it.

    `read` gives its body until the next batch is asked for; None where the input has headers only (collected batches, text). `marker`
    gives, as long, which transaction marker a control batch is, None if it is none or that cannot be read; None where the input does not
    have it. `read_keys` gives, as long, the keys of its records by offset; empty if they cannot be had.
    """

    path: str
    header: BatchHeader
    read: Callable[[], BatchBody] | None
    marker: Callable[[], EndMarker | None] | None = None
    read_keys: Callable[[], Mapping[int, bytes | None]] | None = None


class StoredHeader(NamedTuple):
    """The first fields of a batch as they are stored, whether or not they make sense; `length` counts what is behind it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int


@dataclass(frozen=True, slots=True)
class StoredDamage:
    """Where a segment stops being a log, before `next_offset`, and what stands there.

    `position` is the byte behind the last batch that could be read; `header` is None if there are too few bytes.
    """

    path: str
    damage: Damage
    position: int
    next_offset: int
    header: StoredHeader | None
