"""The loop over the batches of a segment, as numba compiles it: headers, CRCs, runs and digests in one pass.

It takes a batch only if nothing but its CRC is wrong, and stops in front of any other, and of a read that failed or gave too little: what
that is, and how it is told, the reader in Python decides, which goes on from the same position. So damages are known in one place.

Only the compilation imports this module, for numba takes long to import; `native_code` keeps what comes out of it. Addresses, positions and
sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types
from numba.core.errors import NumbaError

from replica_audit.formats import crc_kernel as crc
from replica_audit.formats.content_digest import FIRST_FACTOR, SECOND_FACTOR, SEED, WINDOW_BITS
from replica_audit.formats.native_code import DONE, HEADER_BYTES, MORE, RUN_BYTES, SLOTS, SYMBOL, WINDOW_BYTES
from replica_audit.formats.record_batch import HEADER_UP_TO_MAGIC, LOG_OVERHEAD, V2_HEADER

SKIP_FROM = 4096  # size of a batch from which on a read of the next header alone costs less than one of all the bytes between
_LAST_OFFSET = 2**63 - 2
_MOST_LEGACY_RECORDS = 2**31  # in an entry; one that claims more is left to Python, whose sums do not overflow
_V2_SIZE = V2_HEADER.size
_ALL_ONES = 0xFFFFFFFF
_CRC_INSTRUCTIONS = ("sse4.2", "crc32", "pclmul")

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


@njit
def _decoded(at: int, left: int, next_offset: int) -> tuple[int, int, int, int, int, int]:
    """Size, base offset, last offset, epoch, record count and max timestamp of the batch at an address; size 0 if it is not to be taken.

    Of the file there are `left` bytes, at least 18. All of them that a header can have are in memory, but what is behind them is not.
    """
    size, magic = _load32(at + 8) + LOG_OVERHEAD, _load8(at + 16)
    if size > left:
        return 0, 0, 0, 0, 0, 0
    if magic == 2 and size >= _V2_SIZE:
        base, delta, count = _load64(at), _load32(at + 23), _load32(at + 57)
        if delta >= 0 and count >= 0 and next_offset <= base <= _LAST_OFFSET - delta:
            return size, base, base + delta, _load32(at + 12), count, _load64(at + 35)
    elif magic < 2 and size >= 26 + 8 * magic:
        last = _load64(at)
        base = last if _load8(at + 17) & 7 == 0 else next_offset
        if next_offset <= last <= _LAST_OFFSET and last - base < _MOST_LEGACY_RECORDS:
            return size, base, last, -1, last - base + 1, _load64(at + 18) if magic == 1 else -1
    return 0, 0, 0, 0, 0, 0


@njit
def _add_to_run(state: int, base: int, last: int, epoch: int, count: int, size: int, time: int, magic: int, intact: int) -> None:
    """The batch continues the last run of the block, or begins the next; the words of a row are the fields of `Run`."""
    runs = _load(state + _RUN_COUNT)
    row = _load(state + _RUNS) + (runs - 1) * RUN_BYTES
    is_like = runs > 0 and _load(row) == epoch and _load(row + 72) == intact
    if is_like and (_load(row + 16) + 1 == base or runs >= _load(state + _RUNS_LEFT)):
        _store(row + 16, last)
        _store(row + 24, _load(row + 24) + 1)
        _store(row + 32, _load(row + 32) + count)
        _store(row + 40, _load(row + 40) + size)
        _store(row + 48, min(_load(row + 48), time))
        _store(row + 56, max(_load(row + 56), time))
        _store(row + 64, max(_load(row + 64), magic))
        return
    row += RUN_BYTES
    _store(state + _RUN_COUNT, runs + 1)
    for place, value in enumerate((epoch, base, last, 1, count, size, time, time, magic, intact)):
        _store(row + 8 * place, value)


@njit
def _add_to_window(state: int, first: int, delta: int, stored_crc: int) -> None:
    """The batch is counted in the last window of the block, or in the next; a row is number, digest and batch count."""
    digest = _mixed(_mixed(first + _SEED) ^ (stored_crc << 32 | delta))
    number, windows = first >> WINDOW_BITS, _load(state + _WINDOW_COUNT)
    row = _load(state + _WINDOWS) + (windows - 1) * WINDOW_BYTES
    if windows > 0 and _load(row) == number:
        _store(row + 8, _load(row + 8) + digest)
        _store(row + 16, _load(row + 16) + 1)
        return
    row += WINDOW_BYTES
    _store(state + _WINDOW_COUNT, windows + 1)
    _store(row, number)
    _store(row + 8, digest)
    _store(row + 16, 1)


@njit
def _is_full(state: int) -> bool:
    """Whether a table has no room for the next batch; that of headers is only filled if it has room at all."""
    if _load(state + _RUN_COUNT) >= _load(state + _RUN_ROOM) or _load(state + _WINDOW_COUNT) >= _load(state + _WINDOW_ROOM):
        return True
    return 0 < _load(state + _HEADER_ROOM) <= _load(state + _HEADER_COUNT)


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


def _checksum_with(crc_of_v2: Any) -> Callable[..., Any]:
    @njit
    def checksum(state: int, begin: int, end: int, at: int, stop: int, magic: int) -> tuple[int, int, int]:
        """The CRC of the bytes from `at` to `stop`, -1 if they cannot be read; and from where to where the file then is in the buffer."""
        buffer, value = _load(state + _BUFFER), _ALL_ONES
        while at < stop:
            if at >= end:
                wanted = min(_load(state + _CAPACITY), _load(state + _SIZE) - at)
                begin, end = at, at + _pread(_load(state + _FD), buffer, wanted, at)
                if end <= begin:
                    return -1, begin, begin
            size, address = min(stop, end) - at, buffer + at - begin
            value = crc_of_v2(value, address, size) if magic == 2 else _legacy_crc(value, address, size)
            at += size
        return value ^ _ALL_ONES, begin, end

    return checksum  # type: ignore[no-any-return]


def scanner(crc_of_v2: Any) -> Any:
    """The scan with a function for CRC-32C, compiled: it takes the address of a `ScanState`."""
    checksum = _checksum_with(crc_of_v2)

    @njit(types.int64(types.int64))
    def scan(state: int) -> int:
        size, verify, buffer = _load(state + _SIZE), _load(state + _VERIFY), _load(state + _BUFFER)
        position, next_offset, last_size = _load(state + _POSITION), _load(state + _NEXT_OFFSET), _load(state + _LAST_SIZE)
        begin, end = _load(state + _BEGIN), _load(state + _END)
        result = DONE
        while size - position > HEADER_UP_TO_MAGIC:
            if _is_full(state) or position >= _load(state + _STOP):
                result = MORE
                break
            head = min(_V2_SIZE, size - position)
            if position + head > end:
                skips = verify == 0 and last_size >= SKIP_FROM
                wanted = head if skips else min(_load(state + _CAPACITY), size - position)
                begin, end = position, position + _pread(_load(state + _FD), buffer, wanted, position)
                if end - begin < head:
                    end = begin
                    break
            at = buffer + position - begin
            size_bytes, base, last, epoch, count, time = _decoded(at, size - position, next_offset)
            if size_bytes == 0:
                break
            magic, intact = _load8(at + 16), 1
            stored_crc = _load32_unsigned(at + (17 if magic == 2 else 12))
            _copy_header(state, at, position)
            if verify != 0:
                covered_from = position + (21 if magic == 2 else 16)
                found, begin, end = checksum(state, begin, end, covered_from, position + size_bytes, magic)
                if found < 0:
                    break
                intact = 1 if found == stored_crc else 0
                if intact == 0 and _load(state + _FIRST_BAD) < 0:
                    _store(state + _FIRST_BAD, position)
            _count_header(state, intact)
            _add_to_run(state, base, last, epoch, count, size_bytes, time, magic, intact)
            first = base if magic == 2 else last
            _add_to_window(state, first, last - first, stored_crc)
            position, next_offset, last_size = position + size_bytes, last + 1, size_bytes
        _store(state + _POSITION, position)
        _store(state + _NEXT_OFFSET, next_offset)
        _store(state + _LAST_SIZE, last_size)
        _store(state + _BEGIN, begin)
        _store(state + _END, end)
        return result

    return scan


def object_code(machine: Any, features: str) -> bytes:
    """The scan as object code for a machine, with nothing left in it that numba or Python would have to provide.

    Args:
        machine: the target machine of llvmlite.
        features: of its processor, as llvmlite tells them.

    Raises:
        RuntimeError: it cannot be compiled.
    """
    has_instructions = all(f"+{name}" in features.split(",") for name in _CRC_INSTRUCTIONS)
    try:
        compiled = scanner(crc.crc32c_by_instruction if has_instructions else crc.crc_by_tables(crc.CRC32C_POLYNOMIAL))
    except NumbaError as error:
        raise RuntimeError(f"numba does not compile the scan: {error}") from error
    (overload,) = compiled.overloads.values()
    module = llvm.parse_assembly(overload.library.get_llvm_str())
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = "internal"
    # What is left is the function itself; the wrapper by which Python would call it goes, and with it what that needs.
    entry = module.get_function(overload.fndesc.llvm_func_name)
    entry.name, entry.linkage = SYMBOL, "external"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    needed = {value.name for value in (*module.functions, *module.global_variables) if value.is_declaration}
    if unknown := [name for name in needed - {"pread"} if not name.startswith("llvm.")]:
        raise RuntimeError(f"the compiled scan needs {', '.join(sorted(unknown))}")
    return bytes(machine.emit_object(module))
