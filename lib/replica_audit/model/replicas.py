"""What is read of a replica: its files, its segments, what is wrong with them, and how much there is."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.frozen import made_quickly
from replica_audit.model.batches import Segment

# codes of a Problem by which something else is decided
CANNOT_READ = "cannot-read"  # the operating system refused it
LINK_OUTSIDE = "link-outside"  # a link leads out of the folder that was given, and is not followed
NOT_OPENED = frozenset({CANNOT_READ, LINK_OUTSIDE})
NOT_USED = "not-used"  # `checkpoint_state` of a log that has no epoch table, whatever the file says
GONE = "gone"  # a segment that was there when the directory was listed, and is not
MISLEADING_INDEX = "misleading-index"  # a broker that follows an index of a segment passes over records, or returns aborted ones
PERHAPS_MISLEADING_INDEX = "perhaps-misleading-index"  # the same, unless the log changed between the copies of the two files
INCOMPLETE_COLLECTION = "incomplete-collection"  # not what collect wrote


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


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """Where one segment of a replica is to be read from: a raw file, or a part of a text of kafka-dump-log.

    `source` is `raw`, `dump` or `collected`. `byte_start`, `byte_end` and `first_line` delimit the part of a text; -1, -1 and 0 otherwise.
    `unpacked_bytes` is the size of a whole text that is packed or not in UTF-8, and so has to be read from its beginning; 0 otherwise.
    `stops_early`: the text was made with a limit of bytes, so that those which it calls invalid at the end are only not read.
    `beside`: of a raw file, the endings of its index files' names, with blanks between: `.index .timeindex`.
    Of a segment that was collected, `path` is where it lay on the broker, `batch_index` the Parquet file that tells its batches, and `copy`
    a copy of the whole segment, if one was made; `kept_crc32c` is the CRC-32C of the copy or the index, None of an earlier release's.
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
    kept_crc32c: int | None = None
    stops_early: bool = False
    beside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerText:
    """A part of a text of kafka-dump-log that shows a producer snapshot or an index of aborted transactions: `name` is that of the file.

    `byte_start`, `byte_end` and `first_line` as of `SegmentFile`.
    """

    name: str
    path: str
    byte_start: int
    byte_end: int
    first_line: int


@made_quickly
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
class SecondLook:
    """What `collect` saw of a replica when it looked again, after all had been captured: its log still held the end of the capture.

    The log reached `log_end_offset`, or beyond. `epochs` are the entries of its epoch table from that of the capture's end on.
    """

    looked_at_ms: int
    log_start_offset: int
    log_end_offset: int
    epochs: tuple[tuple[int, int], ...]


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One replica directory of one broker, with what the small files in it and beside it say.

    `state` is current, future, deleted or stray. `checkpoint_state` is `ok`, `healed`, `empty`, `missing`, `unreadable`, `not-collected`
    or `not-used` (the broker leaves it alone: the log is in a format before v2);
    `checkpoint` holds the entries as found in the file, (line, epoch, start offset), also those of one that is malformed; `epochs` is the
    table as loaded, `checkpoint_sha256` the digest of the file's bytes, None where there are none.
    The four offsets are the entries of the offset checkpoints, None if there is none; `high_watermarks_collected` is False where the whole
    replication-offset-checkpoint is not in the input, `cleaner_offsets_collected` where cleaner-offset-checkpoint is not. `offline_reason`:
    why a broker would take the directory offline.

    Of a replica that was collected, `log_dir` is the broker's, `folder` has the copies of its segments, if they were copied, `scans` is the
    Parquet file with the scans of its segments, and `captured_at_ms` is when it was taken; None of others. `verified_at_ms` is when the
    CRCs of that segment were verified whose last check is the oldest, None: of one they never were, or the input does not say. `in_use`: a
    broker was at work on it. `second_look`: how its log went on; None if nobody looked, or the log had changed otherwise.
    `clean_shutdown_epoch`: the broker epoch in the marker of a clean shutdown, None where it has none (before Kafka 3.7).
    `has_lock`: the log directory's `.lock`, which a running broker has there, one that was killed, and of older releases any, is in the
    input: a copy would have the marker of a clean shutdown, too. `producer_files`: names of its newest producer snapshots and of its
    indexes of aborted transactions; `producer_texts`: text of kafka-dump-log of such files. `is_refused`: its folder cannot, or
    could not, be listed, so that nobody knows what is in it.
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
    verified_at_ms: int | None = None
    in_use: bool = False
    second_look: SecondLook | None = None
    clean_shutdown_epoch: int | None = None
    has_lock: bool = False
    producer_files: tuple[str, ...] = ()
    producer_texts: tuple[ProducerText, ...] = ()
    cleaner_offsets_collected: bool = False
    is_refused: bool = False
    checkpoint_sha256: str | None = None

    @property
    def path(self) -> str:
        """Of the replica's directory, or the URI of one in an object store."""
        return self.beside(self.directory)

    @property
    def has_known_table(self) -> bool:
        """Whether the file tells the table that the broker uses."""
        return self.checkpoint_state not in ("not-collected", NOT_USED)

    def beside(self, name: str) -> str:
        """The path of what lies in the log directory beside it."""
        return name if self.log_dir == "." else posixpath.join(self.log_dir, name)

    def inside(self, name: str) -> str:
        """The path of what lies in the replica's directory."""
        return posixpath.join(self.path, name)


class LogDirectory(NamedTuple):
    """A log directory that has a `meta.properties`, as a whole: whose it is, and how much of it is in the input.

    `folder` is the broker's folder in the input, `path` as in `ReplicaFiles.log_dir`. `directory_id` is that of KIP-858, None before it.
    `is_kraft`: whether a KRaft broker formatted it (version 1), None where the file does not say. `is_whole`: it has one of the checkpoints
    that brokers write for all replicas, and nothing in it was refused. `reaches` is the sum of its checkpointed high watermarks. `replicas`
    is the number of its current replicas, `sample` the names of some of them: of two directories mostly the same ones, if they have them.
    `without_directory` names replicas that its checkpoints have and that have no directory.
    """

    folder: str
    path: str
    directory_id: str | None
    is_kraft: bool | None
    is_whole: bool
    reaches: int
    replicas: int
    sample: tuple[str, ...]
    without_directory: tuple[str, ...]


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


# Codes of input problems that leave something of the input unread, or only partly read: a run with one of them proves nothing clean.

NOT_READ_WHOLE = frozenset(
    {
        # a whole input
        "no-such-path",
        "not-a-directory",
        "nothing-recognised",
        "no-replicas",
        "one-broker-of-several",
        # a file or a folder
        "cannot-read",
        "link-outside",
        "too-large",
        "too-many-folders",
        "malformed",  # a small file, a metadata file, a text
        "not-as-written",  # a checkpoint of offsets
        "log-start-beyond-log-end",
        "incomplete",  # a metadata log
        "bad-records",
        "malformed-record",
        "incomplete-collection",
        "no-segments",
        "unusable-value",
        # whose it is, is not known: left out, or a guess
        "unknown-broker",
        "unknown-replica",
        "missing-meta-properties",
        "cluster-id-mismatch",
        "two-copies-of-a-broker",
        "replica-in-two-log-dirs",
        "directory-id-of-two-brokers",
        "segments-outside-a-replica",
        "misplaced",
        # texts of kafka-dump-log and of brokers' logs
        "dump-truncated",
        "dump-malformed",
        "unusable-dump",
        "impossible-epoch",
        "server-log-of-another-broker",
        "line-cut",
        "unusable-log",
        # what a broker reads by it is not what the log holds
        MISLEADING_INDEX,
    }
)
"""The audit would have used it. Not here is what a verdict tells by itself, and what no verdict rests on (`hidden-folder`, `packed`)."""


# How much there is to read.


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesToRead:
    """How much there is of everything. `text_bytes` are as unpacked, `collected_bytes` those of the Parquet files that stand for segments.

    `compacted_bytes` are those of raw segments of compacted topics, `raw_bytes` those of all.
    """

    partitions: int
    replicas: int
    files: int
    raw_bytes: int
    compacted_bytes: int
    text_bytes: int
    collected_bytes: int


class Amounts(NamedTuple):
    """How much a source holds: audited replica directories, segments, and their bytes.

    `group_offsets` and `transaction_states` are replicas of `__consumer_offsets` and `__transaction_state`.
    """

    replicas: int = 0
    segments: int = 0
    size_bytes: int = 0
    group_offsets: int = 0
    transaction_states: int = 0
