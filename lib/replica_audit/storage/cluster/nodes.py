"""The brokers themselves: whether they answer, their versions, settings and log directories, as parts of a cluster-metadata.json."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest
from kafka.protocol.broker_version_data import BrokerVersionData

from replica_audit.storage.cluster.connection import Brokers, Unanswered, error_name
from replica_audit.storage.cluster.missing import Missing
from replica_audit.storage.cluster.topics import configs_request

IBP, MESSAGE_FORMAT = "inter.broker.protocol.version", "log.message.format.version"
CONFIGS = (
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
    for broker, answer in brokers.ask_each({one: configs_request(_BROKER, [str(one)], CONFIGS) for one in brokers.reachable}).items():
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
