"""The header of one record batch (magic 2) or legacy entry (magic 0, 1), decoded from bytes.

Sources: DefaultRecordBatch, LegacyRecord, LegacyRecord.computeChecksum (clients, 4.2.0). All integers are big endian.
"""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate
from typing import BinaryIO

import crc32c
import numpy as np

from replica_audit.errors import SegmentError
from replica_audit.model import BatchHeader

# The one declaration of the headers: the names of their fields and their types as `struct` and numpy spell them, big endian. The first
# 17 bytes mean the same in all, except CRC and epoch. An entry of magic 0 has no timestamp.
_V2_FIELDS = {
    **{"base_offset": "q", "length": "i", "leader_epoch": "i", "magic": "b", "crc": "I", "attributes": "h", "last_offset_delta": "i"},
    **{"base_timestamp": "q", "max_timestamp": "q", "producer_id": "q", "producer_epoch": "h", "base_sequence": "i", "record_count": "i"},
}
_LEGACY_FIELDS = {"base_offset": "q", "length": "i", "crc": "I", "magic": "b", "attributes": "b", "max_timestamp": "q"}
V2_HEADER, _LEGACY_HEADER = (struct.Struct(">" + "".join(fields.values())) for fields in (_V2_FIELDS, _LEGACY_FIELDS))
RAW_HEADER = np.dtype([(name, f">{kind}") for name, kind in _V2_FIELDS.items()])
V2_AT, LEGACY_AT = (  # the byte of each field in the header
    dict(zip(fields, accumulate(map(struct.calcsize, map(">{}".format, fields.values())), initial=0), strict=False))
    for fields in (_V2_FIELDS, _LEGACY_FIELDS)
)
LOG_OVERHEAD = V2_AT["leader_epoch"]  # base offset and length, which the length field does not count
HEADER_UP_TO_MAGIC = V2_AT["magic"] + 1
_LENGTHS = 8  # of the key and the value of a legacy entry, which both may be without
SMALLEST_SIZE = (LEGACY_AT["max_timestamp"] + _LENGTHS, _LEGACY_HEADER.size + _LENGTHS, V2_HEADER.size)  # by magic
CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20  # bits of the attributes
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
V2_CRC_FROM = V2_AT["attributes"]  # the first byte that the CRC covers
LEGACY_CRC_FROM = LEGACY_AT["magic"]
_CHUNK = 1 << 18  # stays in the second-level cache until its CRC is taken
LAST_OFFSET = 2**63 - 2  # the log end offset behind it must be one, too


def codec_name(attributes: int) -> str:
    """The compression codec of an attributes field: its lowest three bits."""
    number = attributes & CODEC
    return _CODECS[number] if number < len(_CODECS) else f"unknown-{number}"


def length_in(head: bytes) -> int:
    """What the length field of a header says; it counts what is behind it, in bytes."""
    return int.from_bytes(head[V2_AT["length"] : LOG_OVERHEAD], "big", signed=True)


def decode_header(head: bytes, position: int, next_offset: int) -> BatchHeader:
    """Decode the header at the start of `head`; its CRC is not looked at (`crc_valid` is None).

    Args:
        head: at least as many bytes as the entry has, or as a header of magic 2 has (61).
        position: of the batch in its file, in bytes.
        next_offset: the offset after the previous batch, or the segment's base offset: the least that this batch may begin with.

    Raises:
        SegmentError: the magic byte or a field is impossible.
    """
    length, magic = length_in(head), head[V2_AT["magic"]]
    if magic > 2:
        raise SegmentError(f"magic byte {magic} is not 0, 1 or 2", byte_offset=position + V2_AT["magic"])
    if length + LOG_OVERHEAD < SMALLEST_SIZE[magic]:
        raise SegmentError(f"batch length {length} is too small for magic {magic}", byte_offset=position + V2_AT["length"])
    return _decode_v2(head, position) if magic == 2 else _decode_legacy(head, position, next_offset)


def _decode_v2(head: bytes, position: int) -> BatchHeader:
    (base, length, epoch, magic, crc, attributes, delta, _first_timestamp, timestamp, producer, producer_epoch, sequence, count) = (
        V2_HEADER.unpack_from(head)
    )
    if delta < 0 or count < 0:
        raise SegmentError(
            f"last offset delta {delta} and record count {count} may not be negative", byte_offset=position + V2_AT["last_offset_delta"]
        )
    if base + delta > LAST_OFFSET:
        raise SegmentError(f"offsets {base}..{base + delta} are impossible", byte_offset=position)
    return BatchHeader(
        position=position,
        base_offset=base,
        last_offset=base + delta,
        size_bytes=length + LOG_OVERHEAD,
        magic=magic,
        leader_epoch=epoch,
        record_count=count,
        max_timestamp_ms=timestamp,
        crc=crc,
        crc_valid=None,
        codec=codec_name(attributes),
        is_transactional=bool(attributes & TRANSACTIONAL),
        is_control=bool(attributes & CONTROL),
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def legacy_header(head: bytes) -> tuple[int, int, int, int, int, int, int]:
    """Offset, length, CRC, magic, attributes and timestamp (-1: none) of a legacy entry, and where its key begins."""
    offset, length, crc, magic, attributes, timestamp = _LEGACY_HEADER.unpack_from(head.ljust(_LEGACY_HEADER.size, b"\0"))
    if magic == 0:
        return offset, length, crc, magic, attributes, -1, LEGACY_AT["max_timestamp"]
    return offset, length, crc, magic, attributes, timestamp, _LEGACY_HEADER.size


def _decode_legacy(head: bytes, position: int, next_offset: int) -> BatchHeader:
    offset, length, crc, magic, attributes, timestamp, _end = legacy_header(head)
    if offset > LAST_OFFSET:
        raise SegmentError(f"offset {offset} is impossible", byte_offset=position)
    codec = codec_name(attributes)
    # a compressed wrapper stores its last offset only
    base = offset if codec == "none" else min(next_offset, offset)
    return BatchHeader(
        position=position,
        base_offset=base,
        last_offset=offset,
        size_bytes=length + LOG_OVERHEAD,
        magic=magic,
        leader_epoch=-1,
        record_count=offset - base + 1,
        max_timestamp_ms=timestamp,
        crc=crc,
        codec=codec,
    )


def checksum(stream: BinaryIO, header: BatchHeader, head: bytes) -> int:
    """The CRC of a batch's bytes, read in bounded chunks: CRC-32C from the attributes on (magic 2), CRC-32 from the magic byte on (legacy).

    Args:
        stream: positioned right behind `head`; left at the end of the batch.
        header: of the batch.
        head: the first bytes of the batch, already read.
    """
    begin, compute = (V2_CRC_FROM, crc32c.crc32c) if header.magic == 2 else (LEGACY_CRC_FROM, zlib.crc32)
    crc: int = compute(head[begin : header.size_bytes])
    left = header.size_bytes - len(head)
    while left > 0 and (chunk := stream.read(min(left, _CHUNK))):
        crc = compute(chunk, crc)
        left -= len(chunk)
    return crc


# Numbers of variable length: seven bits a byte, the lowest first, as Kafka's ByteUtils reads them (clients, 4.2.0).

INT_BYTES, LONG_BYTES = 5, 10  # the most that one of 32, of 64 bits may have


def unsigned(data: bytes, at: int, most: int = INT_BYTES) -> tuple[int, int]:
    """A number, and where it ends.

    Args:
        data: the bytes.
        at: where it begins.
        most: bytes that it may have.

    Raises:
        SegmentError: it has more.
        IndexError: the bytes end inside it.
    """
    byte = data[at]
    number, begin, at = byte & 0x7F, at, at + 1
    while byte & 0x80:
        if at - begin == most:
            raise SegmentError("a variable-length number without an end")
        byte = data[at]
        number, at = number | (byte & 0x7F) << 7 * (at - begin), at + 1
    return number, at


def zigzag(data: bytes, at: int, most: int = LONG_BYTES) -> tuple[int, int]:
    """The same for a number that has a sign, which is its lowest bit."""
    number, at = unsigned(data, at, most)
    return (number >> 1) ^ -(number & 1), at
