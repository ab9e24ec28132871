"""Every table and every row shape between stages: columns, types, comments, constraints. The only place.

Offsets are bigint, epochs, ids and partitions int. `_offset` ends are exclusive (`end`, `log_end_offset`) unless named `last_`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

STRING, INT, BIGINT, BOOLEAN = pa.string(), pa.int32(), pa.int64(), pa.bool_()
TIMESTAMP = pa.timestamp("us", tz="UTC")


class Column(NamedTuple):
    """A column: name, Arrow type, comment, whether null is allowed."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table. `constraints` maps a name to a CHECK expression; `cluster_by` names the clustering columns."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    constraints: dict[str, str]
    cluster_by: tuple[str, ...] = ("cluster_id",)

    @property
    def arrow(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])


def shape(columns: Iterable[Column]) -> pa.StructType:
    """Columns as a struct type."""
    return pa.struct([pa.field(c.name, c.type, c.nullable) for c in columns])


def struct(**fields: pa.DataType) -> pa.StructType:
    """A struct type from names and types."""
    return pa.struct(list(fields.items()))


# --- shapes that rows have between stages; the fields are those of the dataclass or tuple of the same name in `model` ---

RUN = struct(
    leader_epoch=INT,
    first_offset=BIGINT,
    last_offset=BIGINT,
    batch_count=BIGINT,
    record_count=BIGINT,
    size_bytes=BIGINT,
    min_timestamp_ms=BIGINT,
    max_timestamp_ms=BIGINT,
    magic=INT,
    intact=BOOLEAN,
)
PROBLEM = struct(path=STRING, kind=STRING, code=STRING, detail=STRING, remedy=STRING, line=BIGINT, byte_offset=BIGINT)
SEGMENT_FILE = struct(
    path=STRING,
    source=STRING,
    base_offset=BIGINT,
    size_bytes=BIGINT,
    swap=BOOLEAN,
    byte_start=BIGINT,
    byte_end=BIGINT,
    first_line=BIGINT,
)
REPLICA_FILES = struct(
    log_dir=STRING,
    directory=STRING,
    topic=STRING,
    partition=INT,
    state=STRING,
    topic_id=STRING,
    segments=pa.list_(SEGMENT_FILE),
    checkpoint_state=STRING,
    checkpoint=pa.list_(struct(line=INT, epoch=INT, start_offset=BIGINT)),
    epochs=pa.list_(struct(epoch=INT, start_offset=BIGINT)),
    high_watermark=BIGINT,
    recovery_point=BIGINT,
    log_start_offset=BIGINT,
    cleaner_offset=BIGINT,
    clean_shutdown=BOOLEAN,
    offline_reason=STRING,
    problems=pa.list_(PROBLEM),
)
SEGMENT_SCAN = struct(
    log_dir=STRING,
    directory=STRING,
    file=SEGMENT_FILE,
    runs=pa.list_(RUN),
    damaged=BOOLEAN,
    failed=BOOLEAN,
    problems=pa.list_(PROBLEM),
)
PARTITION_METADATA = struct(topic_id=STRING, compacted=BOOLEAN, leader=INT, leader_epoch=INT, replicas=pa.list_(INT), isr=pa.list_(INT))
_REPLICA_KEYS: list[Any] = [
    pa.field("cluster_id", STRING),
    pa.field("broker_id", INT),
    pa.field("topic", STRING),
    pa.field("partition", INT),
]
INVENTORY = pa.schema(
    [*_REPLICA_KEYS, pa.field("replica", REPLICA_FILES), pa.field("metadata", PARTITION_METADATA), pa.field("problem", PROBLEM)]
)
SEGMENTS = pa.schema([*_REPLICA_KEYS, pa.field("segment", SEGMENT_SCAN)])

# --- tables ---

RUN_ID = Column("run_id", STRING, "the run that wrote the row", False)
CLUSTER_ID = Column("cluster_id", STRING, "cluster.id of the audited cluster; a path where it is unknown", False)
_KEYS = (RUN_ID, CLUSTER_ID)
_PARTITION = (Column("topic", STRING, "topic name", False), Column("partition", INT, "partition number", False))
_BROKER = Column("broker_id", INT, "broker that holds the replica", False)
_PAIR = (
    *_PARTITION,
    Column("leader_id", INT, "broker that leads the partition; -1: unknown", False),
    Column("follower_id", INT, "broker that follows", False),
)
_LEADER_SOURCE = Column("leader_source", STRING, "where the leader is known from: cluster-metadata, metadata-log or inferred", False)
_PARTITION_CHECK = {"partition_not_negative": "partition >= 0"}

ROUND = struct(requested_epoch=INT, answered_epoch=INT, answered_end_offset=BIGINT, truncate_to=BIGINT, complete=BOOLEAN)

AUDIT_RUNS = Table(
    name="audit_runs",
    grain="one row per run and cluster; a run counts only when its row says complete",
    columns=(
        *_KEYS,
        Column("started_at", TIMESTAMP, "when the run began, UTC", False),
        Column("finished_at", TIMESTAMP, "when its last table was written, UTC; null while it runs"),
        Column("status", STRING, "running or complete", False),
        Column("exit_code", INT, "of the whole run: 0 nothing found, 1 findings at or above fail-on, 2 nothing readable, 3 inconclusive"),
        Column("run_date", pa.date32(), "the date the run is for", False),
        Column("inputs", pa.list_(STRING), "the roots that were read"),
        Column("config", STRING, "the resolved configuration, JSON"),
        Column("protocol", STRING, "the truncation rule that applies to the cluster"),
        Column("protocol_reason", STRING, "what the rule was derived from"),
        Column("replicas", BIGINT, "rows of replica_logs"),
        Column("partitions", BIGINT, "partitions with a verdict"),
        Column("verdict_counts", pa.map_(STRING, BIGINT), "rows of replica_verdicts by verdict"),
        Column("input_errors", BIGINT, "rows of input_errors of the cluster"),
        Column("versions", pa.map_(STRING, STRING), "versions of the product and of what it runs on"),
    ),
    constraints={"known_status": "status IN ('running', 'complete')"},
)
INPUT_ERRORS = Table(
    name="input_errors",
    grain="one row per problem of the input",
    columns=(
        *_KEYS,
        Column("broker_id", INT, "broker whose folder holds the file; null if it belongs to none"),
        Column("path", STRING, "file or directory", False),
        Column("kind", STRING, "what the file is taken for", False),
        Column("line", BIGINT, "line in a text, from 1"),
        Column("byte_offset", BIGINT, "byte in the file, from 0"),
        Column("code", STRING, "what is wrong, as a fixed word", False),
        Column("detail", STRING, "what is wrong, as a sentence", False),
        Column("remedy", STRING, "what to do about it", False),
    ),
    constraints={"line_from_one": "line IS NULL OR line >= 1", "byte_from_zero": "byte_offset IS NULL OR byte_offset >= 0"},
)
SEGMENT_EPOCHS = Table(
    name="segment_epochs",
    grain="one row per replica, segment and run of consecutive batches of one leader epoch",
    columns=(
        *_KEYS,
        *_PARTITION,
        _BROKER,
        Column("log_dir", STRING, "log directory", False),
        Column("segment_base_offset", BIGINT, "base offset in the segment's file name", False),
        Column("leader_epoch", INT, "epoch of the batches; -1: the format has none", False),
        Column("first_offset", BIGINT, "base offset of the first batch", False),
        Column("last_offset", BIGINT, "last offset of the last batch, inclusive", False),
        Column("batch_count", BIGINT, "batches", False),
        Column("record_count", BIGINT, "records that the batch headers count", False),
        Column("size_bytes", BIGINT, "bytes of the batches", False),
        Column("min_timestamp_ms", BIGINT, "smallest of the batches' max timestamps", False),
        Column("max_timestamp_ms", BIGINT, "largest of the batches' max timestamps", False),
        Column("source", STRING, "raw or dump: what the rows were read from", False),
    ),
    constraints={
        **_PARTITION_CHECK,
        "epoch_or_none": "leader_epoch >= -1",
        "ascending": "last_offset >= first_offset",
        "has_batches": "batch_count >= 1 AND record_count >= 0 AND size_bytes > 0",
    },
    cluster_by=("cluster_id", "topic", "partition"),
)
REPLICA_LOGS = Table(
    name="replica_logs",
    grain="one row per replica directory",
    columns=(
        *_KEYS,
        *_PARTITION,
        _BROKER,
        Column("log_dir", STRING, "log directory", False),
        Column("directory", STRING, "name of the replica directory", False),
        Column("topic_id", STRING, "topic id of partition.metadata"),
        Column("state", STRING, "current, future, deleted or stray", False),
        Column("log_start_offset", BIGINT, "first offset of the log; null if unreadable"),
        Column("log_end_offset", BIGINT, "offset after the last batch, as the broker would load it; null if unreadable"),
        Column("high_watermark", BIGINT, "entry of replication-offset-checkpoint"),
        Column("recovery_point", BIGINT, "entry of recovery-point-offset-checkpoint"),
        Column("cleaner_offset", BIGINT, "entry of cleaner-offset-checkpoint"),
        Column("last_epoch", INT, "leader epoch of the last batch; -1: none"),
        Column("batch_count", BIGINT, "batches inside the log", False),
        Column("record_count", BIGINT, "records that their headers count", False),
        Column("size_bytes", BIGINT, "their bytes", False),
        Column("checkpoint_state", STRING, "leader-epoch-checkpoint: ok, healed, empty, missing, unreadable or not-collected", False),
        Column("recovery_cut_offset", BIGINT, "where log recovery would end the log; null if it cuts nothing or does not run"),
        Column("unreadable_reason", STRING, "why the replica cannot be compared; null if it can"),
        Column("captured_at", TIMESTAMP, "when the replica was copied, if the input says so"),
    ),
    constraints={
        **_PARTITION_CHECK,
        "ends_after_start": "log_end_offset IS NULL OR log_end_offset >= log_start_offset",
        "known_state": "state IN ('current', 'future', 'deleted', 'stray')",
    },
    cluster_by=("cluster_id", "topic", "partition"),
)
EPOCH_START_OFFSETS = Table(
    name="epoch_start_offsets",
    grain="one row per current replica and leader epoch",
    columns=(
        *_KEYS,
        *_PARTITION,
        _BROKER,
        Column("leader_epoch", INT, "epoch", False),
        Column("start_offset", BIGINT, "where the epoch starts: by the table in effect, else by checkpoint, else by batches", False),
        Column("end_offset", BIGINT, "start of the next epoch, or the log end offset; exclusive"),
        Column("checkpoint_start_offset", BIGINT, "by leader-epoch-checkpoint, as found in the file"),
        Column("segment_start_offset", BIGINT, "by the batches: base offset of the first one of the epoch"),
        Column("source", STRING, "both, checkpoint or segments", False),
        Column("agrees", BOOLEAN, "whether checkpoint and batches give the same start", False),
        Column("in_effect", BOOLEAN, "whether the entry is in the table that the broker uses after loading the log", False),
        Column("difference", STRING, "why they do not agree; null if they do"),
    ),
    constraints={
        **_PARTITION_CHECK,
        "starts_in_log": "start_offset >= 0",
        "known_source": "source IN ('both', 'checkpoint', 'segments')",
        "known_difference": "difference IS NULL OR difference IN ('trivial-epoch', 'legal-lag', 'log-start', 'compaction', "
        "'refetched-compacted-range', 'not-collected', 'corrupt')",
    },
    cluster_by=("cluster_id", "topic", "partition"),
)
EPOCH_END_OFFSETS = Table(
    name="epoch_end_offsets",
    grain="one row per leader, follower and epoch in the follower's table: what the leader answers to OffsetsForLeaderEpoch",
    columns=(
        *_KEYS,
        *_PAIR,
        Column("requested_epoch", INT, "epoch that the follower has", False),
        Column("answered_epoch", INT, "epoch in the leader's answer (KIP-279); -1: undefined", False),
        Column("end_offset", BIGINT, "exclusive end offset in that answer; -1: undefined", False),
        Column("kip101_end_offset", BIGINT, "the answer of a leader of 0.11 to 1.1; -1: undefined", False),
    ),
    constraints={**_PARTITION_CHECK, "undefined_together": "(answered_epoch = -1) = (end_offset = -1)"},
    cluster_by=("cluster_id", "topic", "partition"),
)
TRUNCATION_POINTS = Table(
    name="truncation_points",
    grain="four rows per leader and follower, one for each protocol",
    columns=(
        *_KEYS,
        *_PAIR,
        _LEADER_SOURCE,
        Column("protocol", STRING, "high-watermark, kip-101, kip-279 or truncate-on-fetch", False),
        Column("applies", BOOLEAN, "whether the cluster runs this protocol", False),
        Column("truncation_offset", BIGINT, "offset to which the follower's log is cut; null: not cut"),
        Column("restart_offset", BIGINT, "the leader's log start at which the follower restarts empty; null: it does not"),
        Column("fetcher_fails", BOOLEAN, "whether the next fetch offset lies inside a batch of the leader, so that appending fails", False),
        Column("round_trips", INT, "requests to the leader before the fetch that brings records", False),
        Column("rounds", pa.list_(ROUND), "the leader's answers in order", False),
        Column("falls_back_to_high_watermark", BOOLEAN, "whether the follower falls back to its high watermark", False),
        Column("removed_offsets", BIGINT, "offsets from the physical cut to the log end offset", False),
        Column("still_diverged", BOOLEAN, "whether what survives the cut conflicts with the leader", False),
    ),
    constraints={
        **_PARTITION_CHECK,
        "known_protocol": "protocol IN ('high-watermark', 'kip-101', 'kip-279', 'truncate-on-fetch')",
        "removes_what_is_there": "removed_offsets >= 0",
    },
    cluster_by=("cluster_id", "topic", "partition"),
)
REPLICA_VERDICTS = Table(
    name="replica_verdicts",
    grain="one row per leader and follower",
    columns=(
        *_KEYS,
        *_PAIR,
        _LEADER_SOURCE,
        Column("verdict", STRING, "the first rule that holds", False),
        Column("severity", STRING, "critical, error, warning or none", False),
        Column("common_prefix_end_offset", BIGINT, "exclusive end of what both logs share; null: nothing can be compared"),
        Column("divergence_offset", BIGINT, "first offset at which the logs part; null: they do not"),
        Column("follower_diverged_end_offset", BIGINT, "exclusive end of the follower's part of the divergence"),
        Column("leader_diverged_end_offset", BIGINT, "exclusive end of the leader's part of the divergence"),
        Column("truncation_offset", BIGINT, "offset to which the follower is cut under the protocol that applies; null: not cut"),
        Column("restart_offset", BIGINT, "offset at which it restarts empty; null: it does not"),
        Column("protocol", STRING, "the protocol that applies", False),
        Column("removed_offsets", BIGINT, "offsets that the follower's files lose, from the physical cut to the log end"),
        Column("removed_records", BIGINT, "records in the batches that go"),
        Column("removed_bytes", BIGINT, "their bytes"),
        Column(
            "removed_below_high_watermark",
            BIGINT,
            "removed offsets that lie below the persisted high watermark of a replica that holds them, and that the leader does not hold",
        ),
        Column("first_removed_timestamp_ms", BIGINT, "smallest max timestamp of the batches that go"),
        Column("last_removed_timestamp_ms", BIGINT, "largest max timestamp of the batches that go"),
        Column("open_transactions", pa.list_(BIGINT), "producer ids whose transaction began below the cut and whose marker goes"),
        Column("observed_truncation_offset", BIGINT, "what the broker's own log says it did, if collected"),
        Column("evidence", STRING, "files, offsets and epochs that the verdict rests on"),
        Column("reason", STRING, "the verdict in one sentence", False),
    ),
    constraints={
        **_PARTITION_CHECK,
        "known_severity": "severity IN ('critical', 'error', 'warning', 'none')",
        "removes_what_is_there": "removed_offsets IS NULL OR removed_offsets >= 0",
    },
    cluster_by=("cluster_id", "topic", "partition"),
)
CONTENT_WINDOWS = Table(
    name="content_windows",
    grain="one row per replica and offset-aligned window; without rows until the scan digests content",
    columns=(
        *_KEYS,
        *_PARTITION,
        _BROKER,
        Column("window_start_offset", BIGINT, "first offset of the window", False),
        Column("window_end_offset", BIGINT, "exclusive end of the window", False),
        Column("digest", BIGINT, "digest of the batches that begin in the window", False),
        Column("batch_count", BIGINT, "batches that begin in the window", False),
    ),
    constraints={**_PARTITION_CHECK, "ends_after_start": "window_end_offset > window_start_offset"},
    cluster_by=("cluster_id", "topic", "partition"),
)
FINDINGS = Table(
    name="findings",
    grain="one row per finding of the run, and per finding of the run before that is resolved",
    columns=(
        *_KEYS,
        Column("finding_key", STRING, "stable over runs: CODE:TOPIC-PARTITION:BROKER", False),
        Column("code", STRING, "the verdict", False),
        Column("severity", STRING, "critical, error or warning", False),
        *_PARTITION,
        _BROKER,
        Column("summary", STRING, "the finding in one sentence", False),
        Column("first_seen_run_id", STRING, "first run of the unbroken series that found it", False),
        Column("last_seen_run_id", STRING, "last run that found it", False),
        Column("status", STRING, "new, persisting or resolved, against the complete run before", False),
    ),
    constraints={"known_status": "status IN ('new', 'persisting', 'resolved')"},
    cluster_by=("cluster_id", "topic", "partition"),
)

TABLES: tuple[Table, ...] = (
    AUDIT_RUNS,
    INPUT_ERRORS,
    SEGMENT_EPOCHS,
    REPLICA_LOGS,
    EPOCH_START_OFFSETS,
    EPOCH_END_OFFSETS,
    TRUNCATION_POINTS,
    REPLICA_VERDICTS,
    CONTENT_WINDOWS,
    FINDINGS,
)


def rows_of(table: Table) -> pa.StructType:
    """A table's columns without `run_id` and `cluster_id`: what a stage makes before the run's keys are put in front."""
    return shape(table.columns[2:])


AUDITED = pa.schema(
    [
        ("cluster_id", STRING),
        ("replica_logs", pa.list_(rows_of(REPLICA_LOGS))),
        ("segment_epochs", pa.list_(rows_of(SEGMENT_EPOCHS))),
        ("epoch_start_offsets", pa.list_(rows_of(EPOCH_START_OFFSETS))),
        ("epoch_end_offsets", pa.list_(rows_of(EPOCH_END_OFFSETS))),
        ("truncation_points", pa.list_(rows_of(TRUNCATION_POINTS))),
        ("replica_verdicts", pa.list_(rows_of(REPLICA_VERDICTS))),
        ("input_errors", pa.list_(rows_of(INPUT_ERRORS))),
        ("unreadable_leaders", pa.list_(struct(topic=STRING, partition=INT, broker_id=INT, reason=STRING))),
    ]
)
