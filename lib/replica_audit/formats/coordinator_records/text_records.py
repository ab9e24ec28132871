"""The records that text of kafka-dump-log, run with a decoder of a coordinator's topic, shows of a segment of it.

Source: DumpLogSegments.dumpLog (0.10 to 4.2). Up to 2.1 lines of records stand in place of those of their batches. What a decoder prints
may hold anything, also line ends and what looks like another line. A line that contradicts the log, its batch's offsets or number of
records is ignored. Up to 2.1 there is only the size of a record's contents to check a line by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count
from typing import BinaryIO, NamedTuple

from replica_audit.errors import DumpLogError
from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.formats.coordinator_records.unusable import Unusable
from replica_audit.formats.dump.dump_batches import BATCH, SectionLog, lines_in
from replica_audit.model import BatchHeader, Damage, SegmentFile

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
