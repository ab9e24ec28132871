"""Who led each epoch by the metadata log, as rows of `leader_epochs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.cluster_history import beginnings, given_up
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.epochs.lineage import covered
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.columns import utc
from replica_audit.rows.history import LeaderEpoch


def leader_epoch_rows(metadata: PartitionMetadata, leader: Replica | None, replicas: Sequence[Replica]) -> Iterator[LeaderEpoch]:
    """Every epoch that the metadata log tells of.

    Args:
        metadata: what is known last of the partition.
        leader: of the partition, None if it is unknown or unreadable.
        replicas: all that have a log, the leader among them; those of another topic id are left out. Of an unreadable one only what its
            batches are counts: it may hold what was given up, and does not say where an epoch began.
    """
    own = [replica for replica in replicas if not replica.topic_id or not metadata.topic_id or replica.topic_id == metadata.topic_id]
    readable = [replica for replica in own if not replica.unreadable]
    began = beginnings([leader, *readable] if leader in readable else readable) if metadata.elections else {}
    is_read = not any(replica.is_partly_read for replica in own)
    at_end = {change.leader_epoch: change.isr for change in metadata.isr_changes}
    for election in metadata.elections:
        start = began.get(election.leader_epoch)
        held = None
        if start is not None and election.kind == ElectionKind.UNCLEAN:
            held = given_up(election, start.start_offset, own, compacted=bool(metadata.compacted))
            held = held if is_read and (held or start.is_exact) else None
        yield LeaderEpoch(
            topic=metadata.topic,
            partition=metadata.partition,
            topic_id=metadata.topic_id,
            leader_epoch=election.leader_epoch,
            leader_id=election.leader_id,
            election=election.kind,
            isr=election.isr,
            elr=election.elr,
            isr_at_end=at_end.get(election.leader_epoch, election.isr),
            metadata_offset=election.metadata_offset,
            metadata_epoch=election.metadata_epoch,
            began_at=utc(election.timestamp_ms),
            start_offset=start.start_offset if start and start.is_exact else None,
            given_up_offsets=None if held is None else covered((s.first_offset, s.end_offset) for spans in held.values() for s in spans),
            given_up_held_by=None if held is None else tuple(sorted(held)),
        )
