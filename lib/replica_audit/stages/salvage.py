"""One segment of a cut → its records in a file, each with what its batch, its transaction and the leader say of it."""

from __future__ import annotations

import errno
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from replica_audit.files.locations import located
from replica_audit.formats.producer_files import batches_with_markers
from replica_audit.formats.salvage.log_records import (
    KeysOnLeader,
    LogCursor,
    LogEnds,
    ReadBatch,
    Resent,
    bytes_at,
    changed_since,
    headers_of,
    read_range,
    sequence_of,
)
from replica_audit.formats.salvage.saved_file import SavedFile, outcome_of
from replica_audit.formats.segment.records import Record, UnreadableRecords
from replica_audit.formats.values import Row
from replica_audit.model import CANNOT_READ
from replica_audit.model.batches import BatchHeader
from replica_audit.model.salvage import SalvageUnit, UnitOutcome, UnsavedRange
from replica_audit.protocol.exchange.cuts import records_in
from replica_audit.protocol.salvage import (
    NO_TRANSACTION,
    UNKNOWN_OFFSET,
    EarlierStarts,
    KeptBack,
    LeadersKey,
    OnLeader,
    TransactionEnds,
    TransactionOutcome,
    TransactionSpan,
    is_newer,
    kept_back,
)

UNIT, OUTCOME = TypeAdapter(SalvageUnit), TypeAdapter(UnitOutcome)
_GIVE_FILES = "give the broker's log directory as an --input: only segments hold records, texts and collections do not"
_AUDIT_AGAIN = "audit again, and salvage from the new run: the file is not the one that was audited"
_MORE_OF_A_RECORD = 128  # bytes of a row beside key, value and headers


def salvaged(unit: SalvageUnit) -> UnitOutcome:
    """Save the records of a unit, unless that was done before.

    Raises:
        OSError: the output cannot be written, or something else has the name of the unit's file.
    """
    output = Path(unit.output)
    made_of = _digest(unit)
    done = outcome_of(output)
    if done is not None:
        found = OUTCOME.validate_json(done)
        if found.made_of != made_of:
            raise FileExistsError(errno.EEXIST, "it holds what was saved from other files or another run", unit.output)
        return replace(found, output=unit.output)
    cut, file = unit.cut, unit.segment.file
    outcome = partial(UnitOutcome, broker_id=cut.broker_id, topic=cut.topic, partition=cut.partition)
    if bytes_at(file) is None:
        kind = "the text of kafka-dump-log" if file.source == "dump" else "only what collect took from the batches"
        return outcome(output=None, unsaved=(_whole(unit, "no-records", f"the input has {kind}, no records", _GIVE_FILES),))
    try:
        changed = changed_since(unit.segment) or next(filter(None, map(changed_since, unit.leader.segments)), None)
        if changed is not None:
            return outcome(output=None, changed=changed, unsaved=(_whole(unit, "changed", changed, _AUDIT_AGAIN),))
        work = _Work(unit)
    except OSError as error:
        detail = f"{error.filename or file.path}: {error.strerror or error}"
        return outcome(output=None, unsaved=(_whole(unit, CANNOT_READ, detail, "make the file readable, and start the salvage again"),))
    with SavedFile(output) as saved:
        found = replace(work.save(saved), made_of=made_of)
        saved.finish(OUTCOME.dump_json(found).decode())
    return found


def _digest(unit: SalvageUnit) -> str:
    return hashlib.sha256(UNIT.dump_json(replace(unit, output=""))).hexdigest()


def _whole(unit: SalvageUnit, code: str, detail: str, remedy: str) -> UnsavedRange:
    """All that the unit has of its cut, as not saved."""
    inside = [run for run in unit.segment.runs or () if run.last_offset >= unit.cut.first_offset and run.first_offset < unit.cut.end_offset]
    is_whole = all(unit.cut.first_offset <= run.first_offset and run.last_offset < unit.cut.end_offset for run in inside)
    return UnsavedRange(
        first_offset=max(unit.cut.first_offset, inside[0].first_offset if inside else unit.segment.file.base_offset),
        last_offset=min(unit.cut.end_offset - 1, inside[-1].last_offset if inside else unit.cut.end_offset - 1),
        record_count=sum(run.record_count for run in inside) if is_whole else None,
        code=code,
        detail=detail,
        remedy=remedy,
        path=unit.segment.file.path,
    )


class _Work:
    """Everything that has to be known before the first record is written."""

    def __init__(self, unit: SalvageUnit) -> None:
        self._unit, cut, leader = unit, unit.cut, unit.leader
        self._transactions, self._resent = TransactionEnds(), Resent()
        self._read_headers()
        self._keys: KeysOnLeader | None = None
        if leader.unread is None:
            self._resent.look_through(leader)
            self._keys = KeysOnLeader(unit.segment, cut.end_offset)
            self._keys.look_through(leader)
        first = max(cut.first_offset, unit.segment.file.base_offset)
        self._leader = LogCursor([one.file for one in leader.segments], first, leader.log_end_offset)
        self._kept_back: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._begun_below_cut = 0

    def _read_headers(self) -> None:
        unit, cut, found = self._unit, self._unit.cut, self._transactions
        for batch, is_abort in batches_with_markers(located(bytes_at(unit.segment.file) or "")):
            if batch.base_offset >= cut.end_offset:
                break
            found.add(batch, is_abort)
            if batch.last_offset >= cut.first_offset:
                self._resent.want(batch)
        for path in unit.following:
            wanted = found.open_producers
            if not wanted:
                break
            for batch, is_abort in batches_with_markers(located(path)):
                if batch.base_offset >= cut.end_offset or not wanted:
                    break
                if batch.producer_id in wanted and is_abort is not None:
                    found.add(batch, is_abort)
                    wanted.discard(batch.producer_id)
        self._settle_starts()

    def _settle_starts(self) -> None:
        unit, starts = self._unit, EarlierStarts(self._transactions.unknown_starts)
        for path in unit.preceding:
            if not starts.wanted:
                break
            for batch, _ in batches_with_markers(located(path)):
                starts.add(batch)
            starts.end_segment()
        first_here = self._transactions.first_seen
        is_settled = unit.has_all_preceding

        def started(producer: int) -> int | None:
            if producer in starts.wanted and not is_settled:
                return None
            return starts.found.get(producer, first_here(producer))

        self._transactions.settle_starts(started)

    def save(self, saved: SavedFile) -> UnitOutcome:
        unit, cut = self._unit, self._unit.cut
        records = controls = header_records = header_bytes = 0
        unsaved: list[UnsavedRange] = []
        for item in read_range(unit.segment.file, cut.first_offset, cut.end_offset):
            if isinstance(item, LogEnds):
                unsaved += self._behind(item)
                continue
            header_records += records_in(item.header)
            header_bytes += item.header.size_bytes
            if item.header.is_control:
                controls += records_in(item.header)
            elif isinstance(item, UnreadableRecords):
                unsaved.append(_unreadable(item, unit.segment.file.path))
            else:
                for row, size in self._rows(item):
                    saved.add(row, size)
                    records += 1
        return UnitOutcome(
            broker_id=cut.broker_id,
            topic=cut.topic,
            partition=cut.partition,
            output=unit.output,
            record_count=records,
            control_count=controls,
            header_records=header_records,
            header_bytes=header_bytes,
            kept_back=tuple(sorted(self._kept_back.items())),
            transactions=tuple(sorted(self._ended.items())),
            begun_below_cut=self._begun_below_cut,
            unsaved=tuple(unsaved),
        )

    def _behind(self, ends: LogEnds) -> Iterator[UnsavedRange]:
        """What the audit saw behind the place where the file stops being a log; nothing, if that is where the log ended then."""
        last = max((run.last_offset for run in self._unit.segment.runs or ()), default=-1)
        if ends.next_offset <= min(last, self._unit.cut.end_offset - 1):
            yield UnsavedRange(
                first_offset=ends.next_offset,
                last_offset=min(last, self._unit.cut.end_offset - 1),
                record_count=None,
                code=ends.damage.code,
                detail=ends.damage.detail,
                remedy=_AUDIT_AGAIN,
                path=self._unit.segment.file.path,
            )

    def _rows(self, batch: ReadBatch) -> Iterator[tuple[Row, int]]:
        header, cut = batch.header, self._unit.cut
        keys = [None] * len(batch.records) if self._keys is None else self._keys.of(batch.records)
        for record, key in zip(batch.records, keys, strict=True):
            span = self._transactions.of(header.producer_id, record.offset) if header.is_transactional else NO_TRANSACTION
            resent = self._resent.offset_of(header, record.offset)
            on_leader = self._on_leader(header, record, resent)
            newer = key if key is not None and is_newer(key, header.leader_epoch, record.timestamp_ms) else None
            reason = kept_back(on_leader, span.outcome, has_newer_key=newer is not None)
            self._count(span, reason)
            row: Row = {
                **{name: getattr(cut, name) for name in ("cluster_id", "topic", "partition", "broker_id", "leader_id")},
                "offset": record.offset,
                "leader_epoch": header.leader_epoch,
                "timestamp_ms": record.timestamp_ms,
                "timestamp_type": batch.timestamp_type,
                "key": record.key,
                "value": record.value,
                "headers": [{"key": name, "value": value} for name, value in headers_of(record)],
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "sequence": sequence_of(header, record.offset),
                "transaction": str(span.outcome),
                "transaction_first_offset": None if span.first_offset == UNKNOWN_OFFSET else span.first_offset,
                "transaction_marker_offset": None if span.marker_offset == UNKNOWN_OFFSET else span.marker_offset,
                "magic": header.magic,
                "on_leader": str(on_leader),
                "resent_offset": resent if on_leader is OnLeader.RESENT else None,
                **_newer(newer),
                "kept_back": None if reason is None else str(reason),
            }
            yield row, len(record.key or b"") + len(record.value or b"") + len(record.headers) + _MORE_OF_A_RECORD

    def _count(self, span: TransactionSpan, reason: KeptBack | None) -> None:
        if reason is not None:
            self._kept_back[str(reason)] += 1
        if span.outcome is not TransactionOutcome.NONE:
            self._ended[str(span.outcome)] += 1
            self._begun_below_cut += UNKNOWN_OFFSET < span.first_offset < self._unit.cut.first_offset

    def _on_leader(self, header: BatchHeader, record: Record, resent: int | None) -> OnLeader:
        leader = self._unit.leader
        if leader.unread is not None:
            return OnLeader.UNKNOWN
        if record.offset < leader.log_start_offset:
            return OnLeader.BELOW_LOG_START
        there = self._leader.at(record.offset) if record.offset < leader.log_end_offset else None
        if there is not None and there.record == record and there.leader_epoch == header.leader_epoch:
            return OnLeader.SAME
        if resent is not None:
            return OnLeader.RESENT
        if there is not None and there.is_unread:
            return OnLeader.UNKNOWN
        return OnLeader.MISSING if there is None or there.record is None else OnLeader.OTHER


def _newer(key: LeadersKey | None) -> Row:
    if key is None:
        return dict.fromkeys(("newer_offset", "newer_leader_epoch", "newer_timestamp_ms"))
    return {"newer_offset": key.offset, "newer_leader_epoch": key.leader_epoch, "newer_timestamp_ms": key.timestamp_ms}


def _unreadable(item: UnreadableRecords, path: str) -> UnsavedRange:
    header = item.header
    return UnsavedRange(
        first_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        code=item.code,
        detail=item.detail,
        remedy=item.remedy,
        path=path,
    )
