"""One section of a text of kafka-dump-log in few rows, as the scan of a segment gives them.

`SectionLog` judges every line. Lines that look like one that was judged before, and that continue the log, are skipped many at a time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import BinaryIO

from replica_audit.files.text_lines import TextLines
from replica_audit.formats.dump.dump_batches import BATCH, DUMPING, SectionLog, lines_in
from replica_audit.formats.dump.dump_columns import LineForm
from replica_audit.formats.dump.dump_log import DumpSection
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.model import Damage

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
