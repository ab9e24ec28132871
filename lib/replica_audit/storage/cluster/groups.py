"""The offsets that all groups have committed, with leader epochs (KIP-320), as a part of a cluster-metadata.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from replica_audit.formats.log_dir.names import GROUP_OFFSETS_TOPIC
from replica_audit.storage.cluster.connection import Brokers, Unanswered, error_name
from replica_audit.storage.cluster.missing import Missing
from replica_audit.words import count

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
