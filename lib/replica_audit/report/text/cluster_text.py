"""What a live cluster said, and how its answers differ from a run's tables, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replica_audit.protocol.cluster.epoch_answers import AnswerDifference
from replica_audit.report.layout.paragraphs import fitted, paragraph
from replica_audit.words import count

MOST_LISTED = 50


def described(document: Mapping[str, Any]) -> str:
    """The summary of a description (`storage.cluster.description`), with a line feed at its end."""
    return "\n".join(_described(document)) + "\n"


def _described(document: Mapping[str, Any]) -> Iterator[str]:
    level = document["features"].get("metadata.version")
    version = f"Kafka {document['kafka_version'] or 'of unknown version'}"
    rule = f", metadata.version level {level}" if level is not None else ""
    ibp = document["inter_broker_protocol_version"]
    yield from paragraph(f"cluster {document['cluster_id'] or 'of unknown id'}: {version}{rule}{f', protocol {ibp}' if ibp else ''}", 0)
    yield ""
    yield from fitted(
        ("broker", "state", "version", "address", "log dirs", "replicas", "bytes"), [_broker(one) for one in document["brokers"]]
    )
    yield ""
    yield from paragraph(_topics([one for topic in document["topics"] for one in topic["partitions"]], len(document["topics"])), 0)
    offsets = sum(len(group["offsets"]) for group in document["groups"])
    yield from paragraph(f"{count(len(document['groups']), 'group')} with {count(offsets, 'committed offset')}", 0)


def _broker(one: Mapping[str, Any]) -> list[str]:
    address = f"{one['host']}:{one['port']}" if one["host"] else ""
    state = (one["state"] or "unknown") + (" (fenced)" if one["fenced"] else "")
    if one["log_dirs"] is None:
        return [str(one["id"]), state, one["kafka_version"] or "", address, "", "", ""]
    replicas = [replica for log_dir in one["log_dirs"] for replica in log_dir["replicas"]]
    size = sum(replica["size_bytes"] for replica in replicas)
    return [str(one["id"]), state, one["kafka_version"] or "", address, str(len(one["log_dirs"])), str(len(replicas)), str(size)]


def _topics(partitions: Sequence[Mapping[str, Any]], topics: int) -> str:
    counts = {
        "without a leader": sum(one["leader"] == -1 for one in partitions),
        "with replicas out of sync": sum(len(one["isr"]) < len(one["replicas"]) for one in partitions),
        "with an ELR": sum(bool(one["elr"]) for one in partitions),
    }
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{count(topics, 'topic')}, {count(len(partitions), 'partition')}{f': {found}' if found else ', all with a leader and in sync'}"


def verified(
    *, run_id: str, partitions: int, asked: int, differences: Sequence[AnswerDifference], explained: Sequence[AnswerDifference]
) -> str:
    """The outcome of a verification, with a line feed at its end. Of each kind at most MOST_LISTED differences are listed."""
    lines = paragraph(f"run {run_id}: {count(asked, 'answer')} about the leaders' epochs of {count(partitions, 'partition')}", 0)
    lines.append(f"{count(len(differences), 'difference')}, {len(explained)} explained by time")
    for title, found in (("DIFFERENT", differences), ("since the run", explained)):
        if found:
            lines += ["", title, *_listed(found)]
    return "\n".join(lines) + "\n"


def _listed(found: Sequence[AnswerDifference]) -> Iterator[str]:
    rows = [
        [
            f"{one.topic}-{one.partition}",
            _number(one.leader_now),
            _number(one.requested_epoch),
            _number(one.table_end_offset),
            "" if one.answered_end_offset is None else f"{one.answered_end_offset} (epoch {one.answered_epoch})",
            one.why,
        ]
        for one in found[:MOST_LISTED]
    ]
    yield from fitted(("partition", "leader", "epoch", "end in\nthe run", "end now", "why"), rows)
    if len(found) > MOST_LISTED:
        yield f"  and {len(found) - MOST_LISTED} more; --output has them all"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
