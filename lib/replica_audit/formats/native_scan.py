"""Between the native scan, which works on tables of 64-bit words, and the values that Python folds batches into."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from replica_audit.formats.content_digest import WindowSums
from replica_audit.formats.native_code import HEADER_BYTES, MORE, RUN_BYTES, WINDOW_BYTES, Scanner, ScanState
from replica_audit.model import Run

BUFFER_BYTES = 1 << 18  # stays in the second-level cache: what is checked was just copied there
SMALLEST_BUFFER = 64  # a header fits
CALL_BYTES = 1 << 26  # after which Python sees to signals
RUN_ROOM = 128
WINDOW_ROOM = 256
HEADER_ROOM = 8192
_SLACK = 64  # bytes behind the buffer that the copying of a header may touch
_RUN_WORDS, _WINDOW_WORDS = RUN_BYTES // 8, WINDOW_BYTES // 8
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
        mapped: whether to read through a memory map.
        max_runs: of the segment; beyond, missing offsets end none.
        take_headers: is given what stands before the records of every batch, in rows of HEADER_BYTES of which it has to make a copy. Not
            for maps.
    """
    run_words = (ctypes.c_int64 * (RUN_ROOM * _RUN_WORDS))()
    window_words = (ctypes.c_int64 * (WINDOW_ROOM * _WINDOW_WORDS))()
    state = ScanState(fd=fd, size=size, verify_crc=verify_crc, position=fold.position, next_offset=fold.next_offset)
    state.first_bad_crc = -1 if fold.first_bad_crc is None else fold.first_bad_crc
    state.runs, state.run_room = ctypes.addressof(run_words), RUN_ROOM
    state.windows, state.window_room = ctypes.addressof(window_words), WINDOW_ROOM
    header_rows = (ctypes.c_char * (HEADER_ROOM * HEADER_BYTES if take_headers else 0))()
    state.headers, state.header_room = ctypes.addressof(header_rows), HEADER_ROOM if take_headers else 0
    with _memory(state, fd, size, mapped=mapped):
        more = True
        while more and (not fold.runs or fold.runs[-1].record_count < _MOST_RECORDS):
            state.runs_left = max_runs - len(fold.runs) + bool(fold.runs)
            state.run_count, state.window_count, state.header_count = 0, 0, 0
            if fold.runs:  # the next batch may continue it
                run_words[:_RUN_WORDS] = list(fold.runs.pop())
                state.run_count = 1
            state.stop = state.position + CALL_BYTES
            more = native(state) == MORE
            for at in range(0, state.run_count * _RUN_WORDS, _RUN_WORDS):
                run = Run._make(run_words[at : at + _RUN_WORDS])
                fold.runs.append(run._replace(intact=bool(run.intact)))
            for at in range(0, state.window_count * _WINDOW_WORDS, _WINDOW_WORDS):
                fold.windows.add(*window_words[at : at + _WINDOW_WORDS])
            if take_headers and state.header_count:
                take_headers(memoryview(header_rows).cast("B")[: state.header_count * HEADER_BYTES])
    fold.position, fold.next_offset = state.position, state.next_offset
    fold.first_bad_crc = None if state.first_bad_crc < 0 else state.first_bad_crc


@contextmanager
def _memory(state: ScanState, fd: int, size: int, *, mapped: bool) -> Iterator[None]:
    """Give the scan a buffer to read into, or the whole file as one that is already read."""
    if mapped and (whole := _map(fd, size)) is not None:
        with whole:
            first = ctypes.c_char.from_buffer(whole)
            state.buffer, state.capacity, state.end = ctypes.addressof(first), size, size
            try:
                yield
            finally:
                del first  # else the map could not be closed
    else:
        buffer = (ctypes.c_char * (max(min(size, BUFFER_BYTES), SMALLEST_BUFFER) + _SLACK))()
        state.buffer, state.capacity = ctypes.addressof(buffer), len(buffer) - _SLACK
        yield


def _map(fd: int, size: int) -> mmap.mmap | None:
    """The file as memory; None if it is empty, has become shorter, or is of a kind that cannot be mapped."""
    with suppress(ValueError, OSError):
        # A private copy only in name: nothing is written to it, but ctypes tells no address of what cannot be written to.
        return mmap.mmap(fd, size, access=mmap.ACCESS_COPY) if size else None
    return None
