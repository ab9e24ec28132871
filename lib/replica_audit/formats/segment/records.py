"""The records inside the batches of a segment or KRaft snapshot (`.checkpoint`), decompressed and decoded.

Whatever the bytes are, memory and time are bounded: by `MAX_BATCH_BYTES` and `MAX_RECORDS` for each batch (together some 400 MiB at the
worst), and for a file by what its bytes may become (`FREE_BYTES`, `MOST_TIMES`). Sources: DefaultRecord, AbstractLegacyRecordBatch,
LegacyRecord (clients, 4.2.0).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from xxhash import xxh32_intdigest, xxh64_intdigest

from replica_audit.errors import SegmentError
from replica_audit.files.locations import opened
from replica_audit.formats.segment.record_batch import (
    LOG_OVERHEAD,
    SMALLEST_SIZE,
    V2_HEADER,
    codec_name,
    legacy_header,
    length_in,
    unsigned,
    zigzag,
)
from replica_audit.formats.segment.segment_scan import read_batches
from replica_audit.model import BatchHeader, Damage

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


MAX_BATCH_BYTES = 64 << 20  # of one batch, as stored and as decompressed; brokers take 1 MiB unless told otherwise
MAX_RECORDS = 1 << 20  # in one batch
# What the compressed batches of a file may become all together: a MiB that is all bombs then costs a minute, not hours. Records of a
# producer, even if all are alike, come to some thirty times what they are compressed to.
FREE_BYTES, MOST_TIMES = 64 << 20, 100
BAD_CRC, BAD_RECORDS, BEYOND_LIMIT = "bad-crc", "bad-records", "records-beyond-limit"
REMEDIES = {
    BAD_CRC: "the bytes changed after they were written: restore the segment from a replica whose copy of the batch matches its CRC",
    BAD_RECORDS: "the CRC matches, so the batch was written like this and consumers fail at it, too: let them continue after it, and look "
    "for its producer",
    BEYOND_LIMIT: "nothing is known to be wrong: these records are not read, because that would take too much memory or time",
}

APPEND_TIME = 0x08
_SMALLEST_RECORD = 7  # bytes of a record of magic 2 without key, value and headers
_SIZE = struct.Struct(">i")


class Record(NamedTuple):
    """One record with its absolute offset.

    `timestamp_ms` is -1 where the format has none, the broker's under LogAppendTime. A control record's key is its version and type, int16.
    `headers` are as encoded, with their number before them; empty where there are none.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecords:
    """A batch with an intact header whose records cannot be had: it stands in place of the batch, and reading goes on behind it.

    `code` is `bad-crc` where the batch does not match its CRC, so that its records are not to be trusted, `bad-records` where they cannot
    be decompressed or decoded, and `records-beyond-limit` where they are more than is read. `byte_offset` is the batch's position in the
    file.
    """

    code: str
    detail: str
    byte_offset: int
    header: BatchHeader

    @property
    def remedy(self) -> str:
        """What to do about it, in one sentence."""
        return REMEDIES[self.code]


class Budget:
    """How much of a file's compressed batches may still be decompressed."""

    def __init__(self) -> None:
        self.left = FREE_BYTES

    def limit(self, stored: int) -> int:
        """How large the records of the next batch may be, of which so many bytes are stored."""
        self.left += stored * MOST_TIMES
        return min(self.left, MAX_BATCH_BYTES)

    def spend(self, size: int) -> None:
        """Take off what a batch came to."""
        self.left = max(0, self.left - size)


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
    budget = Budget()
    with opened(path) as stream:
        for item in read_batches(path, verify_crc=True):
            yield item if isinstance(item, Damage) else read_batch(stream, item, budget)
            if isinstance(item, Damage):
                return  # of a log whose offsets go back nobody knows what counts


def records_of(stream: BinaryIO, header: BatchHeader) -> tuple[Record, ...] | UnreadableRecords:
    """The records of one batch, as of `read_records`.

    Args:
        stream: of the file that holds the batch, seekable.
        header: of the batch, its CRC verified; of one whose CRC was not, the records are decoded as they are.

    Raises:
        OSError: the file cannot be read.
    """
    found = read_batch(stream, header, Budget())
    return found if isinstance(found, UnreadableRecords) else found[1]


def read_batch(stream: BinaryIO, header: BatchHeader, budget: Budget) -> tuple[BatchHeader, tuple[Record, ...]] | UnreadableRecords:
    """The same, of a batch of a file whose batches share what they may become; `header` is given back."""
    code, reason = BAD_RECORDS, ""
    if header.crc_valid is False:
        code, reason = BAD_CRC, "the batch does not match its CRC"
    elif header.size_bytes > MAX_BATCH_BYTES:
        code, reason = BEYOND_LIMIT, f"a batch of {header.size_bytes} bytes is too large to be read, the limit is {MAX_BATCH_BYTES}"
    else:
        stream.seek(header.position)
        content = stream.read(header.size_bytes)
        try:
            return header, _records(content, header, budget) if header.magic == 2 else _legacy_records(content, header, budget)
        except BeyondLimitError as error:
            code, reason = BEYOND_LIMIT, error.reason
        except SegmentError as error:
            reason = error.reason
        except (IndexError, struct.error):
            reason = "the batch ends inside a record"
    detail = f"offsets {header.base_offset}..{header.last_offset}: {reason}"
    return UnreadableRecords(code=code, detail=detail, byte_offset=header.position, header=header)


def decompressed_within(data: bytes, header: BatchHeader, budget: Budget) -> bytes:
    """The records of a batch, as they are encoded.

    Raises:
        BeyondLimitError: they are more than is left.
        SegmentError: they cannot be decompressed.
    """
    if header.codec == "none":
        return data
    limit = budget.limit(len(data))
    try:
        found = decompressed(data, header.codec, header.magic, limit)
    except BeyondLimitError:
        budget.spend(limit)
        raise
    budget.spend(len(found))
    return found


def _records(content: bytes, header: BatchHeader, budget: Budget) -> tuple[Record, ...]:
    """The records of a batch of magic 2."""
    count = header.record_count
    if not count:
        return ()
    attributes, base_timestamp = V2_HEADER.unpack_from(content)[5:8:2]
    append_time = header.max_timestamp_ms if attributes & APPEND_TIME else None
    data = decompressed_within(content[V2_HEADER.size :], header, budget)
    if count * _SMALLEST_RECORD > len(data):
        raise SegmentError(f"{count} records cannot be in {len(data)} bytes")
    if count > MAX_RECORDS:
        raise BeyondLimitError(f"{count} records are more than the limit of {MAX_RECORDS}")
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
    size, at = zigzag(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise SegmentError(f"a record of {size} bytes does not fit into the batch")
    timestamp_delta, at = zigzag(data, at + 1)  # its attributes are unused
    offset_delta, at = zigzag(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    headers_at = at
    headers, at = zigzag(data, at)
    if not 0 <= headers <= size:
        raise SegmentError(f"a record with {headers} headers in {size} bytes")
    for _ in range(headers):
        name, at = _bytes(data, at)
        _, at = _bytes(data, at)
        if name is None:
            raise SegmentError("a header without a key")
    if at != end:
        raise SegmentError(f"a record's fields end {at - end} bytes off its end")
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, data[headers_at:end] if headers else b""), end


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, and where they end; None for a negative length."""
    size, at = zigzag(data, at)
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


def _legacy_records(content: bytes, header: BatchHeader, budget: Budget) -> tuple[Record, ...]:
    """The record of an entry of magic 0 or 1, or the records of the entries that are compressed in it."""
    wrapper, attributes = _entry(content)
    if header.codec == "none":
        return (wrapper,)
    if wrapper.value is None:
        raise SegmentError("a compressed entry without a value")
    entries = list(islice(_inner_entries(decompressed_within(wrapper.value, header, budget)), MAX_RECORDS + 1))
    if not entries:
        raise SegmentError("a compressed entry without records")
    if len(entries) > MAX_RECORDS:
        raise BeyondLimitError(f"more than {MAX_RECORDS} records in an entry")
    # magic 0 stores the offsets themselves, magic 1 counts them from the first; the entry has the offset of the last
    base = wrapper.offset - entries[-1].offset if header.magic == 1 else 0
    if base < 0:
        raise SegmentError(f"a compressed entry at offset {wrapper.offset} with {entries[-1].offset} records before its last one")
    if header.magic == 1 and attributes & APPEND_TIME:
        entries = [entry._replace(timestamp_ms=wrapper.timestamp_ms) for entry in entries]
    return tuple(_checked(entry._replace(offset=base + entry.offset), 0, header.last_offset) for entry in entries)


def _inner_entries(data: bytes) -> Iterator[Record]:
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        size = LOG_OVERHEAD + length_in(data[at : at + LOG_OVERHEAD])
        end = at + size
        if size >= SMALLEST_SIZE[0] and end > len(data):
            return  # a part of an entry at the end is not an error to Kafka
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


# The records of one batch as rows of numbers: hashes of key and value, offset, timestamp.
# A key is known by 128 bits of hash, a value with its headers by 64. In plain Python; `formats/native/kernels.py` fills the same rows.

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


# A record's key as text for people and tables, whatever bytes it is of.

MOST_CHARACTERS = 200  # of a text that are shown
_MOST_BYTES = 100  # of other bytes
_HEXADECIMAL = "0x"


def shown_key(key: bytes) -> str:
    """A key as text: UTF-8 as it is, with backslashes and whatever is not printable escaped; other bytes as hexadecimal digits after 0x.

    A text that itself begins with 0x begins with an escape, so no two keys that are shown whole look alike. Long ones are cut, and their
    size in bytes follows.
    """
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return _HEXADECIMAL + key[:_MOST_BYTES].hex() + ("" if len(key) <= _MOST_BYTES else _cut(key))
    shown = "".join(map(_escaped, text[:MOST_CHARACTERS]))
    if shown.startswith(_HEXADECIMAL):
        shown = "\\x30" + shown[1:]
    return shown if len(text) <= MOST_CHARACTERS else shown + _cut(key)


def _escaped(character: str) -> str:
    if character != "\\" and character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _cut(key: bytes) -> str:
    return f"... ({len(key)} bytes)"
