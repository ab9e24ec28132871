"""The records of a decompressed batch of magic 2, taken apart and hashed in one loop, for numba to compile.

It gives up at the first field that does not fit, and the decoder in Python, which goes over the same bytes then, says what is wrong. Hashes
are XXH64 (its specification: github.com/Cyan4973/xxHash), as the `xxhash` package computes them. All numbers are int64, and wrap around.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from replica_audit.formats.native.crc_kernel import byte, half, put, shifted, word
from replica_audit.formats.segment.record_batch import LONG_BYTES
from replica_audit.formats.segment.records import KEY_SEED, NO_KEY, TOMBSTONE

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
