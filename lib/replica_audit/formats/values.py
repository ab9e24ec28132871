"""Rows between stages: their shapes, and the values of `model` as such rows and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from replica_audit.model import (
    BatchRun,
    BrokerEvent,
    BrokerStanding,
    CommittedOffset,
    Election,
    IsrChange,
    LogDirectory,
    MetadataCopy,
    MinIsrSetting,
    PartitionMetadata,
    Problem,
    Producers,
    ProducerSpan,
    ProducerText,
    ReplicaFiles,
    ScannedSegment,
    SecondLook,
    Segment,
    SegmentFile,
    SequenceGap,
    TransactionState,
    Window,
)
from replica_audit.protocol.comparison.compaction import CompactionCause, ComparedLogs, DifferingKey, DifferingKeys, KeptLog, KeyRecord
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING, struct
from replica_audit.rows.columns import Hint
from replica_audit.rows.encoding import as_dict

Row = dict[str, Any]
# the values of such rows in the order of the tuples that they become
_RUN, _WINDOW = itemgetter(*BatchRun._fields), itemgetter(*Window._fields)
# as `_make` does it, which looks at the length of each, and so takes three times as long: these have every field
_BATCH_RUN, _AS_WINDOW = partial(tuple.__new__, BatchRun), partial(tuple.__new__, Window)
_SPAN, _GAP = itemgetter(*ProducerSpan._fields), itemgetter(*SequenceGap._fields)
_CHECKPOINT_ENTRY, _EPOCH_ENTRY = itemgetter("line", "epoch", "start_offset"), itemgetter("epoch", "start_offset")


def replica_row(files: ReplicaFiles) -> Row:
    """`ReplicaFiles` as a row of the shape REPLICA_FILES."""
    row = as_dict(files)
    row["checkpoint"] = [{"line": line, "epoch": epoch, "start_offset": start} for line, epoch, start in files.checkpoint]
    row["epochs"] = _epoch_rows(files.epochs)
    if files.second_look is not None:
        row["second_look"] = as_dict(files.second_look) | {"epochs": _epoch_rows(files.second_look.epochs)}
    return row


def _epoch_rows(epochs: Sequence[tuple[int, int]]) -> list[Row]:
    return [{"epoch": epoch, "start_offset": start} for epoch, start in epochs]


def replica_files(row: Row) -> ReplicaFiles:
    """A row of the shape REPLICA_FILES as a value."""
    values = dict(row)
    values["segments"] = tuple(SegmentFile(**segment) for segment in row["segments"])
    values["checkpoint"] = tuple(map(_CHECKPOINT_ENTRY, row["checkpoint"]))
    values["epochs"] = tuple(map(_EPOCH_ENTRY, row["epochs"]))
    values["problems"] = tuple(Problem(**problem) for problem in row["problems"])
    if (look := row["second_look"]) is not None:
        values["second_look"] = SecondLook(**look | {"epochs": tuple(map(_EPOCH_ENTRY, look["epochs"]))})
    values["producer_files"] = tuple(row["producer_files"])
    values["producer_texts"] = tuple(ProducerText(**text) for text in row["producer_texts"])
    return ReplicaFiles(**values)


def metadata_row(partition: PartitionMetadata) -> Row:
    """`PartitionMetadata` as a row of the shape PARTITION_METADATA, with its topic and partition."""
    row = {name: getattr(partition, name) for name in partition.__slots__}
    for name in ("elections", "isr_changes", "min_isr"):
        row[name] = [entry._asdict() for entry in row[name]]
    return row


def partition_metadata(topic: str, partition: int, row: Row) -> PartitionMetadata:
    """A row of the shape PARTITION_METADATA as a value."""
    values = {**row, **{name: tuple(row[name]) for name in ("replicas", "isr", "elr", "last_known_elr", "ever_replicas")}}
    values["elections"] = tuple(
        Election(**{**election, **{name: tuple(election[name]) for name in ("isr", "elr", "electable")}}) for election in row["elections"]
    )
    values["isr_changes"] = tuple(IsrChange(**{**change, "isr": tuple(change["isr"])}) for change in row["isr_changes"])
    values["min_isr"] = tuple(MinIsrSetting(**setting) for setting in row["min_isr"])
    return PartitionMetadata(topic=topic, partition=partition, **values)


def segment_file(row: Row) -> SegmentFile:
    """A row of the shape SEGMENT_FILE as a value."""
    return SegmentFile(**row)


def scanned_segment(row: Row) -> ScannedSegment:
    """A row of the shape SEGMENT_SCAN as a value."""
    file = segment_file(row["file"])
    segment = Segment(
        base_offset=file.base_offset,
        swap=file.swap,
        damaged=row["damaged"],
        runs=tuple(map(_BATCH_RUN, map(_RUN, row["runs"]))),
        windows=tuple(map(_AS_WINDOW, map(_WINDOW, row["windows"] or ()))),
        producers=producers_value(row["producers"]),
    )
    return ScannedSegment(
        log_dir=row["log_dir"],
        directory=row["directory"],
        file=file,
        segment=segment,
        failed=row["failed"],
        problems=tuple(Problem(**problem) for problem in row["problems"]),
    )


def producers_row(producers: Producers) -> Row:
    """The producers of a segment as a row of the shape PRODUCERS."""
    row: Row = producers._asdict()
    return {**row, **{name: [one._asdict() for one in row[name]] for name in ("spans", "gaps")}}


def producers_value(row: Row | None) -> Producers | None:
    """A row of the shape PRODUCERS as a value."""
    if row is None:
        return None
    spans, gaps = map(ProducerSpan._make, map(_SPAN, row["spans"])), map(SequenceGap._make, map(_GAP, row["gaps"]))
    return Producers(tuple(spans), tuple(gaps), row["untold_batches"])


def event_row(event: LogEvent) -> Row:
    """An event as a row of the shape LOG_EVENT."""
    row = event._asdict()
    return {name: str(row[name]) if name == "kind" else row[name] for name in row if name not in ("topic", "partition", "broker_id")}


def log_event(broker_id: int | None, topic: str, partition: int, row: Row) -> LogEvent:
    """A row of the shape LOG_EVENT as a value."""
    return LogEvent(broker_id=broker_id, topic=topic, partition=partition, **{**row, "kind": EventKind(row["kind"])})


def commit_row(commit: CommittedOffset) -> Row:
    """A committed offset as a row of the shape COMMITTED_OFFSET."""
    row = as_dict(commit)
    return {name: row[name] for name in row if name not in ("topic", "partition")}


def committed_offset(topic: str, partition: int, row: Row) -> CommittedOffset:
    """A row of the shape COMMITTED_OFFSET as a value."""
    return CommittedOffset(topic=topic, partition=partition, **row)


def transaction_row(state: TransactionState) -> Row:
    """The state of a transactional id as a row of the shape TRANSACTION_STATE."""
    row = as_dict(state)
    return {**row, "partitions": [{"topic": topic, "partition": partition} for topic, partition in state.partitions]}


def transaction_state(row: Row) -> TransactionState:
    """A row of the shape TRANSACTION_STATE as a value."""
    return TransactionState(**{**row, "partitions": tuple((one["topic"], one["partition"]) for one in row["partitions"])})


def copy_row(copy: MetadataCopy) -> Row:
    """A copy of the metadata log as a row of the shape METADATA_COPY."""
    row = as_dict(copy)
    return {**row, **{name: [one._asdict() for one in row[name]] for name in ("brokers", "broker_events", "min_isr")}}


def metadata_copy(row: Row) -> MetadataCopy:
    """A row of the shape METADATA_COPY as a value."""
    values = {
        "brokers": tuple(BrokerStanding(**broker | {"log_dirs": tuple(broker["log_dirs"])}) for broker in row["brokers"]),
        "broker_events": tuple(BrokerEvent(**event) for event in row["broker_events"]),
        "min_isr": tuple(MinIsrSetting(**setting) for setting in row["min_isr"]),
    }
    return MetadataCopy(**{**row, **values})


def log_directory(row: Row) -> LogDirectory:
    """A row of the shape LOG_DIRECTORY as a value."""
    return LogDirectory(**{**row, **{name: tuple(row[name]) for name in ("sample", "without_directory")}})


def pair_row(logs: ComparedLogs) -> Row:
    """Two logs that are compared as a row of the shape COMPARED_LOGS."""
    return as_dict(logs) | {"leader": as_dict(logs.leader), "follower": as_dict(logs.follower)}


def compared_logs(row: Row) -> ComparedLogs:
    """A row of the shape COMPARED_LOGS as a value."""
    return ComparedLogs(**{**row, "leader": KeptLog(**row["leader"]), "follower": KeptLog(**row["follower"])})


def keys_row(follower_id: int, keys: DifferingKeys) -> Row:
    """Keys that differ as a row of the shape COMPARED_KEYS."""
    worst = [{**one._asdict(), "leader": _record_row(one.leader), "follower": _record_row(one.follower)} for one in keys.worst]
    cause = None if keys.cause is None else str(keys.cause)
    return {"follower_id": follower_id, "cause": cause, "broker_id": keys.broker_id, "count": keys.number, "worst": worst, "problem": None}


def unread_row(broker_id: int, problem: Row) -> Row:
    """What could not be read of a broker as a row of the shape COMPARED_KEYS; `problem` is of the shape PROBLEM."""
    return {"follower_id": None, "cause": None, "broker_id": broker_id, "count": 0, "worst": [], "problem": problem}


def differing_keys(row: Row) -> DifferingKeys:
    """A row of the shape COMPARED_KEYS as a value; one without a problem."""
    worst = (DifferingKey(**{**one, "leader": _record(one["leader"]), "follower": _record(one["follower"])}) for one in row["worst"])
    cause = None if row["cause"] is None else CompactionCause(row["cause"])
    return DifferingKeys(cause, row["broker_id"], row["count"], tuple(worst))


def _record_row(record: KeyRecord | None) -> Row | None:
    return None if record is None else record._asdict()


def _record(row: Row | None) -> KeyRecord | None:
    return None if row is None else KeyRecord(**row)


# The shapes that rows have between stages: the fields of the values of `model`, with the widths of their numbers.

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
