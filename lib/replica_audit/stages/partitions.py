"""A partition → its audit, whose batches are read again from its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.log_dir.small_files import LIST_LIMIT, whole_content
from replica_audit.formats.producer_files import producer_states
from replica_audit.formats.replicas.replica_reader import batches_from, stored_batches
from replica_audit.model import (
    CANNOT_READ,
    BatchHeader,
    BatchRun,
    Problem,
    ProducerState,
    ReplicaFiles,
    SegmentFile,
    StoredBatch,
    StoredDamage,
)
from replica_audit.partition.audit import PartitionAudit
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition, UnreadBatchesError

_GONE = "audit again, preferably a copy: the file was there during the scan"
_UNTIL_THEN = "until then its batches are known by epoch and offset alone"


def audit_of(known: KnownPartition, cluster: ClusterFacts) -> PartitionAudit:
    """The audit of a partition, whose batches are read again from its files."""
    return PartitionAudit(known, cluster, read_again, read_stored, read_snapshot)


def read_again(
    broker_id: int, replica: ReplicaFiles, scanned: Mapping[SegmentFile, Sequence[BatchRun]], offset: int
) -> Iterator[BatchHeader]:
    """The batches of a replica from its files, as of `ReadAgain`.

    Raises:
        UnreadBatchesError: they can no longer be read.
    """
    with _told(broker_id, replica):
        yield from batches_from(scanned, offset, scanned)


def read_stored(
    broker_id: int, replica: ReplicaFiles, scanned: Mapping[SegmentFile, Sequence[BatchRun]], offset: int
) -> Iterator[StoredBatch | StoredDamage]:
    """The same with their files and bytes, as of `ReadStored`.

    Raises:
        UnreadBatchesError: they can no longer be read.
    """
    with _told(broker_id, replica):
        yield from stored_batches(tuple(scanned), offset, scanned)


def read_snapshot(replica: ReplicaFiles, name: str) -> tuple[ProducerState, ...] | None:
    """A producer snapshot of a replica, as of `ReadSnapshot`. What is wrong with the newest one is told with the input problems."""
    try:
        return producer_states(whole_content(located(replica.inside(name)), LIST_LIMIT))
    except (SegmentError, OSError):
        return None


@contextmanager
def _told(broker_id: int, replica: ReplicaFiles) -> Iterator[None]:
    """Make a problem of what cannot be read."""
    try:
        yield
    except DumpLogError as error:
        problem = Problem(path=replica.path, kind="dump", code=CANNOT_READ, detail=error.reason, remedy=_remedy(error), line=error.line)
        raise UnreadBatchesError(broker_id, problem) from None
    except OSError as error:
        problem = cannot_read(located(error.filename or replica.path), "segment", error)
        raise UnreadBatchesError(broker_id, replace(problem, remedy=_remedy(error))) from None


def _remedy(error: Exception) -> str:
    return f"{getattr(error, 'remedy', _GONE)}; {_UNTIL_THEN}"
