"""The records inside the batches of a segment or KRaft snapshot (`.checkpoint`), decompressed and decoded.

Sources: DefaultRecord, AbstractLegacyRecordBatch, LegacyRecord, Lz4BlockInputStream (clients, 4.2.0), SnappyInputStream (snappy-java).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import pyarrow as pa

from replica_audit.errors import SegmentError
from replica_audit.formats.segment.record_batch import LOG_OVERHEAD, SMALLEST_SIZE, V2_HEADER, codec_name, legacy_header, length_in
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage

MAX_BATCH_BYTES = 64 << 20  # of one batch, as stored and as decompressed; brokers take 1 MiB unless told otherwise
MAX_RECORDS = 1 << 20  # in one batch

_CHUNK = 1 << 20
_APPEND_TIME = 0x08
_SMALLEST_RECORD = 7  # bytes of a record of magic 2 without key, value and headers
_SIZE = struct.Struct(">i")
_STREAMED: dict[str, Literal["gzip", "lz4", "zstd"]] = {"gzip": "gzip", "lz4": "lz4", "zstd": "zstd"}
_XERIAL = b"\x82SNAPPY\x00"  # two version numbers of four bytes follow
_LZ4_DESCRIPTOR, _LZ4_CONTENT_SIZE = 4, 0x08  # where the flags of a frame stand, and the one that makes them longer


class Record(NamedTuple):
    """One record with its absolute offset.

    `timestamp_ms` is -1 where the format has none, the broker's under LogAppendTime. A control record's key is its version and type, int16.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecords:
    """A batch with an intact header whose records cannot be had: it stands in place of the batch, and reading goes on behind it.

    `code` is `bad-crc` where the batch does not match its CRC, so that its records are not to be trusted, and `bad-records` where they
    cannot be decompressed or decoded, or are beyond `MAX_BATCH_BYTES` or `MAX_RECORDS`. `byte_offset` is the batch's position in the file.
    """

    code: str
    detail: str
    byte_offset: int
    header: BatchHeader


def read_records(path: Path) -> Iterator[tuple[BatchHeader, tuple[Record, ...]] | UnreadableRecords | Damage]:
    """The batches of a file in order, each with its records; a `Damage` is the last item if reading stops before the end of the file.

    Records are those that Kafka would iterate over: of control batches too, none of a batch that the cleaner emptied. Offsets ascend as
    they do in the batch, with the gaps that compaction left. For a compressed legacy entry the header's `base_offset` stays the lower
    bound that it is; the records have their true offsets.

    Args:
        path: of a segment, or a snapshot of KRaft. One batch at a time is held in memory.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        for item in read_batches(path, verify_crc=True):
            yield item if isinstance(item, Damage) else _read(stream, item)


def _read(stream: BinaryIO, header: BatchHeader) -> tuple[BatchHeader, tuple[Record, ...]] | UnreadableRecords:
    code, reason = "bad-records", ""
    if not header.crc_valid:
        code, reason = "bad-crc", "the batch does not match its CRC"
    elif header.size_bytes > MAX_BATCH_BYTES:
        reason = f"a batch of {header.size_bytes} bytes is too large to be read, the limit is {MAX_BATCH_BYTES}"
    else:
        stream.seek(header.position)
        content = stream.read(header.size_bytes)
        try:
            return header, _records(content, header) if header.magic == 2 else _legacy_records(content, header)
        except SegmentError as error:
            reason = error.reason
        except (IndexError, struct.error):
            reason = "the batch ends inside a record"
    detail = f"offsets {header.base_offset}..{header.last_offset}: {reason}"
    return UnreadableRecords(code=code, detail=detail, byte_offset=header.position, header=header)


def _records(content: bytes, header: BatchHeader) -> tuple[Record, ...]:
    """The records of a batch of magic 2."""
    count = header.record_count
    if not count:
        return ()
    attributes, base_timestamp = V2_HEADER.unpack_from(content)[5:8:2]
    append_time = header.max_timestamp_ms if attributes & _APPEND_TIME else None
    data = _decompressed(content[V2_HEADER.size :], header.codec)
    if count > MAX_RECORDS or count * _SMALLEST_RECORD > len(data):
        raise SegmentError(f"{count} records cannot be in {len(data)} bytes, or are more than the limit of {MAX_RECORDS}")
    records, at = [], 0
    for _ in range(count):
        record, at = _record(data, at, header.base_offset, base_timestamp)
        record = record if append_time is None else record._replace(timestamp_ms=append_time)
        records.append(_checked(record, header.base_offset, header.last_offset))
    if at != len(data):
        raise SegmentError(f"{len(data) - at} bytes behind the last record")
    return tuple(records)


def _record(data: bytes, at: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """The record at `at`, and where the next one begins."""
    size, at = _varint(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise SegmentError(f"a record of {size} bytes does not fit into the batch")
    timestamp_delta, at = _varint(data, at + 1)  # its attributes are unused
    offset_delta, at = _varint(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    headers, at = _varint(data, at)
    if not 0 <= headers <= size:
        raise SegmentError(f"a record with {headers} headers in {size} bytes")
    for _ in range(headers):
        name, at = _bytes(data, at)
        _, at = _bytes(data, at)
        if name is None:
            raise SegmentError("a header without a key")
    if at != end:
        raise SegmentError(f"a record's fields end {at - end} bytes off its end")
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of variable length, and where it ends."""
    byte = data[at]
    number, at, shift = byte & 0x7F, at + 1, 7
    while byte & 0x80:
        if shift > 63:
            raise SegmentError("a number of variable length without an end")
        byte = data[at]
        number, at, shift = number | (byte & 0x7F) << shift, at + 1, shift + 7
    return (number >> 1) ^ -(number & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, and where they end; None for a negative length."""
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise SegmentError(f"a field of {size} bytes does not fit into the batch")
    return data[at : at + size], at + size


def _checked(record: Record, first: int, last: int) -> Record:
    if not first <= record.offset <= last:
        raise SegmentError(f"a record at offset {record.offset}")
    if not -1 << 63 <= record.timestamp_ms < 1 << 63:
        raise SegmentError(f"the record at offset {record.offset} has an impossible timestamp")
    return record


def _legacy_records(content: bytes, header: BatchHeader) -> tuple[Record, ...]:
    """The record of an entry of magic 0 or 1, or the records of the entries that are compressed in it."""
    wrapper, attributes = _entry(content)
    if header.codec == "none":
        return (wrapper,)
    if wrapper.value is None:
        raise SegmentError("a compressed entry without a value")
    entries = list(islice(_inner_entries(_decompressed(wrapper.value, header.codec, header.magic)), MAX_RECORDS + 1))
    if not 0 < len(entries) <= MAX_RECORDS:
        raise SegmentError("a compressed entry without records" if not entries else f"more than {MAX_RECORDS} records in an entry")
    # magic 0 stores the offsets themselves, magic 1 counts them from the first; the entry has the offset of the last
    base = wrapper.offset - entries[-1].offset if header.magic == 1 else 0
    if base < 0:
        raise SegmentError(f"a compressed entry at offset {wrapper.offset} with {entries[-1].offset} records before its last one")
    if header.magic == 1 and attributes & _APPEND_TIME:
        entries = [entry._replace(timestamp_ms=wrapper.timestamp_ms) for entry in entries]
    return tuple(_checked(entry._replace(offset=base + entry.offset), 0, header.last_offset) for entry in entries)


def _inner_entries(data: bytes) -> Iterator[Record]:
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        size = LOG_OVERHEAD + length_in(data[at : at + LOG_OVERHEAD])
        end = at + size
        if size >= SMALLEST_SIZE[0] and end > len(data):
            return  # a part of an entry at the end is no error to Kafka
        entry, attributes = _entry(data[at:end])
        if codec_name(attributes) != "none":
            raise SegmentError(f"an entry compressed with {codec_name(attributes)} inside a compressed entry")
        yield entry
        at = end


def _entry(data: bytes) -> tuple[Record, int]:
    """One entry of magic 0 or 1 as its record, value still compressed, and its attributes."""
    offset, length, _crc, magic, attributes, timestamp, at = legacy_header(data)
    if magic not in (0, 1) or LOG_OVERHEAD + length < SMALLEST_SIZE[magic]:
        raise SegmentError(f"an entry of magic {magic} with {length} bytes")
    key, at = _sized(data, at)
    value, _ = _sized(data, at)
    return Record(offset, timestamp, key, value), attributes


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind a length of four bytes, and where they end; None for a negative length."""
    (size,), at = _SIZE.unpack_from(data, at), at + 4
    if at + size > len(data):
        raise SegmentError(f"a field of {size} bytes does not fit into its entry")
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _decompressed(data: bytes, codec: str, magic: int = 2) -> bytes:
    """What was compressed, of at most `MAX_BATCH_BYTES`."""
    if codec == "none":
        return data
    try:
        if codec == "snappy":
            return _unsnapped(data)
        if codec not in _STREAMED or (codec == "zstd" and magic < 2):
            raise SegmentError(f"records of magic {magic} compressed with {codec}")
        return _streamed(_with_header_checksum(data) if codec == "lz4" and magic == 0 else data, _STREAMED[codec])
    except (OSError, pa.ArrowException) as error:
        raise SegmentError(f"the records cannot be decompressed: {error}") from None


def _streamed(data: bytes, codec: Literal["gzip", "lz4", "zstd"]) -> bytes:
    found = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while (chunk := stream.read_buffer(_CHUNK)).size:  # `read` loses its buffer where it fails
            found += chunk
            _check_size(len(found))
    return bytes(found)


def _check_size(size: int) -> None:
    if size > MAX_BATCH_BYTES:
        raise SegmentError(f"the records are larger than the limit of {MAX_BATCH_BYTES} bytes once decompressed")


def _unsnapped(data: bytes) -> bytes:
    """Snappy as Kafka's clients write it, blocks behind their lengths after a header of xerial's, or a single block without any."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data, 0)
    found, at = bytearray(), 0
    while at < len(data):
        if data.startswith(_XERIAL, at):  # streams may follow one another
            at += len(_XERIAL) + 8
            continue
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise SegmentError("a snappy block does not fit into the batch")
        found += _snappy_block(data[at + 4 : end], len(found))
        at = end
    return bytes(found)


def _snappy_block(data: bytes, before: int) -> bytes:
    """One block, which tells its size first; `before` bytes were decompressed before it."""
    size = 0
    for i, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    _check_size(before + size)
    return pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)


def _with_header_checksum(frame: bytes) -> bytes:
    """An LZ4 frame with the checksum that its header should have: for magic 0 clients computed it over too much (KAFKA-3160)."""
    end = _LZ4_DESCRIPTOR + (10 if frame[_LZ4_DESCRIPTOR] & _LZ4_CONTENT_SIZE else 2)
    return frame[:end] + bytes([_xxh32(frame[_LZ4_DESCRIPTOR:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes."""
    mask = 0xFFFFFFFF
    found = 374761393 + len(data) & mask
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        found = found + int.from_bytes(data[at : at + 4], "little") * 3266489917 & mask
        found = (found << 17 | found >> 15) * 668265263 & mask
    for byte in data[words:]:
        found = found + byte * 374761393 & mask
        found = (found << 11 | found >> 21) * 2654435761 & mask
    found = (found ^ found >> 15) * 2246822519 & mask
    found = (found ^ found >> 13) * 3266489917 & mask
    return found ^ found >> 16
