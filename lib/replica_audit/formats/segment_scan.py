"""Reading a segment file: batch headers in order, the point where they stop, runs of one epoch, and digests of what they hold.

Source: FileLogInputStream.nextBatch (clients, 4.2.0): reading ends where 17 bytes or fewer are left or the next batch does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from replica_audit.errors import SegmentError
from replica_audit.formats import native_code
from replica_audit.formats.content_digest import WindowSums
from replica_audit.formats.native_scan import scan_natively, scan_windows
from replica_audit.formats.record_batch import HEADER_UP_TO_MAGIC, SMALLEST_LENGTH, V2_HEADER, checksum, decode_header
from replica_audit.model import BatchHeader, Damage, Run, Window
from replica_audit.protocol.cuts import records_in

_BUFFER = 1 << 16  # what is left of a large batch is then read without being copied through it
_HEADERS_BUFFER = 1 << 13  # where payloads are skipped, this much is read of each large batch
_BETWEEN_CHOICES = 64  # batches read in Python until native code is thought of again
TAILS = ("torn-batch", "trailing-bytes", "zero-filled-tail")  # damage that a crash, or a write under way, leaves at the end of a log
MAX_RUNS = 10_000  # per segment; only a compacted log has that many holes, and there they prove nothing
_CRC_VALID = BatchHeader._fields.index("crc_valid")
_MOST_RECORDS = 2**63 - 1  # that a run can tell

_read_in_python = 0  # batches, by this process


def base_offset_of(path: Path) -> int:
    """The base offset in a segment's file name; 0 if the name has none."""
    digits = path.name.split(".", 1)[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def read_batches(path: Path, *, verify_crc: bool = True) -> Iterator[BatchHeader | Damage]:
    """The batches of a segment file in order; a `Damage` is the last item if reading stops before the end of the file.

    Args:
        path: of the file.
        verify_crc: whether to read every byte and set `crc_valid`; a wrong CRC does not stop the reading, as it does not stop Kafka's.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=_BUFFER if verify_crc else _HEADERS_BUFFER) as stream:
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
        length = int.from_bytes(head[8:12], "big", signed=True)
        if length < SMALLEST_LENGTH:
            yield _impossible_length(stream, head, length, position, size)
            return
        if length > size - position - 12:
            yield Damage(code="torn-batch", detail=f"{size - position} bytes behind the last batch", byte_offset=position)
            return
        try:
            header = decode_header(head, position, next_offset)
        except SegmentError as error:
            yield Damage(code="bad-batch-header", detail=error.reason, byte_offset=error.byte_offset)
            return
        if header.base_offset < next_offset:
            detail = f"batch begins at offset {header.base_offset}, below {next_offset} where the log already is"
            yield Damage(code="offsets-not-increasing", detail=detail, byte_offset=position)
            return
        if verify_crc:
            header = _judged(header, checksum(stream, header, head) == header.crc)
        yield header
        position += header.size_bytes
        next_offset = header.last_offset + 1
    if size > position:
        yield Damage(code="trailing-bytes", detail=f"{size - position} bytes behind the last batch", byte_offset=position)


def _judged(header: BatchHeader, crc_valid: bool) -> BatchHeader:
    return BatchHeader._make((*header[:_CRC_VALID], crc_valid, *header[_CRC_VALID + 1 :]))  # _replace takes four times as long


def _impossible_length(stream: BinaryIO, head: bytes, length: int, position: int, size: int) -> Damage:
    stream.seek(position)
    if not any(head) and not any(chunk != bytes(len(chunk)) for chunk in iter(lambda: stream.read(_BUFFER), b"")):
        return Damage(code="zero-filled-tail", detail=f"{size - position} zero bytes behind the last batch", byte_offset=position)
    return Damage(code="bad-batch-length", detail=f"batch length {length} is below the minimum of {SMALLEST_LENGTH}", byte_offset=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One segment in few rows: `runs` in file order, where reading stopped, and the byte position of the first batch with a wrong CRC.

    `windows` are digests of the batches before the damage, by offset.
    """

    runs: tuple[Run, ...]
    damage: Damage | None
    first_bad_crc: int | None
    windows: tuple[Window, ...] = ()


def scan(items: Iterable[BatchHeader | Damage]) -> Scan:
    """Fold batches into runs: a run ends where the epoch changes, an offset is missing, or the CRC starts or stops to match.

    Beyond `MAX_RUNS` missing offsets no longer end a run.
    """
    fold = SegmentFold(0)
    for item in items:
        fold.add(item)
    return fold.scan()


def scan_file(path: Path, *, verify_crc: bool = True, mapped: bool = False) -> Scan:
    """The same for a segment file as for what `read_batches` gives of it, in native code where that is worth to be got.

    Native code reads a batch in some 50 ns and Python in some 10 µs, but it takes a tenth of a second to load and seconds to compile for
    the first time. Neither is paid before as much time would be lost without: small files are read in Python until the process has read
    10,000 batches so, and a file that will take more, judged by its first batches, is left to native code at once. Half a million batches
    are what compiling is worth. A process that has native code uses it for every file. The measurements: benchmarks/README.md.

    CRCs are verified unless told otherwise: that finds the bytes that rotted on one disk, which nothing else does, for digests are made of
    the stored CRCs. Where the disk is what is waited for it costs less than a tenth, as long as batches are small: their headers cannot be
    had without what is between. Of cached batches of 350 bytes it takes half as long again. Only batches of some hundred KiB and more are
    read many times faster by their headers alone.

    Args:
        path: of the file, which may be in use: it is read, through a buffer of 256 KiB, as far as it went when it was opened.
        verify_crc: whether to read every byte and tell batches that do not match their CRC.
        mapped: whether to read through memory maps of 8 MiB, which saves copying what is cached. Each is brought in whole before it is
            looked at, so that a disk that fails and a file that has become shorter are noticed; but if it is cut in the milliseconds
            between, the system kills the process. So only for files that no broker is at work on.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=_BUFFER if verify_crc else _HEADERS_BUFFER) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        return scan_stream(stream, size, base_offset_of(path), verify_crc=verify_crc, mapped=mapped)


def scan_stream(stream: BinaryIO, size: int, base_offset: int, *, verify_crc: bool, mapped: bool = False) -> Scan:
    """The same for a file that is open, is taken to be `size` bytes long, and begins at an offset."""
    global _read_in_python
    fold = SegmentFold(base_offset)
    native = native_code.scanner(_read_in_python)
    if native is None:
        for batches, item in enumerate(batches_between(stream, size, 0, base_offset, verify_crc=verify_crc), 1):
            fold.add(item)
            if batches % _BETWEEN_CHOICES == 0:
                _read_in_python += _BETWEEN_CHOICES
                native = native_code.scanner(_read_in_python + batches * (size - fold.position) // fold.position)
                if native is not None:
                    break
        else:
            return fold.scan()
    descriptor = _descriptor(stream)
    if descriptor is None:
        _scan_by_windows(native, stream, size, fold, verify_crc=verify_crc)
        return fold.scan()
    scan_natively(native, descriptor, size, fold, verify_crc=verify_crc, mapped=mapped, max_runs=MAX_RUNS)
    for item in batches_between(stream, size, fold.position, fold.next_offset, verify_crc=verify_crc):
        fold.add(item)
    return fold.scan()


def _descriptor(stream: BinaryIO) -> int | None:
    """The system's number for a file; None for an object of a store."""
    with suppress(OSError):
        return stream.fileno()
    return None


def _scan_by_windows(native: native_code.Scanner, stream: BinaryIO, size: int, fold: SegmentFold, *, verify_crc: bool) -> None:
    """Scan what can only be read through Python: what native code leaves of a window, Python reads one batch of, and so on."""
    item: BatchHeader | Damage | None = None
    while not isinstance(item, Damage):
        scan_windows(native, stream, size, fold, verify_crc=verify_crc, max_runs=MAX_RUNS)
        item = next(batches_between(stream, size, fold.position, fold.next_offset, verify_crc=verify_crc), None)
        if item is None:
            return
        fold.add(item)


class SegmentFold:
    """What was read of a segment so far. The next batch begins at byte `position` and may not begin below `next_offset`."""

    def __init__(self, base_offset: int) -> None:
        self.position = 0
        self.next_offset = base_offset
        self.runs: list[Run] = []
        self.windows = WindowSums()
        self.first_bad_crc: int | None = None
        self._damage: Damage | None = None

    def add(self, item: BatchHeader | Damage) -> None:
        """Add the next batch, or what is wrong behind the last one."""
        if isinstance(item, Damage):
            self._damage = item
            return
        intact = item.crc_valid is not False
        if not intact and self.first_bad_crc is None:
            self.first_bad_crc = item.position
        run = self.runs[-1] if self.runs else None
        if run is None or run.leader_epoch != item.leader_epoch or run.intact != intact:
            self.runs.append(_started(item, intact))
        elif item.base_offset == run.last_offset + 1 or len(self.runs) >= MAX_RUNS:
            self.runs[-1] = _extended(run, item)
        else:
            self.runs.append(_started(item, intact))
        self.windows.add_batch(item)
        self.position, self.next_offset = item.position + item.size_bytes, item.last_offset + 1

    def scan(self) -> Scan:
        """All that was read."""
        return Scan(runs=tuple(self.runs), damage=self._damage, first_bad_crc=self.first_bad_crc, windows=self.windows.windows())


def _started(batch: BatchHeader, intact: bool) -> Run:
    return Run(
        leader_epoch=batch.leader_epoch,
        first_offset=batch.base_offset,
        last_offset=batch.last_offset,
        batch_count=1,
        record_count=records_in(batch),
        size_bytes=batch.size_bytes,
        min_timestamp_ms=batch.max_timestamp_ms,
        max_timestamp_ms=batch.max_timestamp_ms,
        magic=batch.magic,
        intact=intact,
    )


def _extended(run: Run, batch: BatchHeader) -> Run:
    return Run(
        leader_epoch=run.leader_epoch,
        first_offset=run.first_offset,
        last_offset=batch.last_offset,
        batch_count=run.batch_count + 1,
        record_count=min(run.record_count + records_in(batch), _MOST_RECORDS),
        size_bytes=run.size_bytes + batch.size_bytes,
        min_timestamp_ms=min(run.min_timestamp_ms, batch.max_timestamp_ms),
        max_timestamp_ms=max(run.max_timestamp_ms, batch.max_timestamp_ms),
        magic=max(run.magic, batch.magic),
        intact=run.intact,
    )
