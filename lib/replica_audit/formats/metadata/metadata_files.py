"""A file of metadata that people put beside brokers' folders, whatever tool made it: known by its content, never by its name.

Read are a cluster-metadata.json, what `kafka-topics.sh --describe` prints, and what `kcat -L` prints, with `-J` or without. Of what other
tools print, which tells no leader, it is only said what it is.
"""

from __future__ import annotations

import io
import json
import re
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
from replica_audit.formats.metadata import cluster_metadata, kcat_listing, metadata_log, topic_descriptions
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.formats.metadata.metadata_log import MetadataLog
from replica_audit.formats.server_log.json_records import is_json, records
from replica_audit.model import PartitionMetadata, Problem


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
    if topic_descriptions.looks_like(text):
        return Made.DESCRIBE
    if kcat_listing.looks_like(text):
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
        return MetadataFile(made=made, partitions=topic_descriptions.read(text))
    if made is not Made.KCAT:
        raise MetadataError(f"what {made} prints, which does not tell who leads")
    is_text = kcat_listing.looks_like(text)
    claims, brokers = kcat_listing.read(text) if is_text else kcat_listing.read_json(_document(text))
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
