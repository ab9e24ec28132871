"""The loop over the batches of a segment, for numba to compile: headers, CRCs, runs and digests in one pass.

It takes a batch only if nothing but its CRC is wrong, and stops in front of any other, and of a read that failed or gave too little: what
that is, and how it is told, the reader in Python decides, which goes on from the same position. So damages are known in one place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from replica_audit.formats.native import crc_kernel as memory
from replica_audit.formats.native import producer_kernel as producing
from replica_audit.formats.native.scan_tables import DONE, MORE, SKIP_FROM
from replica_audit.formats.segment import content_digest
from replica_audit.formats.segment.record_batch import (
    CODEC,
    CONTROL,
    HEADER_UP_TO_MAGIC,
    LAST_OFFSET,
    LEGACY_AT,
    LEGACY_CRC_FROM,
    LOG_OVERHEAD,
    SMALLEST_SIZE,
    TRANSACTIONAL,
    V2_AT,
    V2_CRC_FROM,
)
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import runs as protocol

_MOST_LEGACY_RECORDS = 2**31  # in an entry; one that claims more is left to Python, whose sums do not overflow
_AHEAD, _SMALL_BATCH = 4096, 384  # of small batches the processor foresees too little
_WINDOW_BITS, _ALL_ONES = content_digest.WINDOW_BITS, 0xFFFFFFFF
_LENGTH, _EPOCH, _MAGIC, _CRC, _DELTA = (V2_AT[n] for n in ("length", "leader_epoch", "magic", "crc", "last_offset_delta"))
_TIME, _COUNT, _ATTRIBUTES = (V2_AT[n] for n in ("max_timestamp", "record_count", "attributes"))
_PRODUCER, _PRODUCER_EPOCH, _SEQUENCE = (V2_AT[n] for n in ("producer_id", "producer_epoch", "base_sequence"))
_LEGACY_CRC, _LEGACY_ATTRIBUTES, _LEGACY_TIME = (LEGACY_AT[n] for n in ("crc", "attributes", "max_timestamp"))
_SMALLEST_0, _SMALLEST_1, _SMALLEST_2 = SMALLEST_SIZE
_byte, _int16, _int32, _int64 = memory.byte, memory.int16_at, memory.int32_at, memory.int64_at
for rule in (content_digest.mixed, content_digest.digest, protocol.continues, protocol.same_kind, protocol.joined):
    register_jitable(forceinline=True)(rule)  # the same that Python calls
_legacy_crc = memory.crc_by_tables(memory.CRC32_POLYNOMIAL)
_v2_crc = memory.crc32c_by_instruction if memory.has_instructions() else memory.crc_by_tables(memory.CRC32C_POLYNOMIAL)


@njit
def last_run(runs: Any) -> BatchRun:
    """The first row of the table of runs: the last one of the fold so far, if there is any."""
    row = runs[0]
    return BatchRun(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9])


@njit(forceinline=True)
def into_run(runs: Any, number: int, run: BatchRun, batch: BatchRun, runs_left: int) -> tuple[int, BatchRun]:
    """Number and content of the last run once a batch, given as a run of its own, is in it or begins the next."""
    is_any_gap = number + 1 >= runs_left
    if number >= 0 and (protocol.continues(run, batch) or (is_any_gap and protocol.same_kind(run, batch))):
        return number, protocol.joined(run, batch)
    producing.store(runs, number, run)
    return number + 1, batch


@njit(forceinline=True)
def into_window(windows: Any, number: int, window: Any, first: int, delta: int, crc: int) -> Any:
    """Number and content of the last window once a batch is in it or in the next."""
    if first >> _WINDOW_BITS != window[0]:
        producing.store(windows, number, window)
        number, window = number + 1, (first >> _WINDOW_BITS, 0, 0)
    digest = content_digest.digest(np.uint64(first), np.uint64(delta), np.uint64(crc))
    return number, (window[0], window[1] + np.int64(digest), window[2] + 1)


@njit
def finish(state: Any, runs: Any, windows: Any, run_number: int, run: BatchRun, window_number: int, window: Any) -> None:
    """Write the last rows of both tables."""
    producing.store(runs, run_number, run)
    producing.store(windows, window_number, window)
    state.run_count, state.window_count = run_number + 1, window_number + 1


@njit(forceinline=True)
def _decoded(at: int, left: int, next_offset: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """What matters of the batch at an address, of which `left` bytes are in the file, at least 18; a size of 0 if it is not to be taken.

    Size, magic, base offset, last offset, epoch, record count, max timestamp, stored CRC, and from which byte on that covers the batch. All
    bytes that a header can have are in memory, but what is behind them is not.
    """
    size, magic = _int32(at + _LENGTH) + LOG_OVERHEAD, _byte(at + _MAGIC)
    if size <= left and magic == 2 and size >= _SMALLEST_2:
        base, delta, count = _int64(at), _int32(at + _DELTA), _int32(at + _COUNT)
        if delta >= 0 and count >= 0 and next_offset <= base <= LAST_OFFSET - delta:
            stored = memory.uint32_at(at + _CRC)
            return size, 2, base, base + delta, _int32(at + _EPOCH), count, _int64(at + _TIME), stored, V2_CRC_FROM
    elif magic < 2 and (_SMALLEST_1 if magic == 1 else _SMALLEST_0) <= size <= left:
        last = _int64(at)
        base = last if _byte(at + _LEGACY_ATTRIBUTES) & CODEC == 0 else next_offset
        if next_offset <= last <= LAST_OFFSET and last - base < _MOST_LEGACY_RECORDS:
            time = _int64(at + _LEGACY_TIME) if magic == 1 else -1
            return size, magic, base, last, -1, last - base + 1, time, memory.uint32_at(at + _LEGACY_CRC), LEGACY_CRC_FROM
    return 0, 0, 0, 0, 0, 0, 0, 0, 0


@njit(forceinline=True)
def _is_there(state: Any, position: int, size: int) -> bool:
    """Have so many bytes from a position on in memory, and if payloads are read, what is behind them."""
    if position + size > state.end:
        skips = state.verify_crc == 0 and state.last_size >= SKIP_FROM
        wanted = size if skips else min(state.capacity, state.size - position)
        state.begin, state.end = position, position + memory.pread(state.fd, state.buffer, wanted, position)
    return bool(position + size <= state.end)


@njit(forceinline=True)
def _is_intact(state: Any, position: int, size: int, covered_from: int, stored: int) -> int:
    """Whether a batch matches its CRC, 1 if nobody asks, -1 if it cannot be read."""
    at, stop, crc = position + covered_from, position + size, _ALL_ONES
    while state.verify_crc and at < stop:
        if not _is_there(state, at, 1):
            return -1
        part, address = min(stop, state.end) - at, state.buffer + at - state.begin
        crc = _legacy_crc(crc, address, part) if covered_from == LEGACY_CRC_FROM else _v2_crc(crc, address, part)
        at += part
    if state.verify_crc == 0 or crc ^ _ALL_ONES == stored:
        return 1
    if state.first_bad_crc < 0:
        state.first_bad_crc = position
    return 0


@njit(forceinline=True)
def _of_producer(at: int, magic: int) -> tuple[int, int, int, int]:
    """Attributes, and what a batch says of its producer."""
    if magic == 2:
        return _int16(at + _ATTRIBUTES), _int64(at + _PRODUCER), _int16(at + _PRODUCER_EPOCH), _int32(at + _SEQUENCE)
    return _byte(at + _LEGACY_ATTRIBUTES) & CODEC, -1, -1, -1


@njit
def _tell(headers: Any, number: int, header: Any) -> None:
    for row, value in enumerate(header):
        headers[row, number] = value


@njit
def scan(words: Any, runs: Any, windows: Any, headers: Any, producers: Any, gaps: Any) -> int:
    """Take batches from `position` on: a state (STATE, in an array of one), and the tables of `ScanTables`."""
    state = words[0]
    position, next_offset, file_size, buffer, runs_left = state.position, state.next_offset, state.size, state.buffer, state.runs_left
    # The last rows are kept in registers and written when the next begins; to add in memory costs a quarter more than the loop takes.
    run_number, run, window_number, window = state.run_count - 1, last_run(runs), -1, (-1, 0, 0)
    result, header_count, room, slot, span = DONE, state.header_count, headers.shape[1], -1, producing.row_at(producers, 0)
    while file_size - position > HEADER_UP_TO_MAGIC:
        is_full = run_number + 1 >= len(runs) or window_number + 1 >= len(windows) or 0 < room <= header_count
        if is_full or 2 * state.producer_count >= len(producers) or position >= state.stop:
            result = MORE
            break
        if not _is_there(state, position, min(_SMALLEST_2, file_size - position)):
            break
        at = buffer + position - state.begin
        size, magic, base, last, epoch, count, time, stored, covered_from = _decoded(at, file_size - position, next_offset)
        if size == 0:
            break
        for line in range(_AHEAD, _AHEAD + _SMALL_BATCH, 64):
            memory.prefetch(at + line)
        attributes, producer, producer_epoch, sequence = more = _of_producer(at, magic)
        intact = _is_intact(state, position, size, covered_from, stored)
        if intact < 0:
            break
        if room:
            _tell(headers, header_count, (position, base, last, size, magic, epoch, count, time, stored, *more, intact))
            header_count += 1
        batch = BatchRun(epoch, base, last, 1, count, size, time, time, magic, intact)
        run_number, run = into_run(runs, run_number, run, batch, runs_left)
        first = base if magic == 2 else last
        window_number, window = into_window(windows, window_number, window, first, last - first, stored)
        named = (producer, producer_epoch, sequence, base, last, count, time, attributes & TRANSACTIONAL, attributes & CONTROL)
        if producing.is_next(slot, span, named, intact):
            span = producing.carried_on(span, named)
        elif producer >= 0:
            slot, span = producing.joined(state, producers, gaps, slot, span, named, intact)
        position, next_offset, state.last_size = position + size, last + 1, size
    finish(state, runs, windows, run_number, run, window_number, window)
    producing.store(producers, slot, span)
    state.position, state.next_offset, state.header_count = position, next_offset, header_count
    return result
