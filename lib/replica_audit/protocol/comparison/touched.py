"""What may have left the replicas of a compacted partition with other keys, though their offsets and epochs are the same.

A cleaner removes a record for a newer one of its key. If the newer one is truncated later, the key is gone from that replica for good
(KIP-279: impact of topic compaction). What a leader is chosen over loses, an unclean election loses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from replica_audit.model import Election
from replica_audit.protocol.cluster.log_events import EventKind, LogEvent
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.exchange.replica import Replica

_ELECTIONS = (EventKind.UNCLEAN_ELECTION, EventKind.UNCLEAN_RECOVERY)
_CUTS = (EventKind.LOG_TRUNCATION, EventKind.BELOW_HIGH_WATERMARK, EventKind.HIGH_WATERMARK_FELL)  # NO_EFFECT and a new log's are none


class TouchedBy(StrEnum):
    """What has touched a partition."""

    UNCLEAN_ELECTION = "unclean election"
    TRUNCATION = "truncation"
    EMPTIED_SEGMENT = "emptied segment"


def touched_by(elections: Iterable[Election], events: Iterable[LogEvent], replicas: Collection[Replica] = ()) -> TouchedBy | None:
    """What the metadata log, the brokers' logs and the replicas show; None if nothing, which proves nothing where the input has neither."""
    kinds = {event.kind for event in events}
    if any(one.kind == ElectionKind.UNCLEAN for one in elections) or not kinds.isdisjoint(_ELECTIONS):
        return TouchedBy.UNCLEAN_ELECTION
    if not kinds.isdisjoint(_CUTS):
        return TouchedBy.TRUNCATION
    return TouchedBy.EMPTIED_SEGMENT if any(_is_emptied(one, replicas) for one in replicas) else None


def _is_emptied(replica: Replica, replicas: Collection[Replica]) -> bool:
    """Whether a segment is empty where another replica, cleaned as far, holds batches: old tombstones are all that it may have beyond."""
    spans = [(base, replica.log.segment_end(base)) for base in replica.log.empty_segments]
    return any(
        other is not replica
        and (other.cleaner_offset or 0) >= max(end, replica.cleaner_offset or 0)
        and any(run.first_offset < end and run.last_offset >= base for run in other.log.runs)
        for base, end in spans
        for other in replicas
    )
