"""Loops for numba to compile: memory and CRCs, the records of a batch, and the batches of a segment."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types
from numba.extending import intrinsic, register_jitable

from replica_audit.formats.native.scan_tables import DONE, MORE, SKIP_FROM
from replica_audit.formats.segment import record_batch as layout
from replica_audit.formats.segment import segment_fold
from replica_audit.formats.segment.record_batch import LONG_BYTES
from replica_audit.formats.segment.records import KEY_SEED, NO_KEY, TOMBSTONE
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import epoch_table as epochs
from replica_audit.protocol.transactions import producer_spans

# Access to memory, and CRCs of what is there, for numba to compile: what the kernels of segments and of texts are made of.
# CRC-32C with the instruction that x86-64 has for it (SSE 4.2), three streams at once because each result takes three cycles and one can
# be started in every cycle (source: Gopal et al., Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction, Intel, 2011);
# elsewhere, and CRC-32 everywhere, eight bytes at a time from tables. All numbers are int64, of CRCs the upper half is zero.

CRC32C_POLYNOMIAL, CRC32_POLYNOMIAL = 0x82F63B78, 0xEDB88320  # bit-reflected
_INT64, _INT32, _INT16, _INT8 = (ir.IntType(bits) for bits in (64, 32, 16, 8))
_LONGEST_STREAM, _SHORTEST_STREAM = 128, 4  # in words of eight bytes


def _operation(arity: int, emit: Callable[..., Any]) -> Any:
    """An operation on int64 that numba compiles to what `emit` builds with llvmlite from so many values."""
    made = (types.int64(*[types.int64] * arity), lambda _context, builder, _signature, values: emit(builder, *values))
    ways: Any = {1: lambda _typing, _a: made, 2: lambda _typing, _a, _b: made, 4: lambda _typing, _a, _b, _c, _d: made}
    return intrinsic(ways[arity])  # numba wants to see how many there are


def _load(kind: ir.IntType, *, big_endian: bool = True, signed: bool = True) -> Any:
    def emit(builder: Any, address: Any) -> Any:
        value = builder.load(builder.inttoptr(address, ir.PointerType()), typ=kind)
        value.align = 1
        value = builder.bswap(value) if big_endian else value
        return value if kind == _INT64 else (builder.sext if signed else builder.zext)(value, _INT64)

    return _operation(1, emit)


def _called(name: str, result: Any, kinds: tuple[Any, ...]) -> Any:
    """A function of the processor's or the system's by its name; what it takes is truncated, what it gives is extended with zeros."""

    def emit(builder: Any, *arguments: Any) -> Any:
        function = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(result, kinds), name)
        given = [value if kind == _INT64 else builder.trunc(value, kind) for value, kind in zip(arguments, kinds, strict=True)]
        found = builder.call(function, given)
        return found if result == _INT64 else builder.zext(found, _INT64)

    return _operation(len(kinds), emit)


def _emit_product(builder: Any, *factors: Any) -> Any:
    pair = ir.VectorType(_INT64, 2)
    function = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", fnty=ir.FunctionType(pair, [pair, pair, _INT8]))
    vectors = [builder.insert_element(ir.Constant(pair, [0, 0]), factor, _INT32(0)) for factor in factors]
    return builder.extract_element(builder.call(function, [*vectors, _INT8(0)]), _INT32(0))


byte, half, word = (_load(kind, big_endian=False, signed=False) for kind in (_INT8, _INT32, _INT64))
int64_at, int32_at, int16_at, uint32_at = _load(_INT64), _load(_INT32), _load(_INT16), _load(_INT32, signed=False)  # as Kafka stores them
pread = _called("pread", _INT64, (_INT32, _INT64, _INT64, _INT64))  # descriptor, address, size, position
shifted = _operation(2, lambda builder, number, bits: builder.lshr(number, bits))  # to the right, zeros move in
_crc_of_word = _called("llvm.x86.sse42.crc32.64.64", _INT64, (_INT64, _INT64))
_crc_of_half, _crc_of_byte = (_called(f"llvm.x86.sse42.crc32.32.{kind.width}", _INT32, (_INT32, kind)) for kind in (_INT32, _INT8))
_product = _operation(2, _emit_product)  # of polynomials, carryless: the lower 64 bits


@intrinsic
def put(_typing: Any, record: Any, row: Any) -> Any:
    """Write a tuple of int64 into the first fields of a record of such."""
    row = getattr(row, "type", row)  # of one that may be None, and is not

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> None:
        place = builder.bitcast(arguments[0], _INT64.as_pointer())
        for number in range(len(row)):
            builder.store(builder.extract_value(arguments[1], number), builder.gep(place, [_INT64(number)], source_etype=_INT64))

    return types.void(record, row), codegen


def has_instructions() -> bool:
    """Whether numba compiles for this processor, and that has the instructions."""
    features = binding.get_host_cpu_features()
    return not (config.CPU_NAME or config.CPU_FEATURES) and all(features.get(name, False) for name in ("sse4.2", "crc32", "pclmul"))


def _shift_factors() -> Any:
    """For n words: the polynomial that, multiplied with a CRC and reduced by the instruction, moves it over n words of zeros."""
    factors, power = [0], 1 << 31  # bit-reflected: this is x**0
    for exponent in range(1, 2 * _LONGEST_STREAM * 64 - 32):
        power = power >> 1 ^ (CRC32C_POLYNOMIAL if power & 1 else 0)  # times x
        if exponent % 64 == 31:  # 64 n - 33
            factors.append(power)
    return np.array(factors, dtype=np.int64)


_FACTORS = _shift_factors()


@njit
def crc32c_by_instruction(crc: int, address: int, size: int) -> int:
    """The CRC-32C register after `size` more bytes; it begins, and is compared, inverted."""
    while size >= 24 * _SHORTEST_STREAM:
        words = min(size // 24, _LONGEST_STREAM)
        second, third, crc_second, crc_third = address + 8 * words, address + 16 * words, 0, 0
        for at in range(0, 8 * words, 8):
            crc = _crc_of_word(crc, word(address + at))
            crc_second = _crc_of_word(crc_second, word(second + at))
            crc_third = _crc_of_word(crc_third, word(third + at))
        moved = _product(crc, _FACTORS[2 * words]) ^ _product(crc_second, _FACTORS[words])
        crc = _crc_of_word(0, moved) ^ crc_third
        address, size = address + 24 * words, size - 24 * words
    for at in range(address, address + size // 8 * 8, 8):
        crc = _crc_of_word(crc, word(at))
    address, size = address + size // 8 * 8, size % 8
    if size >= 4:
        crc, address, size = _crc_of_half(crc, half(address)), address + 4, size - 4
    for at in range(address, address + size):
        crc = _crc_of_byte(crc, byte(at))
    return crc


def crc_by_tables(polynomial: int) -> Any:
    """The same for any CRC of 32 bits, without an instruction: eight lookups for eight bytes."""
    table = np.zeros((8, 256), dtype=np.int64)
    table[0] = np.arange(256)
    for _ in range(8):
        table[0] = table[0] >> 1 ^ (table[0] & 1) * polynomial
    for row in range(1, 8):
        table[row] = table[row - 1] >> 8 ^ table[0][table[row - 1] & 0xFF]

    @njit
    def crc_of(crc: int, address: int, size: int) -> int:
        for at in range(address, address + size // 8 * 8, 8):
            mixed = word(at) ^ crc  # of a little-endian machine
            crc = 0
            for place in range(8):
                crc ^= table[7 - place, shifted(mixed, 8 * place) & 0xFF]
        for at in range(address + size // 8 * 8, address + size):
            crc = shifted(crc, 8) ^ table[0, (crc ^ byte(at)) & 0xFF]
        return crc

    return crc_of


# The records of a decompressed batch of magic 2, taken apart and hashed in one loop, for numba to compile.
# It gives up at the first field that does not fit, and the decoder in Python, which goes over the same bytes then, says what is wrong.
# Hashes are XXH64 (its specification: github.com/Cyan4973/xxHash), as the `xxhash` package computes them. All numbers are int64, and wrap
# around.

_P1, _P2, _P3 = 0x9E3779B185EBCA87 - 2**64, 0xC2B2AE3D27D4EB4F - 2**64, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63 - 2**64, 0x27D4EB2F165667C5


@njit(forceinline=True)
def _rotated(number: int, bits: int) -> int:
    return int(number << bits | shifted(number, 64 - bits))


@njit(forceinline=True)
def _round(sum_: int, lane: int) -> int:
    return int(_rotated(sum_ + lane * _P2, 31) * _P1)


@njit
def xxh64(address: int, size: int, seed: int) -> int:
    """The hash of so many bytes."""
    at, end = address, address + size
    if size >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            a, b = _round(a, word(at)), _round(b, word(at + 8))
            c, d = _round(c, word(at + 16)), _round(d, word(at + 24))
            at += 32
        found = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            found = (found ^ _round(0, lane)) * _P1 + _P4
    else:
        found = seed + _P5
    found += size
    while at + 8 <= end:
        found, at = _rotated(found ^ _round(0, word(at)), 27) * _P1 + _P4, at + 8
    if at + 4 <= end:
        found, at = _rotated(found ^ half(at) * _P1, 23) * _P2 + _P3, at + 4
    while at < end:
        found, at = _rotated(found ^ byte(at) * _P5, 11) * _P1, at + 1
    found = (found ^ shifted(found, 33)) * _P2
    found = (found ^ shifted(found, 29)) * _P3
    return int(found ^ shifted(found, 32))


@njit(forceinline=True)
def _varint(at: int, end: int) -> tuple[int, int]:
    """A zigzag number and where it ends; beyond the end if it does not fit."""
    found, bits = 0, 0
    while at < end and bits < 7 * LONG_BYTES:
        part = byte(at)
        found |= (part & 0x7F) << bits
        at, bits = at + 1, bits + 7
        if part < 0x80:
            return shifted(found, 1) ^ -(found & 1), at
    return 0, end + 1


@njit(forceinline=True)
def _field(at: int, end: int) -> tuple[int, int, int]:
    """The size of a field, below 0 if there is none, where it begins and where it ends; beyond the end if it does not fit."""
    size, begin = _varint(at, end)
    return size, begin, begin + max(size, 0) if size <= end - begin else end + 1


@njit
def records(address: int, size: int, count: int, base_offset: int, base_timestamp: int, last_offset: int, rows: Any) -> int:
    """Fill a row (`hashed_records.KIND`) for each of so many records; whether all of them, and all of the bytes, are sound."""
    at, end = address, address + size
    for number in range(count):
        length, at = _varint(at, end)
        stop = at + length
        if not 0 < length <= end - at:
            return 0
        time, at = _varint(at + 1, stop)
        delta, at = _varint(at, stop)
        key_size, key_at, at = _field(at, stop)
        value_size, value_at, headers_at = _field(at, stop)
        headers, at = _varint(headers_at, stop)
        if not 0 <= headers <= length:
            return 0
        for _ in range(headers):
            name_size, _name_at, at = _field(at, stop)
            _held_size, _held_at, at = _field(at, stop)
            if name_size < 0 or at > stop:
                return 0
        offset, timestamp = base_offset + delta, base_timestamp + time
        wraps = time != 0 and (time > 0) != (timestamp > base_timestamp)
        if at != stop or wraps or not base_offset <= offset <= last_offset:
            return 0
        value, flags = xxh64(value_at, max(value_size, 0), 0), (NO_KEY if key_size < 0 else 0) | (TOMBSTONE if value_size < 0 else 0)
        value = xxh64(headers_at, stop - headers_at, value) if headers else value
        high, low = xxh64(key_at, max(key_size, 0), 0), xxh64(key_at, max(key_size, 0), KEY_SEED)
        put(rows[number], (high, low, offset, timestamp, value, flags))
    return 1 if at == end else 0


# The loop over the batches of a segment, for numba to compile: headers, CRCs, runs, digests and producers in one pass.
# It takes a batch only if nothing but its CRC is wrong, and stops in front of any other, and of a read that failed or gave too little:
# what that is, and how it is told, the reader in Python decides, which goes on from the same position. So damages are known in one place.
# Rows are changed where they stand, and functions take rows, not tables, whose references numba would count: a tenth of the time of a
# batch.

_MOST_LEGACY_RECORDS = 2**31  # in an entry; one that claims more is left to Python, whose sums do not overflow
_ALL_ONES, _NOTHING = 0xFFFFFFFF, (0, (0,) * 11)
_V2: Any = namedtuple("V2", layout.V2_AT)(**layout.V2_AT)  # compiled code takes no dicts
_LEGACY: Any = namedtuple("Legacy", layout.LEGACY_AT)(**layout.LEGACY_AT)
_SMALLEST_0, _SMALLEST_1, _SMALLEST_2 = layout.SMALLEST_SIZE
_RULES: Any = (segment_fold.mixed, segment_fold.digest, epochs.continues, epochs.same_kind, epochs.joined)
_RULES += (producer_spans.continues, producer_spans.carried_on, producer_spans.of_batch, producer_spans.joined)
for rule in (*_RULES, producer_spans.expected_sequence, producer_spans.missing_between, producer_spans.gap_between):
    register_jitable(forceinline=True)(rule)  # the same that Python calls
_legacy_crc = crc_by_tables(CRC32_POLYNOMIAL)
_v2_crc = crc32c_by_instruction if has_instructions() else crc_by_tables(CRC32C_POLYNOMIAL)


@njit(forceinline=True)
def _is_there(state: Any, position: int, size: int) -> bool:
    """Have so many bytes from a position on in memory, and if payloads are read, what is behind them."""
    if position + size > state.end:
        skips = state.verify_crc == 0 and state.last_size >= SKIP_FROM
        wanted = size if skips else min(state.capacity, state.size - position)
        state.begin, state.end = position, position + pread(state.fd, state.buffer, wanted, position)
    return bool(position + size <= state.end)


@njit(forceinline=True)
def _decoded(state: Any, position: int, next_offset: int) -> Any:
    """Size of the batch at a position, at least 18 bytes before the end; 0 if it is not there or not to be taken. And what it says.

    That is as HEADER has it: offsets, magic, epoch, record count, max timestamp, stored CRC, attributes, producer with epoch and sequence.
    """
    left = state.size - position
    if not _is_there(state, position, min(_SMALLEST_2, left)):
        return _NOTHING
    at = state.buffer + position - state.begin
    size, magic = int32_at(at + _V2.length) + layout.LOG_OVERHEAD, byte(at + _V2.magic)
    if size <= left and magic == 2 and size >= _SMALLEST_2:
        base, delta, count = int64_at(at), int32_at(at + _V2.last_offset_delta), int32_at(at + _V2.record_count)
        if delta >= 0 and count >= 0 and next_offset <= base <= layout.LAST_OFFSET - delta:
            producer = (int64_at(at + _V2.producer_id), int16_at(at + _V2.producer_epoch), int32_at(at + _V2.base_sequence))
            epoch, time, stored = int32_at(at + _V2.leader_epoch), int64_at(at + _V2.max_timestamp), uint32_at(at + _V2.crc)
            return size, (base, base + delta, 2, epoch, count, time, stored, int16_at(at + _V2.attributes), *producer)
    elif magic < 2 and (_SMALLEST_1 if magic == 1 else _SMALLEST_0) <= size <= left:
        last, codec = int64_at(at), byte(at + _LEGACY.attributes) & layout.CODEC
        base = last if codec == 0 else next_offset
        if next_offset <= last <= layout.LAST_OFFSET and last - base < _MOST_LEGACY_RECORDS:
            time = int64_at(at + _LEGACY.max_timestamp) if magic == 1 else -1
            return size, (base, last, magic, -1, last - base + 1, time, uint32_at(at + _LEGACY.crc), codec, -1, -1, -1)
    return _NOTHING


@njit(forceinline=True)
def _is_intact(state: Any, position: int, size: int, magic: int, stored: int) -> int:
    """Whether a batch matches its CRC, 1 if nobody asks, -1 if it cannot be read."""
    at, stop, crc = position + (layout.V2_CRC_FROM if magic == 2 else layout.LEGACY_CRC_FROM), position + size, _ALL_ONES
    while state.verify_crc and at < stop:
        if not _is_there(state, at, 1):
            return -1
        part, address = min(stop, state.end) - at, state.buffer + at - state.begin
        crc = _v2_crc(crc, address, part) if magic == 2 else _legacy_crc(crc, address, part)
        at += part
    if state.verify_crc == 0 or crc ^ _ALL_ONES == stored:
        return 1
    if state.first_bad_crc < 0:
        state.first_bad_crc = position
    return 0


@njit(forceinline=True)
def _count(state: Any, span: Any, batch: Any, one: Any, gap: Any) -> None:
    """Count a batch, as `producer_spans.of_batch` takes it; `one` has room for its own span, `gap` for what is missing before it."""
    producer, epoch, sequence, base, last, count, time, transactional, marker = batch
    if span.batch_count > 0 and producer_spans.continues(span, producer, epoch, sequence, transactional, marker):
        put(span, producer_spans.carried_on(span, sequence, base, last, count, time))  # nearly always; of a row few fields change
    elif count > 0 or not marker:  # the cleaner has not emptied it
        found = producer_spans.of_batch(*batch)
        put(one, found)
        if span.batch_count + span.marker_count == 0:
            put(span, found)
            state.producer_count += 1
            return
        missing = producer_spans.gap_between(span, one)
        if missing is not None:
            put(gap, missing)
            state.gap_count += 1
        put(span, producer_spans.joined(span, one))


@njit
def scan(words: Any, runs: Any, windows: Any, headers: Any, producers: Any, gaps: Any) -> int:
    """Take batches from `position` on: a state (STATE, in an array of one), and the tables of `ScanTables`."""
    state, room, mask, most_gaps = words[0], len(headers), len(producers) - 2, len(gaps) - 1
    position, next_offset, window, result = state.position, state.next_offset, windows[0], DONE
    run_count, window_count, header_count = state.run_count, 0, state.header_count
    while state.size - position > layout.HEADER_UP_TO_MAGIC:
        is_full = run_count == len(runs) or window_count == len(windows) or 0 < room <= header_count or 2 * state.producer_count > mask
        if is_full or position >= state.stop:
            result = MORE
            break
        size, header = _decoded(state, position, next_offset)
        base, last, magic, epoch, count, time, stored, attributes, producer, producer_epoch, sequence = header
        intact: Any = _is_intact(state, position, size, magic, stored) if size > 0 else -1
        if intact < 0:
            break
        if room:
            put(headers[header_count], (position, size, intact, *header))
            header_count += 1
        run, batch = runs[max(run_count, 1) - 1], BatchRun(epoch, base, last, 1, count, size, time, time, magic, intact)
        is_any_gap = run_count >= state.runs_left
        if run_count > 0 and (epochs.continues(run, batch) or (is_any_gap and epochs.same_kind(run, batch))):
            put(run, epochs.joined(run, batch))
        else:
            put(runs[run_count], batch)
            run_count += 1
        first = base if magic == 2 else last
        if window_count == 0 or first >> segment_fold.WINDOW_BITS != window.number:
            window, window_count = windows[window_count], window_count + 1
            put(window, (first >> segment_fold.WINDOW_BITS, 0, 0))
        window.digest += np.int64(segment_fold.digest(np.uint64(first), np.uint64(last - first), np.uint64(stored)))
        window.batch_count += 1
        transactional, marker = attributes & layout.TRANSACTIONAL, attributes & layout.CONTROL
        if producer >= 0 and intact:
            place = int(np.int64(segment_fold.mixed(np.uint64(producer)))) & mask
            while producers[place].producer_id != producer and producers[place].batch_count + producers[place].marker_count > 0:
                place = (place + 1) & mask
            producers[state.producer_count].place = place  # if it is a new one
            named = (producer, producer_epoch, sequence, base, last, count, time, transactional, marker)
            _count(state, producers[place], named, producers[mask + 1], gaps[min(state.gap_count, most_gaps)])
        elif producer >= 0:
            state.untold_batches += 1
        position, next_offset, state.last_size = position + size, last + 1, size
    state.run_count, state.window_count, state.header_count = run_count, window_count, header_count
    state.position, state.next_offset = position, next_offset
    return result
