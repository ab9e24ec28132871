"""The committed offsets in one partition of `__consumer_offsets`, replayed from its segments or from text of kafka-dump-log.

Sources: OffsetCommitKey, OffsetCommitValue, GroupCoordinatorRecordSerde, OffsetMetadataManager.replay and .replayEndTransactionMarker
(group-coordinator, 4.2.0); GroupMetadataManager.doLoadGroupsAndOffsets (core, up to 3.9), which differs in one thing: a deletion leaves
there what transactions have not committed yet.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.errors import SegmentError
from replica_audit.formats.coordinator_records.fields import string
from replica_audit.formats.coordinator_records.record_events import RecordDecoder
from replica_audit.formats.coordinator_records.records_of_log import ReportedAs, records_of_log
from replica_audit.formats.coordinator_records.text_records import TextRecord
from replica_audit.formats.group_offsets.dump_text import DECODED, OffsetCommitKey, OffsetCommitValue, decoded_commit
from replica_audit.formats.group_offsets.offset_commit import commit_value
from replica_audit.formats.segment.records import Record
from replica_audit.model import BatchHeader, CommittedOffset, Problem, SegmentFile

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
