"""Kafka's small text files in a log directory, read by Kafka's own rules.

Sources: CheckpointFile (server-common), LeaderEpochCheckpointFile and OffsetCheckpointFile (storage), MetaPropertiesEnsemble,
PartitionMetadataFile, all 4.2.0. What Kafka refuses to load is refused here too, with the line.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from operator import lt
from typing import NamedTuple

from replica_audit.errors import CheckpointError, MetadataError
from replica_audit.protocol.epochs import epoch_table as et

_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANKS = re.compile(r"[ \t\x0b\f]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_JAVA_INTEGER = re.compile(r"([+-]?)(\d+)")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_QUOTABLE = re.compile(r"[0-9 +-]{0,40}", re.ASCII)
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{1,24}")
_TOPIC_ID_LENGTH = 22  # of one that brokers write
_INT32, _INT64 = 2**31, 2**63
# as brokers write them, except numbers near the greatest ones; everything else is read line by line
_PLAIN_EPOCHS = re.compile(rb"0\n[0-9]{1,9}\n(?:[0-9]{1,9} [0-9]{1,18}\n)*")
_PLAIN_OFFSETS = re.compile(rb"0\n[0-9]{1,9}\n(?:[!-~]+ [0-9]{1,9} [0-9]{1,18}\n)*")
_SHORT = 256  # bytes of a partition.metadata whose topic id is kept: a broker has as many such files as replicas, and few topics


class EpochLine(NamedTuple):
    """An entry of `leader-epoch-checkpoint` and its line, counted from 1."""

    line: int
    epoch: int
    start_offset: int


_EPOCH_LINE = partial(tuple.__new__, EpochLine)  # as `EpochLine._make`, which looks at the length of each, and so takes three times as long


class OffsetLine(NamedTuple):
    """An entry of one of the four offset checkpoints and its line, counted from 1."""

    line: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """A table as a broker loads it, and the lines that its loading dropped or moved: (line, what happened)."""

    epochs: et.EpochTable
    notes: tuple[tuple[int, str], ...]


def leader_epoch_lines(content: bytes) -> list[EpochLine]:
    """The entries of a `leader-epoch-checkpoint` in file order.

    Raises:
        CheckpointError: Kafka would not load the file; a negative epoch or offset included (IllegalArgumentException since 2.7).
    """
    if _PLAIN_EPOCHS.fullmatch(content):
        numbers = list(map(int, content.split()))
        if len(numbers) == 2 + 2 * numbers[1]:
            return list(map(_EPOCH_LINE, zip(count(3), numbers[2::2], numbers[3::2], strict=False)))
    lines = []
    for number, (epoch_text, offset_text) in _entries(content, 2):
        epoch, offset = _integer(epoch_text, number, _INT32), _integer(offset_text, number, _INT64)
        if epoch < 0 or offset < 0:
            raise CheckpointError(f"epoch {epoch} at offset {offset}: neither may be negative", line=number)
        lines.append(EpochLine(number, epoch, offset))
    return lines


def readable_epoch_lines(content: bytes) -> list[EpochLine]:
    """The lines of a `leader-epoch-checkpoint` that are entries by themselves, whatever else is wrong with the file; file order.

    Nothing is raised: of a file without such lines there are none. Version and count have one field each, so they are none.
    """
    found = []
    for number, line in enumerate(_LINE_END.split(content.decode("utf-8", "replace")), start=1):
        tokens = _BLANKS.split(line.strip(" \t\x0b\f"))
        if len(tokens) != 2:
            continue
        with suppress(CheckpointError):
            epoch, offset = _integer(tokens[0], number, _INT32), _integer(tokens[1], number, _INT64)
            if epoch >= 0 and offset >= 0:
                found.append(EpochLine(number, epoch, offset))
    return found


def leader_epoch_checkpoint(epochs: et.EpochTable) -> bytes:
    """The bytes that LeaderEpochCheckpointFile writes for a table: version, count, and a line for each entry."""
    entries = [f"{entry.epoch} {entry.start_offset}" for entry in epochs]
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode()


def healed(lines: Sequence[EpochLine]) -> Healed:
    """Load the entries through `assign`, as brokers of 2.7 and later do: of two that contradict each other the later line wins."""
    epochs, starts = [line.epoch for line in lines], [line.start_offset for line in lines]
    if all(map(lt, epochs, epochs[1:])) and all(map(lt, starts, starts[1:])):
        return Healed(epochs=et.table(zip(epochs, starts, strict=True)), notes=())
    building = et.Building()
    notes = []
    for line in lines:
        last = building.entries[-1] if building.entries else None
        # 0.11 to 1.1 write two epochs with one start
        one_start = last is not None and line.epoch > last.epoch and line.start_offset == last.start_offset
        if not building.assign(line.epoch, line.start_offset) and not one_start:
            notes.append(
                (line.line, f"entry '{line.epoch} {line.start_offset}' is out of order; a broker repairs the table when it loads it")
            )
    return Healed(epochs=building.table(), notes=tuple(notes))


def offset_lines(content: bytes) -> list[OffsetLine]:
    """The entries of a `replication-`, `recovery-point-`, `log-start-` or `cleaner-offset-checkpoint`.

    Raises:
        CheckpointError: Kafka would not load the file.
    """
    if _PLAIN_OFFSETS.fullmatch(content):
        fields = content.decode("ascii").split()
        if len(fields) == 2 + 3 * int(fields[1]):
            numbers = (map(int, fields[3::3]), map(int, fields[4::3]))
            return list(map(OffsetLine._make, zip(count(3), fields[2::3], *numbers, strict=False)))
    return [
        OffsetLine(number, topic, _integer(partition, number, _INT32), _integer(offset, number, _INT64))
        for number, (topic, partition, offset) in _entries(content, 3)
    ]


def offset_notes(content: bytes, lines: list[OffsetLine]) -> list[tuple[int, str]]:
    """What of an offset checkpoint that Kafka loads no broker has written: (line, what is there).

    A broker makes the file empty (CheckpointFile), and writes the number of entries also where that is 0, never a negative offset, and each
    partition once; of two lines the later wins when it loads them (OffsetCheckpointFile, 4.2).
    """
    if not lines:
        return [] if len(_lines(content)) != 1 else [(1, "the file ends before the number of its entries: what it held is gone")]
    notes = [(line.line, f"{_replica(line)} has the offset {line.offset}: none is negative") for line in lines if line.offset < 0]
    if len({line[1:3] for line in lines}) < len(lines):
        first: dict[tuple[str, int], int] = {}
        for line in lines:
            if first.setdefault(line[1:3], line.line) != line.line:
                notes.append((line.line, f"{_replica(line)} stands in line {first[line[1:3]]} already: a broker takes the later line"))
    return notes


def _replica(line: OffsetLine) -> str:
    return f"{line.topic if _TOPIC.fullmatch(line.topic) else _shown(line.topic)}-{line.partition}"


def _entries(content: bytes, width: int) -> Iterator[tuple[int, list[str]]]:
    """Lines from the third on, split into exactly `width` tokens; checks version and count."""
    lines = _lines(content)
    if not lines:
        return
    version = _integer(lines[0], 1, _INT32)
    if version != 0:
        raise CheckpointError(f"version {version} is not known, only 0 is", line=1)
    if len(lines) == 1:
        return
    expected = _integer(lines[1], 2, _INT32)
    for number, line in enumerate(lines[2:], start=3):
        tokens = _BLANKS.split(line.rstrip(" \t\x0b\f"))
        if len(tokens) != width:
            raise CheckpointError(f"{_shown(line)} is not an entry of {width} fields", line=number)
        yield number, tokens
    if len(lines) - 2 != expected:
        raise CheckpointError(f"the file announces {expected} entries but has {len(lines) - 2}", line=2)


def _lines(content: bytes) -> list[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError("not text: binary content", byte_offset=error.start) from None
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def _integer(text: str, line: int, bound: int) -> int:
    """What Integer.parseInt and Long.parseLong read: decimal digits of any script below U+10000, with leading zeros without end."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < bound:
        return int(text)  # as brokers write them
    match = _JAVA_INTEGER.fullmatch(text)
    if match and max(text) <= "\uffff":
        digits = "".join(str(unicodedata.decimal(digit)) for digit in match[2]).lstrip("0")
        if len(digits) <= 19 and -bound <= (value := int(f"{match[1]}{digits or 0}")) < bound:
            return value
    raise CheckpointError(f"{_shown(text)} is not an integer", line=line)


def _shown(text: str) -> str:
    """A text for an error: numbers, which a checkpoint may hold, as they are; of anything else only its size, for the file may be any."""
    return repr(text) if _QUOTABLE.fullmatch(text) else f"'...' ({len(text.encode())} bytes)"


class MetaProperties(NamedTuple):
    """`meta.properties` of a log directory; None where the file does not say.

    `is_kraft`: a KRaft broker formatted it (version 1). `refused`: why no broker starts with the file; None if nothing shows it.
    """

    broker_id: int | None
    cluster_id: str | None
    directory_id: str | None
    is_kraft: bool | None = None
    refused: str | None = None


def meta_properties(content: bytes) -> MetaProperties:
    """Read `meta.properties` of version 0 (`broker.id`) or 1 (`node.id`).

    Raises:
        MetadataError: not text, or an id that is not a number.
    """
    values = _properties(content)
    line, broker = values.get("node.id") or values.get("broker.id") or (0, "")
    if broker and not (_INTEGER.fullmatch(broker) and 0 <= int(broker) < _INT32):
        raise MetadataError(f"broker id {_shown(broker)} is not the id of a broker", line=line)
    version = values.get("version", (0, ""))[1]
    return MetaProperties(
        broker_id=int(broker) if broker else None,
        cluster_id=values.get("cluster.id", (0, ""))[1] or None,
        directory_id=values.get("directory.id", (0, ""))[1] or None,
        is_kraft=version == "1" if version in ("0", "1") else None,
        refused=_why_refused(version, {name: value for name, (_line, value) in values.items() if value}),
    )


def _why_refused(version: str, given: Mapping[str, str]) -> str | None:
    """Why a broker does not start with a `meta.properties` that gives these properties.

    Source: MetaProperties.Builder and KafkaRaftServer.initializeLogDirs, 3.7 to 4.3; BrokerMetadataCheckpoint before. Brokers in ZooKeeper
    mode do without a cluster id, and read no `node.id`.
    """
    if version not in ("", "0", "1"):
        return f"version {_shown(version)} is not known"
    if "directory.id" in given and not _is_topic_id(given["directory.id"]):
        return f"directory.id {_shown(given['directory.id'])} cannot be read as one"
    if version == "1":
        lacking = next((name for name in ("node.id", "cluster.id") if name not in given), None)
        return lacking and f"it has no {lacking}"
    if "broker.id" in given:
        return None
    return "it has a node.id, which brokers read with version=1 only" if "node.id" in given else "it names no broker"


def clean_shutdown_epoch(content: bytes) -> int | None:
    """The broker epoch in a `.kafka_cleanshutdown`; None where it has none: it is empty before 3.7, and brokers do not ask for more.

    Source: CleanShutdownFileHandler, 3.7 to 4.3 (KIP-966).
    """
    with suppress(ValueError):
        found = json.loads(content)
        epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
        return epoch if type(epoch) is int and 0 <= epoch < _INT64 else None
    return None


def topic_id(content: bytes) -> str:
    """The topic id of a `partition.metadata`.

    Raises:
        MetadataError: the file has another version, or no topic id.
    """
    return _kept_topic_id(content) if len(content) <= _SHORT else _topic_id(content)


def _topic_id(content: bytes) -> str:
    values = _properties(content)
    line, version = values.get("version", (1, "missing"))
    if not _INTEGER.fullmatch(version) or int(version) < 0:
        raise MetadataError(f"version {_shown(version)} is not known", line=line)
    line, found = values.get("topic_id", (2, ""))
    if not _is_topic_id(found):
        shown = repr(found) if len(found) == _TOPIC_ID_LENGTH and _TOPIC_ID.fullmatch(found) else _shown(found)
        raise MetadataError(f"{shown} is not a topic id" if found else "no topic_id", line=line)
    return found


_kept_topic_id = lru_cache(maxsize=1024)(_topic_id)


def _is_topic_id(text: str) -> bool:
    """Whether Kafka's Uuid.fromString takes it, and it is not the zero id, which PartitionMetadataFile refuses."""
    if not _TOPIC_ID.fullmatch(text):
        return False
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return False
    return len(decoded) == 16 and any(decoded)


def _properties(content: bytes) -> dict[str, tuple[int, str]]:
    """Java properties of the simple kind that Kafka writes: key to (line, value)."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetadataError("not text: binary content", byte_offset=error.start) from None
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(_LINE_END.split(text), start=1):
        key, separator, value = re.sub(r"[:=]", "\0", line, count=1).partition("\0")
        if line.strip() and line.lstrip()[0] not in "#!" and separator:
            found[key.strip()] = (number, value.replace("\\:", ":").replace("\\=", "=").strip())
    return found
