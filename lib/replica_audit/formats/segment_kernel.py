"""The loop over the batches of a segment, as numba compiles it: headers, CRCs, runs and digests in one pass.

It takes a batch only if nothing but its CRC is wrong, and stops in front of any other, and of a read that failed or gave too little: what
that is, and how it is told, the reader in Python decides, which goes on from the same position. So damages are known in one place.

Only the compilation imports this module, for numba takes long to import; `native_code` keeps what comes out of it. Addresses, positions and
sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types

from replica_audit.formats import crc_kernel as crc
from replica_audit.formats.content_digest import FIRST_FACTOR, SECOND_FACTOR, SEED, WINDOW_BITS
from replica_audit.formats.native_code import DONE, HEADER_BYTES, MORE, SKIP_FROM, SLOTS
from replica_audit.formats.record_batch import HEADER_UP_TO_MAGIC, LOG_OVERHEAD, V2_HEADER

_LAST_OFFSET = 2**63 - 2
_MOST_LEGACY_RECORDS = 2**31  # in an entry; one that claims more is left to Python, whose sums do not overflow
_V2_SIZE = V2_HEADER.size
# of small batches the processor foresees too little: without, mapped ones take up to twice as long
_PREFETCH_FROM, _SMALL_BATCH = 4096, 384
_LEGACY_COVERED_FROM = 16  # byte of an entry; of a batch of magic 2 it is 21
_ALL_ONES = 0xFFFFFFFF

_FD, _SIZE, _STOP, _VERIFY = (SLOTS[name] for name in ("fd", "size", "stop", "verify_crc"))
_BUFFER, _CAPACITY, _BEGIN, _END = (SLOTS[name] for name in ("buffer", "capacity", "begin", "end"))
_POSITION, _NEXT_OFFSET, _LAST_SIZE, _FIRST_BAD = (SLOTS[name] for name in ("position", "next_offset", "last_size", "first_bad_crc"))
_RUNS, _RUN_ROOM, _RUN_COUNT, _RUNS_LEFT = (SLOTS[name] for name in ("runs", "run_room", "run_count", "runs_left"))
_WINDOWS, _WINDOW_ROOM, _WINDOW_COUNT = (SLOTS[name] for name in ("windows", "window_room", "window_count"))
_HEADERS, _HEADER_ROOM, _HEADER_COUNT = (SLOTS[name] for name in ("headers", "header_room", "header_count"))

_load, _store = crc.load_word, crc.store_word
_load8, _load32, _load64, _load32_unsigned = (
    crc.load_byte,
    crc.load_int32_big_endian,
    crc.load_int64_big_endian,
    crc.load_uint32_big_endian,
)
_legacy_crc = crc.crc_by_tables(crc.CRC32_POLYNOMIAL)
_pread = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.int64, types.int64))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


_SEED, _FIRST_FACTOR, _SECOND_FACTOR = _signed(SEED), _signed(FIRST_FACTOR), _signed(SECOND_FACTOR)


@njit
def _mixed(x: int) -> int:
    x = (x ^ crc.shifted_right(x, 30)) * _FIRST_FACTOR
    x = (x ^ crc.shifted_right(x, 27)) * _SECOND_FACTOR
    mixed: int = x ^ crc.shifted_right(x, 31)
    return mixed


@njit(forceinline=True)
def _decoded(at: int, left: int, next_offset: int) -> tuple[int, ...]:
    """What matters of the batch at an address: ten numbers, of which the first, its size, is 0 if it is not to be taken.

    Size, magic, base offset, last offset, epoch, record count, max timestamp, stored CRC, from which byte on that covers the batch, and the
    offset by which it belongs to a window. Of the file there are `left` bytes, at least 18. All of them that a header can have are in
    memory, but what is behind them is not.
    """
    size, magic = _load32(at + 8) + LOG_OVERHEAD, _load8(at + 16)
    if size > left:
        return 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    if magic == 2 and size >= _V2_SIZE:
        base, delta, count = _load64(at), _load32(at + 23), _load32(at + 57)
        if delta >= 0 and count >= 0 and next_offset <= base <= _LAST_OFFSET - delta:
            return size, 2, base, base + delta, _load32(at + 12), count, _load64(at + 35), _load32_unsigned(at + 17), 21, base
    elif magic < 2 and size >= 26 + 8 * magic:
        last = _load64(at)
        base = last if _load8(at + 17) & 7 == 0 else next_offset
        if next_offset <= last <= _LAST_OFFSET and last - base < _MOST_LEGACY_RECORDS:
            time = _load64(at + 18) if magic == 1 else -1
            return size, magic, base, last, -1, last - base + 1, time, _load32_unsigned(at + 12), _LEGACY_COVERED_FROM, last
    return 0, 0, 0, 0, 0, 0, 0, 0, 0, 0


@njit
def loaded(table: int) -> tuple[int, ...]:
    """The first row of the table of runs."""
    return (
        *(_load(table), _load(table + 8), _load(table + 16), _load(table + 24), _load(table + 32)),
        *(_load(table + 40), _load(table + 48), _load(table + 56), _load(table + 64), _load(table + 72)),
    )


@njit
def stored(table: int, number: int, row: tuple[int, ...]) -> None:
    """Write a row of a table, unless it is none: number -1."""
    if number >= 0:
        for place, value in enumerate(row):
            _store(table + 8 * (number * len(row) + place), value)


@njit(forceinline=True)
def into_run(runs: int, number: int, run: tuple[int, ...], batch: tuple[int, ...], any_gap: bool) -> tuple[int, tuple[int, ...]]:
    """Number and content of the last run once a batch, given as a run of its own, is in it or begins the next."""
    if number >= 0 and run[0] == batch[0] and run[9] == batch[9] and (run[2] + 1 == batch[1] or any_gap):
        totals = (run[3] + 1, run[4] + batch[4], run[5] + batch[5])
        times = (min(run[6], batch[6]), max(run[7], batch[7]))
        return number, (run[0], run[1], batch[2], *totals, *times, max(run[8], batch[8]), run[9])
    stored(runs, number, run)
    return number + 1, batch


@njit(forceinline=True)
def into_window(windows: int, number: int, window: tuple[int, ...], first: int, delta: int, crc_of: int) -> tuple[int, tuple[int, ...]]:
    """Number and content of the last window once a batch is in it or in the next."""
    if first >> WINDOW_BITS != window[0]:
        stored(windows, number, window)
        number, window = number + 1, (first >> WINDOW_BITS, 0, 0)
    digest = _mixed(_mixed(first + _SEED) ^ (crc_of << 32 | delta))
    return number, (window[0], window[1] + digest, window[2] + 1)


@njit(forceinline=True)
def pauses(state: int, position: int, runs: int, windows: int) -> bool:
    """Whether Python has to see to something first: a table without room for the next batch, or signals.

    That of headers is only filled if it has room at all.
    """
    is_full = runs >= _load(state + _RUN_ROOM) or windows >= _load(state + _WINDOW_ROOM)
    is_full = is_full or 0 < _load(state + _HEADER_ROOM) <= _load(state + _HEADER_COUNT)
    waits: bool = is_full or position >= _load(state + _STOP)
    return waits


@njit(forceinline=True)
def _filled(state: int, position: int, head: int, last_size: int, begin: int, end: int) -> tuple[int, int]:
    """From where to where the file is in the buffer once it should hold `head` bytes from a position on."""
    if position + head <= end:
        return begin, end
    skips = _load(state + _VERIFY) == 0 and last_size >= SKIP_FROM
    wanted = head if skips else min(_load(state + _CAPACITY), _load(state + _SIZE) - position)
    return position, position + _pread(_load(state + _FD), _load(state + _BUFFER), wanted, position)


@njit
def _copy_header(state: int, at: int, position: int) -> None:
    """Write the next row of the table of headers, which does not count yet. What is copied from behind a short entry means nothing."""
    if _load(state + _HEADER_ROOM) > 0:
        row = _load(state + _HEADERS) + _load(state + _HEADER_COUNT) * HEADER_BYTES
        _store(row, position)
        for word in range(0, HEADER_BYTES - 16, 8):
            _store(row + 16 + word, _load(at + word))


@njit
def _count_header(state: int, intact: int) -> None:
    if _load(state + _HEADER_ROOM) > 0:
        count = _load(state + _HEADER_COUNT)
        _store(_load(state + _HEADERS) + count * HEADER_BYTES + 8, intact)
        _store(state + _HEADER_COUNT, count + 1)


def _judge_with(crc_of_v2: Any) -> Callable[..., Any]:
    @njit
    def checksum(state: int, begin: int, end: int, at: int, stop: int, is_legacy: bool) -> tuple[int, int, int]:
        """The CRC of the bytes from `at` to `stop`, -1 if they cannot be read; and from where to where the file then is in the buffer."""
        buffer, value = _load(state + _BUFFER), _ALL_ONES
        while at < stop:
            if at >= end:
                wanted = min(_load(state + _CAPACITY), _load(state + _SIZE) - at)
                begin, end = at, at + _pread(_load(state + _FD), buffer, wanted, at)
                if end <= begin:
                    return -1, begin, begin
            size, address = min(stop, end) - at, buffer + at - begin
            value = _legacy_crc(value, address, size) if is_legacy else crc_of_v2(value, address, size)
            at += size
        return value ^ _ALL_ONES, begin, end

    @njit(forceinline=True)
    def judged(state: int, begin: int, end: int, position: int, stop: int, covered_from: int, stored_crc: int) -> tuple[int, int, int]:
        """Whether a batch matches its CRC, 1 if nobody asks, -1 if it cannot be read; and what the buffer then holds."""
        for line in range(_PREFETCH_FROM, _PREFETCH_FROM + _SMALL_BATCH, 64):
            crc.prefetch(_load(state + _BUFFER) + position - begin + line)
        if _load(state + _VERIFY) == 0:
            return 1, begin, end
        found, begin, end = checksum(state, begin, end, position + covered_from, stop, covered_from == _LEGACY_COVERED_FROM)
        if found != stored_crc and found >= 0 and _load(state + _FIRST_BAD) < 0:
            _store(state + _FIRST_BAD, position)
        return (-1 if found < 0 else 1 if found == stored_crc else 0), begin, end

    return judged  # type: ignore[no-any-return]


def scanner(crc_of_v2: Any) -> Any:
    """The scan with a function for CRC-32C, compiled: it takes the address of a `ScanState`."""
    judged = _judge_with(crc_of_v2)

    @njit(types.int64(types.int64))
    def scan(state: int) -> int:
        size, buffer = _load(state + _SIZE), _load(state + _BUFFER)
        position, next_offset, last_size = _load(state + _POSITION), _load(state + _NEXT_OFFSET), _load(state + _LAST_SIZE)
        begin, end, runs_left = _load(state + _BEGIN), _load(state + _END), _load(state + _RUNS_LEFT)
        runs, windows = _load(state + _RUNS), _load(state + _WINDOWS)
        # The last rows are kept in registers and written when the next begin; to add in memory costs a quarter more than the loop takes.
        run_number, run, window_number, window = _load(state + _RUN_COUNT) - 1, loaded(runs), -1, (-1, 0, 0)
        result = DONE
        while size - position > HEADER_UP_TO_MAGIC:
            if pauses(state, position, run_number + 1, window_number + 1):
                result = MORE
                break
            head = min(_V2_SIZE, size - position)
            begin, end = _filled(state, position, head, last_size, begin, end)
            if end - position < head:
                break
            at = buffer + position - begin
            batch = _decoded(at, size - position, next_offset)
            size_bytes, magic, base, last, epoch, count, time, stored_crc, covered_from, first = batch
            if size_bytes == 0:
                break
            _copy_header(state, at, position)
            intact, begin, end = judged(state, begin, end, position, position + size_bytes, covered_from, stored_crc)
            if intact < 0:
                break
            _count_header(state, intact)
            batch_run = (epoch, base, last, 1, count, size_bytes, time, time, magic, intact)
            run_number, run = into_run(runs, run_number, run, batch_run, run_number + 1 >= runs_left)
            window_number, window = into_window(windows, window_number, window, first, last - first, stored_crc)
            position, next_offset, last_size = position + size_bytes, last + 1, size_bytes
        stored(runs, run_number, run)
        stored(windows, window_number, window)
        _store(state + _RUN_COUNT, run_number + 1)
        _store(state + _WINDOW_COUNT, window_number + 1)
        _store(state + _POSITION, position)
        _store(state + _NEXT_OFFSET, next_offset)
        _store(state + _LAST_SIZE, last_size)
        _store(state + _BEGIN, begin)
        _store(state + _END, end)
        return result

    return scan
