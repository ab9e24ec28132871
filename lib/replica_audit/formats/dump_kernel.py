"""The loop over the lines of a text of kafka-dump-log, as numba compiles it: batch lines of one form, and record lines between them.

A form is what the line of one batch looks like: the keys in their order, with the words that stay the same. Whatever is not of that form,
or does not continue the log, is left to the reader in Python, which goes on at the same line and alone knows what it is.

Only the compilation imports this module, for numba takes long to import. Addresses and sizes are in bytes.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types

from replica_audit.formats import crc_kernel as memory
from replica_audit.formats.native_code import (
    DONE,
    FORM_END,
    FORM_ROW_BYTES,
    FORM_WORD,
    MORE,
    TEXT_SLOTS,
)
from replica_audit.formats.segment_kernel import into_run, into_window, loaded, pauses, stored

_BUFFER, _BEGIN, _END = (TEXT_SLOTS[name] for name in ("buffer", "begin", "end"))
_POSITION, _NEXT_OFFSET, _FIRST_BAD = (TEXT_SLOTS[name] for name in ("position", "next_offset", "first_bad_crc"))
_RUNS, _RUN_COUNT, _RUNS_LEFT = (TEXT_SLOTS[name] for name in ("runs", "run_count", "runs_left"))
_WINDOWS, _WINDOW_COUNT = (TEXT_SLOTS[name] for name in ("windows", "window_count"))
_FORM, _FORM_ROWS, _NUMBERS, _INTACT = (TEXT_SLOTS[name] for name in ("form", "form_rows", "numbers", "intact"))
_LINES, _RECORDS, _IS_DEEP, _LAST_LINE = (TEXT_SLOTS[name] for name in ("lines", "records", "is_deep", "last_line"))

_MOST_DIGITS = 18  # of a number that surely fits into 64 bits
_WIDEST = 1 << 31  # offsets of a batch
_MINUS, _ZERO, _NINE, _FIRST_VISIBLE, _LAST_VISIBLE, _LINE_END, _BAR = (ord(c) for c in "-09!~\n|")

_load, _byte, _store = memory.load_word, memory.load_byte, memory.store_word


@njit(forceinline=True)
def _is_there(literal: int, size: int, at: int) -> bool:
    """Whether the same bytes stand at two addresses."""
    word = 0
    while word + 8 <= size:
        if _load(literal + word) != _load(at + word):
            return False
        word += 8
    while word < size:
        if _byte(literal + word) != _byte(at + word):
            return False
        word += 1
    return True


@njit(forceinline=True)
def _behind_word(at: int, stop: int) -> int:
    while at < stop and _FIRST_VISIBLE <= _byte(at) <= _LAST_VISIBLE:
        at += 1
    return at


@njit(forceinline=True)
def _number(at: int, stop: int) -> tuple[int, int]:
    """A number in digits, and where it ends; that is 0 if there is none, or one of too many digits."""
    first = at + (1 if at < stop and _byte(at) == _MINUS else 0)
    end, number = first, 0
    while end < stop and end - first <= _MOST_DIGITS and _ZERO <= _byte(end) <= _NINE:
        number = number * 10 + _byte(end) - _ZERO
        end += 1
    if not 0 < end - first <= _MOST_DIGITS:
        return 0, 0
    return (-number if first > at else number), end


@njit
def _behind_line(form: int, rows: int, numbers: int, at: int, stop: int) -> int:
    """Where the line at an address ends, its numbers written; 0 if it is not of the form, or not all there."""
    for row in range(form, form + rows * FORM_ROW_BYTES, FORM_ROW_BYTES):
        size, kind = _load(row + 8), _load(row + 16)
        if at + size > stop or not _is_there(_load(row), size, at):
            return 0
        at += size
        if kind == FORM_END:
            return at
        if kind == FORM_WORD:
            end = _behind_word(at, stop)
            if end == at:
                return 0
        else:
            number, end = _number(at, stop)
            if end == 0 or not _load(row + 24) <= number <= _load(row + 32):
                return 0
            _store(numbers + 8 * kind, number)
        at = end
    return 0


@njit
def _behind_record(at: int, stop: int) -> int:
    """Where the line at an address ends; 0 if that is not there."""
    while at < stop:
        if _byte(at) == _LINE_END:
            return at + 1
        at += 1
    return 0


def line_scanner() -> Any:
    """The scan, compiled: it takes the address of a `TextState`."""

    @njit(types.int64(types.int64))
    def scan(state: int) -> int:
        at, stop = _load(state + _BUFFER) + _load(state + _BEGIN), _load(state + _BUFFER) + _load(state + _END)
        form, rows, numbers = _load(state + _FORM), _load(state + _FORM_ROWS), _load(state + _NUMBERS)
        position, next_offset, runs_left = _load(state + _POSITION), _load(state + _NEXT_OFFSET), _load(state + _RUNS_LEFT)
        lines, records, last_line, intact = 0, _load(state + _RECORDS), -1, _load(state + _INTACT)
        runs, windows = _load(state + _RUNS), _load(state + _WINDOWS)
        run_number, run, window_number, window = _load(state + _RUN_COUNT) - 1, loaded(runs), -1, (-1, 0, 0)
        result = DONE
        while at < stop:
            if pauses(state, position, run_number + 1, window_number + 1):
                result = MORE
                break
            is_record = _byte(at) == _BAR
            end = _behind_record(at, stop) if is_record else _behind_line(form, rows, numbers, at, stop)
            if end == 0:
                break
            if is_record:
                records += 1
                _store(state + _IS_DEEP, 1)
            else:
                base, last, count, told = _load(numbers), _load(numbers + 8), _load(numbers + 16), _load(numbers + 24)
                time, size, epoch, crc = _load(numbers + 32), _load(numbers + 40), _load(numbers + 48), _load(numbers + 56)
                if told != position or base < next_offset or not 0 <= last - base < _WIDEST or count > last - base + 1:
                    break
                if intact == 0 and _load(state + _FIRST_BAD) < 0:
                    _store(state + _FIRST_BAD, position)
                batch_run = (epoch, base, last, 1, count if count >= 0 else last - base + 1, size, time, time, 2, intact)
                run_number, run = into_run(runs, run_number, run, batch_run, run_number + 1 >= runs_left)
                window_number, window = into_window(windows, window_number, window, base, last - base, crc)
                position, next_offset, records, last_line = position + size, last + 1, 0, at
            lines, at = lines + 1, end
        stored(runs, run_number, run)
        stored(windows, window_number, window)
        _store(state + _RUN_COUNT, run_number + 1)
        _store(state + _WINDOW_COUNT, window_number + 1)
        _store(state + _POSITION, position)
        _store(state + _NEXT_OFFSET, next_offset)
        _store(state + _BEGIN, at - _load(state + _BUFFER))
        _store(state + _LINES, _load(state + _LINES) + lines)
        _store(state + _RECORDS, records)
        if last_line >= 0:
            _store(state + _LAST_LINE, last_line - _load(state + _BUFFER))
        return result

    return scan
