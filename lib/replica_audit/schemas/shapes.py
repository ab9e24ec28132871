"""The shapes that rows have between stages; the fields are those of the dataclass or tuple of the same name in `model`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from replica_audit.schemas.columns import BIGINT, BOOLEAN, INT, STRING, struct

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
WINDOW = struct(window_start_offset=BIGINT, window_end_offset=BIGINT, digest=BIGINT, batch_count=BIGINT)
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
    unpacked_bytes=BIGINT,
    batch_index=STRING,
    copy=STRING,
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
    high_watermarks_collected=BOOLEAN,
    recovery_point=BIGINT,
    log_start_offset=BIGINT,
    cleaner_offset=BIGINT,
    clean_shutdown=BOOLEAN,
    offline_reason=STRING,
    problems=pa.list_(PROBLEM),
    folder=STRING,
    scans=STRING,
    captured_at_ms=BIGINT,
    in_use=BOOLEAN,
    has_lock=BOOLEAN,
)
SEGMENT_SCAN = struct(
    log_dir=STRING,
    directory=STRING,
    file=SEGMENT_FILE,
    runs=pa.list_(RUN),
    damaged=BOOLEAN,
    failed=BOOLEAN,
    problems=pa.list_(PROBLEM),
    windows=pa.list_(WINDOW),
)
ELECTION = struct(
    leader_epoch=INT,
    leader_id=INT,
    kind=STRING,
    isr=pa.list_(INT),
    elr=pa.list_(INT),
    metadata_offset=BIGINT,
    metadata_epoch=INT,
    timestamp_ms=BIGINT,
    electable=pa.list_(INT),
)
ISR_CHANGE = struct(leader_epoch=INT, isr=pa.list_(INT), metadata_offset=BIGINT, metadata_epoch=INT, timestamp_ms=BIGINT)
MIN_ISR_SETTING = struct(value=INT, metadata_offset=BIGINT, broker=INT)
BROKER_EVENT = struct(broker_id=INT, state=STRING, metadata_offset=BIGINT, metadata_epoch=INT, timestamp_ms=BIGINT)
PARTITION_METADATA = struct(
    topic_id=STRING,
    compacted=BOOLEAN,
    leader=INT,
    leader_epoch=INT,
    replicas=pa.list_(INT),
    isr=pa.list_(INT),
    elr=pa.list_(INT),
    last_known_elr=pa.list_(INT),
    no_leader=BOOLEAN,
    source=STRING,
    known_at_ms=BIGINT,
    log_epoch=INT,
    log_end_offset=BIGINT,
    elections=pa.list_(ELECTION),
    isr_changes=pa.list_(ISR_CHANGE),
    min_isr=pa.list_(MIN_ISR_SETTING),
    ever_replicas=pa.list_(INT),
)
# one copy of the metadata log as a whole
METADATA_COPY = struct(
    metadata_version=INT,
    log_epoch=INT,
    log_end_offset=BIGINT,
    brokers=pa.list_(struct(broker_id=INT, fenced=BOOLEAN, state=STRING, changed_ms=BIGINT)),
    broker_events=pa.list_(BROKER_EVENT),
    min_isr=pa.list_(MIN_ISR_SETTING),
    last_timestamp_ms=BIGINT,
)
LOG_EVENT = struct(
    kind=STRING,
    time=STRING,
    line=BIGINT,
    byte_offset=BIGINT,
    leader_id=INT,
    offset=BIGINT,
    complete=BOOLEAN,
    answered_epoch=INT,
    answered_end_offset=BIGINT,
    leader_epoch=INT,
    log_end_offset=BIGINT,
    log_dir=STRING,
    high_watermark=BIGINT,
    text=STRING,
    path=STRING,
)
COMMITTED_OFFSET = struct(
    group_id=STRING,
    offset=BIGINT,
    leader_epoch=INT,
    commit_timestamp_ms=BIGINT,
    topic_id=STRING,
    record_offset=BIGINT,
    path=STRING,
)
_REPLICA_KEYS: list[Any] = [
    pa.field("cluster_id", STRING),
    pa.field("broker_id", INT),
    pa.field("topic", STRING),
    pa.field("partition", INT),
]
LOGGED_VERSIONS = struct(kafka_version=STRING, inter_broker_protocol=STRING)
INVENTORY = pa.schema(
    [
        *_REPLICA_KEYS,
        pa.field("is_audited", BOOLEAN),
        pa.field("replica", REPLICA_FILES),
        pa.field("metadata", PARTITION_METADATA),
        pa.field("metadata_copy", METADATA_COPY),
        pa.field("event", LOG_EVENT),
        pa.field("versions", LOGGED_VERSIONS),
        pa.field("problem", PROBLEM),
    ]
)
SEGMENTS = pa.schema([*_REPLICA_KEYS, pa.field("segment", SEGMENT_SCAN)])
COMMITS = pa.schema(
    [*_REPLICA_KEYS, pa.field("commit", COMMITTED_OFFSET), pa.field("problem", PROBLEM)],
)
