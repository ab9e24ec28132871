"""One section of a text of kafka-dump-log in few rows, as the scan of a segment gives them.

`SectionLog` judges every line. What native code does is to pass over lines that look like one that was judged before, and that continue the
log: it knows the form of a batch line (its keys, and the words that stayed the same) and reads the numbers between.
"""

from __future__ import annotations

from contextlib import suppress
from typing import BinaryIO

import numpy as np

from replica_audit.files.text_lines import TextLines
from replica_audit.formats.dump.dump_batches import BATCH, DUMPING, SectionLog
from replica_audit.formats.dump.dump_log import DumpSection
from replica_audit.formats.native import native_code
from replica_audit.formats.native.scan_tables import FORM_END, FORM_WORD, ScanTables
from replica_audit.formats.segment.record_batch import V2_HEADER
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.model import Damage

_INT16, _INT32, _INT64 = 2**15, 2**31, 2**63
_PLACES = 9  # of numbers: eight that the kernel knows by their place, and one for all others
_UNUSED = _PLACES - 1
_NUMBERS = {  # by key: place, least, most
    b"baseOffset:": (0, 0, _INT64 - 1),
    b"lastOffset:": (1, 0, _INT64 - 2),
    b"count:": (2, -1, _INT32 - 1),
    b"position:": (3, 0, _INT64 - 1),
    b"CreateTime:": (4, -_INT64, _INT64 - 1),
    b"LogAppendTime:": (4, -_INT64, _INT64 - 1),
    b"NoTimestampType:": (4, -_INT64, _INT64 - 1),
    b"size:": (5, V2_HEADER.size, _INT32 - 1),
    b"partitionLeaderEpoch:": (6, -_INT32, _INT32 - 1),
    b"crc:": (7, 0, 2**32 - 1),
    b"baseSequence:": (_UNUSED, -_INT32, _INT32 - 1),
    b"producerId:": (_UNUSED, -_INT64, _INT64 - 1),
    b"producerEpoch:": (_UNUSED, -_INT16, _INT16 - 1),
}
_COUNT = 2
_SAME = (b"magic:", b"compresscodec:", b"isvalid:", b"isTransactional:", b"isControl:")
_OF_OLDER_LINES = (b"payloadsize:", b"keysize:")
_MOST_PAUSE = 64  # lines judged one by one where forms change all the time


class Form:
    """What batch lines like one look like, for native code. `intact` is what they all say of their CRC."""

    def __init__(self, line: bytes) -> None:
        """Take the form of a line that was judged to be a batch's.

        Raises:
            ValueError: it has none that native code knows.
        """
        tokens = line.split()
        end = line[len(line.rstrip()) :]
        keys = tokens[::2]
        if b" ".join(tokens) + end != line or len(tokens) % 2 or len(set(keys)) < len(keys) or not end.endswith(b"\n"):
            raise ValueError("not pairs of a key and a value with one blank between")
        if tokens[0] != BATCH[0].rstrip() or any(key in keys for key in _OF_OLDER_LINES):
            raise ValueError("not of magic 2")
        places = [_NUMBERS[key][0] for key in keys if key in _NUMBERS]
        if not {*range(_UNUSED)} - {_COUNT} <= {*places} or len(places) - places.count(_UNUSED) > _UNUSED:
            raise ValueError("not every number once")
        self.intact = tokens[2 * keys.index(b"isvalid:") + 1] == b"true"
        self.has_count = _COUNT in places
        self.line = np.frombuffer(line, np.uint8)
        rows, begin, at = [], 0, 0
        for key, value in zip(keys, tokens[1::2], strict=True):
            at += len(key) + 1
            if key not in _SAME:
                rows.append((begin, at - begin, *_NUMBERS.get(key, (FORM_WORD, 0, 0))))
                begin = at + len(value)
            at += len(value) + 1
        rows.append((begin, len(line) - begin, FORM_END, 0, 0))
        self.rows = np.array(rows, np.int64)


def scan_section(stream: BinaryIO, section: DumpSection) -> Scan:
    """The same for a section of a text as `segment_scan.scan` makes of what `dump_log.batches` gives of it.

    Args:
        stream: the uncompressed text, seekable.
        section: of this text.

    Raises:
        DumpLogError: as `dump_log.batches`.
    """
    stream.seek(section.byte_start)
    return _SectionScan(TextLines(stream, section.byte_start, section.byte_end, section.first_line), section).scan()


class _SectionScan:
    def __init__(self, lines: TextLines, section: DumpSection) -> None:
        self._lines, self._end = lines, section.byte_end
        self._log = SectionLog(section.first_line, section.segment_base_offset)
        self._fold = SegmentFold(0)
        self._tables = ScanTables(self._fold)
        self._numbers = np.zeros(_PLACES, np.int64)
        self._in_python = 0
        self._pause, self._next_pause = 0, 1

    def scan(self) -> Scan:
        """Scan it all."""
        line, log, fold = DUMPING, self._log, self._fold
        while line:
            number = self._lines.number
            line = self._lines.take()
            if not line.startswith(BATCH):
                log.note(line, number)
            elif (item := log.take(line, number)) is not None:
                fold.add(item)
                if isinstance(item, Damage):
                    return fold.scan()
                self._skip_alike(line)
        if (damage := log.end()) is not None:
            fold.add(damage)
        return fold.scan()

    def _skip_alike(self, line: bytes) -> None:
        """Have native code read on, if it is worth that and knows the form of a line."""
        self._in_python += 1
        if self._pause:
            self._pause -= 1
            return
        scan = native_code.text_scanner(self._in_python + (self._end - self._lines.at) // len(line))
        if scan is None:
            return
        before = self._lines.number
        with suppress(ValueError):
            self._natively(scan, Form(line))
        if self._lines.number - before > _MOST_PAUSE:
            self._next_pause = 1
        else:
            self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, _MOST_PAUSE)

    def _natively(self, scan: native_code.TextScan, form: Form) -> None:
        tables, lines, state = self._tables, self._lines, self._tables.state
        tables.set(form_line=form.line.ctypes.data, intact=form.intact, records=0)
        if not form.has_count:
            self._numbers[_COUNT] = -1
        is_more = lines.fill()
        while is_more:
            chunk, begin = lines.chunk, lines.begin
            tables.set(buffer=np.frombuffer(chunk, np.uint8).ctypes.data, begin=begin, end=len(chunk), lines=0, last_line=-1)
            is_more = tables.filled(scan, form.rows, self._numbers)
            at = int(state["last_line"])
            last = chunk[at : chunk.index(b"\n", at) + 1] if at >= 0 else b""
            self._log.passed(last, int(state["records"]), is_deep=bool(state["is_deep"]))
            passed = int(state["begin"]) - begin
            lines.passed(passed, int(state["lines"]))
            is_more = is_more or (passed > 0 and lines.read_on())
