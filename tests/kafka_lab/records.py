"""Records of batches of format v2, decoded and encoded by the laboratory's own code, not by the code under test."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa

with warnings.catch_warnings():  # kafka-python reads its own resources in a deprecated way while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record._crc32c import crc as crc32c  # not the library that the product calls

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_Streamed = Literal["gzip", "lz4", "zstd"]
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True, slots=True)
class Record:
    """A record; `delta` is its offset's distance from the batch's base. `rest` are its headers, as they are encoded."""

    delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    rest: bytes = b"\0"


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch with its records; the fields of the header as they are written."""

    base: int
    epoch: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Record, ...]

    @property
    def last(self) -> int:
        """The last offset; of a compacted batch perhaps that of no record."""
        return self.base + self.last_delta

    @property
    def codec(self) -> str:
        """Its compression."""
        return _CODECS[self.attributes & 7]

    @property
    def is_control(self) -> bool:
        """Whether it is a transaction's marker."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether its records count only when its transaction is committed."""
        return bool(self.attributes & _TRANSACTIONAL)

    def with_codec(self, codec: str) -> RecordBatch:
        """The same records, compressed otherwise."""
        return replace(self, attributes=self.attributes & ~7 | _CODECS.index(codec))

    def encoded(self) -> bytes:
        """The bytes of it, with their CRC."""
        records = b"".join(map(_record, self.records))
        body = _compressed(records, self.codec)
        fields = (self.attributes, self.last_delta, self.base_timestamp, self.max_timestamp)
        tail = struct.pack(">hiqqqhii", *fields, self.producer_id, self.producer_epoch, self.base_sequence, len(self.records)) + body
        return struct.pack(">qiibI", self.base, len(tail) + 9, self.epoch, 2, crc32c(tail)) + tail


def decoded(content: bytes) -> Iterator[tuple[int, int, RecordBatch]]:
    """The whole batches of a segment, each with the bytes [begin, end) that it takes."""
    at = 0
    while at + _HEADER.size <= len(content):
        base, length, epoch, magic, _crc, attributes, *fields = _HEADER.unpack_from(content, at)
        end = at + 12 + length
        if magic != 2 or length < _HEADER.size - 12 or end > len(content):
            return
        body = _decompressed(content[at + _HEADER.size : end], _CODECS[attributes & 7])
        last, base_time, max_time, producer, producer_epoch, sequence, count = fields
        made = tuple(_records(body, count))
        yield at, end, RecordBatch(base, epoch, attributes, last, base_time, max_time, producer, producer_epoch, sequence, made)
        at = end


def batches_of(directory: Path) -> list[RecordBatch]:
    """Those of all segments, in order."""
    return [batch for segment in sorted(directory.glob("*.log")) for _begin, _end, batch in decoded(segment.read_bytes())]


def replaced(directory: Path, base: int, *made: RecordBatch) -> None:
    """Write other batches where that with a base offset is, or none."""
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        for begin, end, batch in decoded(content):
            if batch.base == base:
                segment.write_bytes(content[:begin] + b"".join(one.encoded() for one in made) + content[end:])
                return
    raise AssertionError(f"{directory} has no batch at {base}")


def _records(body: bytes, count: int) -> Iterator[Record]:
    at = 0
    for _ in range(count):
        size, at = _varint(body, at)
        end = at + size
        timestamp_delta, at = _varint(body, at + 1)
        delta, at = _varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        yield Record(delta, timestamp_delta, key, value, body[at:end])
        at = end


def _record(one: Record) -> bytes:
    content = b"\0" + _zigzag(one.timestamp_delta) + _zigzag(one.delta) + _sized(one.key) + _sized(one.value) + one.rest
    return _zigzag(len(content)) + content


def _varint(body: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _zigzag(value: int) -> bytes:
    left, made = (value << 1) ^ (value >> 63), bytearray()
    while left >= 0x80:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def _bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(body, at)
    return (None, at) if size < 0 else (body[at : at + size], at + size)


def _sized(value: bytes | None) -> bytes:
    return _zigzag(-1) if value is None else _zigzag(len(value)) + value


def _decompressed(body: bytes, codec: str) -> bytes:
    if codec == "none":
        return body
    if codec == "snappy":
        return b"".join(_of_xerial(body))
    with pa.CompressedInputStream(io.BytesIO(body), cast(_Streamed, codec)) as stream:
        return bytes(stream.read())


def _of_xerial(body: bytes) -> Iterator[bytes]:
    at = 16  # magic and two versions
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        block = body[at + 4 : at + 4 + size]
        length, shift, byte = 0, 0, 0x80
        for byte in block:
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield pa.decompress(block, length, codec="snappy", asbytes=True)
        at += 4 + size


def _compressed(records: bytes, codec: str) -> bytes:
    if codec == "none":
        return records
    assert codec != "snappy", "Java's framing of it is only read here"
    return pa.Codec(cast(_Streamed, codec)).compress(records, asbytes=True)
