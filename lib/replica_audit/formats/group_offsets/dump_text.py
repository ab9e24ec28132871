"""What kafka-dump-log, run with --offsets-decoder, prints of the records of `__consumer_offsets`.

Sources: DumpLogSegments.OffsetsMessageParser (0.10 to 4.2), GroupMetadataManager.formatRecordKeyAndValue (2.4 to 3.7).
A commit shows as `offset::G:T:P` and `N[:M]` (to 2.3), `offset_commit::group=G,partition=T-P` and `offset=N[,metadata=M]` (2.4 to 3.7), or
JSON (from 3.8), which alone has leader epoch, time and, from 4.x, topic id. Up to 2.3 a deletion shows no key. Group ids G and metadata
M may hold anything, also line ends and what looks like another line; JSON escapes them. What contradicts a record's sizes is ignored.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from replica_audit.errors import DumpLogError, visible
from replica_audit.formats.coordinator_records.text_records import TextRecord

VALUE_VERSIONS = range(5)  # of OffsetCommitValue

_KEY_OVERHEAD = 10  # bytes of an OffsetCommitKey beside group and topic
_VALUE_OVERHEADS = (20, 24, 28)  # bytes of OffsetCommitValue 0 to 3 beside the metadata
_FORMS = (  # before the group, between it and the topic, and from the partition on
    (b"offset::", b":", re.compile(rb":(\d{1,10}) payload: (-?\d{1,19})(?::(.*))?", re.S)),
    (
        b"offset_commit::group=",
        b",partition=",
        re.compile(rb"-(\d{1,10}) payload: (?:offset=(-?\d{1,19})(?:,metadata=(.*))?|<DELETE>)", re.S),
    ),
)
_JSON_KEY, _FAILED = b'{"type":', b"Error at offset "
_OTHER_KEYS = (b"metadata::", b'{"metadata":', b"group_metadata::", b"unknown::", b"Unknown record type ")
DECODED = (_JSON_KEY, _FAILED, *_OTHER_KEYS, *(form[0] for form in _FORMS))
_PAYLOAD = " payload: "
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_JSON = json.JSONDecoder()


class OffsetCommitKey(NamedTuple):
    """Whose committed offset it is."""

    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """What was committed; -1 and None for what neither the version of the value nor the text tells."""

    offset: int
    leader_epoch: int = -1
    commit_timestamp_ms: int = -1
    topic_id: str | None = None


def decoded_commit(record: TextRecord) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    """What a record commits, without a value if it deletes; None if it is of another kind.

    Raises:
        DumpLogError: kafka-dump-log could not decode it, or what it printed is not of a known form or has another size than it statess.
    """
    contents = record.contents or b""
    if contents.startswith(_FAILED):
        raise DumpLogError("kafka-dump-log could not decode it")
    try:
        found = _from_json(contents.decode()) if contents.startswith(_JSON_KEY) else _from_forms(record, contents)
        if found is not None:
            (group_id, topic, _partition), value = found
            size = len(group_id.encode()) + len(topic.encode()) + _KEY_OVERHEAD
            if size != record.key_size or (value is None) != (record.value_size < 0):
                raise ValueError
    except (ValueError, RecursionError):
        raise DumpLogError("what kafka-dump-log printed of it cannot be read, or has another size than it states") from None
    return found


def _from_forms(record: TextRecord, contents: bytes) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    for prefix, between, rest in _FORMS:
        if contents.startswith(prefix):
            # the size of the key tells where group and topic end, whatever stands in them
            end = len(prefix) + record.key_size - _KEY_OVERHEAD + len(between)
            group_id, found, topic = contents[len(prefix) : max(end, 0)].rpartition(between)
            match = rest.fullmatch(contents, max(end, 0))
            if not found or match is None:
                raise ValueError
            partition, offset, metadata = match.groups()
            overhead = record.value_size - len(metadata or b"")  # more where the metadata goes on in lines that are counted as none
            if offset is not None and (overhead < _VALUE_OVERHEADS[0] or not (record.is_counted or overhead in _VALUE_OVERHEADS)):
                raise ValueError
            key = OffsetCommitKey(group_id.decode(), topic.decode(), _number(int(partition), 32))
            return key, None if offset is None else OffsetCommitValue(_number(int(offset), 64))
    return None


def _from_json(text: str) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    key, at = _JSON.raw_decode(text)
    match key:
        case {"type": "0" | "1", "data": {"group": str(group_id), "topic": str(topic), "partition": int(partition)}}:
            found = OffsetCommitKey(group_id, topic, _number(partition, 32))
        case {"type": str(kind)} if kind not in ("0", "1"):
            return None
        case _:
            raise ValueError
    if text[at:] == _PAYLOAD + "<DELETE>":
        return found, None
    payload, end = _JSON.raw_decode(text, at + len(_PAYLOAD))
    if not text.startswith(_PAYLOAD, at) or end != len(text):
        raise ValueError
    match payload:
        case {"version": str(version)} if version not in map(str, VALUE_VERSIONS):
            raise DumpLogError(unknown_version(version))
        case {"data": {"offset": int(offset), "commitTimestamp": int(timestamp), **others}}:
            epoch, topic_id = others.get("leaderEpoch", -1), others.get("topicId")
        case _:
            raise ValueError
    if topic_id is not None and not (isinstance(topic_id, str) and _TOPIC_ID.fullmatch(topic_id)):
        raise ValueError
    return found, OffsetCommitValue(_number(offset, 64), _number(epoch, 32), _number(timestamp, 64), topic_id)


def unknown_version(version: object) -> str:
    """What is to be said of an OffsetCommitValue of a version that is not among `VALUE_VERSIONS`."""
    return f"version {visible(str(version)[:20])} of OffsetCommitValue is not known, only {VALUE_VERSIONS[0]} to {VALUE_VERSIONS[-1]} are"


def _number(found: object, bits: int) -> int:
    if type(found) is not int or not -1 << bits - 1 <= found < 1 << bits - 1:
        raise ValueError
    return found
