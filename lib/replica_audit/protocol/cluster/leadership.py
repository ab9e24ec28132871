"""Which replica leads a partition, by metadata or, without it, by what the logs tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.exchange.replica import Replica

INFERRED = "inferred"
NO_LEADER = -1


class Leadership(NamedTuple):
    """The leading broker and where that is known from. `leader_id` is -1 where no replica can lead."""

    leader_id: int
    source: str


class InferredBecause(StrEnum):
    """Why a leader is inferred: there is no metadata of the partition, a log knows a later epoch, or the metadata names no leader."""

    NO_METADATA = "no-metadata"
    METADATA_OUTDATED = "metadata-outdated"
    NO_LEADER = "no-leader"
    LEADER_NOT_NAMED = "leader-not-named"


def inferred_because(metadata: PartitionMetadata | None, *, outdated: bool) -> InferredBecause | None:
    """Why the metadata, None if there is none, does not decide who leads; None if it does."""
    if metadata is None:
        return InferredBecause.NO_METADATA
    if outdated:
        return InferredBecause.METADATA_OUTDATED
    if metadata.leader >= 0:
        return None
    return InferredBecause.NO_LEADER if metadata.no_leader else InferredBecause.LEADER_NOT_NAMED


def leadership(metadata: PartitionMetadata | None, replicas: Sequence[Replica]) -> Leadership:
    """The metadata's leader, else the replica with the highest (last epoch of its table as found, log end offset).

    Those whose epochs began again, at one offset, come before the others, which are of before. Of equals the lowest id leads. Unreadable
    replicas never lead by inference.
    """
    if metadata is not None and metadata.leader >= 0:
        return Leadership(metadata.leader, metadata.source)
    candidates = [replica for replica in replicas if not replica.unreadable]
    if not candidates:
        return Leadership(NO_LEADER, INFERRED)
    again = Counter(replica.log.began_again for replica in candidates)
    best = max(candidates, key=lambda replica: (_is_newer(replica, again), *_rank(replica)))
    return Leadership(best.broker_id, INFERRED)


def _is_newer(replica: Replica, again: Counter[int | None]) -> bool:
    """Whether a log went on in low epochs where another one did, too: in one alone they may be what an old rule left diverged (KIP-279)."""
    return replica.log.began_again is not None and again[replica.log.began_again] > 1


def _rank(replica: Replica) -> tuple[int, int, int]:
    log = replica.log
    return latest_epoch(log.epochs), log.log_end_offset, -replica.broker_id
