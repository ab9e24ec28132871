"""What was read of one partition: all that its audit starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.model import (
    BatchHeader,
    BatchRun,
    CommittedOffset,
    PartitionMetadata,
    Problem,
    ProducerState,
    ReplicaFiles,
    ScannedSegment,
    SegmentFile,
    StoredBatch,
    StoredDamage,
    TransactionState,
)
from replica_audit.protocol.comparison.compaction import DifferingKeys
from replica_audit.protocol.comparison.observed import LogEvent

# Reads the batches of segments of a replica of a broker again, from the one that holds an offset on, each segment after the other; the
# runs that their scans found are given. Raises UnreadBatchesError where they can no longer be read.
ReadAgain = Callable[[int, ReplicaFiles, Mapping[SegmentFile, Sequence[BatchRun]], int], Iterator[BatchHeader]]


# The same, each batch with the file that holds it and, where the input has them, its bytes; and where a segment stops being a log.
ReadStored = Callable[[int, ReplicaFiles, Mapping[SegmentFile, Sequence[BatchRun]], int], Iterator[StoredBatch | StoredDamage]]

# Reads a producer snapshot of a replica, of a name; None where it cannot be read.
ReadSnapshot = Callable[[ReplicaFiles, str], tuple[ProducerState, ...] | None]


class UnreadBatchesError(Exception):
    """The batches of a replica could not be read again: `problem`, of broker `broker_id`."""

    def __init__(self, broker_id: int, problem: Problem) -> None:
        """Remember what happened, and whose replica it was."""
        super().__init__(problem.detail)
        self.broker_id, self.problem = broker_id, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """What comparing records gave: the keys that differ of each follower, and what could not be read, with its broker."""

    differing: tuple[tuple[int, DifferingKeys], ...] = ()
    unread: tuple[tuple[int, Problem], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """One partition as it was read, in any order.

    `claims`: what each source of metadata says of it, with the broker whose copy it is, None for the file beside the brokers; `replicas`
    and `segments`: with their broker; `events`: the lines of brokers' own logs about it; `commits`: what groups committed of it;
    `transactions`: what coordinators say of the transactional ids whose transaction it takes part in, or whose producer has one open in it.
    `records`: what comparing records gave, None before they were read.
    """

    cluster_id: str
    topic: str
    partition: int
    claims: tuple[tuple[int | None, PartitionMetadata], ...] = ()
    replicas: tuple[tuple[int, ReplicaFiles], ...] = ()
    segments: tuple[tuple[int, ScannedSegment], ...] = ()
    events: tuple[LogEvent, ...] = ()
    commits: tuple[CommittedOffset, ...] = ()
    transactions: tuple[TransactionState, ...] = ()
    records: ReadRecords | None = None

    def part(self, is_in: Callable[[int, str], bool]) -> KnownPartition:
        """The same with the replicas and segments of some log directories alone, by broker and path."""
        replicas = tuple((broker, one) for broker, one in self.replicas if is_in(broker, one.log_dir))
        segments = tuple((broker, one) for broker, one in self.segments if is_in(broker, one.log_dir))
        return replace(self, replicas=replicas, segments=segments)
