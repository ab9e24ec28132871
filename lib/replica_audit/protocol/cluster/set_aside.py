"""Which logs a KRaft broker takes out of use when it starts, and what becomes of them; ZooKeeper brokers take none.

Sources: BrokerMetadataPublisher.findStrayPartitions with ReplicaManager.deleteStrayReplicas (3.0 to 3.6: renamed to `-delete`, and removed
after file.delete.delay.ms; a log without a topic id gets that of its partition first), LogManager.deleteStrayKRaftReplicas and
findStrayReplicas (3.7.0: renamed to `-stray`; one without a topic id ends the start), LogManager.isStrayKraftReplica (3.7.1 to 4.3:
`-stray`, without a topic id, too; KAFKA-16814).
"""

from __future__ import annotations

import re
from enum import StrEnum

from replica_audit.model import PartitionMetadata

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_RENAMES_STRAYS, _ALSO_WITHOUT_ID = (3, 7, 0), (3, 7, 1)


class SetAsideBecause(StrEnum):
    """Why a broker does not use a log: it has no topic id, the metadata knows no topic of its id, or the replica is not assigned to it."""

    NO_TOPIC_ID = "no-topic-id"
    UNKNOWN_TOPIC_ID = "unknown-topic-id"
    NOT_ASSIGNED = "not-assigned"


class AtStart(StrEnum):
    """What a broker does with such a log: rename it to `-stray` for good, delete it a minute later, or end before it has started."""

    SETS_ASIDE = "sets-aside"
    DELETES = "deletes"
    DOES_NOT_START = "does-not-start"


def set_aside_because(
    broker_id: int, topic_id: str | None, metadata: PartitionMetadata | None, *, is_whole: bool
) -> SetAsideBecause | None:
    """Why a KRaft broker would not use a log; None if it would, or if that is not known.

    Args:
        broker_id: whose log it is.
        topic_id: of its `partition.metadata`; None if there is no such file.
        metadata: of the partition; None if none names it.
        is_whole: whether that is from a copy of the metadata log, which names every partition.
    """
    if topic_id is None:
        return SetAsideBecause.NO_TOPIC_ID
    if metadata is None:
        return SetAsideBecause.UNKNOWN_TOPIC_ID if is_whole else None
    if metadata.topic_id is not None and metadata.topic_id != topic_id:
        return SetAsideBecause.UNKNOWN_TOPIC_ID
    if metadata.topic_id == topic_id and metadata.replicas and broker_id not in metadata.replicas:
        return SetAsideBecause.NOT_ASSIGNED
    return None


def at_start(because: SetAsideBecause, kafka_version: str | None) -> AtStart | None:
    """What a KRaft broker of a version does with such a log; None: it uses it. Of an unknown version the rule of 3.7.1 and later.

    Args:
        because: of what.
        kafka_version: such as `3.7.0`.
    """
    found = _RELEASE.match(kafka_version or "")
    release = (int(found[1]), int(found[2]), int(found[3]) if found[3] else 99) if found else _ALSO_WITHOUT_ID
    is_without_id = because is SetAsideBecause.NO_TOPIC_ID
    if release < _RENAMES_STRAYS:
        return None if is_without_id else AtStart.DELETES  # the check fails for one that is not assigned, and nothing is deleted then
    return AtStart.DOES_NOT_START if is_without_id and release < _ALSO_WITHOUT_ID else AtStart.SETS_ASIDE
