"""Between the native scan, which works on tables of 64-bit words, and the values that Python folds batches into."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Protocol

from replica_audit.formats.content_digest import WindowSums
from replica_audit.formats.native_code import HEADER_BYTES, MORE, RUN_BYTES, SKIP_FROM, WINDOW_BYTES, Scanner, ScanState
from replica_audit.model import Run

BUFFER_BYTES = 1 << 18  # stays in the second-level cache: what is checked was just copied there
SMALLEST_BUFFER = 64  # a header fits
WINDOW_BYTES_READ = 1 << 23  # of a stream at once: some ten requests' worth of waiting
CALL_BYTES = 1 << 26  # after which Python sees to signals
MAP_BYTES = 1 << 23  # of a map: several batches of the size that brokers take (message.max.bytes: 1 MiB)
_POPULATE_READ = 22  # MADV_POPULATE_READ: fails where a page cannot be had, instead of the process when it looks at it
RUN_ROOM = 128
WINDOW_ROOM = 256
HEADER_ROOM = 8192
_SLACK = 64  # bytes behind the buffer that the copying of a header may touch
_RUN_WORDS, _WINDOW_WORDS = RUN_BYTES // 8, WINDOW_BYTES // 8
_LARGEST = (1 << 63) - 1
_MOST_RECORDS = 1 << 62  # beyond which the next could overflow a word


class Fold(Protocol):
    """What was read of a segment so far."""

    position: int
    next_offset: int
    first_bad_crc: int | None
    runs: list[Run]
    windows: WindowSums


def scan_natively(
    native: Scanner,
    fd: int,
    size: int,
    fold: Fold,
    *,
    verify_crc: bool,
    mapped: bool,
    max_runs: int,
    take_headers: Callable[[memoryview], None] | None = None,
) -> None:
    """Go on with a segment as far as nothing is wrong but CRCs; what follows, if anything, is for Python to judge.

    Args:
        native: the code.
        fd: the file.
        size: of it, in bytes.
        fold: what was read so far, and where to go on; what is read is added.
        verify_crc: whether to read every byte.
        mapped: whether to read through memory maps of a part of the file at a time, each brought in whole before it is looked at.
        max_runs: of the segment; beyond, missing offsets end none.
        take_headers: is given what stands before the records of every batch, in rows of HEADER_BYTES of which it has to make a copy. Not
            for maps.
    """
    state = ScanState(fd=fd, size=size, verify_crc=verify_crc)
    tables = Tables(state, max_runs)
    header_rows = (ctypes.c_char * (HEADER_ROOM * HEADER_BYTES if take_headers else 0))()
    state.headers, state.header_room = ctypes.addressof(header_rows), HEADER_ROOM if take_headers else 0
    tables.begin(fold)
    if mapped and not take_headers:
        _scan_maps(native, state, tables, fold)
    buffer = (ctypes.c_char * (max(min(size, BUFFER_BYTES), SMALLEST_BUFFER) + _SLACK))()
    state.buffer, state.capacity = ctypes.addressof(buffer), len(buffer) - _SLACK
    more = True
    while more and tables.have_room(fold):
        state.header_count = 0
        state.stop = state.position + CALL_BYTES
        more = tables.filled(native, fold)
        if take_headers and state.header_count:
            take_headers(memoryview(header_rows).cast("B")[: state.header_count * HEADER_BYTES])


class Tables:
    """The tables that a native scan fills, and where it goes on; what is in them is moved to a fold."""

    def __init__(self, state: ScanState, max_runs: int) -> None:
        """Have a state point to them. Beyond `max_runs` runs missing offsets end none."""
        self._state, self._max_runs = state, max_runs
        self._runs = (ctypes.c_int64 * (RUN_ROOM * _RUN_WORDS))()
        self._windows = (ctypes.c_int64 * (WINDOW_ROOM * _WINDOW_WORDS))()
        state.runs, state.run_room = ctypes.addressof(self._runs), RUN_ROOM
        state.windows, state.window_room = ctypes.addressof(self._windows), WINDOW_ROOM

    def begin(self, fold: Fold) -> None:
        """Go on where a fold is."""
        state = self._state
        if not self.have_room(fold):
            return
        state.position, state.next_offset = fold.position, fold.next_offset
        state.first_bad_crc = -1 if fold.first_bad_crc is None else fold.first_bad_crc

    @staticmethod
    def have_room(fold: Fold) -> bool:
        """Whether 64 bits hold where it goes on, and the sums of the last run with what one scan adds."""
        is_near = max(fold.position, fold.next_offset) <= _LARGEST
        return is_near and (not fold.runs or fold.runs[-1].record_count < _MOST_RECORDS)

    def filled(self, native: Scanner, fold: Fold) -> bool:
        """Scan once, and move what was found; whether there may be more."""
        state, runs, windows = self._state, self._runs, self._windows
        state.runs_left = self._max_runs - len(fold.runs) + bool(fold.runs)
        state.run_count, state.window_count = 0, 0
        if fold.runs:  # the next batch may continue it
            runs[:_RUN_WORDS] = list(fold.runs.pop())
            state.run_count = 1
        more = native(state) == MORE
        for at in range(0, state.run_count * _RUN_WORDS, _RUN_WORDS):
            run = Run._make(runs[at : at + _RUN_WORDS])
            fold.runs.append(run._replace(intact=bool(run.intact)))
        for at in range(0, state.window_count * _WINDOW_WORDS, _WINDOW_WORDS):
            fold.windows.add(*windows[at : at + _WINDOW_WORDS])
        fold.position, fold.next_offset = state.position, state.next_offset
        fold.first_bad_crc = None if state.first_bad_crc < 0 else state.first_bad_crc
        return more


def scan_windows(native: Scanner, stream: BinaryIO, size: int, fold: Fold, *, verify_crc: bool, max_runs: int) -> None:
    """The same for what only Python can read: as far as batches fit into a window, which is then held in memory."""
    state = ScanState(fd=-1, verify_crc=verify_crc)
    tables = Tables(state, max_runs)
    tables.begin(fold)
    before = -1
    while before < fold.position < size and tables.have_room(fold):
        before = fold.position
        stream.seek(before)
        content = stream.read(min(WINDOW_BYTES_READ, size - before))
        scan_part(native, state, tables, fold, address_of(content), before, before + len(content))


def address_of(content: bytes) -> int:
    """Where bytes are in memory, as long as they are kept."""
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0


def scan_part(native: Scanner, state: ScanState, tables: Tables, fold: Fold, address: int, begin: int, end: int) -> None:
    """Go on in a part of the file that is in memory, which then is all that there is."""
    state.buffer, state.capacity, state.begin, state.end = address, end - begin, begin, end
    state.size = state.stop = end
    while tables.filled(native, fold) and tables.have_room(fold):
        pass


def _scan_maps(native: Scanner, state: ScanState, tables: Tables, fold: Fold) -> None:
    """Go on through maps of a part of the file at a time, as far as batches fit into them; not over payloads that nobody asks for."""
    size = state.size
    while tables.have_room(fold) and fold.position < size and (state.verify_crc or state.last_size < SKIP_FROM):
        begin = fold.position - fold.position % mmap.ALLOCATIONGRANULARITY
        before, end = fold.position, min(size, begin + MAP_BYTES)
        window = _window(state.fd, begin, end)
        if window is None:
            break
        os.posix_fadvise(state.fd, end, MAP_BYTES, os.POSIX_FADV_WILLNEED)
        with window:
            first = ctypes.c_char.from_buffer(window)
            scan_part(native, state, tables, fold, ctypes.addressof(first), begin, end)
            del first  # else the map could not be closed
        if fold.position == before:
            break
    state.size, state.begin, state.end = size, 0, 0


def _window(fd: int, begin: int, end: int) -> mmap.mmap | None:
    """A part of a file as memory, all of it there; None if it is not, or if the system cannot tell (Linux before 5.14)."""
    with suppress(ValueError, OSError):
        # A private copy only in name: nothing is written to it, but ctypes tells no address of what cannot be written to.
        window = mmap.mmap(fd, end - begin, offset=begin, access=mmap.ACCESS_COPY)
        try:
            window.madvise(_POPULATE_READ)
        except BaseException:
            window.close()
            raise
        return window
    return None
