"""The records of KRaft's metadata log that concern topics, partitions, brokers, features and configurations, decoded from their bytes.

Sources: MetadataRecordSerde and AbstractApiMessageSerde (frame, api key and version as unsigned varints), the message definitions of
metadata/common/metadata (all versions up to 4.3). Every one of these records is flexible in every version: compact lengths, tagged fields.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from replica_audit.errors import MetadataError, SegmentError
from replica_audit.formats.segment.varints import unsigned
from replica_audit.protocol.cluster.metadata_changes import (
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


def _unregister_broker(fields: _Fields, _version: int) -> MetadataRecord:
    return BrokerFenced(broker_id=_broker(fields), fenced=None)


def _fence_broker(fields: _Fields, _version: int) -> MetadataRecord:
    return BrokerFenced(broker_id=_broker(fields), fenced=True)


def _unfence_broker(fields: _Fields, _version: int) -> MetadataRecord:
    return BrokerFenced(broker_id=_broker(fields), fenced=False)


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
    1: (_unregister_broker, 0),
    2: (_topic, 0),
    3: (_partition, 2),
    4: (_config, 0),
    5: (_partition_change, 2),
    7: (_fence_broker, 0),
    8: (_unfence_broker, 0),
    9: (_remove_topic, 0),
    12: (_feature, 0),
    17: (_change_registration, 3),
    28: (_clear_elr, 0),
}
