"""What KRaft writes, for tests: metadata records, batches, segments and snapshots, encoded by Kafka's message definitions.

`DEFINITIONS` are those of metadata/src/main/resources/common/metadata/*.json in 4.3.1, names as in the JSON that Kafka prints. Nothing here
comes from the product's decoder: `test_metadata_records.py` holds bytes of MetadataRecordSerde against it, and
`tests/clusters/test_metadata_log.py` every record that real controllers wrote.
"""

from __future__ import annotations

import base64
import struct
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

with warnings.catch_warnings():  # kafka-python reads its own resources in a deprecated way while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.formats import kafka_files

TIME = 1_700_000_000_000
TOPIC_ID, OTHER_ID, DIRECTORY_ID = "Qp6JWkXMQF-e2A5xW3-mBQ", "FwQ8J6cySmadJADoS7lKRg", "k30rZMdkQpSfGP9K8FhEHw"
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6  # ControlRecordType
_INTEGERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "bool": ">?"}


class Field(NamedTuple):
    """One field of a definition. `since` is the first version that has it; `tag` is None for a field that always stands in the record."""

    name: str
    type: str
    since: int = 0
    tag: int | None = None
    default: Any = None
    fields: tuple[Field, ...] = ()


class Definition(NamedTuple):
    """One message: its api key, its newest version, its fields in order."""

    key: int
    latest: int
    fields: tuple[Field, ...]


_ID, _EPOCH = Field("brokerId", "int32"), Field("brokerEpoch", "int64")
_END_POINTS = Field(
    "endPoints",
    "[]",
    fields=(Field("name", "string"), Field("host", "string"), Field("port", "uint16"), Field("securityProtocol", "int16")),
)
_FEATURES = Field(
    "features", "[]", fields=(Field("name", "string"), Field("minSupportedVersion", "int16"), Field("maxSupportedVersion", "int16"))
)
DEFINITIONS = {
    "REGISTER_BROKER_RECORD": Definition(
        0,
        4,
        (
            _ID,
            Field("isMigratingZkBroker", "bool", since=2, default=False),
            Field("incarnationId", "uuid", default=DIRECTORY_ID),
            _EPOCH,
            _END_POINTS,
            _FEATURES,
            Field("rack", "string"),
            Field("fenced", "bool", default=True),
            Field("inControlledShutdown", "bool", since=1, default=False),
            Field("logDirs", "[]uuid", since=3, tag=0, default=[]),
            Field("cordonedLogDirs", "[]uuid", since=4, tag=1, default=None),
        ),
    ),
    "UNREGISTER_BROKER_RECORD": Definition(1, 0, (_ID, _EPOCH)),
    "TOPIC_RECORD": Definition(2, 0, (Field("name", "string"), Field("topicId", "uuid"))),
    "PARTITION_RECORD": Definition(
        3,
        2,
        (
            Field("partitionId", "int32", default=0),
            Field("topicId", "uuid"),
            Field("replicas", "[]int32"),
            Field("isr", "[]int32"),
            Field("removingReplicas", "[]int32"),
            Field("addingReplicas", "[]int32"),
            Field("leader", "int32", default=-1),
            Field("leaderRecoveryState", "int8", tag=0, default=0),
            Field("leaderEpoch", "int32", default=-1),
            Field("partitionEpoch", "int32", default=-1),
            Field("directories", "[]uuid", since=1),
            Field("eligibleLeaderReplicas", "[]int32", since=2, tag=1),
            Field("lastKnownElr", "[]int32", since=2, tag=2),
        ),
    ),
    "CONFIG_RECORD": Definition(
        4, 0, (Field("resourceType", "int8"), Field("resourceName", "string"), Field("name", "string"), Field("value", "string"))
    ),
    "PARTITION_CHANGE_RECORD": Definition(
        5,
        2,
        (
            Field("partitionId", "int32", default=0),
            Field("topicId", "uuid"),
            Field("isr", "[]int32", tag=0),
            Field("leader", "int32", tag=1, default=-2),
            Field("replicas", "[]int32", tag=2),
            Field("removingReplicas", "[]int32", tag=3),
            Field("addingReplicas", "[]int32", tag=4),
            Field("leaderRecoveryState", "int8", tag=5, default=-1),
            Field("directories", "[]uuid", since=1, tag=8),
            Field("eligibleLeaderReplicas", "[]int32", since=2, tag=6),
            Field("lastKnownElr", "[]int32", since=2, tag=7),
        ),
    ),
    "FENCE_BROKER_RECORD": Definition(7, 0, (Field("id", "int32"), Field("epoch", "int64"))),
    "UNFENCE_BROKER_RECORD": Definition(8, 0, (Field("id", "int32"), Field("epoch", "int64"))),
    "REMOVE_TOPIC_RECORD": Definition(9, 0, (Field("topicId", "uuid"),)),
    "FEATURE_LEVEL_RECORD": Definition(12, 0, (Field("name", "string"), Field("featureLevel", "int16"))),
    "PRODUCER_IDS_RECORD": Definition(15, 0, (_ID, _EPOCH, Field("nextProducerId", "int64"))),
    "BROKER_REGISTRATION_CHANGE_RECORD": Definition(
        17,
        3,
        (
            _ID,
            _EPOCH,
            Field("fenced", "int8", tag=0, default=0),
            Field("inControlledShutdown", "int8", since=1, tag=1, default=0),
            Field("logDirs", "[]uuid", since=2, tag=2, default=[]),
            Field("cordonedLogDirs", "[]uuid", since=3, tag=3, default=None),
        ),
    ),
    "NO_OP_RECORD": Definition(20, 0, ()),
    "BEGIN_TRANSACTION_RECORD": Definition(23, 0, (Field("name", "string", tag=0),)),
    "END_TRANSACTION_RECORD": Definition(24, 0, ()),
    "ABORT_TRANSACTION_RECORD": Definition(25, 0, (Field("reason", "string", tag=0),)),
    "REGISTER_CONTROLLER_RECORD": Definition(
        27,
        0,
        (
            Field("controllerId", "int32"),
            Field("incarnationId", "uuid"),
            Field("zkMigrationReady", "bool", default=False),
            _END_POINTS,
            _FEATURES,
        ),
    ),
    "CLEAR_ELR_RECORD": Definition(28, 0, (Field("topicName", "string"),)),
}


def varint(value: int) -> bytes:
    """UNSIGNED_VARINT: seven bits a byte, lowest first."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def framed(key: int, version: int, body: bytes) -> bytes:
    """A record's value: frame version 1, api key, version, message."""
    return varint(1) + varint(key) + varint(version) + body


def record(kind: str, version: int | None = None, /, **values: Any) -> bytes:
    """A record's value. Fields that are left out have their default, or are 0, empty or null as their type allows."""
    definition = DEFINITIONS[kind]
    unknown = values.keys() - {field.name for field in definition.fields}
    assert not unknown, f"{kind} has no {unknown}"
    chosen = definition.latest if version is None else version
    return framed(definition.key, chosen, _message(definition.fields, chosen, values))


def _message(fields: Sequence[Field], version: int, values: Mapping[str, Any]) -> bytes:
    present = [field for field in fields if field.since <= version]
    plain = b"".join(_field(field, values.get(field.name, field.default), version) for field in present if field.tag is None)
    tagged = {
        field.tag: _field(field, values[field.name], version)
        for field in present
        if field.tag is not None and field.name in values and values[field.name] != field.default
    }
    return plain + tags(tagged)


def tags(contents: Mapping[int, bytes]) -> bytes:
    """Tagged fields: their number, then tag, size and content of each, by tag."""
    return varint(len(contents)) + b"".join(varint(tag) + varint(len(content)) + content for tag, content in sorted(contents.items()))


def _field(field: Field, value: Any, version: int) -> bytes:
    if field.type in _INTEGERS:
        return struct.pack(_INTEGERS[field.type], value or 0)
    if field.type == "uuid":
        return _uuid(value)
    if field.type == "string":
        return _sized(None if value is None else value.encode())
    if field.type == "[]":
        return _array([_message(field.fields, version, {"name": "", "host": "", **entry}) for entry in value or ()])
    if value is None:
        # a null array: only a tagged field may be one, and there null is the default
        return _array([])
    return _array([struct.pack(">i", one) if field.type == "[]int32" else _uuid(one) for one in value])


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _sized(content: bytes | None) -> bytes:
    return varint(0) if content is None else varint(len(content) + 1) + content


def _array(entries: Sequence[bytes]) -> bytes:
    return varint(len(entries) + 1) + b"".join(entries)


def topic(name: str, topic_id: str = TOPIC_ID) -> bytes:
    return record("TOPIC_RECORD", name=name, topicId=topic_id)


def partition(number: int = 0, topic_id: str = TOPIC_ID, **values: Any) -> bytes:
    """A partition led by 1 in epoch 0, replicas and ISR 1, 2, 3, unless told otherwise."""
    replicas = values.get("replicas", [1, 2, 3])
    ordinary = {
        "replicas": replicas,
        "isr": replicas,
        "leader": 1,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
        "directories": [DIRECTORY_ID] * len(replicas),
    }
    return record("PARTITION_RECORD", partitionId=number, topicId=topic_id, **ordinary | values)


def change(number: int = 0, topic_id: str = TOPIC_ID, **values: Any) -> bytes:
    return record("PARTITION_CHANGE_RECORD", partitionId=number, topicId=topic_id, **values)


def batch(base_offset: int, epoch: int, *values: bytes | None, timestamp: int = TIME, codec: int = kafka_files.NONE) -> bytes:
    """A batch of the metadata log: records without keys, offsets from the base on."""
    return _batch(base_offset, epoch, [(None, value) for value in values], timestamp, codec)


def control(base_offset: int, epoch: int, *types: int, timestamp: int = TIME) -> bytes:
    """A batch of control records: keys are version 0 and the type; of the values only the version counts here."""
    made = bytearray(_batch(base_offset, epoch, [(struct.pack(">hh", 0, kind), struct.pack(">h", 0)) for kind in types], timestamp))
    made[22] |= kafka_files.CONTROL
    return kafka_files.sealed(made)


def _batch(
    base_offset: int, epoch: int, records: Sequence[tuple[bytes | None, bytes | None]], timestamp: int, codec: int = kafka_files.NONE
) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for delta, (key, value) in enumerate(records):
        builder.append(delta, timestamp, key, value, [])
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base_offset)
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


def log(folder: Path, *batches: Sequence[bytes] | bytes, base: int = 0, epoch: int = 1, timestamp: int = TIME, suffix: str = "") -> int:
    """Write one segment; a list of values becomes a batch at the next offset, one millisecond after the batch before it.

    Returns:
        The offset after the last record.
    """
    offset, made = base, []
    for i, values in enumerate(batches):
        content = values if isinstance(values, bytes) else batch(offset, epoch, *values, timestamp=timestamp + i)
        made.append(content)
        base_offset, delta = struct.unpack_from(">q", content)[0], struct.unpack_from(">i", content, 23)[0]
        offset = base_offset + delta + 1
    kafka_files.segment(folder, base, *made, suffix=suffix)
    return offset


def snapshot(
    folder: Path,
    end_offset: int,
    epoch: int,
    values: Iterable[bytes],
    *,
    footer: bool = True,
    timestamp: int = TIME,
    suffix: str = ".checkpoint",
) -> Path:
    """Write a snapshot: header, records and footer, offsets counted from 0, in the epoch of the last record that it contains."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{end_offset:020d}-{epoch:010d}{suffix}"
    held = list(values)
    content = control(0, epoch, SNAPSHOT_HEADER, KRAFT_VERSION, timestamp=timestamp)
    content += batch(2, epoch, *held, timestamp=timestamp) if held else b""
    content += control(2 + len(held), epoch, SNAPSHOT_FOOTER, timestamp=timestamp) if footer else b""
    path.write_bytes(content)
    return path
