"""Who led each epoch by the metadata log, as rows of `leader_epochs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from replica_audit.model import Election, PartitionMetadata
from replica_audit.protocol.comparison import Replica
from replica_audit.protocol.lineage import Span, covered
from replica_audit.protocol.metadata_image import ElectionKind
from replica_audit.transforms.rows import Row


def utc(milliseconds: int | None) -> datetime | None:
    """Milliseconds since the epoch as a time; None for None and for -1, Kafka's unknown time."""
    if milliseconds is None or not 0 <= milliseconds < 1 << 47:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def leader_epoch_rows(metadata: PartitionMetadata, leader: Replica | None, replicas: Sequence[Replica]) -> Iterator[Row]:
    """Every epoch that the metadata log tells of.

    Args:
        metadata: what is known last of the partition.
        leader: of the partition, None if it is unknown or unreadable.
        replicas: all that have a log, the leader among them; those of another topic id are left out.
    """
    own = [replica for replica in replicas if not replica.topic_id or not metadata.topic_id or replica.topic_id == metadata.topic_id]
    leader = leader if leader in own else None
    for election in metadata.elections:
        start, is_exact = _start_offset(election.leader_epoch, [leader, *own] if leader else own)
        is_unclean = election.kind == ElectionKind.UNCLEAN
        held = _given_up(election, start, own) if is_unclean and start is not None else None
        held = held if held or is_exact else None
        yield {
            "topic": metadata.topic,
            "partition": metadata.partition,
            "topic_id": metadata.topic_id,
            "leader_epoch": election.leader_epoch,
            "leader_id": election.leader_id,
            "election": election.kind,
            "isr": list(election.isr),
            "elr": list(election.elr),
            "metadata_offset": election.metadata_offset,
            "metadata_epoch": election.metadata_epoch,
            "began_at": utc(election.timestamp_ms),
            "start_offset": start,
            "given_up_offsets": None if held is None else covered((s.first_offset, s.end_offset) for spans in held.values() for s in spans),
            "given_up_held_by": None if held is None else sorted(held),
        }


def _start_offset(epoch: int, replicas: Sequence[Replica]) -> tuple[int | None, bool]:
    """Where an epoch starts by the first table that has it, and whether it began there: the log start may have moved the entry."""
    for replica in replicas:
        for entry in replica.log.epochs:
            if entry.epoch == epoch:
                return entry.start_offset, entry.start_offset > replica.log.log_start_offset or replica.log.log_start_offset == 0
    return None, False


def _given_up(election: Election, start: int, replicas: Sequence[Replica]) -> dict[int, list[Span]]:
    """What the elected leader did not have, and which replicas still hold it: offsets at or above the start, of earlier epochs."""
    found = {}
    for replica in replicas:
        spans = [
            span._replace(first_offset=max(span.first_offset, start))
            for span in replica.history
            if 0 <= span.leader_epoch < election.leader_epoch and span.end_offset > start
        ]
        if spans:
            found[replica.broker_id] = spans
    return found
