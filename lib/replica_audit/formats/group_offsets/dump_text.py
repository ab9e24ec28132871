"""The records that text of kafka-dump-log, run with --offsets-decoder, shows of a segment of `__consumer_offsets`.

Sources: DumpLogSegments.dumpLog and OffsetsMessageParser (0.10 to 4.2), GroupMetadataManager.formatRecordKeyAndValue (2.4 to 3.7).
A commit shows as `offset::G:T:P` and `N[:M]` (to 2.3), `offset_commit::group=G,partition=T-P` and `offset=N[,metadata=M]` (2.4 to 3.7), or
JSON (from 3.8), which alone has leader epoch, time and, from 4.x, topic id. Up to 2.3 a deletion shows no key. Up to 2.1 lines of records
stand in place of those of their batches. Group ids G and metadata M may hold anything, also line ends and what looks like another line;
JSON escapes them. A line that contradicts the log, its batch's offsets or number of records, or the sizes of its own contents, tells
nothing. Up to 2.1 only the sizes can vouch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain, count
from typing import BinaryIO, NamedTuple

from replica_audit.errors import DumpLogError, visible
from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.formats.dump.dump_batches import BATCH, SectionLog
from replica_audit.model import BatchHeader, Damage, SegmentFile

VALUE_VERSIONS = range(5)  # of OffsetCommitValue

_LONGEST_LINE = 1 << 18  # what is kept of a line, in bytes
_RECORD = b"| offset: "
_SIZES = (b" keysize: ", b" payloadsize: ")  # one of them is on the line of a record up to 2.1, and on no line of a batch
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
_DECODED = (_JSON_KEY, _FAILED, *_OTHER_KEYS, *(form[0] for form in _FORMS))
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


class TextRecord(NamedTuple):
    """One record as its line shows it.

    `key_size` and `value_size` are in bytes, as stored, negative for null. `producer_id` is None outside of transactions. `end_of_txn` is
    COMMIT or ABORT for a transaction marker, else None. `contents` are what the decoder printed, from the key on; None if it shows no key.
    `is_counted`: it is one of as many records as the line of its batch tells.
    """

    offset: int
    key_size: int
    value_size: int
    producer_id: int | None
    end_of_txn: str | None
    contents: bytes | None
    line: int
    is_counted: bool


class Unusable(NamedTuple):
    """Records that cannot be used, the one at `record_offset` or several from it on; `reason` names them."""

    record_offset: int
    code: str
    reason: str
    byte_offset: int | None = None
    line: int | None = None


def text_records(file: SegmentFile, kept: KeptText) -> Iterator[TextRecord | Unusable]:
    """The markers and the decoded records of `file`, which is one part of a text and read in `kept`, in order.

    A record that is not decoded gives an `Unusable` of code `not-decoded`, a deletion that shows no key one of `deletion-without-key`.
    Where the text stops telling a log, reading ends without a word: whoever reads its batches says so.

    Raises:
        OSError: the file cannot be read.
    """
    with kept.at(located(file.path)) as stream:
        for record in _records(_lines(stream, file), SectionLog(file.first_line, file.base_offset)):
            if isinstance(record, Unusable) or record.end_of_txn or (record.contents or b"").startswith(_DECODED):
                yield record
            elif record.contents is None and record.value_size < 0:
                yield Unusable(record.offset, "deletion-without-key", f"deletion at offset {record.offset}: no key", line=record.line)
            else:
                yield Unusable(record.offset, "not-decoded", f"the record at offset {record.offset} is not decoded", line=record.line)


def _lines(stream: BinaryIO, file: SegmentFile) -> Iterator[tuple[int, bytes]]:
    """Number and content of the lines of this part, with line end; of a line that is too long only the beginning, without one."""
    stream.seek(file.byte_start)
    for number in count(file.first_line):
        line = stream.readline(_LONGEST_LINE) if stream.tell() < file.byte_end else b""
        if not line:
            return
        yield number, line
        while line and not line.endswith(b"\n"):
            line = stream.readline(_LONGEST_LINE)


def _records(lines: Iterator[tuple[int, bytes]], log: SectionLog) -> Iterator[TextRecord | Unusable]:
    batch: _Batch | None = None
    for number, line in lines:
        if batch is None and line.startswith(BATCH[1]) and any(size in line for size in _SIZES):
            yield from _without_batches(chain([(number, line)], lines))
            return
        if not line.startswith(BATCH):
            log.note(line, number)
            if batch is not None and line.startswith(_RECORD):
                batch.take(line, number)
        else:
            try:
                found = log.take(line, number)
            except DumpLogError:
                break
            if isinstance(found, Damage):
                break
            if found is not None:
                yield from batch.records() if batch else ()
                batch = _Batch(found, number)
    yield from batch.records() if batch else ()


class _Batch:
    """The records of one batch, held until the line of the next one shows that they are all."""

    def __init__(self, header: BatchHeader, line: int) -> None:
        self._header = header
        self._line = line
        self._lines = 0
        self._held: list[TextRecord] = []
        self._last_offset = header.base_offset - 1
        self._contradiction = ""

    def take(self, line: bytes, number: int) -> None:
        """Take the line of a record."""
        self._lines += 1
        try:
            record = _record(line, number, self._last_offset)
        except DumpLogError as error:
            self._contradiction = error.reason
            return
        self._last_offset = record.offset
        if record.offset > self._header.last_offset:
            self._contradiction = f"a record at offset {record.offset}"
        elif self._header.is_control == (record.end_of_txn is not None):  # markers of other kinds tell nothing
            producer = self._header.producer_id if self._header.is_transactional else None
            self._held.append(record._replace(producer_id=producer, is_counted=True))

    def records(self) -> Iterator[TextRecord | Unusable]:
        """Its records, unless they contradict its own line."""
        first, last, number = self._header.base_offset, self._header.last_offset, self._header.record_count
        name = f"the batch at offsets {first}..{last}"
        if not self._lines and number != 0 and not self._header.is_control:
            yield Unusable(first, "not-decoded", f"{name} is shown without its records", line=self._line)
        elif number is not None and self._lines not in (0, number):
            self._contradiction = self._contradiction or f"{self._lines} lines of records where there are {number}"
        if self._contradiction:
            yield Unusable(first, "malformed-record", f"{name}: {self._contradiction}", line=self._line)
        else:
            yield from self._held


def _without_batches(lines: Iterator[tuple[int, bytes]]) -> Iterator[TextRecord | Unusable]:
    last_offset = -1
    for number, line in lines:
        if line.startswith(BATCH[1]):
            try:
                record = _record(line, number, last_offset)
            except DumpLogError as error:
                reason = f"behind offset {last_offset}: {error.reason}; the text is not read beyond it"
                yield Unusable(last_offset + 1, "malformed-record", reason, line=number)
                return
            last_offset = record.offset
            yield record


def _record(line: bytes, number: int, last_offset: int) -> TextRecord:
    """Read the line of a record: pairs of `key:` and value, then its contents.

    Raises:
        DumpLogError: it cannot stand behind `last_offset`, is cut, or lacks what it should tell.
    """
    head, has_key, contents = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(b"| ").partition(b" key: ")
    tokens = head.partition(b" payload: ")[0].decode("ascii", "replace").split(" ")
    told = {key.lower(): value for key, value in zip(tokens[::2], tokens[1::2], strict=False)}
    try:
        offset, key_size = int(told["offset:"]), int(told.get("keysize:", -1))
        value_size = int(told["valuesize:"] if "valuesize:" in told else told["payloadsize:"])
        producer = int(told["producerid:"]) if told.get("istransactional:") == "true" else None
        if not (-1 << 31 <= key_size < 1 << 31 and -1 << 31 <= value_size < 1 << 31):
            raise ValueError
    except (KeyError, ValueError):
        raise DumpLogError("a record without its offset or its sizes") from None
    if not last_offset < offset < 1 << 63 or not line.endswith(b"\n"):
        raise DumpLogError(f"a record at offset {offset}, or the text ends inside its line, or the line is too long")
    if len(tokens) % 2 or told.get("headerkeys:", "[]") != "[]":
        return TextRecord(offset, key_size, 0, producer, None, None, number, is_counted=False)  # not written by a coordinator
    end = told.get("endtxnmarker:") if not has_key else None
    return TextRecord(offset, key_size, value_size, producer, end, contents if has_key else None, number, is_counted=False)


def decoded_commit(record: TextRecord) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    """What a record commits, without a value if it deletes; None if it is of another kind.

    Raises:
        DumpLogError: kafka-dump-log could not decode it, or what it printed is not of a known form or does not have the told sizes.
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
        raise DumpLogError("what kafka-dump-log printed of it cannot be read, or does not have the told size") from None
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
