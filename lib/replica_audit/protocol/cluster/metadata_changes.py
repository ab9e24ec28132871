"""What the records of KRaft's metadata log say, of those that concern topics, partitions, brokers, features and configurations.

Source: the message definitions of Kafka's metadata module (4.3.1); the classes bear the names of what happened, not of the records.
"""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER_CHANGE = -2


class TopicCreated(NamedTuple):
    """TopicRecord."""

    topic: str
    topic_id: str


class TopicRemoved(NamedTuple):
    """RemoveTopicRecord."""

    topic_id: str


class PartitionSet(NamedTuple):
    """PartitionRecord: the whole state of a partition."""

    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovering: bool
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()


class PartitionChanged(NamedTuple):
    """PartitionChangeRecord; None, and `NO_LEADER_CHANGE` for the leader, where the record leaves a field as it was."""

    partition: int
    topic_id: str
    isr: tuple[int, ...] | None
    leader: int
    replicas: tuple[int, ...] | None
    recovering: bool | None
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None


class BrokerFenced(NamedTuple):
    """A change of a broker's registration. `fenced` is None where it is unregistered."""

    broker_id: int
    fenced: bool | None


class BrokerRegistered(NamedTuple):
    """A broker's process has started, and is fenced until it has caught up with the metadata; in a snapshot, its state.

    `stops`: it is in a controlled shutdown, or went through one; only a snapshot says so. `broker_epoch` is higher with every start.
    `log_dirs`: the ids of its log directories that are online (KIP-858), empty before 3.7.
    """

    broker_id: int
    fenced: bool
    stops: bool = False
    broker_epoch: int = -1
    log_dirs: tuple[str, ...] = ()


class BrokerStops(NamedTuple):
    """A broker has begun a controlled shutdown."""

    broker_id: int


class FeatureSet(NamedTuple):
    """FeatureLevelRecord."""

    name: str
    level: int


class ConfigSet(NamedTuple):
    """ConfigRecord; a value of None removes the key."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class ElrCleared(NamedTuple):
    """ClearElrRecord; an empty name clears every topic's."""

    topic: str


MetadataRecord = (
    TopicCreated
    | TopicRemoved
    | PartitionSet
    | PartitionChanged
    | BrokerFenced
    | BrokerRegistered
    | BrokerStops
    | FeatureSet
    | ConfigSet
    | ElrCleared
)
