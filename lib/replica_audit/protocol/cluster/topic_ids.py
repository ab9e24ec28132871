"""Whose topic id is right where replicas of one name have several, or where only the metadata, or an empty log, has one of them.

A replica with another id than its topic's is of an earlier topic of the name only if the topic of the other id has records somewhere. If
not, the id may have been lost instead of the topic (KAFKA-14190, a metadata log that was made anew), and the log with the other id is all
that there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import PartitionMetadata


class HeldId(NamedTuple):
    """The topic id of a replica, None if it has none, whether its log has records, and its exclusive end."""

    broker_id: int
    topic_id: str | None
    has_records: bool
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdsInDoubt:
    """That nobody can tell which id is right.

    `known` is what the metadata has, None without any; `by_id` the brokers of each id, and `reaches` how far their logs do, exclusive;
    0: they are empty.
    """

    known: str | None
    by_id: Mapping[str, tuple[int, ...]]
    reaches: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """Who has which."""
        others = [f"{_have(brokers)} topic id {one}, {self._logs(one)}" for one, brokers in self.by_id.items() if one != self.known]
        told = []
        if self.known is not None:
            own = self.by_id.get(self.known, ())
            told.append(f"the metadata has topic id {self.known}")
            told.append(f"{_have(own)} it, {self._logs(self.known)}" if own else "no replica in the input has it")
        why = "the topic may have been deleted and made again, or its id was lost while its records were not"
        return f"{'; '.join([*told, *others])}: {why}"

    def _logs(self, topic_id: str) -> str:
        end = self.reaches[topic_id]
        return "without records" if end == 0 else f"and records up to offset {end - 1}"


def ids_in_doubt(known: str | None, held: Iterable[HeldId], *, is_leader_known: bool) -> TopicIdsInDoubt | None:
    """Whether it is unknown which topic id is right; None if it is known, or all have the same.

    Args:
        known: by the metadata; None if that does not say.
        held: the replicas; those without an id may be of any topic.
        is_leader_known: whether the metadata names a leader, whose id then counts where the metadata has none.
    """
    replicas = sorted(held, key=lambda one: one.broker_id)
    by_id: dict[str, list[HeldId]] = {}
    for one in replicas:
        if one.topic_id is not None:
            by_id.setdefault(one.topic_id, []).append(one)
    others = {topic_id: own for topic_id, own in by_id.items() if topic_id != known}
    if known is None:
        is_doubtful = len(by_id) > 1 and not is_leader_known
    else:
        may_be_known = (*by_id.get(known, ()), *(one for one in replicas if one.topic_id is None))
        is_doubtful = any(_has_records(own) for own in others.values()) and not _has_records(may_be_known)
    if not is_doubtful:
        return None
    return TopicIdsInDoubt(
        known=known,
        by_id={topic_id: tuple(one.broker_id for one in own) for topic_id, own in by_id.items()},
        reaches={topic_id: max(one.log_end_offset if one.has_records else 0 for one in own) for topic_id, own in by_id.items()},
    )


def _has_records(own: Sequence[HeldId]) -> bool:
    return any(one.has_records for one in own)


def _have(brokers: Sequence[int]) -> str:
    names = ", ".join(map(str, brokers))
    return f"brokers {names} have" if len(brokers) > 1 else f"broker {names} has"


# Which logs a KRaft broker takes out of use when it starts, and what becomes of them; ZooKeeper brokers take none.
# Sources: BrokerMetadataPublisher.findStrayPartitions with ReplicaManager.deleteStrayReplicas (3.0 to 3.6: renamed to `-delete`, and
# removed after file.delete.delay.ms; a log without a topic id gets that of its partition first), LogManager.deleteStrayKRaftReplicas and
# findStrayReplicas (3.7.0: renamed to `-stray`; one without a topic id ends the start), LogManager.isStrayKraftReplica (3.7.1 to 4.3:
# `-stray`, without a topic id, too; KAFKA-16814).

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
