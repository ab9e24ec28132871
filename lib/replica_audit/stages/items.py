"""What passes between the stages of an audit: items of one value each, and the batches that Spark has of them.

Spark sees the keys, what kind of value it is and how much there is to read of it; the value itself is one payload.
"""

from __future__ import annotations

import gc
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from replica_audit.garbage import uncollected
from replica_audit.model import (
    Amounts,
    CommittedOffset,
    LogDirectory,
    LoggedVersions,
    MetadataCopy,
    PartitionMetadata,
    Problem,
    ReplicaFiles,
    ScannedSegment,
    SegmentFile,
    TransactionState,
)
from replica_audit.partition.known.known_partition import KnownPartition, ReadRecords
from replica_audit.protocol.comparison.compaction import ComparedLogs, DifferingKeys
from replica_audit.protocol.comparison.observed import LogEvent
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING, struct


class Source(NamedTuple):
    """What is listed: a broker's folder (`kind` is broker), a cluster-metadata.json (metadata), or a server.log beside (server-log)."""

    cluster_id: str
    broker_id: int | None
    path: str
    kind: str


class SegmentPart(NamedTuple):
    """A segment to be read, and of which replica directory it is."""

    topic: str
    partition: int
    log_dir: str
    directory: str
    file: SegmentFile


@dataclass(frozen=True, slots=True)
class Reading:
    """Segments that one task reads: one, or all that one packed text holds, in their order there."""

    parts: tuple[SegmentPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedReading:
    """Replica directories whose segments were scanned on their broker, into the file `scans`; `log_dir` is where they lay."""

    scans: str
    log_dir: str
    directories: tuple[str, ...]


class OpenProducers(NamedTuple):
    """Ids of producers that have a transaction open at the end of a segment; it may be ended in a later one."""

    producer_ids: tuple[int, ...]


class WantedPairs(NamedTuple):
    """The logs of a partition that are compared key by key; the keys are spread over `buckets`."""

    pairs: tuple[ComparedLogs, ...]
    buckets: int


class WantedRecords(NamedTuple):
    """A segment whose records are compared.

    `bounds` are the offsets below each of which the newest record of a key counts; `following` are the paths of later segments that hold
    the first marker of a producer whose transaction is open at its end.
    """

    file: SegmentFile
    is_last: bool
    following: tuple[str, ...]
    end_offset: int
    bounds: tuple[int, ...]
    buckets: int


class FollowerKeys(NamedTuple):
    """The keys of a follower that differ in one way."""

    follower_id: int
    keys: DifferingKeys


class UnreadRecords(NamedTuple):
    """Why the records of a broker could not be compared."""

    broker_id: int
    problem: Problem


Value = Any  # one of the classes of KINDS
OF_LISTING = (ReplicaFiles, PartitionMetadata, LogEvent)  # without which a partition is not in the input
OF_PARTITION = (*OF_LISTING, ScannedSegment, CommittedOffset, TransactionState)
OF_CLUSTER = (MetadataCopy, LoggedVersions, LogDirectory, Problem, Amounts)
READINGS = (Reading, CollectedReading)


class Item(NamedTuple):
    """A value with its keys: None where it is of no partition, or of no broker.

    What is to be read has a topic where that is a coordinator's, and is numbered in its source. `is_audited`: not only to know others.
    """

    cluster_id: str
    topic: str | None
    partition: int | None
    broker_id: int | None
    value: Value
    is_audited: bool = True
    size_bytes: int = 0


Function = Callable[[Item], Iterable[Item]]
ITEMS = pa.schema(
    list(
        struct(
            cluster_id=STRING,
            topic=STRING,
            partition=INT,
            broker_id=INT,
            kind=STRING,
            is_audited=BOOLEAN,
            size_bytes=BIGINT,
            payload=pa.binary(),
        )
    )
)
_BYTES_AT_ONCE, _ITEMS_AT_ONCE = 1 << 20, 4096


def kinds(*values: type) -> list[str]:
    """How the column `kind` names classes of values."""
    return [value.__name__ for value in values]


def packed(items: Iterable[Item]) -> Iterator[pa.RecordBatch]:
    """Items as batches of ITEMS, each of about a mebibyte."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for cluster_id, topic, partition, broker_id, value, is_audited, size_bytes in items:
        payload = packed_value(value)
        rows.append((cluster_id, topic, partition, broker_id, type(value).__name__, is_audited, size_bytes, payload))
        size += len(payload)
        if size >= _BYTES_AT_ONCE or len(rows) >= _ITEMS_AT_ONCE:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, ITEMS, strict=True)], schema=ITEMS)


def packed_value(value: Any) -> bytes:
    """A value as one payload."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def value_of(payload: bytes) -> Any:
    """The value that a stage of this run packed."""
    return pickle.loads(payload)  # noqa: S301 - made by `packed` in a task of the same job, never read from the input


def unpacked(batch: pa.RecordBatch) -> Iterator[Item]:
    """The items of a batch of ITEMS, one at a time."""
    names = ("cluster_id", "topic", "partition", "broker_id", "is_audited", "size_bytes")
    columns = (batch[name].to_pylist() for name in names)
    for cluster_id, topic, partition, broker_id, is_audited, size_bytes, payload in zip(*columns, batch["payload"], strict=True):
        yield Item(cluster_id, topic, partition, broker_id, value_of(payload.as_buffer()), is_audited, size_bytes)


def partition_of(cluster_id: str, topic: str, partition: int, values: Iterable[tuple[int | None, Value]]) -> KnownPartition | None:
    """What is known of a partition; None where the input names it nowhere but in what coordinators say.

    Args:
        cluster_id: of its cluster.
        topic: of its topic.
        partition: its number.
        values: of the classes OF_PARTITION, each with its broker.
    """
    of: dict[type, list[Any]] = defaultdict(list)
    for broker, value in values:
        of[type(value)].append((broker, value))
    if not any(kind in of for kind in OF_LISTING):
        return None
    states = {state.transactional_id: state for _broker, state in of[TransactionState]}
    return KnownPartition(
        cluster_id=cluster_id,
        topic=topic,
        partition=partition,
        claims=tuple(of[PartitionMetadata]),
        replicas=tuple(of[ReplicaFiles]),
        segments=tuple(of[ScannedSegment]),
        events=tuple(event for _broker, event in of[LogEvent]),
        commits=tuple(commit for _broker, commit in of[CommittedOffset]),
        transactions=tuple(sorted(states.values(), key=attrgetter("transactional_id"))),
    )


def read_records(values: Iterable[FollowerKeys | UnreadRecords]) -> ReadRecords:
    """What comparing the records of a partition gave, as one value."""
    found = list(values)
    return ReadRecords(
        differing=tuple((one.follower_id, one.keys) for one in found if isinstance(one, FollowerKeys)),
        unread=tuple((one.broker_id, one.problem) for one in found if isinstance(one, UnreadRecords)),
    )


def uncollected_batches(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make each batch, in a worker of Spark's, without the collector, which runs again while Spark takes it.

    It leaves alone for good what there is then: making items leaves no cycles, and in a task each pass over a worker's modules and values
    is time lost.
    """
    while True:
        with uncollected():
            batch = next(made, None)
        gc.freeze()
        if batch is None:
            return
        yield batch
