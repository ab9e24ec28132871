"""What may have left the replicas of a compacted partition with other keys, though their offsets and epochs are the same.

A cleaner removes a record for a newer one of its key. If the newer one is truncated later, the key is gone from that replica for good
(KIP-279: impact of topic compaction). What a leader is chosen over loses, an unclean election loses.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from replica_audit.model import Election
from replica_audit.protocol.cluster.log_events import EventKind, LogEvent
from replica_audit.protocol.cluster.metadata_image import ElectionKind

_ELECTIONS = (EventKind.UNCLEAN_ELECTION, EventKind.UNCLEAN_RECOVERY)
_CUTS = (EventKind.LOG_TRUNCATION, EventKind.BELOW_HIGH_WATERMARK, EventKind.HIGH_WATERMARK_FELL)  # NO_EFFECT and a new log's are none


class TouchedBy(StrEnum):
    """What has touched a partition."""

    UNCLEAN_ELECTION = "unclean election"
    TRUNCATION = "truncation"


def touched_by(elections: Iterable[Election], events: Iterable[LogEvent]) -> TouchedBy | None:
    """What the metadata log and the brokers' logs show; None if nothing, which proves nothing where the input has neither."""
    kinds = {event.kind for event in events}
    if any(one.kind == ElectionKind.UNCLEAN for one in elections) or not kinds.isdisjoint(_ELECTIONS):
        return TouchedBy.UNCLEAN_ELECTION
    return None if kinds.isdisjoint(_CUTS) else TouchedBy.TRUNCATION
