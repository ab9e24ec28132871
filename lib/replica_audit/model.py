"""The values that pass between layers. Pure data; offsets are record offsets, `end` and `log_end_offset` are exclusive."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import NamedTuple

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
    crc: int
    crc_valid: bool | None
    codec: str
    is_transactional: bool
    is_control: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where a segment, or its text, stops being a log. Always the last item that a reader yields.

    `code` is one of `torn-batch`, `trailing-bytes`, `zero-filled-tail`, `bad-batch-length`, `bad-batch-header`,
    `offsets-not-increasing`, `dump-truncated`, `dump-malformed`. `byte_offset` is a position in the segment (also when it was read from
    text);
    `line` is a line of the text, counted from 1.
    """

    code: str
    detail: str
    byte_offset: int | None = None
    line: int | None = None


class Run(NamedTuple):
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

    `window_start_offset` is inclusive, `window_end_offset` exclusive; their difference is a power of two and divides both (but for the
    window at the very end of 64 bits, whose end is one less). `digest` is a signed 64-bit number, the sum of a number for each batch.
    """

    window_start_offset: int
    window_end_offset: int
    digest: int
    batch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment as it was read: its runs in file order, digests of its batches, and whether the reader stopped before its end.

    `base_offset` is the number in the file name. `swap` marks a `.swap` file, a finished replacement that was not yet renamed.
    """

    base_offset: int
    runs: tuple[Run, ...]
    damaged: bool = False
    swap: bool = False
    windows: tuple[Window, ...] = ()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset of a segment without batches (LogSegment.readNextOffset)."""
        return self.runs[-1].last_offset + 1 if self.runs else self.base_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in the input that cannot be used as it is: one row of `input_errors`.

    `kind` says what the file is taken for (`directory`, `segment`, `leader-epoch-checkpoint`, ...); `line` counts from 1, `byte_offset`
    from 0.
    """

    path: str
    kind: str
    code: str
    detail: str
    remedy: str
    line: int | None = None
    byte_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """Where one segment of a replica is to be read from: a raw file, or a part of a text of kafka-dump-log.

    `source` is `raw`, `dump` or `collected`. `byte_start`, `byte_end` and `first_line` delimit the part of a text; -1, -1 and 0 otherwise.
    `unpacked_bytes` is the size of a whole text that is packed or not in UTF-8, and so has to be read from its beginning; 0 otherwise.
    Of a segment that was collected, `path` is where it lay on the broker, `batch_index` the Parquet file that tells its batches, and `copy`
    a copy of the whole segment, if one was made.
    """

    path: str
    source: str
    base_offset: int
    size_bytes: int
    swap: bool = False
    byte_start: int = -1
    byte_end: int = -1
    first_line: int = 0
    unpacked_bytes: int = 0
    batch_index: str | None = None
    copy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """One segment of a replica directory, where it lies and what was read of it.

    `failed`: it could not be read, or not as a segment, and nothing is known of it. `problems`: what is wrong with it.
    """

    log_dir: str
    directory: str
    file: SegmentFile
    segment: Segment
    failed: bool
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One replica directory of one broker, with what the small files in it and beside it say.

    `state` is current, future, deleted or stray. `checkpoint_state` is `ok`, `healed`, `empty`, `missing`, `unreadable` or `not-collected`;
    `checkpoint` holds the entries as found in the file, (line, epoch, start offset), also those of one that is malformed; `epochs` is the
    table as loaded.
    The four offsets are the entries of the offset checkpoints, None if there is none; `high_watermarks_collected` is False where the whole
    replication-offset-checkpoint is not in the input. `offline_reason`: why a broker would take the directory offline.

    Of a replica that was collected, `log_dir` is the broker's, `folder` has the copies of its small files, `scans` is the Parquet file with
    the scans of its segments, and `captured_at_ms` is when it was taken; None of others. `in_use`: a broker was at work on it.
    `has_lock`: the log directory's `.lock`, which a broker leaves there for good, is in the input: a copy would have the marker of a clean
    shutdown, too.
    """

    log_dir: str
    directory: str
    topic: str
    partition: int
    state: str
    topic_id: str | None
    segments: tuple[SegmentFile, ...]
    checkpoint_state: str
    checkpoint: tuple[tuple[int, int, int], ...]
    epochs: tuple[tuple[int, int], ...]
    high_watermark: int | None
    high_watermarks_collected: bool
    recovery_point: int | None
    log_start_offset: int | None
    cleaner_offset: int | None
    clean_shutdown: bool
    offline_reason: str | None
    problems: tuple[Problem, ...]
    folder: str | None = None
    scans: str | None = None
    captured_at_ms: int | None = None
    in_use: bool = False
    has_lock: bool = False

    @property
    def path(self) -> str:
        """Of the replica's directory, or the URI of one in an object store."""
        return self.beside(self.directory)

    def beside(self, name: str) -> str:
        """The path of what lies in the log directory beside it."""
        return name if self.log_dir == "." else posixpath.join(self.log_dir, name)

    def inside(self, name: str) -> str:
        """The path of what lies in the replica's directory."""
        return posixpath.join(self.path, name)


class Election(NamedTuple):
    """One leader epoch of a partition as the metadata log tells it. `leader_id` is -1 where nobody leads.

    `kind` is created, snapshot, clean, unclean, same-leader or leaderless; `isr` and `elr` are those after the change, `electable` the ISR
    and ELR before it: who could be elected cleanly. The record stands at `metadata_offset` of the metadata log, in its epoch
    `metadata_epoch`.
    """

    leader_epoch: int
    leader_id: int
    kind: str
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int
    electable: tuple[int, ...] = ()


class IsrChange(NamedTuple):
    """One change of a partition's ISR within a leader epoch; `isr` is that after the change. Offset and epoch as in `Election`."""

    leader_epoch: int
    isr: tuple[int, ...]
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


class MinIsrSetting(NamedTuple):
    """min.insync.replicas as the metadata log sets it; None where a record removes it, or its value is no number.

    `broker` is None in a topic's own setting, the id of the broker that it is of, or -1 in the cluster's default.
    """

    value: int | None
    metadata_offset: int
    broker: int | None = None


class BrokerEvent(NamedTuple):
    """A broker's registration as a record of the metadata log leaves it: a `BrokerState`, or `unregistered`."""

    broker_id: int
    state: str
    metadata_offset: int
    metadata_epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """What one source says of one partition. `leader` and `leader_epoch` are -1 where there is none or it is unknown.

    `no_leader`: the source names the partition and says that nobody leads it. `last_known_elr`: of KIP-966; of a partition without a leader
    its one member is the last leader.

    `source` is `cluster-metadata` (the file) or `metadata-log` (a broker's copy of the KRaft log). `known_at_ms`: when the file was
    written, or the partition last changed; None if unknown. `log_epoch` and `log_end_offset` tell how far a copy of the log reaches, -1 for
    the file. `isr_changes` are those within epochs, besides `elections`; `min_isr` the topic's settings of min.insync.replicas, in order;
    `ever_replicas` every replica that a record assigned. All three are empty where no metadata log is known.
    """

    topic: str
    partition: int
    topic_id: str | None
    compacted: bool
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    no_leader: bool = False
    source: str
    known_at_ms: int | None = None
    log_epoch: int = -1
    log_end_offset: int = -1
    elections: tuple[Election, ...] = ()
    isr_changes: tuple[IsrChange, ...] = ()
    min_isr: tuple[MinIsrSetting, ...] = ()
    ever_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group last committed for a partition: the offset of the next record that it would read.

    `leader_epoch` is that of the last record that it had read, -1 where it is unknown. `commit_timestamp_ms` is -1 where a text does not
    tell it. `topic_id` is in the form that Kafka prints, None where it is unknown. The commit is the record at `record_offset` of the
    partition of `__consumer_offsets`, in the file `path`.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    commit_timestamp_ms: int
    topic_id: str | None
    record_offset: int
    path: str


class LoggedVersions(NamedTuple):
    """The versions that a broker's own log shows last; None of what it does not show."""

    kafka_version: str | None = None
    inter_broker_protocol: str | None = None


class BrokerStanding(NamedTuple):
    """A broker as one copy of the metadata log leaves it: a `BrokerState`, whether it is fenced, and when that last changed."""

    broker_id: int
    fenced: bool
    state: str
    changed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """One copy of the metadata log as a whole: how far it reaches (epoch, end offset), and what it says of the brokers.

    `last_timestamp_ms`: when its last batch was appended; -1 if it has none.
    """

    metadata_version: int | None
    log_epoch: int
    log_end_offset: int
    brokers: tuple[BrokerStanding, ...]
    broker_events: tuple[BrokerEvent, ...] = ()
    min_isr: tuple[MinIsrSetting, ...] = ()
    last_timestamp_ms: int = -1
