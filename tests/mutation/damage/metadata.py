"""cluster-metadata.json, damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.mutation.broker_view import METADATA
from tests.mutation.damage.tree import Mutation, Tree

Row = dict[str, Any]
_OTHER_ID, _NOBODY = "Zp6JWkXMQF-e2A5xW3-mBQ", 77


def metadata_field(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """A field of a partition in the document."""
    document = tree.document()
    topic, _dash, number = partition.rpartition("-")
    topics = [one for one in (document or {}).get("topics", []) if one["topic"] == topic]
    parts = [part for one in topics for part in one["partitions"] if part["partition"] == int(number)]
    if not parts:
        return None
    topic_row, part = topics[0], parts[0]
    before = json.dumps([part, topic_row.get("topic_id"), topic_row.get("configs")])
    do = rng.choice(list(_OF_A_PARTITION))
    _OF_A_PARTITION[do](rng, topic_row, part)
    after = json.dumps([part, topic_row.get("topic_id"), topic_row.get("configs")])
    facts = {"has log": "__cluster_metadata-0" in tree.homes}
    detail = f"{before[:250]} -> {after[:250]}"
    return Mutation(f"metadata {do}", partition, {METADATA: json.dumps(document, indent=1).encode()}, detail, facts)


def _leader(rng: random.Random, _topic: Row, part: Row) -> None:
    part["leader"] = rng.choice([one for one in part["isr"] if one != part["leader"]] or [part["leader"]])


def _leader_epoch(rng: random.Random, _topic: Row, part: Row) -> None:
    part["leader_epoch"] += rng.choice((1, 5))


def _follower_out(rng: random.Random, _topic: Row, part: Row) -> None:
    followers = [one for one in part["isr"] if one != part["leader"]]
    if followers:
        part["isr"].remove(rng.choice(followers))


def _leader_out(_rng: random.Random, _topic: Row, part: Row) -> None:
    part["isr"] = [one for one in part["isr"] if one != part["leader"]]


def _leader_left_out(_rng: random.Random, _topic: Row, part: Row) -> None:
    _leave_out(part["leader"], part)


def _follower_left_out(rng: random.Random, _topic: Row, part: Row) -> None:
    _leave_out(rng.choice([one for one in part["replicas"] if one != part["leader"]] or [part["leader"]]), part)


def _leave_out(gone: int, part: Row) -> None:
    part["replicas"] = [one for one in part["replicas"] if one != gone]
    part["isr"] = [one for one in part["isr"] if one != gone]


def _policy(rng: random.Random, topic: Row, _part: Row) -> None:
    topic["configs"] = {**topic.get("configs", {}), "cleanup.policy": rng.choice(("compact", "delete", "compact,delete"))}


def _twice(rng: random.Random, topic: Row, part: Row) -> None:
    topic["partitions"].append({**part, "leader": rng.choice([part["leader"], *part["isr"]])})


_OF_A_PARTITION: dict[str, Callable[[random.Random, Row, Row], None]] = {
    "leader": _leader,
    "leader none": lambda _rng, _topic, part: part.update(leader=-1),
    "leader unknown": lambda _rng, _topic, part: part.update(leader=_NOBODY),
    "leader null": lambda _rng, _topic, part: part.update(leader=None),
    "leader epoch": _leader_epoch,
    "leader epoch negative": lambda _rng, _topic, part: part.update(leader_epoch=-1),
    "follower out of the isr": _follower_out,
    "leader out of the isr": _leader_out,
    "isr null": lambda _rng, _topic, part: part.update(isr=None),
    "stranger in the isr": lambda _rng, _topic, part: part["isr"].append(_NOBODY),
    "replica twice in the isr": lambda _rng, _topic, part: part["isr"].extend(part["isr"][:1]),
    "leader left out": _leader_left_out,
    "follower left out": _follower_left_out,
    "replica added": lambda _rng, _topic, part: part["replicas"].append(_NOBODY),
    "topic id": lambda _rng, topic, _part: topic.update(topic_id=_OTHER_ID),
    "cleanup policy": _policy,
    "cleanup policy unknown": lambda _rng, topic, _part: topic.update(configs={"cleanup.policy": "nonsense"}),
    "partition left out": lambda _rng, topic, part: topic["partitions"].remove(part),
    "partition twice": _twice,
}


def whole_document(rng: random.Random, tree: Tree, _partition: str) -> Mutation | None:
    """What it says of brokers, versions and the cluster; the file damaged or gone."""
    document = tree.document()
    if document is None:
        return None
    facts = {"has log": "__cluster_metadata-0" in tree.homes}
    raw = tree.files[METADATA]
    bytes_of: dict[str, bytes | None] = {"emptied": b"", "deleted": None, "cut": raw[: rng.randrange(1, len(raw.rstrip()))]}
    do = rng.choice([*_OF_ALL, *bytes_of])
    if do in bytes_of:
        return Mutation(f"metadata {do}", None, {METADATA: bytes_of[do]}, "", facts)
    _OF_ALL[do](rng, document, rng.choice(document["brokers"]))
    return Mutation(f"metadata {do}", None, {METADATA: json.dumps(document, indent=1).encode()}, str(document["brokers"]), facts)


def _state(_rng: random.Random, _document: Row, broker: Row) -> None:
    broker["state"] = {"up": "down", "paused": "down"}.get(broker.get("state", ""), "up")


_OF_ALL: dict[str, Callable[[random.Random, Row, Row], object]] = {
    "broker state": _state,
    "unknown broker state": lambda _rng, _document, broker: broker.update(state="sleeping"),
    "broker left out": lambda _rng, document, broker: document["brokers"].remove(broker),
    "broker twice": lambda _rng, document, broker: document["brokers"].append({**broker, "state": "down"}),
    "cluster id": lambda _rng, document, _broker: document.update(cluster_id="AAAAecJCQVWFCFPOsnJhsA"),
    "kafka version": lambda rng, document, _b: document.update(kafka_version=rng.choice(("0.10.2", "1.1.1", "2.4.1", "4.2.0", "9.9", "x"))),
    "no kafka version": lambda _rng, document, _broker: document.update(kafka_version=None),
    "features": lambda _rng, document, _broker: document.update(features={}),
    "topic left out": lambda rng, document, _broker: document["topics"].pop(rng.randrange(len(document["topics"]))),
    "topics null": lambda _rng, document, _broker: document.update(topics=None),
    "version": lambda rng, document, _broker: document.update(version=rng.choice((2, None, "x"))),
}
