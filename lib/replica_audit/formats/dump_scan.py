"""One section of a text of kafka-dump-log in few rows, as the scan of a segment gives them.

`SectionLog` judges every line. What native code does is to pass over lines that look like one that was judged before, and that continue the
log: it knows the form of a batch line (its keys, and the words that stayed the same) and reads the numbers between.
"""

from __future__ import annotations

import ctypes
from sys import maxsize
from typing import BinaryIO

from replica_audit.formats import native_code
from replica_audit.formats.dump_batches import BATCH, DUMPING, SectionLog
from replica_audit.formats.dump_log import DumpSection
from replica_audit.formats.native_code import FORM_END, FORM_ROW_BYTES, FORM_WORD, Scanner, TextState
from replica_audit.formats.native_scan import Tables, address_of
from replica_audit.formats.record_batch import V2_HEADER
from replica_audit.formats.segment_scan import MAX_RUNS, Scan, SegmentFold
from replica_audit.formats.text_lines import TextLines
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
        self._literals: list[ctypes.Array[ctypes.c_char]] = []
        self._rows: list[int] = []
        literal = b""
        for key, value in zip(keys, tokens[1::2], strict=True):
            literal += key + b" "
            if key in _SAME:
                literal += value + b" "
                continue
            self._add(literal, *_NUMBERS.get(key, (FORM_WORD, 0, 0)))
            literal = b" "
        self._add(literal.removesuffix(b" ") + end, FORM_END, 0, 0)
        self._table = (ctypes.c_int64 * len(self._rows))(*self._rows)

    def _add(self, literal: bytes, kind: int, least: int, most: int) -> None:
        kept = ctypes.create_string_buffer(literal, len(literal))
        self._literals.append(kept)
        self._rows += (ctypes.addressof(kept), len(literal), kind, least, most)

    def show(self, state: TextState) -> None:
        """Have a state point to it."""
        state.form, state.form_rows = ctypes.addressof(self._table), len(self._rows) * 8 // FORM_ROW_BYTES
        state.intact = self.intact


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
        self._state = TextState(stop=maxsize)
        self._numbers = (ctypes.c_int64 * _PLACES)()
        self._state.numbers = ctypes.addressof(self._numbers)
        self._tables = Tables(self._state, MAX_RUNS)
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
        native = native_code.text_scanner(self._in_python + (self._end - self._lines.at) // len(line))
        if native is None:
            return
        before = self._lines.number
        try:
            form = Form(line)
        except ValueError:
            form = None
        if form is not None:
            self._natively(native, form)
        if self._lines.number - before > _MOST_PAUSE:
            self._next_pause = 1
        else:
            self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, _MOST_PAUSE)

    def _natively(self, native: Scanner, form: Form) -> None:
        state, lines, fold = self._state, self._lines, self._fold
        form.show(state)
        if not form.has_count:
            self._numbers[_COUNT] = -1
        self._tables.begin(fold)
        state.records = 0
        is_more = lines.fill()
        while is_more and self._tables.have_room(fold):
            chunk = lines.chunk
            begin = lines.begin
            state.buffer, state.begin, state.end = address_of(chunk), begin, len(chunk)
            state.lines, state.last_line = 0, -1
            is_more = self._tables.filled(native, fold)
            last = chunk[state.last_line : chunk.index(b"\n", state.last_line) + 1] if state.last_line >= 0 else b""
            self._log.passed(last, state.records, is_deep=bool(state.is_deep))
            lines.passed(state.begin - begin, state.lines)
            is_more = is_more or (state.begin > begin and lines.read_on())
