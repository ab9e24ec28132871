"""The loop over the lines of a text of kafka-dump-log, for numba to compile: batch lines of one form, and record lines between them.

A form is what the line of one batch looks like: its words, and where numbers or other words stand between them. Whatever is not of that
form, or does not continue the log, is left to the reader in Python, which goes on at the same line and alone knows what it is.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from replica_audit.formats.native import crc_kernel as memory
from replica_audit.formats.native.scan_tables import DONE, FORM_END, FORM_WORD, MORE
from replica_audit.formats.native.segment_kernel import finish, into_run, into_window, last_run
from replica_audit.model import BatchRun

_MOST_DIGITS = 18  # of a number that surely fits into 64 bits
_WIDEST = 1 << 31  # offsets of a batch
_MINUS, _ZERO, _NINE, _FIRST_VISIBLE, _LAST_VISIBLE, _LINE_END, _BAR = (ord(c) for c in "-09!~\n|")
_byte, _word = memory.byte, memory.word


@njit
def _is_there(literal: int, size: int, at: int) -> bool:
    """Whether the same bytes stand at two addresses."""
    for here in range(0, size - 7, 8):
        if _word(literal + here) != _word(at + here):
            return False
    same = True
    for here in range(size // 8 * 8, size):
        same &= _byte(literal + here) == _byte(at + here)
    return same


@njit
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
def _behind_line(line: int, form: Any, numbers: Any, at: int, stop: int) -> int:
    """Where the line at an address ends, its numbers written; 0 if it is not of the form, or not all there."""
    for row in range(len(form)):
        literal, size, kind, least, most = form[row]
        if at + size > stop or not _is_there(line + literal, size, at):
            return 0
        at += size
        if kind == FORM_END:
            return at
        end = at
        if kind == FORM_WORD:
            while end < stop and _FIRST_VISIBLE <= _byte(end) <= _LAST_VISIBLE:
                end += 1
        else:
            numbers[kind], end = _number(at, stop)
            if not least <= numbers[kind] <= most:
                return 0
        if end <= at:
            return 0
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


@njit
def scan(words: Any, runs: Any, windows: Any, form: Any, numbers: Any) -> int:
    """Take lines from byte `begin` of the buffer on: a state (STATE, in an array of one), tables, a form, and room for a line's numbers."""
    state = words[0]
    at, stop, line, last_line = state.buffer + state.begin, state.buffer + state.end, state.form_line, -1
    position, next_offset, records = state.position, state.next_offset, state.records
    run_number, run, window_number, window = state.run_count - 1, last_run(runs), -1, (-1, 0, 0)
    result = DONE
    while at < stop:
        if run_number + 1 >= len(runs) or window_number + 1 >= len(windows):
            result = MORE
            break
        is_record = _byte(at) == _BAR
        end = _behind_record(at, stop) if is_record else _behind_line(line, form, numbers, at, stop)
        if end == 0:
            break
        if is_record:
            records += 1
            state.is_deep = 1
        else:
            base, last, count, place = numbers[0], numbers[1], numbers[2], numbers[3]
            time, size, epoch, crc = numbers[4], numbers[5], numbers[6], numbers[7]
            if place != position or base < next_offset or not 0 <= last - base < _WIDEST or count > last - base + 1:
                break
            if state.intact == 0 and state.first_bad_crc < 0:
                state.first_bad_crc = position
            batch = BatchRun(epoch, base, last, 1, count if count >= 0 else last - base + 1, size, time, time, 2, state.intact)
            run_number, run = into_run(runs, run_number, run, batch, state.runs_left)
            window_number, window = into_window(windows, window_number, window, base, last - base, crc)
            position, next_offset, records, last_line = position + size, last + 1, 0, at
        state.lines += 1
        at = end
    finish(state, runs, windows, run_number, run, window_number, window)
    state.position, state.next_offset = position, next_offset
    state.begin, state.records = at - state.buffer, records
    if last_line >= 0:
        state.last_line = last_line - state.buffer
    return result
