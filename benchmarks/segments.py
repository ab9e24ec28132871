"""Segments to time readers with: batches of one size with valid records and CRCs, five leader epochs."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import crc32c
import numpy as np

EPOCHS = 5
_DIFFERENT_BYTES = 8 << 20  # then contents repeat; offsets and epochs do not
_ABOUT_A_WRITE = 8 << 20


def write_segment(path: Path, batch_bytes: int, size_bytes: int, producers: int = 0) -> int:
    """Write as many batches as fit; their number.

    Args:
        path: of the file.
        batch_bytes: size of every batch, at least 100.
        size_bytes: of the file, at most.
        producers: idempotent ones that write a batch each in turn; none: the batches have no producer.
    """
    batches = size_bytes // batch_bytes
    different = min(batches, max(1, _DIFFERENT_BYTES // batch_bytes))
    random = np.random.default_rng(7)
    block = np.frombuffer(b"".join(_batch(batch_bytes, random) for _ in range(different)), dtype=np.uint8).reshape(different, batch_bytes)
    block = np.tile(block, (max(1, _ABOUT_A_WRITE // block.nbytes), 1))
    with path.open("wb") as stream:
        for first in range(0, batches, len(block)):
            count = min(len(block), batches - first)
            offsets = np.arange(first, first + count)
            # the CRC covers neither of these
            block[:count, 0:8] = offsets.astype(">i8").view(np.uint8).reshape(count, 8)
            block[:count, 12:16] = (offsets * EPOCHS // batches).astype(">i4").view(np.uint8).reshape(count, 4)
            if producers:
                _name(block[:count], offsets, producers)
            stream.write(block[:count].data)
    return batches


def _name(block: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], producers: int) -> None:
    """Write a producer and a sequence into every batch, and the CRC that it then has."""
    for at, kind, values in ((43, ">i8", 1000 + offsets % producers), (51, ">i2", 0 * offsets), (53, ">i4", offsets // producers)):
        width = np.dtype(kind).itemsize
        block[:, at : at + width] = values.astype(kind).view(np.uint8).reshape(len(block), width)
    crcs = np.array([crc32c.crc32c(batch[21:]) for batch in block], ">u4")
    block[:, 17:21] = crcs.view(np.uint8).reshape(len(block), 4)


def _batch(size: int, random: np.random.Generator) -> bytes:
    """A batch of magic 2 at offset 0: one record without a key, its value random and as long as makes the batch this big."""
    value = size
    while len(record := _record(value, random)) + 61 > size:
        value -= len(record) + 61 - size
    record += random.bytes(size - 61 - len(record)) if len(record) + 61 < size else b""  # a length that no varint makes
    covered = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, size - 12, 0, 2, crc32c.crc32c(covered)) + covered


def _record(value_bytes: int, random: np.random.Generator) -> bytes:
    body = b"\x00" + _varint(0) + _varint(0) + _varint(-1) + _varint(value_bytes) + random.bytes(value_bytes) + _varint(0)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """A number in zigzag form, seven bits a byte."""
    left, made = number << 1 ^ number >> 63, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*made, left))
