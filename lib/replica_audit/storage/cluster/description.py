"""A cluster as its brokers describe it, in the shape of a cluster-metadata.json.

Beyond what the audit reads of such a file it tells, of brokers: `host`, `port`, `rack`, `fenced`, `kafka_version`, `configs`, `log_dirs`;
of partitions: `offline_replicas`; `groups` with their committed offsets; and `missing`, whatever could not be learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from replica_audit.protocol.cluster.versions import lowest_told
from replica_audit.storage.cluster import groups, nodes, topics
from replica_audit.storage.cluster.connection import Brokers
from replica_audit.storage.cluster.missing import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The document, and what is not in it."""

    document: dict[str, Any]
    missing: tuple[Missing, ...]

    @property
    def is_partial(self) -> bool:
        """Whether something is missing that such brokers do tell."""
        return any(not one.harmless for one in self.missing)


def describe(brokers: Brokers) -> Description:
    """Ask for everything. No broker that is silent is waited for twice, so it takes at most a few times the timeout."""
    missing: list[Missing] = []
    brokers.api_versions()  # tells who is there
    captured_at = datetime.now(UTC)
    found = topics.topics(brokers, missing)
    topics.add_configs(brokers, found, missing)
    replicas = {broker for topic in found for partition in topic["partitions"] for broker in partition["replicas"]}
    of_brokers, features = nodes.nodes(brokers, replicas, missing)
    groups.tell_hidden(found, missing)
    document = {
        "version": 1,
        "cluster_id": brokers.cluster_id,
        "captured_at": captured_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kafka_version": lowest_told(broker["kafka_version"] for broker in of_brokers),
        "features": features,
        "inter_broker_protocol_version": _of_zookeeper(of_brokers, features, nodes.IBP),
        "log_message_format_version": _of_zookeeper(of_brokers, features, nodes.MESSAGE_FORMAT),
        "brokers": of_brokers,
        "topics": found,
        "groups": groups.groups(brokers, missing),
        "missing": [one.as_json() for one in missing],
    }
    return Description(document=document, missing=tuple(missing))


def _of_zookeeper(brokers: list[dict[str, Any]], features: dict[str, int], name: str) -> str | None:
    """A version that decides in ZooKeeper's time; KRaft brokers up to 3.9 still have the setting, and ignore it (KIP-778)."""
    return None if "metadata.version" in features else lowest_told(broker["configs"].get(name) for broker in brokers)
