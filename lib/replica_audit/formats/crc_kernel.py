"""CRCs of bytes in memory, as numba compiles them: what the segment kernel calls for every batch.

CRC-32C with the instruction that x86-64 has for it (SSE 4.2), three streams at once because each result takes three cycles and one can be
started in every cycle; elsewhere, and CRC-32 everywhere, eight bytes at a time from tables. Source of the joining of streams: Gopal et al.,
Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction (Intel, 2011).

Only the compilation imports this module, for numba takes long to import. Addresses and sizes are in bytes; CRCs are int64 whose upper half
is zero. All arithmetic is that of int64, which numba lets wrap around: mixed with unsigned numbers it would become floating point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

CRC32C_POLYNOMIAL, CRC32_POLYNOMIAL = 0x82F63B78, 0xEDB88320  # bit-reflected
_INT64 = ir.IntType(64)
_INT32 = ir.IntType(32)
_LONGEST_STREAM = 128  # in words of eight bytes
_LONGEST = 3 * 8 * _LONGEST_STREAM
_SHORTEST_STREAM = 4
_LOW_HALF = 0xFFFFFFFF


def _load(bits: int, *, big_endian: bool = False, signed: bool = False) -> Any:
    """What reads an integer at any address: numba's own indexing would check and wrap every index, and knows no byte order."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), typ=ir.IntType(bits))
        value.align = 1
        if big_endian:
            value = builder.bswap(value)
        if bits == 64:
            return value
        return builder.sext(value, _INT64) if signed else builder.zext(value, _INT64)

    @intrinsic
    def load(_typing: Any, _address: Any) -> Any:
        return types.int64(types.int64), codegen

    return load


load_byte = _load(8)
load_half_word = _load(32)
load_word = _load(64)
load_int64_big_endian = _load(64, big_endian=True)
load_int32_big_endian = _load(32, big_endian=True, signed=True)
load_uint32_big_endian = _load(32, big_endian=True)


@intrinsic
def store_word(_typing: Any, _address: Any, _value: Any) -> Any:
    """Write eight bytes in the machine's own order; the address is a multiple of eight."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _INT64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def shifted_right(_typing: Any, _number: Any, _bits: Any) -> Any:
    """The 64 bits of a number, shifted right with zeros moving in; Python's own shift keeps the sign."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(*arguments)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def prefetch(_typing: Any, _address: Any) -> Any:
    """Have the line of 64 bytes at an address brought near, if it can be read; it is no fault if it cannot."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(arguments[0], pointer), _INT32(0), _INT32(3), _INT32(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def _crc_of_word(_typing: Any, _crc: Any, _word: Any) -> Any:
    """The CRC-32C after eight more bytes, by the instruction."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT64, [_INT64, _INT64])
        return builder.call(builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", fnty=kind), arguments)

    return types.int64(types.int64, types.int64), codegen


def _crc_of_few(bits: int) -> Any:
    """The same after fewer bytes, which are the lower ones of the number."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT32, [_INT32, ir.IntType(bits)])
        crc, few = builder.trunc(arguments[0], _INT32), builder.trunc(arguments[1], ir.IntType(bits))
        function = builder.module.declare_intrinsic(f"llvm.x86.sse42.crc32.32.{bits}", fnty=kind)
        return builder.zext(builder.call(function, [crc, few]), _INT64)

    @intrinsic
    def crc_of_few(_typing: Any, _crc: Any, _few: Any) -> Any:
        return types.int64(types.int64, types.int64), codegen

    return crc_of_few


_crc_of_half_word, _crc_of_byte = _crc_of_few(32), _crc_of_few(8)


@intrinsic
def _carryless_product(_typing: Any, _first: Any, _second: Any) -> Any:
    """The lower 64 bits of the product of two polynomials (PCLMULQDQ); none are lost if both are shorter than 33 bits."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pair = ir.VectorType(_INT64, 2)
        kind = ir.FunctionType(pair, [pair, pair, ir.IntType(8)])
        function = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", fnty=kind)
        first, second = (builder.insert_element(ir.Constant(pair, [0, 0]), number, _INT32(0)) for number in arguments)
        return builder.extract_element(builder.call(function, [first, second, ir.IntType(8)(0)]), _INT32(0))

    return types.int64(types.int64, types.int64), codegen


def _shift_factors() -> Any:
    """For n words: the polynomial that, multiplied with a CRC and reduced by the instruction, moves it over n words of zeros."""
    factors, power = [0], 1 << 31  # bit-reflected: this is x**0
    for exponent in range(1, 2 * _LONGEST_STREAM * 64 - 32):
        power = power >> 1 ^ (CRC32C_POLYNOMIAL if power & 1 else 0)  # times x
        if exponent % 64 == 31:  # 64 n - 33
            factors.append(power)
    return np.array(factors, dtype=np.int64)


_FACTORS = _shift_factors()


@njit(forceinline=True)
def _joined(first: int, second: int, third: int, words: int) -> int:
    """The CRC of three streams of so many words one after the other."""
    moved = _carryless_product(first, _FACTORS[2 * words]) ^ _carryless_product(second, _FACTORS[words])
    joined: int = _crc_of_word(0, moved) ^ third
    return joined


@njit
def crc32c_by_instruction(crc: int, address: int, size: int) -> int:
    """The CRC-32C register after `size` more bytes; it begins, and is compared, inverted."""
    while size >= _LONGEST:
        crc_second, crc_third = 0, 0
        for line in range(address, address + _LONGEST // 3, 64):
            # of three streams at once the processor foresees too little: maps take up to twice as long without
            for stream in range(line + _LONGEST, line + 2 * _LONGEST, _LONGEST // 3):
                prefetch(stream)
            for at in range(line, line + 64, 8):
                crc = _crc_of_word(crc, load_word(at))
                crc_second = _crc_of_word(crc_second, load_word(at + _LONGEST // 3))
                crc_third = _crc_of_word(crc_third, load_word(at + _LONGEST // 3 * 2))
        crc = _joined(crc, crc_second, crc_third, _LONGEST_STREAM)
        address, size = address + _LONGEST, size - _LONGEST
    while size >= 24 * _SHORTEST_STREAM:
        words = size // 24
        second, third = address + 8 * words, address + 16 * words
        crc_second, crc_third = 0, 0
        for at in range(0, 8 * words, 8):
            crc = _crc_of_word(crc, load_word(address + at))
            crc_second = _crc_of_word(crc_second, load_word(second + at))
            crc_third = _crc_of_word(crc_third, load_word(third + at))
        crc = _joined(crc, crc_second, crc_third, words)
        address, size = address + 24 * words, size - 24 * words
    for at in range(address, address + size // 8 * 8, 8):
        crc = _crc_of_word(crc, load_word(at))
    address, size = address + size // 8 * 8, size % 8
    if size >= 4:
        crc = _crc_of_half_word(crc, load_half_word(address))
        address, size = address + 4, size - 4
    for at in range(address, address + size):
        crc = _crc_of_byte(crc, load_byte(at))
    return crc


def crc_by_tables(polynomial: int) -> Callable[[int, int, int], int]:
    """The same for any CRC of 32 bits, without an instruction: eight lookups for eight bytes."""
    table = np.zeros((8, 256), dtype=np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table[0, byte] = value
    for row in range(1, 8):
        table[row] = table[row - 1] >> 8 ^ table[0][table[row - 1] & 0xFF]
    flat = table.ravel()

    @njit
    def crc_of(crc: int, address: int, size: int) -> int:
        for at in range(address, address + size // 8 * 8, 8):
            word = load_word(at) ^ crc  # of a little-endian machine
            crc = 0
            for place in range(8):
                crc ^= flat[(7 - place) * 256 + (shifted_right(word, 8 * place) & 0xFF)]
        for at in range(address + size // 8 * 8, address + size):
            crc = shifted_right(crc, 8) ^ flat[(crc ^ load_byte(at)) & 0xFF]
        return crc

    return crc_of  # type: ignore[no-any-return]
