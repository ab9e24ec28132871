"""What `kafka-topics.sh --describe` prints: leader, replicas, ISR, and of later versions topic ids, ELR and configurations.

Source: TopicCommand, 0.8 to 4.3 (PartitionDescription and TopicDescription.printDescription). A line is `Key: value` pairs between tabs,
which a paste may have turned into blanks. It never has a leader epoch, and does not say when it was printed. Since 2.8, which print a topic
id, the configurations are all that are not Kafka's default; those that ZooKeeper gave earlier are the topic's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replica_audit.errors import MetadataError
from replica_audit.formats.metadata.cluster_metadata import Described, described, no_partition_twice
from replica_audit.model import PartitionMetadata

_KEYS = (
    "Topic|TopicId|PartitionCount|ReplicationFactor|Configs|Partition|Leader|Replicas|Isr|Adding Replicas|Removing Replicas|Elr"
    "|LastKnownElr|Offline|Observers|LiveObservers|MarkedForDeletion"
)
_LAST = "LastKnownElr"  # where there is one, each line ends with it
_PAIR = re.compile(rf"(?:^|(?<=\s))({_KEYS}):")
_PARTITION = re.compile(r"\s*Topic:\s*(\S+)\s+Partition:\s*\d+\s+Leader:")
_TOPIC = re.compile(r"\s*Topic:\s*\S+\s+(TopicId:\s*\S+\s+)?PartitionCount:")
_ANY = re.compile(r"\bTopic: ?[\w.-]+\s+(Partition|PartitionCount|TopicId): ?\S|\b(Isr|Replicas): ?\d")
_LEADER = re.compile(r"\bLeader: ?(\d+|none|-1)\s+Replicas: ?\d")
_GOES_ON = re.compile(r"\s+(Configs:|[a-z][a-z0-9.]*=)")  # the line of a topic, which is long
_UNKNOWN = ("", "N/A", "none")


def looks_like(text: str) -> bool:
    """Whether a text is that, whatever stands around it."""
    return any(_PARTITION.match(line) or _TOPIC.match(line) or _LEADER.search(line) for line in text.splitlines())


def read(text: str) -> tuple[PartitionMetadata, ...]:
    """The partitions that a text describes.

    Raises:
        MetadataError: a line that is cut or wrapped, fewer partitions than the topic has, or two claims on one partition.
    """
    topics: dict[str, dict[str, str]] = {}
    counts: dict[str, tuple[int, int]] = {}  # by topic: partitions, and the line that says so
    found: list[tuple[int, dict[str, str]]] = []
    for number, line in _whole_lines(text):
        pairs = dict(_pairs(line))
        if _TOPIC.match(line):
            topics[pairs["Topic"]] = pairs
            counts[pairs["Topic"]] = _number(pairs, "PartitionCount", number), number
        elif _PARTITION.match(line):
            found.append((number, pairs))
        elif _ANY.search(line):
            raise MetadataError("a line of kafka-topics that is cut, wrapped, or begins with something else", line=number)
    cut = next((number for number, pairs in found if _LAST not in pairs and any(_LAST in others for _number, others in found)), None)
    if cut is not None:
        raise MetadataError("the line ends before those of other partitions: it is cut", line=cut)
    claims = [(number, _claim(pairs, topics.get(pairs["Topic"], {}), number)) for number, pairs in found]
    made = no_partition_twice(claims)
    for topic, (count, number) in counts.items():
        shown = sum(1 for claim in made if claim.topic == topic)
        if shown != count:
            raise MetadataError(f"topic {topic} has {count} partitions, and the text shows {shown}", line=number)
    return made


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, that of a topic with those in which its configurations go on."""
    held: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if held is not None and _GOES_ON.match(line):
            held = held[0], f"{held[1]} {line.strip()}"
            continue
        if held is not None:
            yield held
            held = None
        if _TOPIC.match(line):
            held = number, line
        else:
            yield number, line
    if held is not None:
        yield held


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    places = list(_PAIR.finditer(line))
    ends = [*(place.start() for place in places[1:]), len(line)]
    for place, end in zip(places, ends, strict=False):
        yield place[1], line[place.end() : end].strip()


def _claim(pairs: dict[str, str], topic: dict[str, str], number: int) -> PartitionMetadata:
    lacking = next((key for key in ("Replicas", "Isr") if key not in pairs), None)
    if lacking is not None:
        raise MetadataError(f"the line has no {lacking}: it is cut or wrapped", line=number)
    leader = pairs["Leader"]
    if leader not in ("none", "-1") and not leader.isdigit():
        raise MetadataError(f"the leader is {leader!r}, which is not a broker's id", line=number)
    replicas = _ids(pairs["Replicas"], number)
    factor = topic.get("ReplicationFactor", "")
    is_moved = any(pairs.get(key) for key in ("Adding Replicas", "Removing Replicas"))
    if factor.isdigit() and not is_moved and len(replicas) < int(factor):
        raise MetadataError(f"there are {len(replicas)} replicas, and the topic's replication factor is {factor}", line=number)
    return described(
        Described(
            topic=pairs["Topic"],
            partition=_number(pairs, "Partition", number),
            leader=-1 if leader in ("none", "-1") else _number(pairs, "Leader", number),
            replicas=replicas,
            isr=_ids(pairs["Isr"], number),
            elr=_ids(pairs.get("Elr", ""), number),
            last_known_elr=_ids(pairs.get("LastKnownElr", ""), number),
            topic_id=topic.get("TopicId"),
            configs=_configs(topic),
        ),
        number,
    )


def _configs(topic: dict[str, str]) -> dict[str, str] | None:
    """The configurations that are known; None: none are. An earlier version's lack those that the brokers set for all topics."""
    shown = topic.get("Configs")
    told = dict(_settings(shown or ""))
    is_whole = "TopicId" in topic and shown is not None and not shown.endswith(",")
    return told if is_whole or "cleanup.policy" in told else None


def _settings(configs: str) -> Iterator[tuple[str, str]]:
    """Names and values; a value may have commas in it, as that of cleanup.policy."""
    for part in re.split(r",\s*(?=[a-z][a-z0-9.]*=)", configs):
        name, has_value, value = part.partition("=")
        if has_value:
            yield name.strip(), value.strip()


def _number(pairs: dict[str, str], key: str, number: int) -> int:
    value = pairs.get(key, "")
    if not value.isdigit() or len(value) > 10 or int(value) >= 1 << 31:
        raise MetadataError(f"{key} is {value[:40]!r}, which is not a number that it can have", line=number)
    return int(value)


def _ids(value: str, number: int) -> tuple[int, ...]:
    if value in _UNKNOWN:
        return ()
    ids = [one.strip() for one in value.split(",")]
    if not all(one.isdigit() and len(one) <= 10 for one in ids):
        raise MetadataError(f"{value[:40]!r} is not a list of brokers' ids: the line is cut, or wrapped", line=number)
    return tuple(map(int, ids))
