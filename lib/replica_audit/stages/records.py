"""Partitions whose records are to be compared → their segments → their records, as hashes → the keys that differ.

A task holds the records of one segment as they are read, or those of one bucket of keys, never those of a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.replicas.keyed_records import FLAGS, HIGH, LOW, NO_ROWS, KeyedRecords, compare_keys
from replica_audit.formats.segment.records import MARKER, ROW, Rows, UnreadableRecords
from replica_audit.formats.values import KEYS_OF_PARTITION, RECORDS, Row, compared_logs, keys_row, pair_row, segment_file, unread_row
from replica_audit.model import Problem, SegmentFile
from replica_audit.partition.audit import PartitionAudit, records_wanted
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.partition.pairs.records import bytes_of
from replica_audit.rows.encoding import as_dict
from replica_audit.stages.partitions import audit_of

IN_BUCKET = 1 << 20  # records as they are scanned, of all replicas: some 100 MB where they are compared
_AT_ONCE = 1 << 16  # rows of a batch: Spark holds several in memory
_MOST_PROBLEMS = 10  # of one segment
_CHANGED = "audit again, preferably a copy: the file was there during the scan, and another one has replaced it since"


def list_wanted(known: KnownPartition, cluster: ClusterFacts) -> Iterator[Row]:
    """What is wanted of a partition, as rows of the shape WANTED; none where records are not compared."""
    yield from _wanted_rows(audit_of(known, cluster))


def _wanted_rows(audit: PartitionAudit) -> Iterator[Row]:
    wanted = records_wanted(audit)
    if wanted is None:
        return
    keys: Row = {name: getattr(audit.known, name) for name in ("cluster_id", "topic", "partition")}
    keys["buckets"] = 1 + wanted.record_count // IN_BUCKET
    nothing: Row = dict.fromkeys(("broker_id", "file", "is_last", "following", "end_offset", "bounds", "pairs"))
    yield keys | nothing | {"pairs": [pair_row(pair) for pair in wanted.pairs]}
    for broker, segments in wanted.segments:
        end_offset = wanted.end_offset(broker)
        for segment in segments:
            if segment.file.base_offset >= end_offset:
                continue
            following = [bytes_of(one) or one.path for one in segment.with_markers]
            of_file: Row = {"file": as_dict(segment.file), "is_last": segment is segments[-1], "following": following}
            of_file |= {"end_offset": end_offset, "bounds": wanted.bounds}
            yield keys | nothing | {"broker_id": broker} | of_file


def read_wanted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of segments, of which rows of the shape WANTED have a file, as rows of the shape RECORDS."""
    for batch in batches:
        for row in batch.to_pylist():
            for found in read_segment_records(row):
                yield from _record_batches(row, found) if isinstance(found, np.ndarray) else [_problem_batch(row, found)]


def read_segment_records(row: Row) -> Iterator[Rows | Problem]:
    """The records of a segment, part by part as of `KeyedRecords`; problems where some, or all, cannot be had."""
    file = segment_file(row["file"])
    path = located(bytes_of(file) or file.path)
    reader = KeyedRecords(row["bounds"], row["end_offset"])
    try:
        yield from reader.read(path, [located(one) for one in row["following"]])
        size = path.stat().st_size
        if file.source == "raw" and not row["is_last"] and size != file.size_bytes:  # the cleaner replaces files; the last one grows
            detail = f"it had {file.size_bytes} bytes when it was scanned, and has {size} now"
            yield Problem(path=str(path), kind="segment", code="changed", detail=detail, remedy=_CHANGED)
    except OSError as error:
        yield cannot_read(path, "segment", error)
    yield from _unreadable(file, reader.unreadable)


def keys_of_few(audit: PartitionAudit) -> list[Row]:
    """What comparing the records of a partition gives that has few, read at once: rows of the shape COMPARED_KEYS."""
    pairs: Sequence[Row] = ()
    problems: list[Row] = []
    by_broker: defaultdict[int, list[Rows]] = defaultdict(list)
    for one in _wanted_rows(audit):
        if one["file"] is None:
            pairs = one["pairs"]
            continue
        for part in read_segment_records(one):
            if isinstance(part, np.ndarray):
                by_broker[one["broker_id"]].append(part)
            else:
                problems.append(unread_row(one["broker_id"], as_dict(part)))
    return [*problems, *compared_rows(pairs, {broker: np.concatenate(parts) for broker, parts in by_broker.items()})]


def _unreadable(file: SegmentFile, found: Sequence[UnreadableRecords]) -> Iterator[Problem]:
    for one in found[:_MOST_PROBLEMS]:
        yield Problem(path=file.path, kind="segment", code=one.code, detail=one.detail, remedy=one.remedy, byte_offset=one.byte_offset)


def _record_batches(row: Row, found: Rows) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(found), _AT_ONCE):
        rows = found[first : first + _AT_ONCE]
        known = {name: pa.repeat(pa.scalar(row[name], RECORDS.field(name).type), len(rows)) for name in RECORDS.names if name in row}
        known |= {name: pa.array(np.ascontiguousarray(rows[:, place])) for place, name in enumerate(ROW)}
        known["bucket"] = pa.array(bucket_of(rows, row["buckets"]).astype(np.int32))
        known["problem"] = pa.nulls(len(rows), RECORDS.field("problem").type)
        yield pa.RecordBatch.from_arrays([known[name] for name in RECORDS.names], schema=RECORDS)


def _problem_batch(row: Row, problem: Problem) -> pa.RecordBatch:
    known = {name: row[name] for name in RECORDS.names if name in row}
    return pa.RecordBatch.from_pylist([known | {"bucket": 0, "problem": as_dict(problem)}], schema=RECORDS)


def bucket_of(rows: Rows, buckets: int) -> Rows:
    """The bucket of each row, by its key; of markers and open transactions by their producer."""
    found: Rows = np.where(rows[:, FLAGS] & MARKER, rows[:, HIGH], rows[:, LOW] >> 8) % buckets
    return found


def compared_bucket(records: pa.Table, wanted: pa.Table) -> pa.Table:
    """The keys of one bucket compared: rows of the shape KEYS_OF_PARTITION.

    Args:
        records: all rows of the shape RECORDS of one partition and bucket.
        wanted: the row of the shape WANTED that has its pairs.
    """
    row = wanted.to_pylist()[0]
    keys = {name: row[name] for name in ("cluster_id", "topic", "partition")}
    is_problem = records["problem"].is_valid()
    found = [unread_row(one["broker_id"], one["problem"]) for one in records.filter(is_problem).to_pylist()]
    records = records.filter(records["problem"].is_null())
    rows = np.column_stack([records[name].to_numpy() for name in ROW])
    brokers = records["broker_id"].to_numpy()
    by_broker = {int(broker): rows[brokers == broker] for broker in np.unique(brokers)}
    found += compared_rows(row["pairs"], by_broker)
    return pa.Table.from_pylist([{**keys, "keys": one} for one in found], schema=KEYS_OF_PARTITION)


def compared_rows(pairs: Sequence[Row], by_broker: Mapping[int, Rows]) -> list[Row]:
    """The keys that differ as rows of the shape COMPARED_KEYS; `pairs` are of the shape COMPARED_LOGS."""
    found = []
    for logs in map(compared_logs, pairs):
        leader, follower = (by_broker.get(log.broker_id, NO_ROWS) for log in (logs.leader, logs.follower))
        found += [keys_row(logs.follower.broker_id, keys) for keys in compare_keys(logs, leader, follower)]
    return found
