"""The shapes that rows have between stages: the fields of the values of `model`, with the widths of their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from replica_audit.model import (
    BatchRun,
    BrokerEvent,
    BrokerStanding,
    Election,
    IsrChange,
    LogDirectory,
    MinIsrSetting,
    PartitionMetadata,
    Problem,
    Producers,
    ProducerSpan,
    ProducerText,
    ReplicaFiles,
    SecondLook,
    SegmentFile,
    SequenceGap,
    TransactionState,
    Window,
)
from replica_audit.protocol.cluster.log_events import LogEvent
from replica_audit.protocol.comparison.compaction import ComparedLogs, KeptLog, KeyRecord
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING, struct
from replica_audit.rows.columns import Hint

_EPOCHS_AND_IDS = frozenset(
    {
        "leader_epoch",
        "metadata_epoch",
        "answered_epoch",
        "log_epoch",
        "magic",
        "producer_epoch",
        "producer_epoch_before",
        "first_epoch",
        "last_epoch",
        "last_marker_epoch",
        "first_sequence",
        "last_sequence",
        "expected_sequence",
        "found_sequence",
        "partition",
        "leader",
        "leader_id",
        "broker",
        "broker_id",
    }
)
_PARTITION = ("topic", "partition")


def struct_of_value(kind: type, *, without: Collection[str] = (), **given: pa.DataType) -> pa.StructType:
    """A value of `model` or `protocol` as a struct: of a number the width that its name has everywhere, lists of numbers are of ids.

    Args:
        kind: a dataclass or named tuple.
        without: fields that are keys of the row instead.
        given: the types of fields that are themselves values, or whose name says something else here.
    """
    annotations = get_type_hints(kind)
    names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]
    return pa.struct([(name, given.get(name) or _type_of(name, annotations[name])) for name in names if name not in without])


def _type_of(name: str, annotation: Any) -> pa.DataType:
    kind = Hint.of(annotation).kind
    if get_origin(kind) is tuple and get_args(kind)[0] is int:
        return pa.list_(INT)
    if kind is bool:
        return BOOLEAN
    if kind is int:
        return INT if name in _EPOCHS_AND_IDS else BIGINT
    if isinstance(kind, type) and issubclass(kind, str):
        return STRING
    raise TypeError(f"{name}: the type of {annotation} has to be given")


RUN = struct_of_value(BatchRun)
WINDOW = struct_of_value(Window)
PRODUCERS = struct_of_value(Producers, spans=pa.list_(struct_of_value(ProducerSpan)), gaps=pa.list_(struct_of_value(SequenceGap)))
PROBLEM = struct_of_value(Problem)
SEGMENT_FILE = struct_of_value(SegmentFile)
REPLICA_FILES = struct_of_value(
    ReplicaFiles,
    segments=pa.list_(SEGMENT_FILE),
    checkpoint=pa.list_(struct(line=INT, epoch=INT, start_offset=BIGINT)),
    epochs=pa.list_(struct(epoch=INT, start_offset=BIGINT)),
    problems=pa.list_(PROBLEM),
    second_look=struct_of_value(SecondLook, epochs=pa.list_(struct(epoch=INT, start_offset=BIGINT))),
    producer_files=pa.list_(STRING),
    producer_texts=pa.list_(struct_of_value(ProducerText)),
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
    producers=PRODUCERS,
)
ELECTION = struct_of_value(Election)
ISR_CHANGE = struct_of_value(IsrChange)
MIN_ISR_SETTING = struct_of_value(MinIsrSetting, value=INT)
BROKER_EVENT = struct_of_value(BrokerEvent)
PARTITION_METADATA = struct_of_value(
    PartitionMetadata,
    without=_PARTITION,
    elections=pa.list_(ELECTION),
    isr_changes=pa.list_(ISR_CHANGE),
    min_isr=pa.list_(MIN_ISR_SETTING),
)
# one copy of the metadata log as a whole
METADATA_COPY = struct(
    metadata_version=INT,
    log_epoch=INT,
    log_end_offset=BIGINT,
    brokers=pa.list_(struct_of_value(BrokerStanding, log_dirs=pa.list_(STRING))),
    broker_events=pa.list_(BROKER_EVENT),
    min_isr=pa.list_(MIN_ISR_SETTING),
    last_timestamp_ms=BIGINT,
)
LOG_EVENT = struct_of_value(LogEvent, without=(*_PARTITION, "broker_id"))
COMMITTED_OFFSET = struct(
    group_id=STRING,
    offset=BIGINT,
    leader_epoch=INT,
    commit_timestamp_ms=BIGINT,
    topic_id=STRING,
    record_offset=BIGINT,
    path=STRING,
)
TRANSACTION_STATE = struct_of_value(TransactionState, partitions=pa.list_(struct(topic=STRING, partition=INT)))
_REPLICA_KEYS: list[Any] = [
    pa.field("cluster_id", STRING),
    pa.field("broker_id", INT),
    pa.field("topic", STRING),
    pa.field("partition", INT),
]
LOGGED_VERSIONS = struct(kafka_version=STRING, inter_broker_protocol=STRING)
LOG_DIRECTORY = struct_of_value(LogDirectory, sample=pa.list_(STRING), without_directory=pa.list_(STRING))
INVENTORY = pa.schema(
    [
        *_REPLICA_KEYS,
        pa.field("is_audited", BOOLEAN),
        pa.field("replica", REPLICA_FILES),
        pa.field("metadata", PARTITION_METADATA),
        pa.field("metadata_copy", METADATA_COPY),
        pa.field("event", LOG_EVENT),
        pa.field("versions", LOGGED_VERSIONS),
        pa.field("log_directory", LOG_DIRECTORY),
        pa.field("problem", PROBLEM),
    ]
)
SEGMENTS = pa.schema([*_REPLICA_KEYS, pa.field("segment", SEGMENT_SCAN)])
COMMITS = pa.schema(
    [*_REPLICA_KEYS, pa.field("commit", COMMITTED_OFFSET), pa.field("problem", PROBLEM)],
)
_BROKER_KEYS: list[Any] = [pa.field("cluster_id", STRING), pa.field("broker_id", INT)]
TRANSACTIONS = pa.schema([*_BROKER_KEYS, pa.field("transaction", TRANSACTION_STATE), pa.field("problem", PROBLEM)])
_KEPT_LOG = struct_of_value(KeptLog, perhaps_missing=pa.list_(BIGINT))
COMPARED_LOGS = struct_of_value(ComparedLogs, leader=_KEPT_LOG, follower=_KEPT_LOG, written_since=pa.list_(BIGINT))
# What records are wanted: a segment to read with the bounds below each of which the newest record of a key counts, or, without a file, the
# pairs of a partition that are compared. Keys are spread over `buckets`.
WANTED = pa.schema(
    [
        *_REPLICA_KEYS,
        pa.field("buckets", INT),
        pa.field("file", SEGMENT_FILE),
        pa.field("is_last", BOOLEAN),
        pa.field("following", pa.list_(STRING)),
        pa.field("end_offset", BIGINT),
        pa.field("bounds", pa.list_(BIGINT)),
        pa.field("pairs", pa.list_(COMPARED_LOGS)),
    ]
)
_KEY_HALVES = [pa.field("key_high", BIGINT), pa.field("key_low", BIGINT)]
# a record by the hashes of its key and value (`hashed_records.ROW`), or why a segment's could not be read
RECORDS = pa.schema(
    [
        *_REPLICA_KEYS,
        pa.field("bucket", INT),
        *_KEY_HALVES,
        *(pa.field(name, BIGINT) for name in ("offset", "timestamp_ms", "value_hash", "flags")),
        pa.field("problem", PROBLEM),
    ]
)
_KEY_RECORD = struct_of_value(KeyRecord)
_DIFFERING_KEY = pa.struct([*_KEY_HALVES, pa.field("leader", _KEY_RECORD), pa.field("follower", _KEY_RECORD)])
# what comparing a bucket of keys gave: the keys of a follower that differ in one way, or what could not be read of a broker
COMPARED_KEYS = struct(follower_id=INT, cause=STRING, broker_id=INT, count=BIGINT, worst=pa.list_(_DIFFERING_KEY), problem=PROBLEM)
KEYS_OF_PARTITION = pa.schema([*(field for field in _REPLICA_KEYS if field.name != "broker_id"), pa.field("keys", COMPARED_KEYS)])
