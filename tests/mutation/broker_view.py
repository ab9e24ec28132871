"""What a broker would load of a tree, by a reader of the tests' own: the measure of whether a mutation changes anything.

It shares no code with the product: batches are framed by hand, checkpoints are split by lines, documents are walked as JSON. Formats:
RecordBatch (DefaultRecordBatch), CheckpointFile, PartitionMetadataFile, java.util.Properties.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import crc32c

Files = Mapping[str, bytes]
View = dict[str, Any]
CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
METADATA = "cluster-metadata.json"
_HEADER = 61
_SEGMENT = re.compile(r"(\d{20})\.log")
_TRUNCATED = re.compile(rb"runcat|high watermark|unclean|NonMonotonic", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Framed:
    """A batch of magic 2 where it stands: bytes [at, end) of its segment."""

    at: int
    end: int
    base: int
    last: int
    epoch: int
    is_whole: bool  # its CRC matches


def framed(content: bytes) -> Iterator[Framed]:
    """The batches up to the first bytes that are none; a batch whose CRC fails is yielded, for what follows it may be read."""
    at = 0
    while at + _HEADER <= len(content):
        base, length, epoch, magic, crc = struct.unpack_from(">qiibI", content, at)
        end = at + 12 + length
        if magic != 2 or length < _HEADER - 12 or end > len(content):
            return
        last = base + struct.unpack_from(">i", content, at + 23)[0]
        yield Framed(at, end, base, last, epoch, crc32c.crc32c(content[at + 21 : end]) == crc)
        at = end


def old_entries(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Entries of magic 0 and 1: where they begin and end, and their offset."""
    at = 0
    while at + 17 <= len(content):
        base, length = struct.unpack_from(">qi", content, at)
        if content[at + 16] > 1 or length < 14 or at + 12 + length > len(content):
            return
        yield at, at + 12 + length, base
        at += 12 + length


def replicas(files: Files) -> dict[str, list[str]]:
    """The replica directories, and the names of what is in each."""
    found: dict[str, list[str]] = {}
    for path in files:
        folder, _slash, name = path.rpartition("/")
        if re.search(r"-\d+(\.[^/]*-(future|stray|delete))?$", folder) and not folder.rpartition("/")[2].startswith(("broker-", "data-")):
            found.setdefault(folder, []).append(name)
    return found


def partition_of(folder: str) -> str:
    """The `topic-partition` of a replica directory."""
    return re.sub(r"(-\d+)\..*-(future|stray|delete)$", r"\1", folder.rpartition("/")[2])


def view(files: Files, partition: str) -> View:
    """All that a broker would load of a partition, and what stands beside it that says who leads and which rules hold."""
    topic, _dash, number = partition.rpartition("-")
    seen: View = {}
    brokers = set()
    for folder, names in replicas(files).items():
        if partition_of(folder) == partition:
            seen[folder] = _replica(files, folder, names)
            brokers.add(folder.partition("/")[0])
    for path, content in files.items():
        name, broker = path.rpartition("/")[2], path.partition("/")[0]
        if name in CHECKPOINTS:
            entries = checkpoint(content, 3)
            seen[path] = entries if isinstance(entries, str) else [entry for entry in entries if entry[:2] == [topic, number]]
        elif name == "meta.properties":
            seen[path] = properties(content)
        elif name == ".kafka_cleanshutdown":
            seen[path] = True
        elif name == "server.log" and broker in brokers:
            seen[path] = [line.rstrip() for line in content.splitlines() if partition.encode() in line and _TRUNCATED.search(line)]
        elif name == METADATA:
            seen[path] = metadata(content, topic, int(number))
        elif "/__cluster_metadata-0/" in path and name.endswith((".log", ".checkpoint")):
            seen[path] = _digest(content)
    return seen


def _replica(files: Files, folder: str, names: list[str]) -> View:
    logs = []
    for name in sorted(names):
        match = _SEGMENT.fullmatch(name)
        if match:
            content = files[f"{folder}/{name}"]
            batches = list(framed(content))
            end = batches[-1].end if batches else 0
            logs.append((int(match[1]), [_digest(content[one.at : one.end]) for one in batches], _digest(content[end:])))
    epochs = files.get(f"{folder}/leader-epoch-checkpoint")
    table = None if epochs is None else checkpoint(epochs, 2)
    healed: dict[int, int] | str | None = table if not isinstance(table, list) else {int(epoch): int(at) for epoch, at in table}
    return {"log": logs, "epochs": healed, "id": topic_id(files.get(f"{folder}/partition.metadata"))}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest() if content else ""


def checkpoint(content: bytes, width: int) -> list[list[str]] | str:
    """The entries of a checkpoint (their order means nothing), or `malformed`."""
    try:
        lines = content.decode("ascii").splitlines()
        if lines[0] != "0" or int(lines[1]) < 0:
            return "malformed"
        count = int(lines[1])
        entries = [line.split() for line in lines[2 : 2 + count]]
        extra = [line for line in lines[2 + count :] if line.strip()]
        if len(entries) != count or extra or any(len(entry) != width for entry in entries):
            return "malformed"
        for entry in entries:
            [int(number) for number in entry[width - 2 :]]
        return sorted(entries)
    except (UnicodeDecodeError, ValueError, IndexError):
        return "malformed"


def topic_id(content: bytes | None) -> str | None:
    """The topic id that partition.metadata has."""
    if content is None:
        return None
    lines = dict(line.split(": ", 1) for line in content.decode("latin-1").splitlines() if ": " in line)
    return lines.get("topic_id", "malformed").strip() if lines.get("version", "").strip().isdigit() else "malformed"


def properties(content: bytes) -> dict[str, str]:
    """What meta.properties says, without comments and blanks."""
    lines = [line.strip() for line in content.decode("latin-1").splitlines()]
    return {key.strip(): value.strip() for key, _sign, value in (line.partition("=") for line in lines if line and line[0] not in "#!")}


def metadata(content: bytes, topic: str, number: int) -> View | str:
    """What cluster-metadata.json says of a partition and of what all partitions share."""
    try:
        document = json.loads(content)
        topics = [one for one in document["topics"] if one["topic"] == topic]
        partitions = [part for one in topics for part in one["partitions"] if part["partition"] == number]
        return {
            "brokers": sorted((one["id"], one.get("state")) for one in document["brokers"]),
            "versions": [document.get(key) for key in ("kafka_version", "inter_broker_protocol_version", "features", "cluster_id")],
            "topic": [(one.get("topic_id"), (one.get("configs") or {}).get("cleanup.policy")) for one in topics],
            "partition": [
                (one.get("leader"), one.get("leader_epoch"), *(sorted(one.get(key) or []) for key in ("replicas", "isr", "elr")))
                for one in partitions
            ],
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return "malformed"
