"""Access to memory, and CRCs of what is there, for numba to compile: what the kernels of segments and of texts are made of.

CRC-32C with the instruction that x86-64 has for it (SSE 4.2), three streams at once because each result takes three cycles and one can be
started in every cycle (source: Gopal et al., Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction, Intel, 2011); elsewhere,
and CRC-32 everywhere, eight bytes at a time from tables. All numbers are int64, of CRCs the upper half is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types
from numba.extending import intrinsic

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
