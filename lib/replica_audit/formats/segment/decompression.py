"""What the records of a batch are compressed with, taken apart in bounded memory.

Sources: CompressionType, Lz4BlockInputStream (clients, 4.2.0), SnappyInputStream (snappy-java).
"""

from __future__ import annotations

from io import BytesIO
from typing import Literal

import pyarrow as pa
from xxhash import xxh32_intdigest

from replica_audit.errors import SegmentError
from replica_audit.formats.segment.varints import unsigned

_CHUNK = 1 << 20
_STREAMED: dict[str, Literal["gzip", "lz4", "zstd"]] = {"gzip": "gzip", "lz4": "lz4", "zstd": "zstd"}
_XERIAL = b"\x82SNAPPY\x00"  # two version numbers of four bytes follow
_SNAPPY_TIMES = 64  # a copy of 64 bytes takes two bytes at least, so no block becomes more
_LZ4_DESCRIPTOR, _LZ4_CONTENT_SIZE = 4, 0x08  # where the flags of a frame stand, and the one that makes them longer


class BeyondLimitError(SegmentError):
    """Records that are larger than they may be: they may be sound, and are not read."""


def decompressed(data: bytes, codec: str, magic: int, limit: int) -> bytes:
    """Return what was compressed.

    It is taken apart piece by piece, so that no more than the limit, one piece and the codec's window (128 MiB at most, of zstd) is held.

    Args:
        data: as it stands in the batch.
        codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        magic: of the batch.
        limit: how many bytes it may be.

    Raises:
        BeyondLimitError: it is more.
        SegmentError: it cannot be decompressed.
    """
    if codec == "none":
        return data
    try:
        if codec == "snappy":
            return _unsnapped(data, limit)
        if codec not in _STREAMED or (codec == "zstd" and magic < 2):
            raise SegmentError(f"records of magic {magic} compressed with {codec}")
        return _streamed(_with_header_checksum(data) if codec == "lz4" and magic == 0 else data, _STREAMED[codec], limit)
    except IndexError:
        raise SegmentError("the compressed records end too early") from None
    except (OSError, pa.ArrowException) as error:
        raise SegmentError(f"the records cannot be decompressed: {error}") from None


def _streamed(data: bytes, codec: Literal["gzip", "lz4", "zstd"], limit: int) -> bytes:
    found, size = BytesIO(), 0
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while (chunk := stream.read_buffer(_CHUNK)).size:  # `read` loses its buffer where it fails
            size += chunk.size
            _check_size(size, limit)
            found.write(chunk)
    return found.getvalue()


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise BeyondLimitError(f"the records are larger than the limit of {limit} bytes once decompressed")


def _unsnapped(data: bytes, limit: int) -> bytes:
    """Snappy as Kafka's clients write it, blocks behind their lengths after a header of xerial's, or a single block without any."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data, 0, limit)
    found, at = BytesIO(), 0
    while at < len(data):
        if data.startswith(_XERIAL, at):  # streams may follow one another
            at += len(_XERIAL) + 8
            continue
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise SegmentError("a snappy block does not fit into the batch")
        found.write(_snappy_block(data[at + 4 : end], found.tell(), limit))
        at = end
    return found.getvalue()


def _snappy_block(data: bytes, before: int, limit: int) -> bytes:
    """One block, which tells its size first; `before` bytes were decompressed before it."""
    size, _at = unsigned(data, 0)
    if size > len(data) * _SNAPPY_TIMES:
        raise SegmentError(f"a snappy block of {len(data)} bytes that claims to hold {size}")
    _check_size(before + size, limit)
    return pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)


def _with_header_checksum(frame: bytes) -> bytes:
    """An LZ4 frame with the checksum that its header should have: for magic 0 clients computed it over too much (KAFKA-3160)."""
    end = _LZ4_DESCRIPTOR + (10 if frame[_LZ4_DESCRIPTOR] & _LZ4_CONTENT_SIZE else 2)
    return frame[:end] + bytes([xxh32_intdigest(frame[_LZ4_DESCRIPTOR:end]) >> 8 & 0xFF]) + frame[end + 1 :]
