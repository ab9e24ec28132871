"""Reading a segment file: batch headers in order, the point where they stop, runs of one epoch, and digests of what they hold.

Source: FileLogInputStream.nextBatch (clients, 4.2.0): reading ends where 17 bytes or fewer are left or the next batch does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from errno import ENOENT
from pathlib import Path
from typing import BinaryIO, NamedTuple

import crc32c

from replica_audit.errors import DumpLogError, SegmentError
from replica_audit.files.locations import located, opened
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.segment.record_batch import (
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    SMALLEST_SIZE,
    V2_AT,
    V2_CRC_FROM,
    V2_HEADER,
    checksum,
    decode_header,
    length_in,
)
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold
from replica_audit.model import GONE, UNDEFINED_EPOCH, BatchHeader, Damage, Problem, SegmentFile

BUFFER = 1 << 16  # what is left of a large batch is then read without being copied through it
HEADERS_BUFFER = 1 << 13  # where payloads are skipped, this much is read of each large batch
ZERO_FILLED = "zero-filled-tail"
TAILS = ("torn-batch", "trailing-bytes", ZERO_FILLED)  # damage that a crash, or a write under way, leaves at the end of a log
GOES_BACK = "offsets-not-increasing"
BAD_LENGTH = "bad-batch-length"
_NEWEST_MAGIC = 2
_FAR = 1 << 31  # offsets of a segment are relative to its base, in four bytes
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
            yield _torn(head, position, size, next_offset)
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


def _torn(head: bytes, position: int, size: int, next_offset: int) -> Damage:
    """A batch that reaches beyond the end of its file: half written, if it begins as one: a write, cut short, leaves the beginning."""
    behind, base_offset = f"{size - position} bytes behind the last batch", int.from_bytes(head[:8], signed=True)
    if head[V2_AT["magic"]] <= _NEWEST_MAGIC and 0 <= base_offset < next_offset + _FAR:
        return Damage(code="torn-batch", detail=behind, byte_offset=position)
    return Damage(code=BAD_LENGTH, detail=f"{behind}, which begin like no batch", byte_offset=position)


def _judged(header: BatchHeader, crc_valid: bool) -> BatchHeader:
    return BatchHeader._make((*header[:_CRC_VALID], crc_valid, *header[_CRC_VALID + 1 :]))  # _replace takes four times as long


def _impossible_length(stream: BinaryIO, head: bytes, length: int, position: int, size: int) -> Damage:
    stream.seek(position)
    if not any(head) and not any(chunk != bytes(len(chunk)) for chunk in iter(lambda: stream.read(BUFFER), b"")):
        return Damage(code=ZERO_FILLED, detail=f"{size - position} zero bytes behind the last batch", byte_offset=position)
    return Damage(code=BAD_LENGTH, detail=f"batch length {length} is below the minimum of {_SMALLEST_LENGTH}", byte_offset=position)


def scan(items: Iterable[BatchHeader | Damage]) -> Scan:
    """Sum batches up in few rows."""
    fold = SegmentFold(0)
    for item in items:
        fold.add(item)
    return fold.scan()


# What the scan of a segment found wrong, as problems with a remedy; the same wherever the segment was read.

_RESTORE = "else restore the segment from another replica"
_IF_RECOVERED = (
    "none if it is the newest segment of a broker that recovers its log, as after a crash: it truncates them. After a clean stop it "
    "does not, and what it appends after them is unreadable"
)
_REMEDIES = {
    "torn-batch": f"{_IF_RECOVERED}; {_RESTORE}",
    "trailing-bytes": f"{_IF_RECOVERED}; {_RESTORE}",
    ZERO_FILLED: f"none if it is the newest segment (a preallocated file after a crash); {_RESTORE}",
    "dump-truncated": "dump the segment again and keep the whole text",
    "dump-malformed": "dump the segment again with batch lines only, without --print-data-log",
}
TEXT_NOT_WHOLE = ("dump-truncated", "dump-malformed")  # what a text lacks the broker may well have
BY_THE_PLAN = "change nothing there by hand: the plan (--plan DIR) says what is to be done"
IF_THE_SAME = f"copy the file again; if the broker has the same, {BY_THE_PLAN}"
_DAMAGED = f"the broker will not notice; {IF_THE_SAME}"
WRONG_CRC = "crc-mismatch"
TORN = ("torn-batch", "trailing-bytes")
ENDS_IN_NO_BATCH = (*TORN, ZERO_FILLED)  # what recovery cuts off, and nothing else does
APPENDED_BEHIND = "appended-behind-torn-batch"
# what a batch that is only half written never looks like: whatever is behind it cannot be read, though it may be whole
NO_BATCH = (APPENDED_BEHIND, BAD_LENGTH, "bad-batch-header", "offsets-not-increasing")
_NOT_RECOVERED = f"the broker did not recover this log when it started, and wrote on after unreadable bytes; {IF_THE_SAME}"
_WENT_BACK = (
    "copy the replica's directory before its broker starts or stops: log recovery does not truncate here, it keeps all of the segment or, "
    "where its index cannot take the offset (InvalidOffsetException), empties it and deletes what follows. Followers cannot fetch beyond "
    f"this batch. Keep the copy; {IF_THE_SAME}"
)
_LOOKED_AT = 4 << 20  # bytes behind the last batch; a batch has 1 MiB unless brokers are told otherwise
NOTHING = Scan(runs=(), damage=None, first_bad_crc=None)


class Scanned(NamedTuple):
    """A scan with its problems. `failed`: the file could not be read, or not as a segment, and nothing is known of it."""

    scan: Scan
    problems: list[Problem]
    failed: bool


def scanned(file: SegmentFile, scan: Callable[[SegmentFile], Scan]) -> Scanned:
    """Scan one segment; what fails becomes a problem."""
    try:
        found = scan(file)
    except DumpLogError as error:
        remedy = "dump the segment again, batch lines only"
        problem = Problem(path=file.path, kind="dump", code="unusable-dump", detail=error.reason, remedy=remedy, line=error.line)
        return Scanned(NOTHING, [problem], True)
    except OSError as error:
        problem = cannot_read(located(file.path), "segment", error)
        return Scanned(NOTHING, [replace(problem, code=GONE) if error.errno == ENOENT else problem], True)
    runs = tuple(run._replace(leader_epoch=max(run.leader_epoch, UNDEFINED_EPOCH)) for run in found.runs)
    return Scanned(replace(found, runs=runs), list(_problems(file, found)), False)


def _whole_behind(file: SegmentFile, position: int | None, next_offset: int) -> tuple[int, bool] | None:
    """Where the first whole batch begins behind what looks like a torn one, and whether it was appended there; None if none is found.

    A broker that has not recovered the log goes on at the offset where the readable log ends. A batch of a later offset was there before:
    the length of the one before it is wrong.
    """
    if file.source != "raw" or position is None:
        return None
    try:
        with opened(located(file.path)) as stream:
            stream.seek(position)
            behind = stream.read(_LOOKED_AT)
    except OSError:
        return None
    magic = V2_AT["magic"]
    at = behind.find(2, magic + 1) - magic
    while at > 0:
        head = behind[at : at + V2_HEADER.size]
        if len(head) == V2_HEADER.size:
            base_offset, *_fields, crc = V2_HEADER.unpack(head)[:5]
            end = at + LOG_OVERHEAD + length_in(head)
            is_there = base_offset >= next_offset and at + V2_HEADER.size <= end <= len(behind)
            if is_there and crc32c.crc32c(behind[at + V2_CRC_FROM : end]) == crc:
                return position + at, base_offset == next_offset
        at = behind.find(2, at + magic + 1) - magic
    return None


def _problems(file: SegmentFile, found: Scan) -> Iterator[Problem]:
    if found.first_bad_crc is not None:
        yield Problem(
            path=file.path,
            kind="segment",
            code="crc-mismatch",
            detail="the batch at this byte does not match its CRC: its bytes changed after they were written",
            remedy=_DAMAGED,
            byte_offset=found.first_bad_crc,
        )
    unstamped = next((run for run in found.runs if run.magic == 2 and run.leader_epoch < 0), None)
    if unstamped is not None:
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code="bad-leader-epoch",
            detail=f"the batch at offset {unstamped.first_offset} has leader epoch {unstamped.leader_epoch}, and no broker writes one "
            "below 0 in its format; the CRC does not cover it",
            remedy=_DAMAGED,
        )
    if found.went_back is not None:
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code=found.went_back.code,
            detail=f"{found.went_back.detail}; it matches its CRC, and so may what is behind it",
            remedy=_WENT_BACK,
            line=found.went_back.line,
            byte_offset=found.went_back.byte_offset,
        )
    if found.damage is not None:
        next_offset = found.runs[-1].last_offset + 1 if found.runs else file.base_offset
        behind = _whole_behind(file, found.damage.byte_offset, next_offset) if found.damage.code in TORN else None
        code, remedy = found.damage.code, _REMEDIES.get(found.damage.code, _DAMAGED)
        if behind is not None:
            code, remedy = (APPENDED_BEHIND, _NOT_RECOVERED) if behind[1] else (BAD_LENGTH, _DAMAGED)
        yield Problem(
            path=file.path,
            kind="dump" if file.source == "dump" else "segment",
            code=code,
            detail=found.damage.detail if behind is None else f"{found.damage.detail}, and a whole batch at byte {behind[0]} among them",
            remedy=remedy,
            line=found.damage.line,
            byte_offset=found.damage.byte_offset,
        )
    yield from found.index_problems
