"""Partitions whose records are to be compared → their segments → their records, as hashes → the keys that differ.

A task holds the records of one segment as they are read, or those of one bucket of keys, never those of a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, NO_ROWS, KeyedRecords, compare_keys
from replica_audit.formats.segment.records import MARKER, ROW, Rows, UnreadableRecords
from replica_audit.model import Problem, SegmentFile
from replica_audit.partition.audit import PartitionAudit, records_wanted
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.partition.pairs.records import bytes_of
from replica_audit.protocol.comparison.compaction import ComparedLogs
from replica_audit.rows.arrow import BIGINT, INT, struct
from replica_audit.stages.items import (
    ITEMS,
    FollowerKeys,
    Item,
    UnreadRecords,
    WantedPairs,
    WantedRecords,
    packed_value,
    value_of,
)
from replica_audit.stages.partitions import audit_of

# a record by the hashes of its key and value (`segment.records.ROW`); or, packed, why a segment's could not be read, or what is wanted
_OF_RECORD: list[pa.Field[Any]] = [*struct(bucket=INT, **dict.fromkeys(ROW, BIGINT), value=pa.binary())]
RECORDS = pa.schema([*(ITEMS.field(name) for name in ("cluster_id", "topic", "partition", "broker_id")), *_OF_RECORD])
IN_BUCKET = 1 << 20  # records as they are scanned, of all replicas: some 100 MB where they are compared
_AT_ONCE = 1 << 16  # rows of a batch: Spark holds several in memory
_NO_RECORD = np.zeros((1, len(ROW)), np.int64)
_MOST_PROBLEMS = 10  # of one segment
_CHANGED = "audit again, preferably a copy: the file was there during the scan, and another one has replaced it since"


def list_wanted(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Item]:
    """What is wanted of a partition: its pairs, then their segments; nothing where records are not compared."""
    yield from _wanted(audit_of(known, cluster))


def _wanted(audit: PartitionAudit) -> Iterator[Item]:
    wanted = records_wanted(audit)
    if wanted is None:
        return
    known, buckets = audit.known, 1 + wanted.record_count // IN_BUCKET
    of_partition = Item(known.cluster_id, known.topic, known.partition, None, WantedPairs(tuple(wanted.pairs), buckets))
    yield of_partition
    for broker, segments in wanted.segments:
        end_offset = wanted.end_offset(broker)
        for segment in segments:
            if segment.file.base_offset >= end_offset:
                continue
            of_segment = WantedRecords(
                file=segment.file,
                is_last=segment is segments[-1],
                following=tuple(bytes_of(one) or one.path for one in segment.with_markers),
                end_offset=end_offset,
                bounds=tuple(wanted.bounds),
                buckets=buckets,
            )
            yield of_partition._replace(broker_id=broker, value=of_segment, size_bytes=segment.file.size_bytes)


def record_batches(item: Item) -> Iterator[pa.RecordBatch]:
    """The records of a segment, an item of WantedRecords, as batches of RECORDS."""
    for found in read_segment_records(item.value):
        rows = found if isinstance(found, np.ndarray) else NO_ROWS
        buckets = bucket_of(rows, item.value.buckets).astype(np.int32)
        for first in range(0, len(rows), _AT_ONCE):
            yield _records(item, rows[first : first + _AT_ONCE], buckets[first : first + _AT_ONCE], None)
        if isinstance(found, Problem):
            yield _records(item, _NO_RECORD, np.zeros(1, np.int32), found)


def wanted_of_buckets(item: Item) -> pa.RecordBatch:
    """What is wanted of a partition, an item of WantedPairs, in each of its buckets, as rows of RECORDS."""
    buckets = np.arange(item.value.buckets, dtype=np.int32)
    return _records(item, np.repeat(_NO_RECORD, len(buckets), axis=0), buckets, item.value)


def _records(item: Item, rows: Rows, buckets: Any, value: Problem | WantedPairs | None) -> pa.RecordBatch:
    of_item = zip((item.cluster_id, item.topic, item.partition, item.broker_id), RECORDS, strict=False)
    keys = [pa.repeat(pa.scalar(key, field.type), len(rows)) for key, field in of_item]
    numbers = [pa.array(np.ascontiguousarray(rows[:, place])) for place in range(len(ROW))]
    payload = pa.array([None if value is None else packed_value(value)] * len(rows), pa.binary())
    return pa.RecordBatch.from_arrays([*keys, pa.array(buckets), *numbers, payload], schema=RECORDS)


def read_segment_records(wanted: WantedRecords) -> Iterator[Rows | Problem]:
    """The records of a segment, part by part as of `KeyedRecords`; problems where some, or all, cannot be had."""
    file = wanted.file
    path = located(bytes_of(file) or file.path)
    reader = KeyedRecords(list(wanted.bounds), wanted.end_offset)
    try:
        yield from reader.read(path, [located(one) for one in wanted.following])
        size = path.stat().st_size
        if file.source == "raw" and not wanted.is_last and size != file.size_bytes:  # the cleaner replaces files; the last one grows
            detail = f"it had {file.size_bytes} bytes when it was scanned, and has {size} now"
            yield Problem(path=str(path), kind="segment", code="changed", detail=detail, remedy=_CHANGED)
    except OSError as error:
        yield cannot_read(path, "segment", error)
    yield from _unreadable(file, reader.unreadable)


def keys_of_few(audit: PartitionAudit) -> list[FollowerKeys | UnreadRecords]:
    """What comparing the records of a partition gives that has few, read at once."""
    pairs: Sequence[ComparedLogs] = ()
    problems: list[FollowerKeys | UnreadRecords] = []
    by_broker: defaultdict[int, list[Rows]] = defaultdict(list)
    for one in _wanted(audit):
        if one.broker_id is None:
            pairs = one.value.pairs
            continue
        for part in read_segment_records(one.value):
            if isinstance(part, np.ndarray):
                by_broker[one.broker_id].append(part)
            else:
                problems.append(UnreadRecords(one.broker_id, part))
    return [*problems, *compared_rows(pairs, {broker: np.concatenate(parts) for broker, parts in by_broker.items()})]


def _unreadable(file: SegmentFile, found: Sequence[UnreadableRecords]) -> Iterator[Problem]:
    for one in found[:_MOST_PROBLEMS]:
        yield Problem(path=file.path, kind="segment", code=one.code, detail=one.detail, remedy=one.remedy, byte_offset=one.byte_offset)


def bucket_of(rows: Rows, buckets: int) -> Rows:
    """The bucket of each row, by its key; of markers and open transactions by their producer."""
    found: Rows = np.where(rows[:, FLAGS] & MARKER, rows[:, HIGH], rows[:, LOW] >> 8) % buckets
    return found


def compared_bucket(rows: pa.Table) -> Iterator[Item]:
    """The keys of one bucket compared, and why records of it could not be read.

    Args:
        rows: all of the shape RECORDS of one partition and bucket.
    """
    cluster, topic, partition = (rows[name][0].as_py() for name in ("cluster_id", "topic", "partition"))
    is_record = rows["value"].is_null()
    told = [(row["broker_id"], value_of(row["value"])) for row in rows.filter(pc.invert(is_record)).to_pylist()]
    (pairs,) = (value.pairs for _broker, value in told if isinstance(value, WantedPairs))
    unread = [UnreadRecords(broker, value) for broker, value in told if isinstance(value, Problem)]
    rows = rows.filter(is_record)
    records = np.column_stack([rows[name].to_numpy() for name in ROW])
    brokers = rows["broker_id"].to_numpy()
    by_broker = {int(broker): records[brokers == broker] for broker in np.unique(brokers)}
    for found in (*unread, *compared_rows(pairs, by_broker)):
        yield Item(cluster, topic, partition, None, found)


def compared_rows(pairs: Iterable[ComparedLogs], by_broker: Mapping[int, Rows]) -> list[FollowerKeys]:
    """The keys that differ in each pair."""
    found = []
    for logs in pairs:
        leader, follower = (by_broker.get(log.broker_id, NO_ROWS) for log in (logs.leader, logs.follower))
        found += [FollowerKeys(logs.follower.broker_id, keys) for keys in compare_keys(logs, leader, follower)]
    return found
