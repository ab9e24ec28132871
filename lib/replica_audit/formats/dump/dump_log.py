"""Text of kafka-dump-log, 0.10 to 4.x: which part of it tells which segment, and the batches that it tells.

Source: DumpLogSegments (kafka.tools up to 4.2, org.apache.kafka.tools from 4.3). Lines are `key: value` pairs whose number and order differ
between versions, so each is read by the keys it has. Texts with record lines (`| ...`, from 2.2 on) are read by their batch lines.

Contents printed by --print-data-log are raw and may hold anything, also lines that look like a batch. Such a line is told apart because it
does not continue the log: a batch's byte position and least offset follow from the batch before. One that fits exactly cannot be told
apart, nor can a forged `Dumping` line with a `Starting offset` line behind it: audit texts without contents.
Not seen is what the text does not show: a cut right behind a line, or an error that went to an stderr which was not captured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from sys import maxsize
from typing import BinaryIO

from replica_audit.errors import DumpLogError
from replica_audit.files.text_files import MOST_ABOVE, TextLines
from replica_audit.formats.dump import pasted_text
from replica_audit.formats.dump.dump_batches import BATCH, DUMPING, STARTING, LineForm, SectionLog, lines_in, number_in
from replica_audit.formats.dump.pasted_text import Command, command_above, is_limited, why_a_part
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.model import BatchHeader, Damage

LOG = ".log"
KINDS = (LOG, ".snapshot", ".txnindex")
_OTHER_FILES = (b".index", b".timeindex", b".txnindex", b".snapshot", b".checkpoint")
_JVM = (b"OpenJDK ", b"Java HotSpot", b"Picked up ", b"SLF4J", b"log4j:", b"WARN", b"[")
_CUT = "the text ends inside a 'Dumping' line: dump that file and the following ones again"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSection:
    """The part of a text that tells one segment, or one producer snapshot or index of aborted transactions: `kind` is the file's suffix.

    `path` is that of the `Dumping` line, with either kind of separator; of it `log_dir` and the replica's `directory`, empty where it has
    none, and `segment_base_offset`, the number in the file's name. `first_line` counts from 1; `byte_start` (inclusive) and `byte_end`
    (exclusive) are bytes of the uncompressed text, the `Dumping` line included. `command` is the last one above it, that made it and
    perhaps the sections before; `end_line` (exclusive) is where the section ends. `stops_early`: kafka-dump-log was told to stop before the
    end of the file.
    """

    path: str
    log_dir: str
    directory: str
    segment_base_offset: int | None
    first_line: int
    byte_start: int
    byte_end: int
    kind: str = LOG
    command: Command | None = None
    end_line: int = 0
    stops_early: bool = False


def looks_like_dump(head: bytes) -> bool:
    """Whether a file with these first bytes (some 16 KiB, uncompressed) is text of kafka-dump-log.

    Warnings of the JVM may come first, and what a person pastes along: the prompt with the command, a fence.
    """
    above = b""
    for line in head.splitlines():
        if line.startswith((DUMPING, *STARTING, BATCH[0])) or (line.startswith(BATCH[1]) and b" position:" in line):
            return True
        if not pasted_text.may_precede(line, above):
            return pasted_text.other_file(line) is not None
        above = line
    return False


def sections(stream: BinaryIO) -> Iterator[DumpSection]:
    """The parts of a text that tell `.log` files, as of `all_sections`."""
    return (section for section in all_sections(stream) if section.kind == LOG)


def all_sections(stream: BinaryIO) -> Iterator[DumpSection]:
    """The parts of a text that tell files of a `kind`, in order; parts that tell other files are left out.

    What tells a log before the first `Dumping` line is a section with an empty path, its base offset that of the `Starting offset` line.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.

    Raises:
        DumpLogError: the text ends inside a `Dumping` line. Raised behind all sections.
    """
    section: DumpSection | None = None
    dumping: tuple[bytes, int, int] | None = None
    command: Command | None = None
    begun, line, above = False, DUMPING, b""
    lines = TextLines(stream, 0, maxsize)
    while line:
        if begun and dumping is None:
            above = lines.skip_to(DUMPING)
        at, number = lines.at, lines.number
        line = lines.take()
        for place, part in enumerate(lines_in(line)):
            if dumping is not None and part.isspace():
                continue  # a text that was pasted may have blank lines anywhere
            if dumping is not None and _begins(dumping[0], part, is_first=not begun):
                if section is not None:
                    yield replace(section, byte_end=dumping[2], end_line=dumping[1])
                command = command_above(above, dumping[1]) or command
                section, begun, above = _section(*dumping, command), True, b""
            dumping = (part, number, at) if part.startswith(DUMPING) and not place else None
            if not begun and part.startswith((*BATCH, *STARTING)) and pasted_text.other_file(part) is None:
                command = command_above(above, number)
                section, begun = _section(part, number, at, command), True
            if not begun and dumping is None:
                above = (above + part)[-MOST_ABOVE:]
            if not part and section is not None:
                yield replace(section, byte_end=at, end_line=number)


def parts(made: Sequence[DumpSection]) -> Iterator[tuple[Command, str]]:
    """The commands in a text that say that their output is only a part, each with how; `made` are the sections of the text, in order."""
    for command in dict.fromkeys(section.command for section in made if section.command is not None):
        own = [section for section in made if section.command == command]
        files = [re.split(r"[/\\]", section.path)[-1] for section in own]
        why = why_a_part(command.text, own[-1].end_line - own[0].first_line, files)
        if why is not None:
            yield command, f"the command above it says that it is only a part: {why!r}"


def _begins(dumping: bytes, line: bytes, *, is_first: bool) -> bool:
    """Whether a `Dumping` line begins the dump of a file, and is not the content of a record, judged by the line behind it.

    The first one, with nothing told before it, always does.
    """
    path = dumping.rstrip(b"\r\n")
    if not dumping.endswith(b"\n") or path.endswith(_OTHER_FILES):
        return True
    starts = not line.endswith(b"\n") or line.startswith((DUMPING, *STARTING, b"Exception ", *_JVM))
    starts = starts or is_first or pasted_text.leaves_out(line) or (line.startswith(BATCH) and b" position: 0 " in line)
    return path.endswith(b".log") and starts


def _section(line: bytes, number: int, at: int, command: Command | None) -> DumpSection | None:
    """The section that a line begins; None if it is the `Dumping` line of another kind of file."""
    is_named = line.startswith(DUMPING)
    path = line.removeprefix(DUMPING).rstrip(b"\r\n").decode("utf-8", "replace") if is_named else ""
    kind = next((kind for kind in KINDS if path.endswith(kind)), None) if is_named else LOG
    if kind is None:
        if not line.endswith(b"\n"):
            raise DumpLogError(_CUT, line=number, byte_offset=at)
        return None
    above, _, name = path.replace("\\", "/").rpartition("/")
    log_dir, _, directory = above.rstrip("/").rpartition("/")
    return DumpSection(
        path=path,
        log_dir=path[: len(log_dir)].rstrip("/\\"),
        directory=directory,
        segment_base_offset=number_in(name.partition(".")[0].encode() if is_named else _first_offset(line)),
        first_line=number,
        byte_start=at,
        byte_end=at,
        kind=kind,
        command=command,
        stops_early=command is not None and is_limited(command.text),
    )


def _first_offset(line: bytes) -> bytes:
    """The digits of the offset with which a segment begins, as the first line that is left of its dump has it; none if it has not."""
    if not line.startswith(BATCH):
        return line.rpartition(b"offset: ")[2]
    is_known = line.startswith(BATCH[0]) or b" compresscodec: NONE" in line  # of other legacy entries only the last offset
    return line.split()[1] if is_known and b" position: 0 " in line and len(line.split()) > 1 else b""


def batches(stream: BinaryIO, section: DumpSection) -> Iterator[BatchHeader | Damage]:
    """The batches of one section in file order; a `Damage` comes last if the text tells of one or is itself damaged.

    Legacy entries print their last offset only: a compressed one is taken to begin behind the batch before it.

    Args:
        stream: the uncompressed text, seekable.
        section: of this text; only its base offset, first line and byte range are used, and whether it stops early.

    Raises:
        DumpLogError: the section tells records instead of batches (0.10 to 2.1 with --deep-iteration), or kafka-dump-log could not read the
            segment. In such a text of 0.10 a last compressed entry of one record goes unnoticed.
    """
    stream.seek(section.byte_start)
    log = SectionLog(section.first_line, section.segment_base_offset, stops_early=section.stops_early)
    lines, line = TextLines(stream, section.byte_start, section.byte_end, section.first_line), DUMPING
    while line:
        number = lines.number
        line = lines.take()
        for part in lines_in(line):
            if not part.startswith(BATCH):
                log.note(part, number)
            elif (item := log.take(part, number)) is not None:
                if log.went_back is not None:
                    yield log.went_back
                yield item
                if item.__class__ is Damage:
                    return
    if (damage := log.end()) is not None:
        yield damage


# One section of a text of kafka-dump-log in few rows, as the scan of a segment gives them.
# `SectionLog` judges every line. Lines that look like one that was judged before, and that continue the log, are skipped many at a time.

_WORTH_IT = 64  # lines: as many columns cost as these one by one
_LEAST, _MOST = 1 << 14, 1 << 20  # bytes of text at once; what was left of a line comes on top
_MOST_PAUSE = 64  # times as many lines, judged one by one where forms change all the time


def scan_section(stream: BinaryIO, section: DumpSection) -> Scan:
    """The same for a section of a text as `segment_scan.scan` makes of what `dump_log.batches` gives of it.

    Args:
        stream: the uncompressed text, seekable.
        section: of this text.

    Raises:
        DumpLogError: as `dump_log.batches`.
    """
    stream.seek(section.byte_start)
    lines = TextLines(stream, section.byte_start, section.byte_end, section.first_line, at_once=_MOST)
    return _SectionScan(lines, section).scan()


class _SectionScan:
    def __init__(self, lines: TextLines, section: DumpSection) -> None:
        self._lines, self._end = lines, section.byte_end
        self._log = SectionLog(section.first_line, section.segment_base_offset, stops_early=section.stops_early)
        self._fold = SegmentFold(0)
        self._at_once = _LEAST
        self._pause, self._next_pause = 0, 1

    def scan(self) -> Scan:
        """Scan it all."""
        line, log, fold = DUMPING, self._log, self._fold
        while line:
            number = self._lines.number
            line = self._lines.take()
            item = None
            for part in lines_in(line):
                item = None
                if not part.startswith(BATCH):
                    log.note(part, number)
                elif (item := log.take(part, number)) is not None:
                    if log.went_back is not None:
                        fold.add(log.went_back)
                    fold.add(item)
                    if isinstance(item, Damage):
                        return fold.scan()
            if item is not None:
                self._skip_alike(line)
        if (damage := log.end()) is not None:
            fold.add(damage)
        return fold.scan()

    def _skip_alike(self, line: bytes) -> None:
        """Pass over lines like one, if that is worth it and they have a form."""
        if self._pause:
            self._pause -= 1
            return
        if self._end - self._lines.at < _WORTH_IT * len(line):
            return
        before = self._lines.number
        with suppress(ValueError):
            self._skip(LineForm(line))
        if self._lines.number - before > _WORTH_IT:
            self._next_pause = 1
        else:
            self._pause, self._next_pause = _WORTH_IT * self._next_pause, min(2 * self._next_pause, _MOST_PAUSE)

    def _skip(self, form: LineForm) -> None:
        """Pass over lines of a form; the more at once the longer that goes well."""
        lines, fold = self._lines, self._fold
        while lines.fill():
            text = lines.whole(self._at_once)
            if not text and lines.read_on():
                continue
            if not text.startswith(BATCH[0]):
                return
            found = form.batches(text, fold.position, fold.next_offset)
            if found is None and len(text) > _LEAST:
                self._at_once = max(_LEAST, self._at_once // 8)
                continue
            if not found:
                return
            fold.add_columns(found)
            passed = text if len(found) == text.count(b"\n") else b"".join(text.splitlines(keepends=True)[: len(found)])
            self._log.passed(passed[passed.rfind(b"\n", 0, -1) + 1 :])
            lines.passed(len(passed), len(found))
            if len(passed) < len(text):
                return
            self._at_once = min(2 * _MOST, 2 * self._at_once)
