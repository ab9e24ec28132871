"""Since when a replica has been in the ISR without a break, by the metadata log.

A record counts as committed only once every member of the ISR holds it, and nothing else is cleaned (LogCleanerManager.cleanableOffsets
stops at the last stable offset). So a replica that never left the ISR has been sent every tombstone that another one cleaned.
"""

from __future__ import annotations

from replica_audit.model import Election, IsrChange, PartitionMetadata
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment
from replica_audit.protocol.cluster.metadata_image import GIVES_NOTHING_UP


def in_sync_since(metadata: PartitionMetadata, cluster: ClusterHistory, broker_id: int) -> Election | None:
    """The first election after which a replica never left the ISR, and gave up nothing, until the metadata log ends; None if none is known.

    Args:
        metadata: of the partition, by the metadata log.
        cluster: the brokers over time. A broker that started again may have lost what it held, though it was in the ISR.
        broker_id: of the replica.
    """
    found = None
    records: list[Election | IsrChange] = [*metadata.elections, *metadata.isr_changes]
    records.sort(key=lambda one: one.metadata_offset, reverse=True)
    for record in records:
        if broker_id not in record.isr:
            break
        if isinstance(record, Election):
            if record.kind not in GIVES_NOTHING_UP:
                break
            found = record
    if found is None or cluster.started_again(broker_id, Moment(found.metadata_offset, found.metadata_epoch, found.timestamp_ms)):
        return None
    return found
