"""A copy of KRaft's metadata log (`__cluster_metadata-0`), its segments and snapshots or text of them → the metadata at its end.

Sources: Snapshots (file names), RecordsSnapshotReader, MetadataLoader, MetadataBatchLoader (metadata transactions, KIP-868), 4.2.0.
What a copy holds behind the quorum's high watermark is not known from the files: the last records of a copy may never have been committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica_audit.errors import DumpLogError, MetadataError
from replica_audit.files.locations import located
from replica_audit.files.text_files import TextLines, open_text
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.dump.dump_batches import BATCH, DUMPING, SectionLog, lines_in
from replica_audit.formats.dump.dump_log import parts, sections
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.formats.metadata.metadata_records import ABORT_TRANSACTION, BEGIN_TRANSACTION, END_TRANSACTION, decode, decode_json
from replica_audit.formats.segment.records import Record, UnreadableRecords, read_records
from replica_audit.formats.segment.segment_scan import TAILS
from replica_audit.model import BatchHeader, BrokerEvent, BrokerStanding, Damage, MinIsrSetting, PartitionMetadata, Problem, SegmentFile
from replica_audit.protocol.cluster.metadata_image import (
    METADATA_VERSION,
    UNKNOWN_TIME,
    MetadataImage,
    MetadataRecord,
    Position,
)
from replica_audit.words import count

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SNAPSHOT_FOOTER = b"\x00\x00\x00\x04"  # key of the control record that ends a snapshot: version 0, type 4
_KIND = "metadata-log"
_REMEDY = "copy the directory again, or give the copy of another broker or controller: the longest one is used"


class Snapshot(NamedTuple):
    """A snapshot file: the metadata up to `end_offset` (exclusive), whose last record was of `epoch`."""

    path: Path
    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLog:
    """What one copy of the metadata log says.

    `log_epoch` is that of its last batch, `log_end_offset` exclusive; `last_timestamp_ms` is when the controller appended the last batch.
    `brokers` are those that are registered, by their ids; `metadata_version` is None where no record sets the feature.
    `broker_events` is every change of a registration, `min_isr` every setting of min.insync.replicas but the topics' own.
    """

    partitions: tuple[PartitionMetadata, ...]
    brokers: tuple[BrokerStanding, ...]
    metadata_version: int | None
    log_epoch: int
    log_end_offset: int
    last_timestamp_ms: int | None
    problems: tuple[Problem, ...]
    broker_events: tuple[BrokerEvent, ...] = ()
    min_isr: tuple[MinIsrSetting, ...] = ()


def read(directory: Path) -> MetadataLog:
    """Replay one copy, from its first segment where that is the beginning of the log, else from the oldest snapshot that the log continues.

    Epochs are counted record by record, so nothing behind damage or a hole counts, until a snapshot tells the whole state again. Nothing
    raises for what the directory may hold: what cannot be read is a problem, and what was replayed before it stays.
    """
    replay = Replay(directory)
    replay.run()
    return replay.result()


class Stop(Exception):
    """The log cannot be followed any farther."""


class Replay:
    """The state of one copy, up to the last record that was replayed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.image = MetadataImage()
        self.problems: list[Problem] = []
        self.epoch, self.end_offset = -1, 0
        self.timestamp_ms: int | None = None
        self._pending: list[tuple[MetadataRecord, Position]] | None = None  # of an open metadata transaction

    def run(self) -> None:
        """Read the directory."""
        try:
            names = sorted(entry.name for entry in self.directory.iterdir() if entry.is_file())
        except OSError as error:
            self.problems.append(cannot_read(self.directory, _KIND, error))
            return
        segments = [self.directory / file for file in names if (name := log_dir.segment_name(file)) and not name.suffix]
        snapshots = [snapshot for file in names if (snapshot := self._named(file)) is not None]
        if not segments and not snapshots:
            self.tell(self.directory, "no-segments", "neither a segment nor a snapshot of the metadata log in it")
        hole = self._follow(segments)
        while snapshots:
            usable = [snapshot for snapshot in snapshots if snapshot.end_offset > self.end_offset]
            continued = [snapshot for snapshot in usable if hole is not None and snapshot.end_offset >= hole]
            chosen = next(iter(continued), usable[-1] if usable else None)
            if chosen is None:
                break
            snapshots.remove(chosen)
            if self._snapshot(chosen):
                hole = self._follow(segments)
        if hole is not None:
            detail = f"offsets {self.end_offset}..{hole - 1} are in no segment, and no readable snapshot reaches offset {hole}"
            self.tell(self.directory, "incomplete", detail)

    def _named(self, file: str) -> Snapshot | None:
        """The snapshot that a file is by its name."""
        match = _SNAPSHOT.fullmatch(file)
        if match is None:
            return None
        found = Snapshot(self.directory / file, int(match[1]), int(match[2]))
        if found.end_offset < 1 << 63 and found.epoch < 1 << 31:
            return found
        self.tell(found.path, "malformed", "no snapshot ends at such an offset, or in such an epoch")
        return None

    def _follow(self, segments: Sequence[Path]) -> int | None:
        """Replay what the segments hold from the end offset on; where it goes on behind a hole, None if there is none."""
        for path in segments:
            try:
                for batch, records in self._batches(path, self.end_offset):
                    if batch.base_offset > self.end_offset:
                        return batch.base_offset
                    if batch.last_offset >= self.end_offset:
                        self._batch(path, batch, records)
            except Stop:
                return None
        return None

    def _batch(self, path: Path, batch: BatchHeader, records: Sequence[Record]) -> None:
        for record in records if not batch.is_control else ():
            if record.offset >= self.end_offset:
                self._record(path, record, batch)
        self.epoch, self.end_offset, self.timestamp_ms = batch.leader_epoch, batch.last_offset + 1, batch.max_timestamp_ms

    def _snapshot(self, snapshot: Snapshot) -> bool:
        """Load a snapshot if all of it can be read."""
        at = Position(snapshot.end_offset - 1, snapshot.epoch, UNKNOWN_TIME)  # its batches tell when it was written
        image, ended, timestamp = self.image.restarted(at), False, self.timestamp_ms
        try:
            for batch, records in self._batches(snapshot.path):
                ended = batch.is_control and any(record.key == _SNAPSHOT_FOOTER for record in records)
                timestamp = batch.max_timestamp_ms
                for record in records if not batch.is_control else ():
                    decoded = self._decoded(snapshot.path, record)
                    if decoded is not None and not isinstance(decoded, int):
                        self._apply(snapshot.path, image, decoded, at, from_snapshot=True)
        except Stop:
            ended = False
        if not ended:
            self.tell(snapshot.path, "incomplete", "the snapshot has no end, or cannot be read")
            return False
        self.image, self._pending = image, None
        self.epoch, self.end_offset, self.timestamp_ms = snapshot.epoch, snapshot.end_offset, timestamp
        return True

    def _record(self, path: Path, record: Record, batch: BatchHeader) -> None:
        self.take(path, self._decoded(path, record), Position(record.offset, batch.leader_epoch, batch.max_timestamp_ms))

    def take(self, path: Path, decoded: MetadataRecord | int | None, at: Position) -> None:
        """Replay the next record, or a mark of a metadata transaction.

        Raises:
            Stop: it cannot be.
        """
        if decoded == BEGIN_TRANSACTION:
            self._pending = []
        elif decoded == END_TRANSACTION:
            for made, then in self._pending or ():
                self._apply(path, self.image, made, then)
            self._pending = None
        elif decoded == ABORT_TRANSACTION:
            self._pending = None
        elif decoded is not None and not isinstance(decoded, int):
            if self._pending is None:
                self._apply(path, self.image, decoded, at)
            else:
                self._pending.append((decoded, at))

    def _batches(self, path: Path, known_until: int = 0) -> Iterator[tuple[BatchHeader, tuple[Record, ...]]]:
        """The batches of a file up to the first that cannot be read, which becomes a problem; a torn end is none, it just ends the file.

        Nor does it matter what batches below the offset `known_until` hold.
        """
        try:
            for item in read_records(path):
                if not isinstance(item, Damage | UnreadableRecords):
                    yield item
                elif isinstance(item, UnreadableRecords) and item.header.last_offset < known_until:
                    continue
                elif item.code in TAILS:
                    return
                else:
                    self.tell(path, item.code, item.detail, item.byte_offset)
                    raise Stop
        except OSError as error:
            self.problems.append(cannot_read(path, _KIND, error))
            raise Stop from None

    def _decoded(self, path: Path, record: Record) -> MetadataRecord | int | None:
        if record.value is None:
            return None
        try:
            return decode(record.value)
        except MetadataError as error:
            self.tell(path, "malformed-record", f"the record at offset {record.offset}: {error.reason}")
            raise Stop from None

    def _apply(self, path: Path, image: MetadataImage, record: MetadataRecord, at: Position, *, from_snapshot: bool = False) -> None:
        try:
            image.apply(record, at, from_snapshot=from_snapshot)
        except OverflowError as error:
            self.tell(path, "malformed-record", f"the record at offset {at.offset}: {error}")
            raise Stop from None

    def tell(self, path: Path, code: str, detail: str, byte_offset: int | None = None) -> None:
        """Note a problem, once."""
        problem = Problem(path=str(path), kind=_KIND, code=code, detail=detail, remedy=_REMEDY, byte_offset=byte_offset)
        if problem not in self.problems:  # a segment is read again behind a snapshot
            self.problems.append(problem)

    def result(self) -> MetadataLog:
        """What was replayed."""
        if self.image.orphans:
            self.tell(self.directory, "incomplete", f"{count(self.image.orphans, 'change')} of partitions that no record created")
        return MetadataLog(
            partitions=tuple(self.image.partitions(self.epoch, self.end_offset)),
            brokers=tuple(standing for _broker, standing in sorted(self.image.brokers.items())),
            metadata_version=self.image.features.get(METADATA_VERSION),
            log_epoch=self.epoch,
            log_end_offset=self.end_offset,
            last_timestamp_ms=self.timestamp_ms,
            problems=tuple(self.problems),
            broker_events=tuple(self.image.broker_events),
            min_isr=tuple(self.image.min_isr.of_brokers),
        )


# Text of kafka-dump-log, run with --cluster-metadata-decoder on a copy of KRaft's metadata log: the metadata at its end.
# Source: DumpLogSegments, 2.7 to 4.3. Records have their offset unless --skip-record-metadata left it out; then they follow each other,
# for nothing compacts this log. Text of snapshots is not read: a text that does not begin with the log says nothing.

_DIRECTORY = f"{METADATA_TOPIC}-0"
_PAYLOAD = re.compile(rb"(?:\| offset: (\d{1,19}) .*?|\|)? ?payload: (\{.*)")
_DECODE = "dump the segments from the first on again, with --cluster-metadata-decoder, or copy them"
Records = list[tuple[int, str]]  # offsets and JSON


def read_text(directory: Path, files: Sequence[SegmentFile]) -> MetadataLog:
    """Replay what texts show of one copy.

    That a text is cut, or leaves something out, is told where its batches are read. Nothing raises for what a text may hold.

    Args:
        directory: of the log.
        files: its segments as text, in any order.
    """
    replay = Replay(directory)
    _replay(replay, files, [])
    return replay.result()


def read_file(path: Path) -> MetadataLog:
    """The same of a text that lies beside the brokers' folders, of which nothing else is told.

    Raises:
        DumpLogError: it ends inside a `Dumping` line.
        OSError: it cannot be read.
    """
    with open_text(path) as stream:
        found = [section for section in sections(stream) if section.directory in ("", _DIRECTORY)]
    files = [
        SegmentFile(
            path=str(path),
            source="dump",
            base_offset=section.segment_base_offset or 0,
            size_bytes=section.byte_end - section.byte_start,
            byte_start=section.byte_start,
            byte_end=section.byte_end,
            first_line=section.first_line,
            stops_early=section.stops_early,
        )
        for section in found
    ]
    replay: Replay = Replay(path)
    damages: list[Damage] = []
    _replay(replay, files, damages)
    if not files:
        replay.tell(path, "incomplete", f"no part of the text is of {_DIRECTORY}")
    for _command, why in parts(found):
        replay.tell(path, "dump-truncated", why)
    for damage in damages:
        replay.tell(path, damage.code, damage.detail)
    return replay.result()


def _replay(replay: Replay, files: Sequence[SegmentFile], damages: list[Damage]) -> None:
    for file in sorted(files, key=lambda file: file.base_offset):
        try:
            _follow(replay, file, damages)
        except Stop:
            break
        except OSError as error:
            replay.problems.append(cannot_read(located(file.path), _KIND, error))
            break


def _follow(replay: Replay, file: SegmentFile, damages: list[Damage]) -> None:
    path = located(file.path)
    for batch, records in _batches(file, damages):
        if batch.base_offset > replay.end_offset:
            detail = f"offsets {replay.end_offset}..{batch.base_offset - 1} are in no text: what follows them is not read"
            replay.tell(path, "incomplete", detail)
            raise Stop
        if not batch.is_control and len(records) != batch.last_offset - batch.base_offset + 1:
            _tell_undecoded(replay, path, batch, any_records=bool(records))
            raise Stop
        for offset, content in records if not batch.is_control else ():
            if offset < replay.end_offset:
                continue
            try:
                decoded = decode_json(content)
            except MetadataError as error:
                replay.tell(path, "malformed-record", f"the record at offset {offset}: {error.reason}")
                raise Stop from None
            replay.take(path, decoded, Position(offset, batch.leader_epoch, batch.max_timestamp_ms))
        replay.epoch, replay.end_offset, replay.timestamp_ms = batch.leader_epoch, batch.last_offset + 1, batch.max_timestamp_ms


def _tell_undecoded(replay: Replay, path: Path, batch: BatchHeader, *, any_records: bool) -> None:
    """That the records of a batch are not shown: of none, as without the decoder, or not of all, where the text was cut."""
    where = f"the batch at offsets {batch.base_offset}..{batch.last_offset}"
    if any_records:
        replay.tell(path, "incomplete", f"not every record of {where} is shown")
    else:
        detail = f"{where} is shown without its records: what it says of leaders is not known"
        replay.problems.append(Problem(path=str(path), kind=_KIND, code="metadata-not-used", detail=detail, remedy=_DECODE))


def _batches(file: SegmentFile, damages: list[Damage]) -> Iterator[tuple[BatchHeader, Records]]:
    """Each batch with its records, up to where the text stops telling a log; why it does is added to `damages`."""
    log = SectionLog(file.first_line, file.base_offset, stops_early=file.stops_early)
    batch: BatchHeader | None = None
    records: Records = []
    with open_text(located(file.path)) as stream:
        stream.seek(file.byte_start)
        lines, line = TextLines(stream, file.byte_start, file.byte_end, file.first_line), DUMPING
        while line:
            number = lines.number
            line = lines.take()
            for part in lines_in(line):
                if not part.startswith(BATCH):
                    log.note(part, number)
                    if batch is not None and (found := _PAYLOAD.match(part)):
                        offset = batch.base_offset + len(records) if found[1] is None else int(found[1])
                        records.append((offset, found[2].decode("utf-8", "replace").rstrip()))
                    continue
                try:
                    item = log.take(part, number)
                except DumpLogError as error:
                    item = Damage(code="unusable-dump", detail=error.reason, byte_offset=0)
                if item is None:
                    continue
                if batch is not None:
                    yield batch, records
                if isinstance(item, Damage):
                    damages.append(item)
                    return
                batch, records = item, []
    if batch is not None:
        yield batch, records
    damage = log.end()
    damages += [] if damage is None else [damage]
