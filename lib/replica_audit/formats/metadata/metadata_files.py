"""A file of metadata that people put beside brokers' folders, whatever tool made it: known by its content, never by its name.

Read are a cluster-metadata.json, what `kafka-topics.sh --describe` prints, and what `kcat -L` prints, with `-J` or without. Of what other
tools print, which tells no leader, it is only said what it is.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from replica_audit.errors import DumpLogError, MetadataError
from replica_audit.files.text_files import open_text
from replica_audit.formats.dump.dump_log import looks_like_dump
from replica_audit.formats.dump.pasted_text import unfit
from replica_audit.formats.log_dir.names import CLUSTER_METADATA
from replica_audit.formats.log_dir.small_files import DOCUMENT_LIMIT, TooLargeError, whole_content
from replica_audit.formats.metadata import cluster_metadata, metadata_log
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata, described, no_partition_twice
from replica_audit.formats.metadata.metadata_log import MetadataLog
from replica_audit.formats.server_log.json_records import is_json, records
from replica_audit.model import PartitionMetadata, Problem

_BEGINS = re.compile(r"^\s*Metadata for .{1,300} \(from broker -?\d+: ", re.MULTILINE)
_KCAT_TOPIC = re.compile(r'\s*topic "([^"]+)" with (\d{1,10}) partitions:(.*)')
_KCAT_PARTITION = re.compile(r"\s*partition (\d{1,10}), leader (-?\d{1,10}), replicas: ?([\d,]*), isrs: ?([\d,]*)(?:, \S.*)?\s*")
_BROKER = re.compile(r"\s*broker (\d{1,10}) at \S+( \(controller\))?\s*")
_COUNT = re.compile(r"\s*(\d{1,10}) (brokers|topics):\s*")
_CUT = re.compile(r"\s*(partition \d|topic \"|broker \d)")
Listing = tuple[tuple[PartitionMetadata, ...], tuple[int, ...]]  # claims, and the brokers that are named


def looks_like_kcat(text: str) -> bool:
    """Whether a text is that, whatever stands before it."""
    return _BEGINS.search(text) is not None


def read_kcat(text: str) -> Listing:
    """The partitions and the brokers that a text lists.

    Raises:
        MetadataError: a line that is cut or wrapped, or fewer brokers, topics or partitions than it says there are.
    """
    claims: list[tuple[int | None, PartitionMetadata]] = []
    brokers: list[int] = []
    topics: list[tuple[str, int, int]] = []
    expected = {"brokers": 0, "topics": 0}
    for number, line in enumerate(text.splitlines(), 1):
        if topic := _KCAT_TOPIC.fullmatch(line):
            topics.append((topic[1], int(topic[2]), number))
        elif partition := _KCAT_PARTITION.fullmatch(line):
            claims.append((number, _kcat_claim(topics[-1][0] if topics else "", partition, number)))
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


def _kcat_claim(topic: str, partition: re.Match[str], number: int) -> PartitionMetadata:
    if not topic:
        raise MetadataError("a partition before any topic: the text lacks its beginning", line=number)
    if partition[3].endswith(",") or partition[4].endswith(","):
        raise MetadataError("a list of brokers that is cut", line=number)
    replicas, isr = (tuple(int(one) for one in ids.split(",") if one) for ids in (partition[3], partition[4]))
    leader = max(int(partition[2]), -1)
    return described(topic=topic, partition=int(partition[1]), leader=leader, replicas=replicas, isr=isr, line=number)


def read_kcat_json(document: Any) -> Listing:
    """The same of a document.

    Raises:
        MetadataError: a value of the wrong type.
    """
    try:
        claims = [
            described(
                topic=_json_text(topic["topic"]),
                partition=_json_number(partition["partition"]),
                leader=max(_json_number(partition["leader"]), -1),
                replicas=tuple(_json_number(one["id"]) for one in partition["replicas"]),
                isr=tuple(_json_number(one["id"]) for one in partition["isrs"]),
            )
            for topic in document["topics"]
            for partition in topic["partitions"]
        ]
        brokers = tuple(_json_number(one["id"]) for one in document.get("brokers") or ())
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"a document of kcat that lacks something, or has a value of another type: {error}") from None
    return no_partition_twice([(None, claim) for claim in claims]), brokers


def _json_number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{json.dumps(value)[:40]} is not a number")
    return value


def _json_text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():  # half of a character is not, either
        raise ValueError(f"{json.dumps(value)[:40]} is not a name")
    return value


# What `kafka-topics.sh --describe` prints: leader, replicas, ISR, and of later versions topic ids, ELR and configurations.
# Source: TopicCommand, 0.8 to 4.3 (PartitionDescription and TopicDescription.printDescription). A line is `Key: value` pairs between tabs,
# which a paste may have turned into blanks. It never has a leader epoch, and does not say when it was printed. Since 2.8, which print a
# topic id, the configurations are all that are not Kafka's default; those that ZooKeeper gave earlier are the topic's own.

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


def looks_like_descriptions(text: str) -> bool:
    """Whether a text is that, whatever stands around it."""
    return any(_PARTITION.match(line) or _TOPIC.match(line) or _LEADER.search(line) for line in text.splitlines())


def read_descriptions(text: str) -> tuple[PartitionMetadata, ...]:
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
        topic=pairs["Topic"],
        partition=_number(pairs, "Partition", number),
        leader=-1 if leader in ("none", "-1") else _number(pairs, "Leader", number),
        replicas=replicas,
        isr=_ids(pairs["Isr"], number),
        elr=_ids(pairs.get("Elr", ""), number),
        last_known_elr=_ids(pairs.get("LastKnownElr", ""), number),
        topic_id=topic.get("TopicId"),
        configs=_configs(topic),
        line=number,
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


class Made(StrEnum):
    """What made a file; the first three in the order in which they are believed. Those behind METADATA_LOG tell no leader."""

    DOCUMENT = "cluster-metadata.json"
    DESCRIBE = "kafka-topics --describe"
    KCAT = "kcat -L"
    METADATA_LOG = "kafka-dump-log of the metadata log"
    DUMP = "kafka-dump-log"
    LOG_DIRS = "kafka-log-dirs --describe"
    QUORUM = "kafka-metadata-quorum describe"
    REASSIGNMENT = "kafka-reassign-partitions"
    OFFSETS = "kafka-get-offsets"
    GROUPS = "kafka-consumer-groups --describe"
    CONFIGS = "kafka-configs --describe"


KIND = "metadata"
TELLS_LEADERS = (Made.DOCUMENT, Made.DESCRIBE, Made.KCAT)
_LINES: tuple[tuple[Made, re.Pattern[str]], ...] = (
    (Made.LOG_DIRS, re.compile(r"(Querying brokers for log directories|Received log directory information from brokers )")),
    (Made.QUORUM, re.compile(r"(ClusterId:\s+\S+|NodeId\s+(DirectoryId\s+)?LogEndOffset\s+Lag\b|LeaderEpoch:\s+\d+)")),
    (Made.GROUPS, re.compile(r"(GROUP|TOPIC)\s+(TOPIC\s+)?PARTITION\s+CURRENT-OFFSET\b")),
    (Made.CONFIGS, re.compile(r"((Dynamic|All) configs for (topic|broker)|Configs for topic)\b")),
    (Made.REASSIGNMENT, re.compile(r"Current partition replica assignment\b|Proposed partition reassignment configuration\b")),
)
_OF_METADATA_LOG = re.compile(rb"^Dumping .*\b__cluster_metadata-0\b|payload: \{\"type\":\"[A-Z_]+_RECORD\"", re.MULTILINE)
_OFFSETS = re.compile(r"[\w.-]{1,249}:\d{1,10}:-?\d{0,19}")
_JSON_BEGINS = re.compile(r"^\s*\{", re.MULTILINE)
_HEAD = 1 << 16
_NOTHING_SAID = ClusterMetadata(
    cluster_id=None, captured_at_ms=None, kafka_version=None, inter_broker_protocol=None, metadata_version=None, broker_states={}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """What a file says: of the cluster, and of each partition. `log` is all that a text of the metadata log says."""

    made: Made
    head: ClusterMetadata = _NOTHING_SAID
    log: MetadataLog | None = None
    partitions: tuple[PartitionMetadata, ...] = ()


def made_by(path: Path) -> Made | None:
    """What made a file, by its first bytes; None if that is nothing known here.

    Raises:
        OSError: the file cannot be read.
    """
    return made_in(head_of(path))


def head_of(path: Path) -> bytes:
    """The first bytes of a text.

    Raises:
        OSError: the file cannot be read.
    """
    with open_text(path) as stream:
        return stream.read(_HEAD)


def made_in(head: bytes) -> Made | None:
    """The same by the first bytes themselves."""
    if b"\0" in head:
        return None
    if looks_like_dump(head):
        return Made.METADATA_LOG if _OF_METADATA_LOG.search(head) else Made.DUMP
    return _made(head.decode("utf-8", "replace"))


def wrapped_in(head: bytes) -> Made | None:
    """What made the lines that a document with these first bytes wraps, as exports of logs do; None if they are nothing known here."""
    if not is_json(head):
        return None
    lines = b"\n".join(record.messages or record.texts for record in records(io.BytesIO(head)))
    return made_in(lines) or (Made.DUMP if unfit(lines) else None)


def _made(text: str) -> Made | None:
    if looks_like_descriptions(text):
        return Made.DESCRIBE
    if looks_like_kcat(text):
        return Made.KCAT
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for made, pattern in _LINES:
        if any(pattern.match(line) for line in lines):
            return made
    if lines and all(_OFFSETS.fullmatch(line) for line in lines[:-1] or lines):
        return Made.OFFSETS
    return _made_document(text)


def _made_document(text: str) -> Made | None:
    """Of a document, of which `text` may be only the beginning."""
    if not _JSON_BEGINS.search(text[:4096]):
        return None
    if '"originating_broker"' in text or ('"controllerid"' in text and '"isrs"' in text):
        return Made.KCAT
    if '"logDirs"' in text and '"brokers"' in text:
        return Made.LOG_DIRS
    if '"leader_epoch"' in text or ('"topics"' in text and '"isr"' in text):
        return Made.DOCUMENT
    return Made.REASSIGNMENT if '"replicas"' in text and '"log_dirs"' in text else None


def read(path: Path) -> MetadataFile:
    """What a file says; one that nothing is recognised in is read as a cluster-metadata.json.

    Raises:
        MetadataError: it cannot be read as what it is, with the line or the key, or does not tell leaders.
        OSError: the file cannot be read, is not a regular file, or too large.
    """
    if made_by(path) is Made.METADATA_LOG:
        return _of_log(path)
    content = whole_content(path, DOCUMENT_LIMIT)
    text = _text(path, content)
    made = _made(text[:_HEAD]) or Made.DOCUMENT
    if made is Made.DOCUMENT:
        head, document = cluster_metadata.parse(content)
        return MetadataFile(made=made, head=head, partitions=tuple(cluster_metadata.partitions(document)))
    if made is Made.DESCRIBE:
        return MetadataFile(made=made, partitions=read_descriptions(text))
    if made is not Made.KCAT:
        raise MetadataError(f"what {made} prints, which does not tell who leads")
    is_text = looks_like_kcat(text)
    claims, brokers = read_kcat(text) if is_text else read_kcat_json(_document(text))
    states = dict.fromkeys(brokers, "unknown")  # they answered then, and nobody knows when that was
    return MetadataFile(made=made, head=replace(_NOTHING_SAID, broker_states=states), partitions=claims)


def _of_log(path: Path) -> MetadataFile:
    try:
        log = metadata_log.read_file(path)
    except DumpLogError as error:
        raise MetadataError(error.reason, line=error.line) from None
    return MetadataFile(made=Made.METADATA_LOG, partitions=log.partitions, log=log)


def read_head(path: Path) -> ClusterMetadata:
    """What it says of the cluster alone, of a cluster-metadata.json without looking at its partitions; errors as of `read`."""
    if made_by(path) is Made.METADATA_LOG:
        return _NOTHING_SAID
    content = whole_content(path, DOCUMENT_LIMIT)
    is_document = _made(_text(path, content)[:_HEAD]) in (None, Made.DOCUMENT)
    return cluster_metadata.parse(content)[0] if is_document else read(path).head


def _text(path: Path, content: bytes) -> str:
    """A text that may be packed, or in UTF-16."""
    if content.startswith((b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        with open_text(path) as stream:
            content = stream.read(DOCUMENT_LIMIT + 1)
        if len(content) > DOCUMENT_LIMIT:
            raise TooLargeError(DOCUMENT_LIMIT)
    return content.decode("utf-8", "replace")


def _document(text: str) -> Any:
    """The document in a text, behind whatever was pasted along."""
    begins = _JSON_BEGINS.search(text)
    try:
        return json.JSONDecoder().raw_decode(text, begins.end() - 1 if begins else 0)[0]
    except json.JSONDecodeError as error:
        raise MetadataError(f"not JSON: {error.msg}", line=error.lineno, byte_offset=error.pos) from None
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"not JSON: {error}") from None


def unusable(path: Path, error: MetadataError | OSError) -> Problem:
    """What is wrong with a file, as a row of input_errors."""
    line, byte_offset = (error.line, error.byte_offset) if isinstance(error, MetadataError) else (None, None)
    return Problem(
        path=str(path),
        kind=CLUSTER_METADATA if path.name == CLUSTER_METADATA else KIND,
        code=getattr(error, "code", "malformed"),
        detail=error.reason if isinstance(error, MetadataError) else error.strerror or str(error),
        remedy=getattr(error, "remedy", "write the file again; without it leaders are inferred and the ISR is unknown"),
        line=line,
        byte_offset=byte_offset,
    )


def unread_text(path: Path, head: bytes) -> Problem | None:
    """Why a file of a broker with these first bytes is not read, if it is metadata of the cluster, or wraps what a tool printed."""
    if made_in(head) in TELLS_LEADERS:
        return misplaced(path)
    wrapped = wrapped_in(head)
    return None if wrapped is None else wraps(path, wrapped)


def wraps(path: Path, made: Made) -> Problem:
    """That a document wraps the lines of a tool."""
    return Problem(
        path=str(path),
        kind="dump" if made in (Made.DUMP, Made.METADATA_LOG) else KIND,
        code="unusable-dump" if made in (Made.DUMP, Made.METADATA_LOG) else "malformed",
        detail=f"an export in JSON that wraps the lines of {made}: their order and whether they are all is not known",
        remedy="save what the tool printed, and nothing around it",
    )


def misplaced(path: Path) -> Problem:
    """That metadata in a broker's folder is not read."""
    detail = "metadata of the cluster in a broker's folder is not read: it would be one broker's word"
    remedy = "put it beside the brokers' folders, or give it by --cluster-metadata"
    return Problem(path=str(path), kind=KIND, code="misplaced", detail=detail, remedy=remedy)
