"""The records of KRaft's metadata log that concern topics, partitions, brokers, features and configurations, decoded from their bytes.

Sources: MetadataRecordSerde and AbstractApiMessageSerde (frame, api key and version as unsigned varints), the message definitions of
metadata/common/metadata (all versions up to 4.3). Every one of these records is flexible in every version: compact lengths, tagged fields.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from replica_audit.errors import MetadataError, SegmentError
from replica_audit.formats.segment.record_batch import unsigned
from replica_audit.protocol.cluster.metadata_image import (
    NO_LEADER_CHANGE,
    BrokerFenced,
    BrokerRegistered,
    BrokerStops,
    ConfigSet,
    ElrCleared,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
)

BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
_FRAME_VERSION = 1
_WITH_LOG_DIRS = 3  # of registrations (KIP-858)


class _Fields:
    """The fields of one record, read in order. A length that points beyond the record is an error, so nothing is allocated for it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self.at + count > len(self.content):
            raise MetadataError(f"a field of {count} bytes does not fit into the record's {len(self.content)}", byte_offset=self.at)
        self.at += count
        return self.content[self.at - count : self.at]

    def number(self, size: int) -> int:
        """A signed integer, big endian."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def int32(self) -> int:
        """INT32."""
        return self.number(4)

    def varint(self) -> int:
        """UNSIGNED_VARINT."""
        try:
            value, self.at = unsigned(self.content, self.at)
        except SegmentError as error:
            raise MetadataError(error.reason, byte_offset=self.at) from None
        except IndexError:
            raise MetadataError("a variable-length number is cut off", byte_offset=self.at) from None
        return value

    def uuid(self) -> str:
        """UUID as Kafka prints it: base64 without padding, safe in URLs."""
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def nullable_string(self) -> str | None:
        """COMPACT_NULLABLE_STRING."""
        length = self.varint()
        return None if length == 0 else self.take(length - 1).decode("utf-8", "replace")

    def string(self) -> str:
        """COMPACT_STRING."""
        return self.nullable_string() or ""

    def nullable_ids(self) -> tuple[int, ...] | None:
        """A COMPACT_ARRAY of INT32, or null."""
        count = self.varint() - 1
        if count < 0:
            return None
        content = self.take(4 * count)
        return tuple(int.from_bytes(content[i : i + 4], "big", signed=True) for i in range(0, len(content), 4))

    def ids(self) -> tuple[int, ...]:
        """`nullable_ids`, null as empty."""
        return self.nullable_ids() or ()

    def uuids(self) -> tuple[str, ...]:
        """A COMPACT_ARRAY of UUID."""
        return tuple(self.uuid() for _ in range(self.varint() - 1))

    def tagged(self) -> dict[int, _Fields]:
        """The tagged fields behind all others, by tag."""
        found = {}
        for _ in range(self.varint()):
            tag = self.varint()
            found[tag] = _Fields(self.take(self.varint()))
        return found


def decode(value: bytes) -> MetadataRecord | int | None:
    """One record's value.

    Returns:
        The record; the api key of a mark of a metadata transaction (KIP-868); None for a record that the audit has no use for.

    Raises:
        MetadataError: the bytes are no record of the metadata log, with the byte in the value.
    """
    fields = _Fields(value)
    frame = fields.varint()
    if frame != _FRAME_VERSION:
        raise MetadataError(f"frame version {frame} is not {_FRAME_VERSION}", byte_offset=0)
    key, version = fields.varint(), fields.varint()
    if key in (BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION):
        return key
    if key not in _DECODERS:
        return None
    decoder, newest = _DECODERS[key]
    if version > newest:
        raise MetadataError(f"version {version} of record type {key} is not known, {newest} is the newest", byte_offset=2)
    record = decoder(fields, version)
    if fields.at < len(value):
        raise MetadataError(f"{len(value) - fields.at} bytes behind the record", byte_offset=fields.at)
    return record


def _topic(fields: _Fields, _version: int) -> MetadataRecord:
    record = TopicCreated(topic=fields.string(), topic_id=fields.uuid())
    fields.tagged()
    return record


def _remove_topic(fields: _Fields, _version: int) -> MetadataRecord:
    record = TopicRemoved(topic_id=fields.uuid())
    fields.tagged()
    return record


def _partition(fields: _Fields, version: int) -> MetadataRecord:
    partition, topic_id, replicas, isr = fields.int32(), fields.uuid(), fields.ids(), fields.ids()
    removing, adding = fields.ids(), fields.ids()
    leader, leader_epoch, partition_epoch = fields.int32(), fields.int32(), fields.int32()
    if version >= 1:  # directories
        fields.take(16 * max(0, fields.varint() - 1))
    tagged = fields.tagged()
    if partition < 0 or leader_epoch < 0:
        raise MetadataError(f"partition {partition} with leader epoch {leader_epoch}: neither may be negative")
    return PartitionSet(
        partition=partition,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        recovering=0 in tagged and tagged[0].number(1) == 1,
        elr=tagged[1].ids() if 1 in tagged else (),
        last_known_elr=tagged[2].ids() if 2 in tagged else (),
        removing=removing,
        adding=adding,
    )


def _partition_change(fields: _Fields, _version: int) -> MetadataRecord:
    partition, topic_id = fields.int32(), fields.uuid()
    tagged = fields.tagged()

    def ids(tag: int) -> tuple[int, ...] | None:
        return tagged[tag].nullable_ids() if tag in tagged else None

    return PartitionChanged(
        partition=partition,
        topic_id=topic_id,
        isr=ids(0),
        leader=tagged[1].int32() if 1 in tagged else NO_LEADER_CHANGE,
        replicas=ids(2),
        recovering=tagged[5].number(1) == 1 if 5 in tagged else None,
        elr=ids(6),
        last_known_elr=ids(7),
        removing=ids(3),
        adding=ids(4),
    )


def _register_broker(fields: _Fields, version: int) -> MetadataRecord:
    broker_id = fields.int32()
    fields.take((1 if version >= 2 else 0) + 16)  # migrating from ZooKeeper, incarnation
    broker_epoch = fields.number(8)
    for _ in range(fields.varint() - 1):  # end points
        fields.string(), fields.string(), fields.take(4), fields.tagged()
    for _ in range(fields.varint() - 1):  # features
        fields.string(), fields.take(4), fields.tagged()
    fields.nullable_string()  # rack
    fenced = fields.number(1) != 0
    stops = version >= 1 and fields.number(1) != 0
    tagged = fields.tagged()
    log_dirs = tagged[0].uuids() if version >= _WITH_LOG_DIRS and 0 in tagged else ()
    return BrokerRegistered(broker_id=broker_id, fenced=fenced, stops=stops, broker_epoch=broker_epoch, log_dirs=log_dirs)


def _broker(fields: _Fields) -> int:
    """A broker's id, in a record that has its epoch besides."""
    broker_id = fields.int32()
    fields.take(8)
    fields.tagged()
    return broker_id


def _change_registration(fields: _Fields, version: int) -> MetadataRecord | None:
    broker_id = fields.int32()
    fields.take(8)
    tagged = fields.tagged()
    change = tagged[0].number(1) if 0 in tagged else 0
    if change:
        return BrokerFenced(broker_id=broker_id, fenced=change > 0)
    stops = version >= 1 and 1 in tagged and tagged[1].number(1) > 0
    return BrokerStops(broker_id=broker_id) if stops else None


def _feature(fields: _Fields, _version: int) -> MetadataRecord:
    record = FeatureSet(name=fields.string(), level=fields.number(2))
    fields.tagged()
    return record


def _config(fields: _Fields, _version: int) -> MetadataRecord:
    kind, resource, name, value = fields.number(1), fields.string(), fields.string(), fields.nullable_string()
    fields.tagged()
    return ConfigSet(resource_type=kind, resource_name=resource, name=name, value=value)


def _clear_elr(fields: _Fields, _version: int) -> MetadataRecord:
    record = ElrCleared(topic=fields.string())
    fields.tagged()
    return record


# by api key, with the newest version (4.3)
_DECODERS: dict[int, tuple[Callable[[_Fields, int], MetadataRecord | None], int]] = {
    0: (_register_broker, 4),
    1: (lambda fields, _version: BrokerFenced(broker_id=_broker(fields), fenced=None), 0),
    2: (_topic, 0),
    3: (_partition, 2),
    4: (_config, 0),
    5: (_partition_change, 2),
    7: (lambda fields, _version: BrokerFenced(broker_id=_broker(fields), fenced=True), 0),
    8: (lambda fields, _version: BrokerFenced(broker_id=_broker(fields), fenced=False), 0),
    9: (_remove_topic, 0),
    12: (_feature, 0),
    17: (_change_registration, 3),
    28: (_clear_elr, 0),
}


# The records of KRaft's metadata log as kafka-dump-log prints them with --cluster-metadata-decoder: JSON, decoded to the same values.
# Source: DumpLogSegments.ClusterMetadataLogMessageParser (2.7 to 4.3) and the generated JSON converters: names of fields begin with a
# small letter, ids are in Kafka's own base64, and a tagged field that has its default is left out.

_MOST = 2**63 - 1
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INT32_MAX = 2**31 - 1


def decode_json(content: str) -> MetadataRecord | int | None:
    """One record; as `metadata_records.decode`.

    Raises:
        MetadataError: not a record, as a line that is cut, or one that kafka-dump-log could not decode.
    """
    try:
        record = json.loads(content)
        kind, data = record["type"], _Data(record["data"])
    except (ValueError, RecursionError, KeyError, TypeError):
        raise MetadataError(f"not a record of the metadata log: {content[:60]!r}") from None
    if kind in _MARKS:
        return _MARKS[kind]
    return _JSON_DECODERS[kind](data) if kind in _JSON_DECODERS else None


class _Data:
    """The fields of one record, each of which is of the type that is asked for, or an error."""

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, dict):
            raise TypeError
        self._fields: dict[str, Any] = fields

    def _of(self, name: str, kind: type, default: Any) -> Any:
        value = self._fields.get(name)
        if value is None:
            if default is ...:
                raise MetadataError(f"{name} is missing")
            return default
        if isinstance(value, str) and _SURROGATE.search(value):
            raise MetadataError(f"{name} is {json.dumps(value)[:40]}, which contains half of a character")
        if type(value) is not kind or (isinstance(value, int) and abs(value) > _MOST):
            raise MetadataError(f"{name} is {json.dumps(value)[:40]}, not of type {kind.__name__}")
        return value

    def number(self, name: str, default: Any = ...) -> int:
        """An integer; required if there is no default."""
        value: int = self._of(name, int, default)
        return value

    def small(self, name: str, default: Any = ...) -> int:
        """The same, of 32 bits."""
        value = self.number(name, default)
        if abs(value) > _INT32_MAX:
            raise MetadataError(f"{name} is {value}, which no broker writes")
        return value

    def text(self, name: str) -> str:
        """A required string."""
        value: str | None = self._of(name, str, ...)
        return value or ""

    def nullable_text(self, name: str) -> str | None:
        """A string or null."""
        value: str | None = self._of(name, str, None)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean, and what it is where it is left out."""
        return bool(self._of(name, bool, default))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of ids as text; empty if it is left out."""
        values = self._of(name, list, None) or []
        if not all(isinstance(value, str) and value.isascii() for value in values):
            raise MetadataError(f"{name} holds something that is not an id")
        return tuple(values)

    def ids(self, name: str) -> tuple[int, ...] | None:
        """A list of brokers' ids; None if it is left out."""
        values = self._of(name, list, None)
        if values is None:
            return None
        if not all(type(value) is int and abs(value) <= _INT32_MAX for value in values):
            raise MetadataError(f"{name} holds something that is not a broker id")
        return tuple(values)


def _partition_of_json(data: _Data) -> MetadataRecord:
    partition, leader_epoch = data.small("partitionId"), data.small("leaderEpoch")
    if partition < 0 or leader_epoch < 0:
        raise MetadataError(f"partition {partition} with leader epoch {leader_epoch}: neither may be negative")
    return PartitionSet(
        partition=partition,
        topic_id=data.text("topicId"),
        replicas=data.ids("replicas") or (),
        isr=data.ids("isr") or (),
        leader=data.small("leader"),
        leader_epoch=leader_epoch,
        partition_epoch=data.small("partitionEpoch"),
        recovering=data.small("leaderRecoveryState", 0) == 1,
        elr=data.ids("eligibleLeaderReplicas") or (),
        last_known_elr=data.ids("lastKnownElr") or (),
        removing=data.ids("removingReplicas") or (),
        adding=data.ids("addingReplicas") or (),
    )


def _partition_change_of_json(data: _Data) -> MetadataRecord:
    state = data.small("leaderRecoveryState", -1)
    return PartitionChanged(
        partition=data.small("partitionId"),
        topic_id=data.text("topicId"),
        isr=data.ids("isr"),
        leader=data.small("leader", NO_LEADER_CHANGE),
        replicas=data.ids("replicas"),
        recovering=None if state < 0 else state == 1,
        elr=data.ids("eligibleLeaderReplicas"),
        last_known_elr=data.ids("lastKnownElr"),
        removing=data.ids("removingReplicas"),
        adding=data.ids("addingReplicas"),
    )


def _registration_change(data: _Data) -> MetadataRecord | None:
    broker, change = data.small("brokerId"), data.small("fenced", 0)
    if change:
        return BrokerFenced(broker_id=broker, fenced=change > 0)
    return BrokerStops(broker_id=broker) if data.small("inControlledShutdown", 0) > 0 else None


_MARKS = {
    "BEGIN_TRANSACTION_RECORD": BEGIN_TRANSACTION,
    "END_TRANSACTION_RECORD": END_TRANSACTION,
    "ABORT_TRANSACTION_RECORD": ABORT_TRANSACTION,
}
_JSON_DECODERS: dict[str, Callable[[_Data], MetadataRecord | None]] = {
    "REGISTER_BROKER_RECORD": lambda data: BrokerRegistered(
        broker_id=data.small("brokerId"),
        fenced=data.flag("fenced", default=True),  # 2.8 does not print it where it is true
        stops=data.flag("inControlledShutdown", default=False),
        broker_epoch=data.number("brokerEpoch"),
        log_dirs=data.texts("logDirs"),
    ),
    "UNREGISTER_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("brokerId"), fenced=None),
    "TOPIC_RECORD": lambda data: TopicCreated(topic=data.text("name"), topic_id=data.text("topicId")),
    "PARTITION_RECORD": _partition_of_json,
    "CONFIG_RECORD": lambda data: ConfigSet(
        resource_type=data.small("resourceType"),
        resource_name=data.text("resourceName"),
        name=data.text("name"),
        value=data.nullable_text("value"),
    ),
    "PARTITION_CHANGE_RECORD": _partition_change_of_json,
    "FENCE_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("id"), fenced=True),
    "UNFENCE_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("id"), fenced=False),
    "REMOVE_TOPIC_RECORD": lambda data: TopicRemoved(topic_id=data.text("topicId")),
    "FEATURE_LEVEL_RECORD": lambda data: FeatureSet(name=data.text("name"), level=data.small("featureLevel")),
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_change,
    "CLEAR_ELR_RECORD": lambda data: ElrCleared(topic=data.text("topicName")),
}
