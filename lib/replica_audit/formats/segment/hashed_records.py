"""The records of one batch as rows of numbers: hashes of key and value, offset, timestamp.

A key is known by 128 bits of hash, a value with its headers by 64. In plain Python; `formats/native/record_kernel` fills the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from xxhash import xxh64_intdigest

from replica_audit.formats.segment.records import Record

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
ROW = ("key_high", "key_low", "offset", "timestamp_ms", "value_hash", "flags")
KIND = np.dtype([(name, np.int64) for name in ROW])  # of the same bytes
KEY_SEED = 0x5BD1E995  # of the second half of a key's hash
TOMBSTONE, NO_KEY, MARKER, PENDING, BROKER_TIME = 1, 2, 4, 8, 16  # of `flags`; the last three are of `keyed_records`
_SIGN, _WRAP = 1 << 63, 1 << 64


def hashed(records: Iterable[Record]) -> Rows:
    """A row (`ROW`) for each record; of one without a key `flags` has NO_KEY."""
    rows = [
        (
            *key_hash(record.key or b""),
            record.offset,
            record.timestamp_ms,
            value_hash(record),
            (NO_KEY if record.key is None else 0) | (TOMBSTONE if record.value is None else 0),
        )
        for record in records
    ]
    return np.array(rows, np.int64).reshape(len(rows), len(ROW))


def key_hash(key: bytes) -> tuple[int, int]:
    """Both halves of a key's hash, as signed numbers."""
    return _signed(xxh64_intdigest(key)), _signed(xxh64_intdigest(key, KEY_SEED))


def value_hash(record: Record) -> int:
    """The hash of a value and, after it, of the headers as they are encoded."""
    found = xxh64_intdigest(record.value or b"")
    return _signed(xxh64_intdigest(record.headers, found) if record.headers else found)


def _signed(number: int) -> int:
    return number - _WRAP if number >= _SIGN else number
