"""Which replica leads a partition: by the latest of several sources of metadata or, without any, by the logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH, PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import METADATA_LOG
from replica_audit.protocol.epochs.epoch_table import latest_epoch
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.replica import Replica

INFERRED = "inferred"
NO_LEADER = -1


class Leadership(NamedTuple):
    """The leading broker and where that is known from. `leader_id` is -1 where no replica can lead."""

    leader_id: int
    source: str


class InferredBecause(StrEnum):
    """Why a leader is inferred: no metadata, a log with a later epoch, metadata that names no leader, or two of one epoch."""

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


# What several sources say of one partition, and which knows last: the file beside the brokers, or their copies of the metadata log.


def nothing_known(topic: str, partition: int) -> PartitionMetadata:
    """A partition of which no metadata was found."""
    return PartitionMetadata(
        topic=topic, partition=partition, topic_id=None, compacted=None, leader=-1, leader_epoch=-1, replicas=(), isr=(), source="none"
    )


def farthest_copies(claims: Sequence[tuple[int | None, PartitionMetadata]]) -> dict[int, PartitionMetadata]:
    """Each broker's own copy of the metadata log, of several the one that reaches farthest."""
    own = [(broker, claim) for broker, claim in claims if broker is not None and claim.source == METADATA_LOG]
    return dict(sorted(own, key=lambda found: _reach(found[1])))


def _reach(claim: PartitionMetadata) -> tuple[int, int]:
    return claim.log_epoch, claim.log_end_offset


def latest(claims: Sequence[PartitionMetadata], log_end: tuple[int, int] = (-1, -1)) -> PartitionMetadata | None:
    """What is known last of a partition, of several sources: the file beside the brokers, and each broker's copy of the metadata log.

    Of the copies of the log the longest one counts, which reaches `log_end` (epoch, end offset). The file wins over it unless the log knows
    a newer leader epoch, or the same epoch with a change after the file was written. Of two topic ids under one name the log's counts if
    that topic was created after the file was written. Leader, epoch and ISR come from one source; what the file leaves out of an epoch that
    both know, the log tells. Where the two name different leaders of one epoch, which has one in Kafka, nobody is taken for the leader.
    `compacted` holds if any of the two says so, the history of elections is the log's.
    """
    # a partition that only shorter copies know was removed
    logs = [claim for claim in claims if claim.source == METADATA_LOG and _reach(claim) >= log_end]
    log = max(logs, key=_reach, default=None)
    file = next((claim for claim in claims if claim.source != METADATA_LOG), None)
    if log is None or file is None:
        return file or log
    if file.topic_id and log.topic_id and file.topic_id != log.topic_id:
        created_at_ms = min((election.timestamp_ms for election in log.elections), default=-1)
        return log if file.known_at_ms is not None and created_at_ms > file.known_at_ms else file
    later = file.known_at_ms is not None and log.known_at_ms is not None and log.known_at_ms > file.known_at_ms
    if log.leader_epoch > file.leader_epoch or (log.leader_epoch == file.leader_epoch and later):
        best = log
    else:
        knows_more = log.leader_epoch == file.leader_epoch
        left_out = {name: getattr(log, name) for name in ("isr", "replicas") if knows_more and not getattr(file, name)}
        if knows_more and file.leader < 0:
            left_out |= {"leader": log.leader, "no_leader": log.no_leader}
        best = replace(file, **left_out)
    topic_id = file.topic_id or log.topic_id
    history = {name: getattr(log, name) for name in ("elections", "isr_changes", "min_isr", "ever_replicas")}
    retention = file.delete_retention_ms if log.delete_retention_ms is None else log.delete_retention_ms
    unclean = file.unclean_leader_election if log.unclean_leader_election is None else log.unclean_leader_election
    if log.leader_epoch == file.leader_epoch >= 0 and min(log.leader, file.leader) >= 0 and log.leader != file.leader:
        best = without_leader(best)
    return replace(
        best,
        compacted=file.compacted or log.compacted if log.compacted is not None else file.compacted,
        topic_id=topic_id,
        delete_retention_ms=retention,
        unclean_leader_election=unclean,
        min_insync_replicas=file.min_insync_replicas,
        message_format=file.message_format,
        remote_storage=file.remote_storage if log.remote_storage is None else log.remote_storage,
        **history,
    )


def known_epoch(metadata: PartitionMetadata, leader: LoadedLog | None) -> int:
    """The leader epoch that metadata knows; of metadata that names a leader without one, the last of that leader's own table.

    Source: Partition.makeLeader since KAFKA-7415 (2.1): a broker that begins to lead notes the new epoch in its table before it takes a
    record. So a broker whose table ends in an earlier epoch than another replica's does not lead now, though it did when the metadata was
    written down. Older brokers note it with the first record: of them nothing follows.

    Args:
        metadata: what is known of the partition.
        leader: the log of the broker that it names, with a table of its own; None if there is none, or the broker may be older.
    """
    if metadata.leader_epoch >= 0 or metadata.leader < 0 or leader is None:
        return metadata.leader_epoch
    return max((entry.epoch for entry in leader.epochs), default=UNDEFINED_EPOCH)


def is_outdated(known: int, log: LoadedLog) -> bool:
    """Whether a log of the topic has an epoch later than the last `known` one: who led before that leads no more.

    Entries beyond the log's end are not looked at: a broker drops them.
    """
    newest = max((entry.epoch for entry in log.epochs if entry.start_offset <= log.log_end_offset), default=UNDEFINED_EPOCH)
    return newest > known >= 0


def without_leader(metadata: PartitionMetadata) -> PartitionMetadata:
    """What outdated metadata still tells: the topic, its replicas and its history, but not who leads, or is in sync."""
    return replace(metadata, leader=NO_LEADER, leader_epoch=UNDEFINED_EPOCH, isr=(), elr=(), last_known_elr=(), no_leader=False)
