"""The records of a coordinator's topic, raw or as text of kafka-dump-log, each decoded or reported as unusable."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar

from replica_audit.errors import DumpLogError, SegmentError, visible
from replica_audit.files.locations import located
from replica_audit.files.text_files import KeptText
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.dump.dump_batches import BATCH, SectionLog, lines_in
from replica_audit.formats.segment.record_batch import unsigned
from replica_audit.formats.segment.records import Record, UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import BatchHeader, Damage, Problem, SegmentFile

# Fields of the records that coordinators write (Kafka's message format: a length, then what is that long).

_INT16 = struct.Struct(">h")


def string(data: bytes, at: int) -> tuple[str, int]:
    """A text behind its length of two bytes, and where it ends.

    Raises:
        SegmentError: it does not end.
        struct.error: it has no length.
    """
    (size,) = _INT16.unpack_from(data, at)
    end = field_end(data, at + 2, size)
    return data[at + 2 : end].decode("utf-8", "replace"), end


def field_end(data: bytes, at: int, size: int) -> int:
    """Where a field of a size ends.

    Raises:
        SegmentError: it does not, or its size is negative.
    """
    if not 0 <= size <= len(data) - at:
        raise SegmentError(f"a field of {size} bytes where {len(data) - at} are left")
    return at + size


def tagged_fields(data: bytes, at: int) -> tuple[int, dict[int, bytes]]:
    """Where the tagged fields that begin at `at` end, and their contents by tag (KIP-482).

    Raises:
        SegmentError: one does not end.
        IndexError: a length does not.
    """
    fields, at = unsigned(data, at)
    found: dict[int, bytes] = {}
    for _ in range(fields):
        tag, at = unsigned(data, at)
        size, at = unsigned(data, at)
        end = field_end(data, at, size)
        found[tag], at = data[at:end], end
    return at, found


def unknown_version(what: str, version: object, known: range) -> str:
    """What is to be reported of a key or value of a version that is not among the `known`."""
    versions = str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"version {visible(str(version)[:20])} of {what} is not known, only {versions} {'is' if len(known) == 1 else 'are'}"


def number_in(found: object, bits: int) -> int:
    """A signed number of so many bits, as it stands in JSON.

    Raises:
        ValueError: it is none.
    """
    if type(found) is not int or not -1 << bits - 1 <= found < 1 << bits - 1:
        raise ValueError
    return found


# Records of a coordinator's topic that cannot be used, and the problems that they become.

MAX_PROBLEMS = 20  # of one file; one more says how many were left out


class Unusable(NamedTuple):
    """Records that cannot be used, the one at `record_offset` or several from it on; `reason` names them."""

    record_offset: int
    code: str
    reason: str
    byte_offset: int | None = None
    line: int | None = None


class UnusableRecords:
    """What cannot be used of one file, in as many problems as one may want to read."""

    def __init__(self, path: str, kind: str, remedy: str, of_text: Mapping[str, str]) -> None:
        """Take those of the file `path`.

        Args:
            path: of the file.
            kind: of the problems.
            remedy: where `of_text` has none for a code.
            of_text: remedies by code of what is wrong with a whole file, which counts once; the first code that is found is reported.
        """
        self._path, self._kind, self._remedy, self._remedies = path, kind, remedy, of_text
        self._first: list[Unusable] = []
        self._number = 0
        self._of_text: dict[str, Unusable] = {}

    def add(self, unusable: Unusable) -> None:
        """Take one more."""
        if unusable.code in self._remedies:
            self._of_text.setdefault(unusable.code, unusable)
            return
        self._number += 1
        if self._number <= MAX_PROBLEMS:
            self._first.append(unusable)

    def problems(self) -> Iterator[Problem]:
        """What was found, some more than `MAX_PROBLEMS` at most."""
        for found in (*self._first, *[self._of_text[code] for code in self._remedies if code in self._of_text][:1]):
            yield self._problem(found.code, found.reason, found.line, found.byte_offset)
        if self._number > MAX_PROBLEMS:
            yield self._problem("more", f"{self._number - MAX_PROBLEMS} more records or batches cannot be used")

    def _problem(self, code: str, detail: str, line: int | None = None, byte_offset: int | None = None) -> Problem:
        remedy = self._remedies.get(code, self._remedy)
        return Problem(path=self._path, kind=self._kind, code=code, detail=detail, remedy=remedy, line=line, byte_offset=byte_offset)


# The records that text of kafka-dump-log, run with a decoder of a coordinator's topic, shows of a segment of it.
# Source: DumpLogSegments.dumpLog (0.10 to 4.2). Up to 2.1 lines of records stand in place of those of their batches. What a decoder prints
# may hold anything, also line ends and what looks like another line. A line that contradicts the log, its batch's offsets or number of
# records is ignored. Up to 2.1 there is only the size of a record's contents to check a line by.

_LONGEST_LINE = 1 << 18  # what is kept of a line, in bytes
_RECORD = b"| offset: "
_EPOCH = re.compile(r"-?\d{1,10}")
_SIZES = (b" keysize: ", b" payloadsize: ")  # one of them is on the line of a record up to 2.1, and on no line of a batch


class TextRecord(NamedTuple):
    """One record as its line shows it.

    `key_size` and `value_size` are in bytes, as stored, negative for null. `producer_id` is None outside of transactions. `end_of_txn` is
    COMMIT or ABORT for a transaction marker, else None, and `coordinator_epoch` what the marker has. `contents` are what the decoder
    printed, from the key on; None if it shows no key. `is_counted`: the record is within the number of records that the line of its batch
    gives.
    """

    offset: int
    key_size: int
    value_size: int
    producer_id: int | None
    end_of_txn: str | None
    contents: bytes | None
    line: int
    is_counted: bool
    coordinator_epoch: int | None = None


def text_records(file: SegmentFile, kept: KeptText, decoded: tuple[bytes, ...]) -> Iterator[TextRecord | Unusable]:
    """The markers and the decoded records of `file`, which is one part of a text and read in `kept`, in order.

    `decoded`: how what the decoder prints of a record may begin.

    A record that is not decoded gives an `Unusable` of code `not-decoded`, a deletion that shows no key one of `deletion-without-key`.
    Where the text stops telling a log, reading ends without a word: whoever reads its batches says so.

    Raises:
        OSError: the file cannot be read.
    """
    with kept.at(located(file.path)) as stream:
        for record in _records(_lines(stream, file), SectionLog(file.first_line, file.base_offset)):
            if isinstance(record, Unusable) or record.end_of_txn or (record.contents or b"").startswith(decoded):
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
        for part in lines_in(line):
            yield number, part
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
    epoch = told.get("coordinatorepoch:", "") if end else ""
    return TextRecord(
        *(offset, key_size, value_size, producer, end, contents if has_key else None, number),
        is_counted=False,
        coordinator_epoch=int(epoch) if _EPOCH.fullmatch(epoch) else None,
    )


# The records of a segment of a coordinator's topic, raw or as text of kafka-dump-log, each decoded or reported as unusable.

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecoder(Generic[_T]):
    """How the records of a topic are decoded; None is a record that is skipped.

    `of_bytes` raises SegmentError, IndexError or struct.error for what it cannot use, `of_text` DumpLogError. `printed`: how what
    kafka-dump-log prints of a decoded record may begin. `what`: is not known behind the place where a segment stops being a log.
    """

    of_bytes: Callable[[Record, BatchHeader], _T | None]
    of_text: Callable[[TextRecord], _T | None]
    printed: tuple[bytes, ...]
    what: str


def record_events(file: SegmentFile, kept: KeptText, decoder: RecordDecoder[_T]) -> Iterator[_T | Unusable]:
    """What the records of one segment are, in order.

    Raises:
        OSError: the file cannot be read.
    """
    if file.source == "raw" or file.copy is not None:
        return _raw_events(located(file.copy or file.path), decoder)
    if file.source == "dump":
        return _text_events(file, kept, decoder)
    return iter([Unusable(-1, "not-copied", "the segment was collected without its records")])


def _raw_events(path: Path, decoder: RecordDecoder[_T]) -> Iterator[_T | Unusable]:
    for item in read_records(path):
        if isinstance(item, UnreadableRecords):
            yield Unusable(item.header.base_offset, item.code, item.detail, byte_offset=item.byte_offset)
        elif isinstance(item, Damage):
            if item.code not in TAILS:
                reason = f"the segment is not readable from here on ({item.detail}): {decoder.what} behind it is unknown"
                yield Unusable(-1, item.code, reason, byte_offset=item.byte_offset)
        else:
            batch, records = item
            for record in records:
                event: _T | Unusable | None
                try:
                    event = decoder.of_bytes(record, batch)
                except SegmentError as error:
                    event = _malformed(record.offset, error.reason, byte_offset=batch.position)
                except (IndexError, struct.error):
                    event = _malformed(record.offset, "it ends inside a field", byte_offset=batch.position)
                if event is not None:
                    yield event


def _text_events(file: SegmentFile, kept: KeptText, decoder: RecordDecoder[_T]) -> Iterator[_T | Unusable]:
    for record in text_records(file, kept, decoder.printed):
        if isinstance(record, Unusable):
            yield record
            continue
        try:
            event = decoder.of_text(record)
        except DumpLogError as error:
            yield _malformed(record.offset, error.reason, line=record.line)
            if not record.is_counted:
                return  # what follows may still be its contents
            continue
        if event is not None:
            yield event


def _malformed(record_offset: int, reason: str, *, byte_offset: int | None = None, line: int | None = None) -> Unusable:
    return Unusable(record_offset, "malformed-record", f"the record at offset {record_offset}: {reason}", byte_offset, line)


# The records of one partition of a coordinator's topic, over all its segments, and what of them cannot be used.


class _Placed(Protocol):
    @property
    def record_offset(self) -> int: ...


_P = TypeVar("_P", bound=_Placed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedAs:
    """How records that cannot be used are reported: kind and remedies as of `UnusableRecords`."""

    kind: str
    remedy: str
    of_text: Mapping[str, str]


def records_of_log(
    files: Sequence[SegmentFile], log_end_offset: int | None, decoder: RecordDecoder[_P], reported: ReportedAs, problems: list[Problem]
) -> Iterator[tuple[_P, str]]:
    """What the records below a log's end are, each with the path of its segment.

    Args:
        files: the segments that make up the log of one partition, in any order.
        log_end_offset: where the log ends (exclusive); None: all count.
        decoder: of the records.
        reported: of what cannot be used, also above the log's end.
        problems: takes them, in the order of the files.
    """
    with KeptText() as kept:
        for file in sorted(files, key=lambda file: file.base_offset):
            found = UnusableRecords(file.path, reported.kind, reported.remedy, reported.of_text)
            try:
                for event in record_events(file, kept, decoder):
                    if isinstance(event, Unusable):
                        found.add(event)
                    elif log_end_offset is None or event.record_offset < log_end_offset:
                        yield event, file.path
            except OSError as error:
                problems.append(cannot_read(located(file.path), reported.kind, error))
            problems += found.problems()
