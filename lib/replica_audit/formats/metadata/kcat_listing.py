"""What `kcat -L` (kafkacat) prints, as text and with `-J` as JSON: the brokers that answer, leaders, replicas and ISR.

Source: kcat, metadata_print and metadata_print_json. It has no leader epochs, topic ids or configurations, and no time.
"""

from __future__ import annotations

import json
import re
from typing import Any

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.cluster_metadata import Described, described, no_partition_twice
from replica_audit.model import PartitionMetadata

_BEGINS = re.compile(r"^\s*Metadata for .{1,300} \(from broker -?\d+: ", re.MULTILINE)
_TOPIC = re.compile(r'\s*topic "([^"]+)" with (\d{1,10}) partitions:(.*)')
_PARTITION = re.compile(r"\s*partition (\d{1,10}), leader (-?\d{1,10}), replicas: ?([\d,]*), isrs: ?([\d,]*)(?:, \S.*)?\s*")
_BROKER = re.compile(r"\s*broker (\d{1,10}) at \S+( \(controller\))?\s*")
_COUNT = re.compile(r"\s*(\d{1,10}) (brokers|topics):\s*")
_CUT = re.compile(r"\s*(partition \d|topic \"|broker \d)")
Listing = tuple[tuple[PartitionMetadata, ...], tuple[int, ...]]  # claims, and the brokers that are named


def looks_like(text: str) -> bool:
    """Whether a text is that, whatever stands before it."""
    return _BEGINS.search(text) is not None


def read(text: str) -> Listing:
    """The partitions and the brokers that a text lists.

    Raises:
        MetadataError: a line that is cut or wrapped, or fewer brokers, topics or partitions than it says there are.
    """
    claims: list[tuple[int | None, PartitionMetadata]] = []
    brokers: list[int] = []
    topics: list[tuple[str, int, int]] = []
    expected = {"brokers": 0, "topics": 0}
    for number, line in enumerate(text.splitlines(), 1):
        if topic := _TOPIC.fullmatch(line):
            topics.append((topic[1], int(topic[2]), number))
        elif partition := _PARTITION.fullmatch(line):
            claims.append((number, _claim(topics[-1][0] if topics else "", partition, number)))
        elif broker := _BROKER.fullmatch(line):
            brokers.append(int(broker[1]))
        elif count := _COUNT.fullmatch(line):
            expected[count[2]] = int(count[1])
        elif _CUT.match(line):
            raise MetadataError("a line of kcat that is cut or wrapped", line=number)
    _refuse_fewer(expected, {"brokers": len(brokers), "topics": len(topics)})
    made = no_partition_twice(claims)
    for name, count_of, number in topics:
        shown = sum(1 for claim in made if claim.topic == name)
        if shown < count_of:
            raise MetadataError(f"topic {name} has {count_of} partitions, and the text shows {shown}", line=number)
    return made, tuple(brokers)


def _refuse_fewer(expected: dict[str, int], found: dict[str, int]) -> None:
    for name, count in expected.items():
        if found[name] < count:
            raise MetadataError(f"there are {count} {name}, and the text shows {found[name]}")


def _claim(topic: str, partition: re.Match[str], number: int) -> PartitionMetadata:
    if not topic:
        raise MetadataError("a partition before any topic: the text lacks its beginning", line=number)
    if partition[3].endswith(",") or partition[4].endswith(","):
        raise MetadataError("a list of brokers that is cut", line=number)
    replicas, isr = (tuple(int(one) for one in ids.split(",") if one) for ids in (partition[3], partition[4]))
    leader = max(int(partition[2]), -1)
    return described(Described(topic=topic, partition=int(partition[1]), leader=leader, replicas=replicas, isr=isr), number)


def is_listing(document: Any) -> bool:
    """Whether a document is that."""
    topics = document.get("topics") if isinstance(document, dict) else None
    return isinstance(topics, list) and ("originating_broker" in document or "controllerid" in document)


def read_json(document: Any) -> Listing:
    """The same of a document.

    Raises:
        MetadataError: a value of the wrong type.
    """
    try:
        claims = [
            described(
                Described(
                    topic=_text(topic["topic"]),
                    partition=_number(partition["partition"]),
                    leader=max(_number(partition["leader"]), -1),
                    replicas=tuple(_number(one["id"]) for one in partition["replicas"]),
                    isr=tuple(_number(one["id"]) for one in partition["isrs"]),
                )
            )
            for topic in document["topics"]
            for partition in topic["partitions"]
        ]
        brokers = tuple(_number(one["id"]) for one in document.get("brokers") or ())
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"a document of kcat that lacks something, or has a value of another type: {error}") from None
    return no_partition_twice([(None, claim) for claim in claims]), brokers


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{json.dumps(value)[:40]} is not a number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():  # half of a character is not, either
        raise ValueError(f"{json.dumps(value)[:40]} is not a name")
    return value
