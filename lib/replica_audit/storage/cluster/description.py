"""A cluster as its brokers describe it, in the shape of a cluster-metadata.json.

Beyond what the audit reads of such a file it tells, of brokers: `host`, `port`, `rack`, `fenced`, `kafka_version`, `configs`, `log_dirs`;
of partitions: `offline_replicas`; `groups` with their committed offsets; and `missing`, whatever could not be learnt.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
)
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.protocol.cluster.versions import lowest_told
from replica_audit.storage.cluster.connection import Brokers, Missing, Unanswered, error_name
from replica_audit.words import count

TOPIC_CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "message.format.version",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
)
TOPIC, _DEFAULT = 2, 5  # ConfigResource.Type.TOPIC, DescribeConfigsResponse.ConfigSource.DEFAULT_CONFIG
_LISTENER_NOT_FOUND = 72
_TOPICS_AT_ONCE = 200
_PARTITIONS_AT_ONCE = 2000
_ONLY_SOME_TELL = {"elr": "eligible_leader_replicas", "last_known_elr": "last_known_elr", "offline_replicas": "offline_replicas"}
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def topics(brokers: Brokers, missing: list[Missing]) -> list[dict[str, Any]]:
    """Every topic that the principal may describe, by name; with ELR where the brokers tell it (KIP-966, DescribeTopicPartitions)."""
    try:
        found = [_topic(topic, missing) for topic in _described(brokers, missing)]
    except Unanswered as none:
        missing.append(Missing(what="topics", why=none.reason))
        return []
    return sorted((topic for topic in found if topic is not None), key=lambda topic: str(topic["topic"]))


def _described(brokers: Brokers, missing: list[Missing]) -> list[Any]:
    last = Unanswered("no broker answers")
    for broker in brokers.reachable:  # one view of the metadata: the pages of two brokers may contradict each other
        try:
            return list(_pages(brokers, broker))
        except Unanswered as none:
            last = none
        if last.lasting:
            continue
        try:
            answer = brokers.ask(broker, MetadataRequest(topics=MetadataRequest.ALL_TOPICS, allow_auto_topic_creation=False))
        except Unanswered as none:
            last = none
            continue
        missing.append(Missing(what="ELR of all partitions", why=last.reason, broker=broker, harmless=True))
        return list(answer.topics)
    raise last


def _pages(brokers: Brokers, broker: int) -> Iterator[Any]:
    """Topics by DescribeTopicPartitions. A topic that a page cuts off goes on in the next one."""
    cursor, cut_off = None, None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=_PARTITIONS_AT_ONCE, cursor=cursor)
        answer = brokers.ask(broker, request)
        for topic in answer.topics:
            if cut_off is not None and topic.name == cut_off.name:
                topic.partitions = [*cut_off.partitions, *topic.partitions]
            elif cut_off is not None:
                yield cut_off
            cut_off = topic
        at = answer.next_cursor
        if at is None:
            break
        cursor = DescribeTopicPartitionsRequest.Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
    if cut_off is not None:
        yield cut_off


def _topic(topic: Any, missing: list[Missing]) -> dict[str, Any] | None:
    if topic.error_code:
        missing.append(Missing(what=f"topic {topic.name}", why=error_name(topic.error_code)))
        return None
    topic_id = getattr(topic, "topic_id", None)
    return {
        "topic": topic.name,
        "topic_id": kafka_uuid(topic_id) if isinstance(topic_id, UUID) and topic_id.int else None,
        "internal": bool(topic.is_internal) or topic.name in _INTERNAL,
        "configs": {},
        "partitions": [_partition(topic.name, one, missing) for one in sorted(topic.partitions, key=lambda one: one.partition_index)],
    }


def _partition(topic: str, one: Any, missing: list[Missing]) -> dict[str, Any]:
    is_hidden = one.error_code == _LISTENER_NOT_FOUND and one.leader_id < 0
    if is_hidden:
        why = "the leader has no listener of this name"
        missing.append(Missing(what=f"leader of {topic}-{one.partition_index}", why=why))
    epoch = getattr(one, "leader_epoch", -1)
    return {
        "partition": one.partition_index,
        "leader": None if is_hidden else one.leader_id,
        "leader_epoch": epoch if epoch >= 0 else None,
        "replicas": list(one.replica_nodes),
        "isr": list(one.isr_nodes),
        **{ours: _brokers(one, theirs) for ours, theirs in _ONLY_SOME_TELL.items()},
    }


def _brokers(one: Any, name: str) -> list[int] | None:
    """None where such an answer does not tell it; of ELR, null is none."""
    return list(getattr(one, name) or ()) if hasattr(one, name) else None


def kafka_uuid(value: UUID) -> str:
    """As Kafka prints an id (Uuid.toString): base64 for URLs, unpadded."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def add_configs(brokers: Brokers, found: Sequence[dict[str, Any]], missing: list[Missing]) -> None:
    """Fill in each topic's `configs`: those of CONFIGS that are not Kafka's default, set for the topic or for the broker."""
    by_name = {topic["topic"]: topic for topic in found}
    names = list(by_name)
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        chunk = names[start : start + _TOPICS_AT_ONCE]
        try:
            answer = brokers.ask_any(configs_request(TOPIC, chunk, TOPIC_CONFIGS))
        except Unanswered as none:
            missing.append(Missing(what=f"configurations of {count(len(chunk), 'topic')}, from {chunk[0]} on", why=none.reason))
            continue
        for result in answer.results:
            if result.error_code:
                missing.append(Missing(what=f"configuration of topic {result.resource_name}", why=error_name(result.error_code)))
            else:
                by_name[result.resource_name]["configs"] = {one.name: one.value for one in result.configs if _is_set(one)}


def configs_request(kind: int, names: Iterable[str], keys: Sequence[str]) -> Any:
    """A question for configurations of topics (2) or brokers (4)."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names],
        include_synonyms=False,
    )


def _is_set(config: Any) -> bool:
    """Version 0 of the answer says only whether it is the default."""
    source = getattr(config, "config_source", -1)
    is_default = source == _DEFAULT if source >= 0 else bool(getattr(config, "is_default", False))
    return config.value is not None and not is_default and not config.is_sensitive


_GROUPS_AT_ONCE = 100
_SHARE = "share"  # a share group acknowledges records, and commits no offset


def groups(brokers: Brokers, missing: list[Missing]) -> list[dict[str, Any]]:
    """Every group that the principal may describe, by id. Each broker is asked for those that it coordinates."""
    found: list[dict[str, Any]] = []
    waiting: dict[int, list[dict[str, Any]]] = {}
    for broker, answer in brokers.ask_each({broker: ListGroupsRequest() for broker in brokers.reachable}).items():
        why = answer.reason if isinstance(answer, Unanswered) else error_name(answer.error_code)
        if why:
            missing.append(Missing(what="groups that it coordinates", why=why, broker=broker))
            continue
        listed = [_group(broker, group) for group in answer.groups]
        found += listed
        waiting[broker] = [group for group in listed if group["type"] != _SHARE]
    while chunks := {broker: listed[:_GROUPS_AT_ONCE] for broker, listed in waiting.items() if listed}:
        waiting = {broker: listed[_GROUPS_AT_ONCE:] for broker, listed in waiting.items()}
        _add_offsets(brokers, chunks, missing)
    return sorted(found, key=lambda group: str(group["group_id"]))


def tell_hidden(topics: Iterable[dict[str, Any]], missing: list[Missing]) -> None:
    """Name the partitions that groups are kept in and nobody leads: no broker even lists those groups."""
    kept_in = next((topic["partitions"] for topic in topics if topic["topic"] == GROUP_OFFSETS_TOPIC), ())
    if hidden := [str(one["partition"]) for one in kept_in if one["leader"] == -1]:
        missing.append(Missing(what=f"groups kept in {GROUP_OFFSETS_TOPIC}, partition {', '.join(hidden)}", why="it has no leader"))


def _add_offsets(brokers: Brokers, chunks: Mapping[int, Sequence[dict[str, Any]]], missing: list[Missing]) -> None:
    """Fill in `offsets` of some groups of each broker, at once."""
    answers = brokers.ask_each({broker: _of_groups(group["group_id"] for group in chunk) for broker, chunk in chunks.items()})
    for broker, chunk in chunks.items():
        answer = answers[broker]
        by_id = {group["group_id"]: group for group in chunk}
        if not isinstance(answer, Unanswered):
            for one in answer.groups:
                _put(by_id[one.group_id], one, missing)
        elif answer.lasting:
            missing.append(Missing(what=f"offsets of {count(len(chunk), 'group')}: {', '.join(by_id)}", why=answer.reason, broker=broker))
        else:  # before 3.0 (KIP-709) one group at a time
            for group in chunk:
                _add_offsets_of_one(brokers, broker, group, missing)


def _add_offsets_of_one(brokers: Brokers, broker: int, group: dict[str, Any], missing: list[Missing]) -> None:
    try:
        _put(group, brokers.ask(broker, OffsetFetchRequest(group_id=group["group_id"], topics=None, min_version=2, max_version=7)), missing)
    except Unanswered as none:
        missing.append(Missing(what=f"offsets of group {group['group_id']}", why=none.reason, broker=broker))


def _of_groups(names: Iterable[str]) -> Any:
    asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    return OffsetFetchRequest(groups=asked, min_version=8, max_version=9)  # from version 10 on topics have ids instead of names


def _put(group: dict[str, Any], answer: Any, missing: list[Missing]) -> None:
    if why := error_name(answer.error_code):
        missing.append(Missing(what=f"offsets of group {group['group_id']}", why=why, broker=group["coordinator"]))
        return
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                what = f"offset of group {group['group_id']} in {topic.name}-{one.partition_index}"
                missing.append(Missing(what=what, why=error_name(one.error_code), broker=group["coordinator"]))
            elif one.committed_offset >= 0:
                group["offsets"].append(_offset(topic.name, one))
    group["offsets"].sort(key=lambda offset: (offset["topic"], offset["partition"]))


def _offset(topic: str, one: Any) -> dict[str, Any]:
    epoch = getattr(one, "committed_leader_epoch", -1)
    values = {"topic": topic, "partition": one.partition_index, "offset": one.committed_offset}
    return values | {"leader_epoch": epoch if epoch >= 0 else None}


def _group(broker: int, group: Any) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "coordinator": broker,
        "type": getattr(group, "group_type", "") or None,
        "protocol_type": group.protocol_type or None,
        "state": getattr(group, "group_state", "") or None,
        "offsets": [],
    }


IBP, MESSAGE_FORMAT = "inter.broker.protocol.version", "log.message.format.version"
BROKER_CONFIGS = (
    "default.replication.factor",
    IBP,
    "log.cleanup.policy",
    MESSAGE_FORMAT,
    "log.retention.bytes",
    "log.retention.ms",
    "min.insync.replicas",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
)
_BROKER = 4  # ConfigResource.Type.BROKER
_DESCRIBE = 8  # AclOperation.DESCRIBE


def nodes(brokers: Brokers, named: Iterable[int], missing: list[Missing]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Every broker that the cluster knows, by id, and the finalised features.

    Args:
        brokers: to ask.
        named: ids of the replicas that partitions have: a broker may be known by nothing else.
        missing: is added to.
    """
    versions = brokers.api_versions()
    fenced = _fenced(brokers, missing)
    found: dict[int, dict[str, Any]] = {}
    for broker in sorted({*brokers.alive, *fenced, *named}):
        address = brokers.alive.get(broker) or fenced.get(broker)
        found[broker] = {
            "id": broker,
            "state": "up" if broker in brokers.reachable else _state(address, is_fenced=broker in fenced),
            "host": address.host if address else None,
            "port": address.port if address else None,
            "rack": address.rack if address else None,
            "fenced": broker in fenced if broker in fenced or broker in brokers.alive else None,
            "kafka_version": None,
            "configs": {},
            "log_dirs": None,
        }
        if broker not in brokers.reachable:
            why = brokers.unreachable.get(broker) or (
                "the cluster has fenced it" if broker in fenced else "the cluster does not consider it alive"
            )
            missing.append(Missing(what="everything that only it knows: its state, log directories and groups", why=why, broker=broker))
    told = {broker: answer for broker, answer in versions.items() if not isinstance(answer, Unanswered)}
    for broker, answer in told.items():
        found[broker]["kafka_version"] = _version(answer)
    _add_configs(brokers, found, missing)
    _add_log_dirs(brokers, found, missing)
    return list(found.values()), next((_features(told[broker]) for broker in sorted(told)), {})


def _fenced(brokers: Brokers, missing: list[Missing]) -> dict[int, Any]:
    """Registered brokers that the controller has fenced (DescribeCluster 2, Kafka 4.0): dead, frozen, or not yet caught up with it."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True)
    try:
        answer = brokers.ask_any(request)
    except Unanswered:
        return {}  # older than 2.8
    allowed = answer.authorized_operations
    if allowed is not None and _DESCRIBE not in allowed:
        why = "the principal may not describe the cluster (ACL DESCRIBE on CLUSTER)"
        missing.append(Missing(what="topics and groups that it may not describe and so does not know", why=why))
    return {broker.broker_id: broker for broker in answer.brokers if getattr(broker, "is_fenced", False)}


def _state(address: Any, *, is_fenced: bool) -> str | None:
    """`down` only where the cluster has given the broker up and nothing listens at its address; else nobody knows."""
    if not is_fenced or address is None:
        return None
    try:
        with socket.create_connection((address.host, address.port), timeout=1):
            return None
    except ConnectionRefusedError:
        return "down"
    except OSError:
        return None


def _version(answer: Any) -> str:
    """Of a broker, as far as the versions of its requests tell it: major and minor."""
    keys = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    return str(BrokerVersionData(api_versions=keys).broker_version_str)


def _features(answer: Any) -> dict[str, int]:
    finalized = getattr(answer, "finalized_features", None) or ()
    return {feature.name: feature.max_version_level for feature in sorted(finalized, key=lambda feature: str(feature.name))}


def _add_configs(brokers: Brokers, found: Mapping[int, dict[str, Any]], missing: list[Missing]) -> None:
    for broker, answer in brokers.ask_each(
        {one: configs_request(_BROKER, [str(one)], BROKER_CONFIGS) for one in brokers.reachable}
    ).items():
        result = None if isinstance(answer, Unanswered) else answer.results[0]
        why = error_name(result.error_code) if result is not None else answer.reason
        if result is None or why:
            missing.append(Missing(what="its configuration", why=why, broker=broker))
        else:
            known = [one for one in result.configs if one.value is not None and not one.is_sensitive]
            found[broker]["configs"] = {one.name: one.value for one in sorted(known, key=lambda one: str(one.name))}


def _add_log_dirs(brokers: Brokers, found: Mapping[int, dict[str, Any]], missing: list[Missing]) -> None:
    """Sizes and lags are the broker's own at about one moment. Before 3.2 a refusal looks like a broker without directories (version 3)."""
    for broker, answer in brokers.ask_each({one: DescribeLogDirsRequest(topics=None) for one in brokers.reachable}).items():
        why = answer.reason if isinstance(answer, Unanswered) else error_name(getattr(answer, "error_code", 0))
        if not why and not answer.results:
            why = "it names none: old brokers refuse like that (ACL DESCRIBE on CLUSTER)"
        if why:
            missing.append(Missing(what="its log directories", why=why, broker=broker))
            continue
        found[broker]["log_dirs"] = [_log_dir(one) for one in sorted(answer.results, key=lambda one: str(one.log_dir))]
        for one in answer.results:
            if one.error_code:
                missing.append(Missing(what=f"log directory {one.log_dir}", why=error_name(one.error_code), broker=broker))


def _log_dir(one: Any) -> dict[str, Any]:
    total, usable = (getattr(one, name, -1) for name in ("total_bytes", "usable_bytes"))
    return {
        "path": one.log_dir,
        "error": error_name(one.error_code) or None,
        "total_bytes": total if total >= 0 else None,
        "usable_bytes": usable if usable >= 0 else None,
        "replicas": [
            {
                "topic": topic.name,
                "partition": replica.partition_index,
                "size_bytes": replica.partition_size,
                "offset_lag": replica.offset_lag,
                "future": replica.is_future_key,
            }
            for topic in sorted(one.topics, key=lambda topic: str(topic.name))
            for replica in sorted(topic.partitions, key=lambda replica: int(replica.partition_index))
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The document, and what is not in it."""

    document: dict[str, Any]
    missing: tuple[Missing, ...]

    @property
    def is_partial(self) -> bool:
        """Return True if something is missing that brokers of this version would answer."""
        return any(not one.harmless for one in self.missing)


def describe(brokers: Brokers) -> Description:
    """Describe the whole cluster. A silent broker is waited for once, so it takes at most a few timeouts."""
    missing: list[Missing] = []
    brokers.api_versions()  # tells who is there
    captured_at = datetime.now(UTC)
    found = topics(brokers, missing)
    add_configs(brokers, found, missing)
    replicas = {broker for topic in found for partition in topic["partitions"] for broker in partition["replicas"]}
    of_brokers, features = nodes(brokers, replicas, missing)
    tell_hidden(found, missing)
    document = {
        "version": 1,
        "cluster_id": brokers.cluster_id,
        "captured_at": captured_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kafka_version": lowest_told(broker["kafka_version"] for broker in of_brokers),
        "features": features,
        "inter_broker_protocol_version": _of_zookeeper(of_brokers, features, IBP),
        "log_message_format_version": _of_zookeeper(of_brokers, features, MESSAGE_FORMAT),
        "brokers": of_brokers,
        "topics": found,
        "groups": groups(brokers, missing),
        "missing": [one.as_json() for one in missing],
    }
    return Description(document=document, missing=tuple(missing))


def _of_zookeeper(brokers: list[dict[str, Any]], features: dict[str, int], name: str) -> str | None:
    """A version that decides in ZooKeeper's time; KRaft brokers up to 3.9 still have the setting, and ignore it (KIP-778)."""
    return None if "metadata.version" in features else lowest_told(broker["configs"].get(name) for broker in brokers)
