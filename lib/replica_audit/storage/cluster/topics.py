"""Topics and their partitions as a broker knows them, and the topics' configurations, as parts of a cluster-metadata.json."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeConfigsRequest, DescribeTopicPartitionsRequest
from kafka.protocol.metadata import MetadataRequest

from replica_audit.storage.cluster.connection import Brokers, Unanswered, error_name
from replica_audit.storage.cluster.missing import Missing
from replica_audit.words import count

CONFIGS = (
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
            answer = brokers.ask_any(configs_request(TOPIC, chunk, CONFIGS))
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
