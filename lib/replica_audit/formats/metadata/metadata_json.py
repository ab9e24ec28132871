"""The records of KRaft's metadata log as kafka-dump-log prints them with --cluster-metadata-decoder: JSON, decoded to the same values.

Source: DumpLogSegments.ClusterMetadataLogMessageParser (2.7 to 4.3) and the generated JSON converters: names of fields begin with a small
letter, ids are in Kafka's own base64, and a tagged field that has its default is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.metadata_records import ABORT_TRANSACTION, BEGIN_TRANSACTION, END_TRANSACTION
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
    return _DECODERS[kind](data) if kind in _DECODERS else None


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


def _partition(data: _Data) -> MetadataRecord:
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


def _partition_change(data: _Data) -> MetadataRecord:
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
_DECODERS: dict[str, Callable[[_Data], MetadataRecord | None]] = {
    "REGISTER_BROKER_RECORD": lambda data: BrokerRegistered(
        broker_id=data.small("brokerId"),
        fenced=data.flag("fenced", default=True),  # 2.8 does not print it where it is true
        stops=data.flag("inControlledShutdown", default=False),
        broker_epoch=data.number("brokerEpoch"),
        log_dirs=data.texts("logDirs"),
    ),
    "UNREGISTER_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("brokerId"), fenced=None),
    "TOPIC_RECORD": lambda data: TopicCreated(topic=data.text("name"), topic_id=data.text("topicId")),
    "PARTITION_RECORD": _partition,
    "CONFIG_RECORD": lambda data: ConfigSet(
        resource_type=data.small("resourceType"),
        resource_name=data.text("resourceName"),
        name=data.text("name"),
        value=data.nullable_text("value"),
    ),
    "PARTITION_CHANGE_RECORD": _partition_change,
    "FENCE_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("id"), fenced=True),
    "UNFENCE_BROKER_RECORD": lambda data: BrokerFenced(broker_id=data.small("id"), fenced=False),
    "REMOVE_TOPIC_RECORD": lambda data: TopicRemoved(topic_id=data.text("topicId")),
    "FEATURE_LEVEL_RECORD": lambda data: FeatureSet(name=data.text("name"), level=data.small("featureLevel")),
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_change,
    "CLEAR_ELR_RECORD": lambda data: ElrCleared(topic=data.text("topicName")),
}
