"""The committed offsets in one partition of `__consumer_offsets`, replayed from its segments or from text of kafka-dump-log."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.formats.coordinators.records import (
    RecordDecoder,
    ReportedAs,
    TextRecord,
    field_end,
    number_in,
    records_of_log,
    string,
    tagged_fields,
    unknown_version,
)
from replica_audit.formats.segment.record_batch import unsigned
from replica_audit.formats.segment.records import Record
from replica_audit.model import BatchHeader, CommittedOffset, Problem, SegmentFile

# What kafka-dump-log, run with --offsets-decoder, prints of the records of `__consumer_offsets`.
# Sources: DumpLogSegments.OffsetsMessageParser (0.10 to 4.2), GroupMetadataManager.formatRecordKeyAndValue (2.4 to 3.7). A commit shows as
# `offset::G:T:P` and `N[:M]` (to 2.3), `offset_commit::group=G,partition=T-P` and `offset=N[,metadata=M]` (2.4 to 3.7), or JSON (from
# 3.8), which alone has leader epoch, time and, from 4.x, topic id. Up to 2.3 a deletion shows no key. Group ids G and metadata M may hold
# anything, also line ends and what looks like another line; JSON escapes them. What contradicts a record's sizes is ignored.

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
            key = OffsetCommitKey(group_id.decode(), topic.decode(), number_in(int(partition), 32))
            return key, None if offset is None else OffsetCommitValue(number_in(int(offset), 64))
    return None


def _from_json(text: str) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    key, at = _JSON.raw_decode(text)
    match key:
        case {"type": "0" | "1", "data": {"group": str(group_id), "topic": str(topic), "partition": int(partition)}}:
            found = OffsetCommitKey(group_id, topic, number_in(partition, 32))
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
            raise DumpLogError(unknown_version("OffsetCommitValue", version, VALUE_VERSIONS))
        case {"data": {"offset": int(offset), "commitTimestamp": int(timestamp), **others}}:
            epoch, topic_id = others.get("leaderEpoch", -1), others.get("topicId")
        case _:
            raise ValueError
    if topic_id is not None and not (isinstance(topic_id, str) and _TOPIC_ID.fullmatch(topic_id)):
        raise ValueError
    return found, OffsetCommitValue(number_in(offset, 64), number_in(epoch, 32), number_in(timestamp, 64), topic_id)


# The fields of the records of `__consumer_offsets` as they are stored: OffsetCommitValue, and the strings of its keys.
# Sources: OffsetCommitValue.json (group-coordinator, 4.2.0); versions 4 and later are flexible (KIP-482).

_STORED_INT16, _STORED_INT32, _INT64 = (struct.Struct(form) for form in (">h", ">i", ">q"))
_TOPIC_ID_TAG, _NO_TOPIC_ID = 0, bytes(16)


def commit_value(data: bytes) -> OffsetCommitValue:
    """Decode an OffsetCommitValue; bytes behind it do not matter, as they do not to Kafka.

    Raises:
        SegmentError: it has no known form.
        IndexError, struct.error: it ends inside a field.
    """
    (version,) = _STORED_INT16.unpack_from(data)
    if version not in VALUE_VERSIONS:
        raise SegmentError(unknown_version("OffsetCommitValue", version, VALUE_VERSIONS))
    (offset,) = _INT64.unpack_from(data, 2)
    epoch, at = -1, 10
    if version >= 3:
        (epoch,), at = _STORED_INT32.unpack_from(data, at), at + 4
    if version < 4:
        _metadata, at = string(data, at)
    else:
        size, at = unsigned(data, at)
        at = field_end(data, at, size - 1)
    (timestamp,) = _INT64.unpack_from(data, at)
    if version == 1:
        _INT64.unpack_from(data, at + 8)  # when it expires
    topic_id = tagged_fields(data, at + 8)[1].get(_TOPIC_ID_TAG, _NO_TOPIC_ID) if version >= 4 else _NO_TOPIC_ID
    if len(topic_id) != len(_NO_TOPIC_ID):
        raise SegmentError(f"a topic id of {len(topic_id)} bytes")
    return OffsetCommitValue(offset, epoch, timestamp, base64.urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else None)


# The committed offsets in one partition of `__consumer_offsets`, replayed from its segments or from text of kafka-dump-log.
# Sources: OffsetCommitKey, OffsetCommitValue, GroupCoordinatorRecordSerde, OffsetMetadataManager.replay and .replayEndTransactionMarker
# (group-coordinator, 4.2.0); GroupMetadataManager.doLoadGroupsAndOffsets (core, up to 3.9), which differs in one thing: a deletion leaves
# there what transactions have not committed yet.

_KIND = "group-offsets"
_REMEDY = "the offsets committed in it are unknown; another replica of the partition may have it intact"
_DUMP_AGAIN = {
    "not-decoded": "dump the segment again with --offsets-decoder, preferably with kafka-dump-log 3.8 or newer, or give the segment itself",
    "not-copied": "collect with a higher --group-offsets-limit",
    "deletion-without-key": "the offsets found may include deleted ones: dump the segment again with kafka-dump-log 2.4 or newer",
}
_INT16, _INT32, _CONTROL_KEY = (struct.Struct(form) for form in (">h", ">i", ">hh"))
_COMMIT_KEYS = (0, 1)
_ABORT, _COMMIT = 0, 1


class _OffsetCommit(NamedTuple):
    """A record that commits an offset or, without a value, deletes one; `producer_id` is None outside of transactions."""

    record_offset: int
    producer_id: int | None
    key: OffsetCommitKey
    value: OffsetCommitValue | None


class _EndTransaction(NamedTuple):
    record_offset: int
    producer_id: int
    is_commit: bool


_Commit = tuple[int, str, OffsetCommitValue]  # at which record offset, in which file, what


def committed_offsets(files: Sequence[SegmentFile], log_end_offset: int | None = None) -> tuple[list[CommittedOffset], list[Problem]]:
    """The last committed offset of every group and partition, as a coordinator that loads the partition would know it.

    What a transaction commits counts once its COMMIT marker stands in the partition, and not over a later commit. Records of other kinds
    are skipped. A batch or record that cannot be used is a problem, of kind `group-offsets`, and left out. Where a segment stops being
    a log what stands before counts.

    Args:
        files: the segments that make up the log of one partition, in any order.
        log_end_offset: where the log ends (exclusive); records at and above it are left out, but told where they cannot be used. None: all
            count.

    Returns:
        Commits ordered by group, topic and partition; problems in the order of the files, of each some more than `MAX_PROBLEMS` at most.
    """
    replay = _Replay()
    problems: list[Problem] = []
    for event, path in records_of_log(files, log_end_offset, _DECODER, _REPORTED, problems):
        replay.take(event, path)
    return replay.committed(), problems


class _Replay:
    """The offsets that the records so far leave committed, and those that open transactions may yet commit."""

    def __init__(self) -> None:
        self._committed: dict[OffsetCommitKey, _Commit] = {}
        self._pending: dict[int, dict[OffsetCommitKey, _Commit]] = {}

    def take(self, event: _OffsetCommit | _EndTransaction, path: str) -> None:
        """Take the next record."""
        if isinstance(event, _EndTransaction):
            ended = self._pending.pop(event.producer_id, {})
            for key, commit in ended.items() if event.is_commit else ():
                # a commit outside of the transaction may have come after it
                self._committed[key] = max(self._committed.get(key, commit), commit, key=lambda found: found[0])
        elif event.value is None:
            for offsets in (self._committed, *self._pending.values()):
                offsets.pop(event.key, None)
        else:
            offsets = self._committed if event.producer_id is None else self._pending.setdefault(event.producer_id, {})
            offsets[event.key] = (event.record_offset, path, event.value)

    def committed(self) -> list[CommittedOffset]:
        """What is committed, in the order of its keys."""
        return [
            CommittedOffset(**key._asdict(), **value._asdict(), record_offset=record_offset, path=path)
            for key, (record_offset, path, value) in sorted(self._committed.items())
        ]


def _of_bytes(record: Record, batch: BatchHeader) -> _OffsetCommit | _EndTransaction | None:
    return _end_transaction(record, batch) if batch.is_control else _offset_commit(record, batch)


def _end_transaction(record: Record, batch: BatchHeader) -> _EndTransaction | None:
    _version, kind = _CONTROL_KEY.unpack_from(record.key or b"")
    return _EndTransaction(record.offset, batch.producer_id, kind == _COMMIT) if kind in (_ABORT, _COMMIT) else None


def _offset_commit(record: Record, batch: BatchHeader) -> _OffsetCommit | None:
    """The commit or deletion that a record is; None if it is of another kind."""
    if record.key is None:
        raise SegmentError("it has no key")
    (version,) = _INT16.unpack_from(record.key)
    if version not in _COMMIT_KEYS:
        return None
    group_id, at = string(record.key, 2)
    topic, at = string(record.key, at)
    (partition,) = _INT32.unpack_from(record.key, at)
    value = None if record.value is None else commit_value(record.value)
    producer = batch.producer_id if batch.is_transactional else None
    return _OffsetCommit(record.offset, producer, OffsetCommitKey(group_id, topic, partition), value)


def _told(record: TextRecord) -> _OffsetCommit | _EndTransaction | None:
    if record.end_of_txn is not None:
        producer, ends = record.producer_id, record.end_of_txn in ("COMMIT", "ABORT")
        return _EndTransaction(record.offset, producer, record.end_of_txn == "COMMIT") if ends and producer is not None else None
    found = decoded_commit(record)
    return _OffsetCommit(record.offset, record.producer_id, *found) if found else None


_DECODER: RecordDecoder[_OffsetCommit | _EndTransaction] = RecordDecoder(
    of_bytes=_of_bytes, of_text=_told, printed=DECODED, what="what was committed"
)
_REPORTED = ReportedAs(kind=_KIND, remedy=_REMEDY, of_text=_DUMP_AGAIN)
