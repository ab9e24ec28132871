"""`cluster-metadata.json`: leaders, epochs, ISR and topic configurations at the time of the copy.

Unknown keys are ignored, missing optional keys are unknown. docs/inputs.md shows the shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replica_audit.errors import MetadataError
from replica_audit.formats.log_dir.small_files import DOCUMENT_LIMIT, whole_content
from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.metadata_image import (
    DEFAULT_DELETE_RETENTION_MS,
    REMOTE_STORAGE,
    UNCLEAN_ELECTION,
    count_in,
    flag_in,
    retention_in,
)
from replica_audit.protocol.cluster.metadata_image import NAME as MIN_ISR
from replica_audit.protocol.cluster.versions import TOPIC_FORMAT

CLUSTER_METADATA_FILE = "cluster-metadata"
_INT32_MAX = 2**31 - 1
_LONGEST_VERSION = 100
_MANY_DIGITS = re.compile(r"\d{10}")
_STATES = ("up", "down", "paused", "unknown")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """What the file says of the cluster as a whole. `broker_states` maps a broker id to `up`, `down`, `paused` or `unknown`."""

    cluster_id: str | None
    captured_at_ms: int | None
    kafka_version: str | None
    inter_broker_protocol: str | None
    metadata_version: int | None
    broker_states: dict[int, str]
    message_format: str | None = None


def parse(content: bytes) -> tuple[ClusterMetadata, dict[str, Any]]:
    """The head of the file, and the whole document for `partitions`.

    Raises:
        MetadataError: not JSON (with the line), another version, a value of the wrong type, a broker given twice or in a state that is
            none (with its place).
    """
    try:
        document = json.loads(content, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise MetadataError(f"not JSON: {error.msg}", line=error.lineno, byte_offset=error.pos) from None
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"not JSON: {error}", byte_offset=getattr(error, "start", 0)) from None
    if not isinstance(document, dict) or document.get("version") != 1:
        raise MetadataError("not a cluster-metadata.json of version 1")
    features = _typed(document, "features", dict, "") or {}
    brokers = _listed(document, "brokers", "")
    head = ClusterMetadata(
        cluster_id=_typed(document, "cluster_id", str, ""),
        captured_at_ms=_captured_at_ms(document),
        kafka_version=_version(document, "kafka_version"),
        inter_broker_protocol=_version(document, "inter_broker_protocol_version"),
        message_format=_version(document, "log_message_format_version"),
        metadata_version=_typed(features, "metadata.version", int, "features."),
        broker_states=_broker_states(brokers),
    )
    return head, document


def _broker_states(brokers: list[Any]) -> dict[int, str]:
    """The state of each broker, which is named once."""
    states: dict[int, str] = {}
    for i, broker in enumerate(brokers):
        at = f"brokers[{i}]."
        broker_id = _not_negative(_required(broker, "id", int, at), f"{at}id")
        if broker_id in states:
            raise MetadataError(f"{at}id is {broker_id}, which is given twice")
        states[broker_id] = _typed(broker, "state", str, at) or "unknown"
        if states[broker_id] not in _STATES:
            raise MetadataError(f"{at}state is {_shown(states[broker_id])}, not one of {', '.join(_STATES)}")
    return states


def read(path: Path) -> tuple[ClusterMetadata, dict[str, Any]]:
    """`parse` of a file.

    Raises:
        MetadataError: as `parse`.
        OSError: the file cannot be read, is not a regular file, or too large.
    """
    return parse(whole_content(path, DOCUMENT_LIMIT))


def partitions(document: dict[str, Any]) -> Iterator[PartitionMetadata]:
    """Every partition that the document names.

    Raises:
        MetadataError: a value of the wrong type, a partition given twice, or brokers that contradict each other, with its place.
    """
    captured_at_ms = _captured_at_ms(document)
    given: set[tuple[str, int]] = set()
    for i, topic in enumerate(_listed(document, "topics", "")):
        at = f"topics[{i}]."
        name = _required(topic, "topic", str, at)
        told = _typed(topic, "configs", dict, at)
        configs = told or {}
        for j, partition in enumerate(_listed(topic, "partitions", at)):
            where = f"{at}partitions[{j}]."
            number = _not_negative(_required(partition, "partition", int, where), f"{where}partition")
            if (name, number) in given:
                raise MetadataError(f"{where}partition is {number} of topic {_shown(name)}, which is given twice")
            given.add((name, number))
            leader, epoch = (_typed(partition, key, int, where) for key in ("leader", "leader_epoch"))
            for key, value in (("leader", leader), ("leader_epoch", epoch)):
                if value is not None and value < -1:
                    raise MetadataError(f"{where}{key} is {value}, and only -1 says that there is none")
            replicas, isr = (_ids(partition, key, where) for key in ("replicas", "isr"))
            wrong = contradiction(-1 if leader is None else leader, replicas, isr)
            if wrong is not None:
                raise MetadataError(f"{where}{wrong}")
            yield PartitionMetadata(
                topic=name,
                partition=number,
                topic_id=_typed(topic, "topic_id", str, at),
                compacted=None if told is None else "compact" in str(configs.get("cleanup.policy", "")),
                leader=-1 if leader is None else leader,
                leader_epoch=-1 if epoch is None else epoch,
                replicas=replicas,
                isr=isr,
                elr=_ids(partition, "elr", where),
                last_known_elr=_ids(partition, "last_known_elr", where),
                no_leader=leader is not None and leader < 0,
                source=CLUSTER_METADATA_FILE,
                known_at_ms=captured_at_ms,
                delete_retention_ms=delete_retention_ms(configs),
                unclean_leader_election=flag_in(configs.get(UNCLEAN_ELECTION)),
                min_insync_replicas=count_in(configs.get(MIN_ISR)),
                message_format=message_format if isinstance(message_format := configs.get(TOPIC_FORMAT), str) else None,
                remote_storage=flag_in(configs.get(REMOTE_STORAGE)),
            )


def contradiction(leader: int, replicas: Collection[int], isr: Collection[int]) -> str | None:
    """Why no controller wrote this of a partition: its leader is a member of the ISR, and that are replicas; what is empty is not given.

    Sources: PartitionChangeBuilder and ReplicationControlManager (KRaft), PartitionStateMachine (ZooKeeper).
    """
    stranger = next((broker for broker in isr if broker not in replicas), None) if replicas else None
    if stranger is not None:
        return f"isr has broker {stranger}, which is not among the replicas"
    if leader >= 0 and replicas and leader not in replicas:
        return f"leader is {leader}, which is not among the replicas"
    return f"leader is {leader}, which is not in the isr" if leader >= 0 and isr and leader not in isr else None


def delete_retention_ms(configs: Mapping[str, Any]) -> int | None:
    """Of a topic whose configurations are in the document, which leaves out what is Kafka's default."""
    return retention_in(configs.get("delete.retention.ms"), DEFAULT_DELETE_RETENTION_MS if "cleanup.policy" in configs else None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each of whose keys occurs once: of two, readers differ on which counts."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MetadataError(f"the key {_shown(twice)} occurs twice in one object")
    return made


def _version(document: dict[str, Any], key: str) -> str | None:
    version: str | None = _typed(document, key, str, "")
    if version is not None and (len(version) > _LONGEST_VERSION or _MANY_DIGITS.search(version)):
        raise MetadataError(f"{key} is {_shown(version)}, which is not a version")
    return version


def _shown(value: object) -> str:
    return json.dumps(value)[:40]


def _captured_at_ms(document: dict[str, Any]) -> int | None:
    """The file's time, ISO 8601 and UTC where it names no zone, as milliseconds since the epoch; None if it is none."""
    try:
        moment = datetime.fromisoformat(_typed(document, "captured_at", str, "") or "")
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _not_negative(value: int, name: str) -> int:
    if value < 0:
        raise MetadataError(f"{name} is {value}, which is negative")
    return value


def _ids(owner: dict[str, Any], key: str, where: str) -> tuple[int, ...]:
    values = _typed(owner, key, list, where) or []
    if len(set(map(str, values))) < len(values):
        raise MetadataError(f"{where}{key} names a broker twice")
    if values and not (set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= _INT32_MAX):
        raise MetadataError(f"{where}{key} holds something that is not a broker id")
    return tuple(values)


def _typed(owner: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(owner, dict):
        raise MetadataError(f"{where.rstrip('.')} is not an object")
    value = owner.get(key)
    if value is None:
        return None
    if type(value) is not kind or (isinstance(value, int) and abs(value) > _INT32_MAX):  # true is a number to `isinstance`
        shown = f"a number of {value.bit_length()} bits" if isinstance(value, int) else _shown(value)
        raise MetadataError(f"{where}{key} is {shown}, not of type {kind.__name__}")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise MetadataError(f"{where}{key} is {_shown(value)}, which contains half of a character")
    return value


def _listed(owner: Any, key: str, where: str) -> list[Any]:
    """A list; an empty one where it is left out, but null is none."""
    values: list[Any] | None = _typed(owner, key, list, where)
    if values is None and key in owner:
        raise MetadataError(f"{where}{key} is null, not a list")
    return values or []


def _required(owner: Any, key: str, kind: type, where: str) -> Any:
    value = _typed(owner, key, kind, where)
    if value is None:
        raise MetadataError(f"{where}{key} is missing")
    return value


# Claims on partitions as texts and documents of tools make them: what they lack stays unknown.


def described(
    *,
    topic: str,
    partition: int,
    leader: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
    topic_id: str | None = None,
    configs: Mapping[str, str] | None = None,
    line: int | None = None,
) -> PartitionMetadata:
    """What a tool prints of a partition: without a leader epoch, and of an unknown time.

    `leader` is -1 where nobody leads; `configs` None where they are not known; `line` that of the text.

    Raises:
        MetadataError: a number that no partition or broker has, a broker twice, a leader or an ISR that no controller writes.
    """
    named = (partition, *replicas, *isr, *elr, *last_known_elr)
    if min(named) < 0 or max(*named, leader) > _INT32_MAX:
        raise MetadataError(f"a number of {topic}-{partition} is none that a partition or a broker has", line=line)
    if len(set(replicas)) < len(replicas) or len(set(isr)) < len(isr):
        raise MetadataError(f"a broker is given twice among the replicas of {topic}-{partition}", line=line)
    wrong = contradiction(leader, replicas, isr)
    if wrong is not None:
        raise MetadataError(f"of {topic}-{partition} {wrong}", line=line)
    known = configs or {}
    return PartitionMetadata(
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        compacted=None if configs is None else "compact" in known.get("cleanup.policy", ""),
        leader=leader,
        leader_epoch=-1,
        replicas=replicas,
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
        no_leader=leader < 0,
        source=CLUSTER_METADATA_FILE,
        delete_retention_ms=delete_retention_ms(known),
        unclean_leader_election=flag_in(known.get(UNCLEAN_ELECTION)),
        min_insync_replicas=count_in(known.get(MIN_ISR)),
    )


def no_partition_twice(claims: Sequence[tuple[int | None, PartitionMetadata]]) -> tuple[PartitionMetadata, ...]:
    """The claims, each with its line, of which two on one partition may only be the same.

    Raises:
        MetadataError: two are not.
    """
    made: dict[tuple[str, int], PartitionMetadata] = {}
    for line, claim in claims:
        first = made.setdefault((claim.topic, claim.partition), claim)
        if first != claim:
            raise MetadataError(f"{claim.topic}-{claim.partition} is given twice, with different values", line=line)
    return tuple(made.values())
