"""Reading a segment file: batch headers in order, the point where they stop, runs of one epoch, and digests of what they hold.

Source: FileLogInputStream.nextBatch (clients, 4.2.0): reading ends where 17 bytes or fewer are left or the next batch does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import SegmentError
from replica_audit.files.locations import opened
from replica_audit.formats.segment.record_batch import (
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    SMALLEST_SIZE,
    V2_HEADER,
    checksum,
    decode_header,
    length_in,
)
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.model import BatchHeader, Damage

BUFFER = 1 << 16  # what is left of a large batch is then read without being copied through it
HEADERS_BUFFER = 1 << 13  # where payloads are skipped, this much is read of each large batch
TAILS = ("torn-batch", "trailing-bytes", "zero-filled-tail")  # damage that a crash, or a write under way, leaves at the end of a log
GOES_BACK = "offsets-not-increasing"
_SMALLEST_LENGTH = SMALLEST_SIZE[0] - LOG_OVERHEAD
_CRC_VALID = BatchHeader._fields.index("crc_valid")


def base_offset_of(path: Path) -> int:
    """The base offset in a segment's file name; 0 if the name has none."""
    digits = path.name.split(".", 1)[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def read_batches(path: Path, *, verify_crc: bool = True) -> Iterator[BatchHeader | Damage]:
    """The batches of a segment file in order; a `Damage` is the last item if reading stops before the end of the file.

    Where offsets go back at a batch that matches its CRC, a `Damage` comes before it and reading goes on: a broker's recovery does not
    stop there either (LogSegment.recover), nor do reads.

    Args:
        path: of the file.
        verify_crc: whether to read every byte and set `crc_valid`; a wrong CRC does not stop the reading, as it does not stop Kafka's.

    Raises:
        OSError: the file cannot be read.
    """
    with opened(path, BUFFER if verify_crc else HEADERS_BUFFER) as stream:
        size = path.stat().st_size
        yield from batches_between(stream, size, 0, base_offset_of(path), verify_crc=verify_crc)


def batches_between(stream: BinaryIO, size: int, position: int, next_offset: int, *, verify_crc: bool) -> Iterator[BatchHeader | Damage]:
    """The same for a file that is open: the batches from a position on, the first of which begins with `next_offset` at least."""
    while size - position > HEADER_UP_TO_MAGIC:
        stream.seek(position)
        head = stream.read(min(V2_HEADER.size, size - position))
        if len(head) < min(V2_HEADER.size, size - position):  # the file became shorter while it was read
            size = position + len(head)
            break
        length = length_in(head)
        if length < _SMALLEST_LENGTH:
            yield _impossible_length(stream, head, length, position, size)
            return
        if length > size - position - LOG_OVERHEAD:
            yield Damage(code="torn-batch", detail=f"{size - position} bytes behind the last batch", byte_offset=position)
            return
        try:
            header = decode_header(head, position, next_offset)
        except SegmentError as error:
            yield Damage(code="bad-batch-header", detail=error.reason, byte_offset=error.byte_offset)
            return
        goes_back = header.base_offset < next_offset
        if verify_crc or goes_back:
            is_valid = checksum(stream, header, head) == header.crc
            header = _judged(header, is_valid) if verify_crc else header
        if goes_back:
            detail = f"batch begins at offset {header.base_offset}, below {next_offset} where the log already is"
            goes_on = is_valid and position > 0 and header.base_offset >= 0  # below the base of its file a batch is no part of it
            yield Damage(code=GOES_BACK, detail=detail, byte_offset=position, goes_on=goes_on)
            if not goes_on:
                return
        yield header
        position += header.size_bytes
        next_offset = header.last_offset + 1
    if size > position:
        yield Damage(code="trailing-bytes", detail=f"{size - position} bytes behind the last batch", byte_offset=position)


def _judged(header: BatchHeader, crc_valid: bool) -> BatchHeader:
    return BatchHeader._make((*header[:_CRC_VALID], crc_valid, *header[_CRC_VALID + 1 :]))  # _replace takes four times as long


def _impossible_length(stream: BinaryIO, head: bytes, length: int, position: int, size: int) -> Damage:
    stream.seek(position)
    if not any(head) and not any(chunk != bytes(len(chunk)) for chunk in iter(lambda: stream.read(BUFFER), b"")):
        return Damage(code="zero-filled-tail", detail=f"{size - position} zero bytes behind the last batch", byte_offset=position)
    return Damage(code="bad-batch-length", detail=f"batch length {length} is below the minimum of {_SMALLEST_LENGTH}", byte_offset=position)


def scan(items: Iterable[BatchHeader | Damage]) -> Scan:
    """Sum batches up in few rows."""
    fold = SegmentFold(0)
    for item in items:
        fold.add(item)
    return fold.scan()
