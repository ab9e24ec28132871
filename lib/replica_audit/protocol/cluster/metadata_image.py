"""The cluster's metadata as the records of the metadata log make it: topics and their settings, leaders, leader epochs, ISR.

Sources: PartitionRegistration.merge, TopicsDelta, ClusterDelta, ElectionResult and PartitionChangeBuilder (metadata, 4.2.0), KIP-966 (ELR).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import BrokerEvent, BrokerStanding, Election, IsrChange, MinIsrSetting, PartitionMetadata

# What the records of KRaft's metadata log say, of those that concern topics, partitions, brokers, features and configurations.
# Source: the message definitions of Kafka's metadata module (4.3.1); the classes bear the names of what happened, not of the records.


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


# delete.retention.ms of a topic: how long its cleaners keep a tombstone or a marker after they first saw it (TopicConfig, LogConfig).

DEFAULT_DELETE_RETENTION_MS = 24 * 60 * 60 * 1000


def retention_in(value: object, default: int | None = None) -> int | None:
    """The milliseconds that a setting gives; the default where there is none, None where it is not a number that Kafka would take."""
    return default if value is None else _natural_number(value, 2**63 - 1)


def _natural_number(value: object, largest: int) -> int | None:
    text = str(value).strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
    return int(text) if is_number and int(text) <= largest else None


# Settings of a topic that elections and reassignments go by, as a configuration has them: text (TopicConfig, ConfigDef.parseType).

UNCLEAN_ELECTION = "unclean.leader.election.enable"
REMOTE_STORAGE = "remote.storage.enable"  # of a topic (KIP-405)
_FLAGS = {"true": True, "false": False}


def flag_in(value: object) -> bool | None:
    """What a setting of two values says; None where there is none, or it is neither."""
    return None if value is None else _FLAGS.get(str(value).strip().lower())


def count_in(value: object) -> int | None:
    """The number of replicas that a setting gives, from 1; None where there is none, or it is not such a number."""
    return None if value is None else _natural_number(value, 2**31 - 1) or None


# min.insync.replicas as the metadata log sets it, by topic, by broker and as the cluster's default, and what held while a leader led.
# Source: LogConfig.fromProps and DynamicBrokerConfig: a topic's own setting wins, then the broker's, then the default of all brokers, then
# what server.properties says, which no record tells. With eligible leader replicas (KIP-966) the cluster's default is always set.

NAME = "min.insync.replicas"
CLUSTER_DEFAULT = -1


@dataclass(slots=True)
class MinIsrLog:
    """Every setting that was replayed, in order: `of_brokers` (the cluster's default among them) and those of each topic."""

    of_brokers: list[MinIsrSetting] = field(default_factory=list)
    of_topics: dict[str, list[MinIsrSetting]] = field(default_factory=dict)

    def set_topic(self, topic: str, value: str | None, offset: int) -> None:
        """Replay a topic's setting; None removes it."""
        self.of_topics.setdefault(topic, []).append(MinIsrSetting(count_in(value), offset))

    def set_broker(self, broker: str, value: str | None, offset: int) -> None:
        """Replay a broker's setting, or the cluster's default where the name is empty."""
        if not broker or broker.isdecimal():
            self.of_brokers.append(MinIsrSetting(count_in(value), offset, int(broker) if broker else CLUSTER_DEFAULT))

    def restarted(self, offset: int) -> MinIsrLog:
        """The settings when a snapshot is loaded: all have ended, because it sets again what still holds."""
        ended = {setting.broker for setting in self.of_brokers}
        return MinIsrLog(
            of_brokers=[*self.of_brokers, *(MinIsrSetting(None, offset, broker) for broker in ended)],
            of_topics={topic: [*found, MinIsrSetting(None, offset)] for topic, found in self.of_topics.items()},
        )


def values_between(
    of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int, first: int, end: int | None
) -> set[int | None]:
    """What min.insync.replicas was for a topic on a broker, from a metadata offset (inclusive) to another (exclusive; None: the last one).

    None among the values: only server.properties could say, or Kafka's default of 1 held.
    """
    levels = _levels(of_topic, of_brokers, broker)
    changes = {setting.metadata_offset for level in levels for setting in level}
    at = [first, *(offset for offset in changes if first < offset and (end is None or offset < end))]
    return {_in_effect(levels, offset) for offset in at}


def last_value(of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int) -> int | None:
    """What min.insync.replicas is for a topic on a broker by all that the log says; None: only server.properties could say, or it is 1."""
    levels = _levels(of_topic, of_brokers, broker)
    return _in_effect(levels, max((setting.metadata_offset for level in levels for setting in level), default=0))


def _levels(
    of_topic: Sequence[MinIsrSetting], of_brokers: Sequence[MinIsrSetting], broker: int
) -> tuple[Sequence[MinIsrSetting], Sequence[MinIsrSetting], Sequence[MinIsrSetting]]:
    """The settings that count, the strongest first."""
    own = [setting for setting in of_brokers if setting.broker == broker]
    return of_topic, own, [setting for setting in of_brokers if setting.broker == CLUSTER_DEFAULT]


def _in_effect(levels: Sequence[Sequence[MinIsrSetting]], offset: int) -> int | None:
    for level in levels:
        value = next((setting.value for setting in reversed(level) if setting.metadata_offset <= offset), None)
        if value is not None:
            return value
    return None


UNKNOWN_TIME = -1
_LAST_EPOCH = 2**31 - 1
_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
METADATA_LOG = "metadata-log"
METADATA_VERSION = "metadata.version"
UNREGISTERED = "unregistered"


class ElectionKind(StrEnum):
    """How an epoch began."""

    CREATED = "created"
    SNAPSHOT = "snapshot"
    CLEAN = "clean"
    UNCLEAN = "unclean"
    SAME_LEADER = "same-leader"
    LEADERLESS = "leaderless"


GIVES_NOTHING_UP = frozenset({ElectionKind.CREATED, ElectionKind.CLEAN, ElectionKind.SAME_LEADER, ElectionKind.LEADERLESS})


class BrokerState(StrEnum):
    """What a registered broker's process does, by the metadata log.

    `stopped` is one that was fenced at the end of a controlled shutdown; a `fenced` one may be dead, frozen or cut off.
    """

    UP = "up"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FENCED = "fenced"


class Position(NamedTuple):
    """Where a record stands in the metadata log."""

    offset: int
    epoch: int
    timestamp_ms: int


@dataclass(slots=True)
class _Partition:
    state: PartitionSet
    changed_at_ms: int
    elections: list[Election]
    isr_changes: list[IsrChange]
    ever_replicas: set[int]


BrokerRecord = BrokerRegistered | BrokerFenced | BrokerStops


def _state_after(record: BrokerRecord, before: str | None, from_snapshot: bool) -> str | None:
    """The state of a broker after a record; None: it is not registered."""
    match record:
        case BrokerRegistered(fenced=is_fenced, stops=True):
            return BrokerState.STOPPED if is_fenced else BrokerState.STOPPING
        case BrokerRegistered(fenced=True):
            return BrokerState.FENCED if from_snapshot else BrokerState.STARTING
        case BrokerStops():
            return BrokerState.STOPPING if before == BrokerState.UP else before
        case BrokerFenced(fenced=None):
            return None
        case BrokerFenced(fenced=True):
            return BrokerState.STOPPED if before in (BrokerState.STOPPING, BrokerState.STOPPED) else BrokerState.FENCED
    return BrokerState.UP


@dataclass(slots=True)
class MetadataImage:
    """The metadata after a number of records. `apply` changes it in place; records that fit nothing are counted in `orphans`.

    `broker_events` is every record of a broker's registration, in order.
    """

    topics: dict[str, str] = field(default_factory=dict)  # names by id
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerStanding] = field(default_factory=dict)  # those that are registered, by id
    orphans: int = 0
    broker_events: list[BrokerEvent] = field(default_factory=list)
    min_isr: MinIsrLog = field(default_factory=MinIsrLog)
    _partitions: dict[str, dict[int, _Partition]] = field(default_factory=dict)  # by topic id and number
    _configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)  # by resource
    _before: dict[tuple[str, int], _Partition] = field(default_factory=dict)  # of an image that a snapshot replaced
    _continued_ms: int = UNKNOWN_TIME  # when the first record behind the snapshot was written

    def restarted(self, at: Position) -> MetadataImage:
        """An empty image that a snapshot fills; of this one only what happened is kept: elections, ISR, brokers, min.insync.replicas."""
        known = ((topic_id, number, one) for topic_id, found in self._partitions.items() for number, one in found.items())
        before = {(topic_id, number): one for topic_id, number, one in known}
        return MetadataImage(broker_events=list(self.broker_events), min_isr=self.min_isr.restarted(at.offset), _before=before)

    def apply(self, record: MetadataRecord, at: Position, *, from_snapshot: bool = False) -> None:
        """Replay one record.

        Raises:
            OverflowError: a partition would get a leader epoch beyond the last that there is.
        """
        if not from_snapshot and self._continued_ms == UNKNOWN_TIME:
            self._continued_ms = at.timestamp_ms
        match record:
            case TopicCreated():
                self.topics[record.topic_id] = record.topic
            case TopicRemoved():
                self._remove(record.topic_id)
            case PartitionSet():
                self._set(record, at, from_snapshot)
            case PartitionChanged():
                self._change(record, at)
            case ElrCleared():
                self._clear_elr(record.topic)
            case FeatureSet():
                self.features[record.name] = record.level
            case ConfigSet():
                self._configure(record, at)
            case _:
                self._apply_to_broker(record, at, from_snapshot)

    def _apply_to_broker(self, record: BrokerRecord, at: Position, from_snapshot: bool) -> None:
        known = self.brokers.pop(record.broker_id, None)
        state = _state_after(record, None if known is None else known.state, from_snapshot)
        started = record if isinstance(record, BrokerRegistered) else known
        if state is not None:
            self.brokers[record.broker_id] = BrokerStanding(
                broker_id=record.broker_id,
                fenced=state not in (BrokerState.UP, BrokerState.STOPPING),
                state=str(state),
                changed_ms=at.timestamp_ms,
                broker_epoch=-1 if started is None else started.broker_epoch,
                log_dirs=() if started is None else started.log_dirs,
            )
        self.broker_events.append(BrokerEvent(record.broker_id, UNREGISTERED if state is None else str(state), *at))

    def _configure(self, record: ConfigSet, at: Position) -> None:
        resource_type, name, key, value = record
        if (resource_type, key) == (_TOPIC, NAME):
            self.min_isr.set_topic(name, value, at.offset)
        elif (resource_type, key) == (_BROKER, NAME):
            self.min_isr.set_broker(name, value, at.offset)
        elif value is None:
            self._configs.get((resource_type, name), {}).pop(key, None)
        else:
            self._configs.setdefault((resource_type, name), {})[key] = value

    def partitions(self, log_epoch: int, log_end_offset: int) -> list[PartitionMetadata]:
        """Every partition of every topic that exists.

        Args:
            log_epoch: of the last batch that was replayed.
            log_end_offset: of the metadata log, exclusive: which of several copies knows more.
        """
        made = []
        for topic_id, topic in self.topics.items():
            compacted, configs = "compact" in self._cleanup_policy(topic), self._configs.get((_TOPIC, topic), {})
            for partition, known in self._partitions.get(topic_id, {}).items():
                made.append(
                    PartitionMetadata(
                        topic=topic,
                        partition=partition,
                        topic_id=topic_id,
                        compacted=compacted,
                        leader=known.state.leader,
                        leader_epoch=known.state.leader_epoch,
                        replicas=known.state.replicas,
                        isr=known.state.isr,
                        elr=known.state.elr,
                        last_known_elr=known.state.last_known_elr,
                        no_leader=known.state.leader < 0,
                        source=METADATA_LOG,
                        known_at_ms=known.changed_at_ms if known.changed_at_ms >= 0 else None,
                        log_epoch=log_epoch,
                        log_end_offset=log_end_offset,
                        elections=tuple(known.elections),
                        isr_changes=tuple(self._timed(change) for change in known.isr_changes),
                        min_isr=tuple(self.min_isr.of_topics.get(topic, ())),
                        ever_replicas=tuple(sorted(known.ever_replicas)),
                        delete_retention_ms=retention_in(configs.get("delete.retention.ms")),
                        unclean_leader_election=flag_in(configs.get(UNCLEAN_ELECTION)),
                        remote_storage=flag_in(configs.get(REMOTE_STORAGE)),
                    )
                )
        return made

    def _timed(self, change: IsrChange) -> IsrChange:
        """What a snapshot tells was so when the log goes on behind it, at the latest."""
        return change._replace(timestamp_ms=self._continued_ms) if change.timestamp_ms == UNKNOWN_TIME else change

    def _cleanup_policy(self, topic: str) -> str:
        default = self._configs.get((_BROKER, ""), {}).get("log.cleanup.policy", "")
        return self._configs.get((_TOPIC, topic), {}).get("cleanup.policy", default)

    def _remove(self, topic_id: str) -> None:
        topic = self.topics.pop(topic_id, "")
        self._partitions.pop(topic_id, None)
        self._configs.pop((_TOPIC, topic), None)
        self.min_isr.of_topics.pop(topic, None)

    def _set(self, record: PartitionSet, at: Position, from_snapshot: bool) -> None:
        key = (record.topic_id, record.partition)
        known = self._partitions.get(record.topic_id, {}).get(record.partition) or self._before.get(key)
        elections, changes = ([*known.elections], [*known.isr_changes]) if known else ([], [])
        if not elections or elections[-1].leader_epoch != record.leader_epoch:
            kind = ElectionKind.SNAPSHOT if from_snapshot else ElectionKind.CREATED
            elections.append(_election(record, kind, at, record.isr))
        if from_snapshot:  # what happened before it in this epoch is not known
            changes.append(IsrChange(record.leader_epoch, record.isr, *at))
        replicas = (known.ever_replicas if known else set()) | {*record.replicas}
        made = _Partition(record, at.timestamp_ms, elections, changes, replicas)
        self._partitions.setdefault(record.topic_id, {})[record.partition] = made

    def _change(self, record: PartitionChanged, at: Position) -> None:
        known = self._partitions.get(record.topic_id, {}).get(record.partition)
        if known is None:
            self.orphans += 1
            return
        before = known.state
        changed = {
            name: value
            for name in ("isr", "replicas", "recovering", "elr", "last_known_elr", "removing", "adding")
            if (value := getattr(record, name)) is not None
        }
        after = before._replace(partition_epoch=before.partition_epoch + 1, **changed)
        if record.leader != NO_LEADER_CHANGE:
            if before.leader_epoch >= _LAST_EPOCH:
                raise OverflowError(f"no leader epoch follows {before.leader_epoch}")
            after = after._replace(leader=record.leader, leader_epoch=before.leader_epoch + 1)
            known.elections.append(_election(after, _kind(before, after, record), at, (*before.isr, *before.elr)))
        elif after.isr != before.isr:
            known.isr_changes.append(IsrChange(after.leader_epoch, after.isr, *at))
        known.ever_replicas.update(after.replicas)
        known.state, known.changed_at_ms = after, at.timestamp_ms

    def _clear_elr(self, topic: str) -> None:
        for topic_id, found in self._partitions.items():
            if not topic or self.topics.get(topic_id) == topic:
                for known in found.values():
                    known.state = known.state._replace(elr=(), last_known_elr=())


def _kind(before: PartitionSet, after: PartitionSet, record: PartitionChanged) -> ElectionKind:
    """How the change's election came about: a leader outside of ISR and ELR was elected uncleanly (ElectionResult.unclean).

    Except where the same record ends a reassignment: its ISR is then what the leader before asked for, and the new leader is in it.
    """
    if after.leader < 0:
        return ElectionKind.LEADERLESS
    if after.leader == before.leader:
        return ElectionKind.SAME_LEADER
    ends_a_move = bool(before.removing or before.adding) and set(after.replicas) == set(before.replicas) - set(before.removing)
    is_eligible = after.leader in (*before.isr, *before.elr) or (record.replicas is not None and ends_a_move)
    return ElectionKind.CLEAN if is_eligible and not record.recovering else ElectionKind.UNCLEAN


def _election(state: PartitionSet, kind: ElectionKind, at: Position, electable: tuple[int, ...]) -> Election:
    return Election(
        leader_epoch=state.leader_epoch,
        leader_id=state.leader,
        kind=str(kind),
        isr=state.isr,
        elr=state.elr,
        metadata_offset=at.offset,
        metadata_epoch=at.epoch,
        timestamp_ms=at.timestamp_ms,
        electable=electable,
    )
