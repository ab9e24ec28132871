"""How claims of metadata and logged events look from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

from replica_audit.digests import digest
from replica_audit.model import Appearance, PartitionMetadata
from replica_audit.protocol.cluster.log_events import LogEvent
from replica_audit.protocol.cluster.metadata_image import METADATA_LOG

# what every copy of the metadata log and every file beside the brokers says anew; all else that a claim says is in its identity
_MOVING = frozenset({"known_at_ms", "log_epoch", "log_end_offset"})
_SAID = attrgetter(*(one.name for one in fields(PartitionMetadata) if one.name not in _MOVING))


def claim_look(claim: PartitionMetadata) -> Appearance:
    """How a claim of metadata looks."""
    is_log = claim.source == METADATA_LOG
    # of the log it is when the partition last changed, and so a fact of the past
    changed_at = claim.known_at_ms if is_log else None
    known = [] if changed_at is None else [changed_at]
    return Appearance(
        identity=digest((_SAID(claim), changed_at)),
        known_at_ms=None if is_log else claim.known_at_ms,
        log_epoch=claim.log_epoch,
        log_end_offset=claim.log_end_offset,
        times_ms=tuple(sorted({*known, *(election.timestamp_ms for election in claim.elections)})),
    )


def event_look(event: LogEvent) -> Appearance:
    """How an event of a server log looks: all of it is in rows, or decides them."""
    return Appearance(identity=digest(event))


def commits_identity(commits: Sequence[object]) -> str:
    """What all committed offsets of a partition look like, in any order."""
    return digest(sorted(map(repr, commits)))
