"""Text of kafka-dump-log, run with --cluster-metadata-decoder on a copy of KRaft's metadata log: the metadata at its end.

Source: DumpLogSegments, 2.7 to 4.3. Records have their offset unless --skip-record-metadata left it out; then they follow each other, for
nothing compacts this log. Text of snapshots is not read: a text that does not begin with the log says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from replica_audit.errors import DumpLogError, MetadataError
from replica_audit.files.locations import located
from replica_audit.files.packed_text import open_text
from replica_audit.files.text_lines import TextLines
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.dump.dump_batches import BATCH, DUMPING, SectionLog, lines_in
from replica_audit.formats.dump.dump_log import parts, sections
from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.formats.metadata.metadata_json import decode_json
from replica_audit.formats.metadata.metadata_log import MetadataLog, Replay, Stop
from replica_audit.model import BatchHeader, Damage, Problem, SegmentFile
from replica_audit.protocol.cluster.metadata_image import Position

_KIND = "metadata-log"
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
