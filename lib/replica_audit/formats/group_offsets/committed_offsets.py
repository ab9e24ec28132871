"""The committed offsets in one partition of `__consumer_offsets`, replayed from its segments or from text of kafka-dump-log.

Sources: OffsetCommitKey, OffsetCommitValue, GroupCoordinatorRecordSerde, OffsetMetadataManager.replay and .replayEndTransactionMarker
(group-coordinator, 4.2.0); GroupMetadataManager.doLoadGroupsAndOffsets (core, up to 3.9), which differs in one thing: a deletion leaves
there what transactions have not committed yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.group_offsets.dump_text import (
    OffsetCommitKey,
    OffsetCommitValue,
    TextRecord,
    Unusable,
    decoded_commit,
    text_records,
)
from replica_audit.formats.group_offsets.offset_commit import commit_value, string
from replica_audit.formats.segment.records import Record, UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import BatchHeader, CommittedOffset, Damage, Problem, SegmentFile

MAX_PROBLEMS = 20  # of one file; one more tells how many there are beyond

_KIND = "group-offsets"
_REMEDY = "offsets that were committed in it are not known here; another replica of the partition may have it intact"
_DUMP_AGAIN = {
    "not-decoded": "dump the segment again with --offsets-decoder, best with kafka-dump-log 3.8 or newer, or give the segment itself",
    "not-copied": "collect with a higher --group-offsets-limit",
    "deletion-without-key": "deleted offsets may be among those found: dump the segment again with kafka-dump-log 2.4 or newer",
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
_Event = _OffsetCommit | _EndTransaction | Unusable


def committed_offsets(files: Sequence[SegmentFile], log_end_offset: int | None = None) -> tuple[list[CommittedOffset], list[Problem]]:
    """The last committed offset of every group and partition, as a coordinator that loads the partition would know it.

    What a transaction commits counts once its COMMIT marker stands in the partition, and not over a later commit. Records of other kinds
    are passed over. A batch or record that cannot be used is a problem, of kind `group-offsets`, and left out. Where a segment stops being
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
    with KeptText() as kept:
        for file in sorted(files, key=lambda file: file.base_offset):
            found = _Problems(file.path)
            try:
                for event in _events(file, kept):
                    if isinstance(event, Unusable):
                        found.add(event)
                    elif log_end_offset is None or event.record_offset < log_end_offset:
                        replay.take(event, file.path)
            except OSError as error:
                problems.append(cannot_read(located(file.path), _KIND, error))
            problems += found.told()
    return replay.committed(), problems


class _Problems:
    """What cannot be used of one file, in as many problems as one may want to read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: list[Unusable] = []
        self._number = 0
        self._of_text: dict[str, Unusable] = {}

    def add(self, unusable: Unusable) -> None:
        """Take one more; what ails a whole text counts once."""
        if unusable.code in _DUMP_AGAIN:
            self._of_text.setdefault(unusable.code, unusable)
            return
        self._number += 1
        if self._number <= MAX_PROBLEMS:
            self._first.append(unusable)

    def told(self) -> Iterator[Problem]:
        """The problems."""
        for found in (*self._first, *[self._of_text[code] for code in _DUMP_AGAIN if code in self._of_text][:1]):
            yield self._problem(found.code, found.reason, found.line, found.byte_offset)
        if self._number > MAX_PROBLEMS:
            yield self._problem("more", f"{self._number - MAX_PROBLEMS} more records or batches cannot be used")

    def _problem(self, code: str, detail: str, line: int | None = None, byte_offset: int | None = None) -> Problem:
        remedy = _DUMP_AGAIN.get(code, _REMEDY)
        return Problem(path=self._path, kind=_KIND, code=code, detail=detail, remedy=remedy, line=line, byte_offset=byte_offset)


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


def _malformed(record_offset: int, reason: str, *, byte_offset: int | None = None, line: int | None = None) -> Unusable:
    return Unusable(record_offset, "malformed-record", f"the record at offset {record_offset}: {reason}", byte_offset, line)


def _raw_events(path: Path) -> Iterator[_Event]:
    for item in read_records(path):
        if isinstance(item, UnreadableRecords):
            yield Unusable(item.header.base_offset, item.code, item.detail, byte_offset=item.byte_offset)
        elif isinstance(item, Damage):
            if item.code not in TAILS:
                reason = f"the segment stops being a log here ({item.detail}): what was committed behind it is not known"
                yield Unusable(-1, item.code, reason, byte_offset=item.byte_offset)
        else:
            batch, records = item
            for record in records:
                event: _Event | None
                try:
                    event = _end_transaction(record, batch) if batch.is_control else _offset_commit(record, batch)
                except SegmentError as error:
                    event = _malformed(record.offset, error.reason, byte_offset=batch.position)
                except (IndexError, struct.error):
                    event = _malformed(record.offset, "it ends inside a field", byte_offset=batch.position)
                if event is not None:
                    yield event


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


def _events(file: SegmentFile, kept: KeptText) -> Iterator[_Event]:
    if file.source == "raw" or file.copy is not None:
        return _raw_events(located(file.copy or file.path))
    if file.source == "dump":
        return _text_events(file, kept)
    return iter([Unusable(-1, "not-copied", "the segment was collected without its records")])


def _text_events(file: SegmentFile, kept: KeptText) -> Iterator[_Event]:
    for record in text_records(file, kept):
        if isinstance(record, Unusable):
            yield record
            continue
        try:
            event = _told(record)
        except DumpLogError as error:
            yield _malformed(record.offset, error.reason, line=record.line)
            if not record.is_counted:
                return  # what follows may still be its contents
            continue
        if event is not None:
            yield event


def _told(record: TextRecord) -> _OffsetCommit | _EndTransaction | None:
    if record.end_of_txn is not None:
        producer, ends = record.producer_id, record.end_of_txn in ("COMMIT", "ABORT")
        return _EndTransaction(record.offset, producer, record.end_of_txn == "COMMIT") if ends and producer is not None else None
    found = decoded_commit(record)
    return _OffsetCommit(record.offset, record.producer_id, *found) if found else None
