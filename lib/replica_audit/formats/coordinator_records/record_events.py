"""The records of a segment of a coordinator's topic, raw or as text of kafka-dump-log, each decoded or reported as unusable."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.formats.coordinator_records.text_records import TextRecord, text_records
from replica_audit.formats.coordinator_records.unusable import Unusable
from replica_audit.formats.segment.records import Record, UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import BatchHeader, Damage, SegmentFile

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
