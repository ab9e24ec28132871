"""The header of one record batch (magic 2) or legacy entry (magic 0, 1), decoded from bytes.

Sources: DefaultRecordBatch, LegacyRecord, LegacyRecord.computeChecksum (clients, 4.2.0). All integers are big endian.
"""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO

import crc32c
import numpy as np

from replica_audit.errors import SegmentError
from replica_audit.model import BatchHeader

LOG_OVERHEAD = 12  # base offset and length, which the length field does not count
HEADER_UP_TO_MAGIC = 17
# The one declaration of a header of magic 2: the names of its fields and their types as `struct` and numpy spell them, big endian.
_V2_FIELDS = {
    **{"base_offset": "q", "length": "i", "leader_epoch": "i", "magic": "b", "crc": "I", "attributes": "h", "last_offset_delta": "i"},
    **{"base_timestamp": "q", "max_timestamp": "q", "producer_id": "q", "producer_epoch": "h", "base_sequence": "i", "record_count": "i"},
}
V2_HEADER = struct.Struct(">" + "".join(_V2_FIELDS.values()))
RAW_HEADER = np.dtype([(name, f">{kind}") for name, kind in _V2_FIELDS.items()])
V2_AT = {name: int(offset) for name, (_type, offset, *_title) in (RAW_HEADER.fields or {}).items()}  # byte of each field in the header
SMALLEST_LENGTH = 14  # a legacy record of magic 0 without key and value
_SMALLEST_LENGTH_BY_MAGIC = (14, 22, V2_HEADER.size - LOG_OVERHEAD)
_LEGACY = struct.Struct(">qiIbb")
_LEGACY_TIMESTAMP = struct.Struct(">q")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
V2_CRC_FROM = V2_AT["attributes"]  # the first byte that the CRC covers
LEGACY_CRC_FROM = V2_AT["magic"]
_CHUNK = 1 << 18  # stays in the second-level cache until its CRC is taken
LAST_OFFSET = 2**63 - 2  # the log end offset behind it must be one, too


def codec_name(attributes: int) -> str:
    """The compression codec of an attributes field: its lowest three bits."""
    number = attributes & 0x07
    return _CODECS[number] if number < len(_CODECS) else f"unknown-{number}"


def decode_header(head: bytes, position: int, next_offset: int) -> BatchHeader:
    """Decode the header at the start of `head`; its CRC is not looked at (`crc_valid` is None).

    Args:
        head: at least as many bytes as the entry has, or as a header of magic 2 has (61).
        position: of the batch in its file, in bytes.
        next_offset: the offset after the previous batch, or the segment's base offset: the least that this batch may begin with.

    Raises:
        SegmentError: the magic byte or a field is impossible.
    """
    length = int.from_bytes(head[8:12], "big", signed=True)
    magic = head[16]
    if magic > 2:
        raise SegmentError(f"magic byte {magic} is not 0, 1 or 2", byte_offset=position + 16)
    if length < _SMALLEST_LENGTH_BY_MAGIC[magic]:
        raise SegmentError(f"batch length {length} is too small for magic {magic}", byte_offset=position + 8)
    return _decode_v2(head, position) if magic == 2 else _decode_legacy(head, position, next_offset)


def _decode_v2(head: bytes, position: int) -> BatchHeader:
    (base, length, epoch, magic, crc, attributes, delta, _first_timestamp, timestamp, producer, producer_epoch, sequence, count) = (
        V2_HEADER.unpack_from(head)
    )
    if delta < 0 or count < 0:
        raise SegmentError(f"last offset delta {delta} and record count {count} may not be negative", byte_offset=position + 23)
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
        is_transactional=bool(attributes & 0x10),
        is_control=bool(attributes & 0x20),
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def _decode_legacy(head: bytes, position: int, next_offset: int) -> BatchHeader:
    offset, length, crc, magic, attributes = _LEGACY.unpack_from(head)
    timestamp = _LEGACY_TIMESTAMP.unpack_from(head, _LEGACY.size)[0] if magic == 1 else -1
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
        crc_valid=None,
        codec=codec,
        is_transactional=False,
        is_control=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
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
