"""Reading a segment to its end in whichever way is the fastest: compiled code, columns, or one batch at a time in Python.

Compiled code and columns take what is sound, as far as they can; what stopped them is for `segment_scan.batches_between` to judge.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from replica_audit.files.locations import is_stored, opened
from replica_audit.files.opened import open_descriptor
from replica_audit.formats.indexes import index_check, reader_of
from replica_audit.formats.native import native_code
from replica_audit.formats.native.scan_tables import HEADER, ScanTables
from replica_audit.formats.segment.segment_fold import Scan, SegmentFold, read_columns
from replica_audit.formats.segment.segment_scan import BUFFER, HEADERS_BUFFER, base_offset_of, batches_between
from replica_audit.model import BatchHeader, Damage

BUFFER_BYTES = 1 << 18  # stays in the second-level cache: what is checked was just copied there
WINDOW_BYTES = 1 << 23  # of a stream at once: some ten requests' worth of waiting
CALL_BYTES = 1 << 28  # after which Python sees to signals: some ten milliseconds
HEADER_ROOM = 1 << 14  # of an index at once: for few, Arrow takes longer than the scan
_FIRST = 8  # batches: most files have no more, and as columns they would cost twice as much
_FEW = 16  # batches that are left, as it seems, and cost less one by one
_STRANGE = 64  # batches read one by one where columns and compiled code can take none

_read_in_python = 0  # batches, by this process


class Index(Protocol):
    """Takes the headers of all batches in order."""

    def add(self, header: BatchHeader) -> None:
        """Take the next one."""

    def add_columns(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take the next ones, the columns of which are as `BatchColumns.for_index` has them; they are overwritten later."""


class SegmentReader:
    """Reads a segment from where its fold is to its end."""

    def __init__(self, stream: BinaryIO, size: int, fold: SegmentFold, *, verify_crc: bool, index: Index | None = None) -> None:
        """Read a stream that is seekable and counts as `size` bytes long; CRCs are verified if told so, headers added to the index."""
        self._stream, self._size, self.fold, self._verify_crc, self._index = stream, size, fold, verify_crc, index
        self._tables: ScanTables | None = None
        self._batches = 0  # of this segment, read in Python

    def read(self) -> None:
        """Read it all.

        Raises:
            OSError: it cannot be read.
        """
        fold = self.fold
        is_more = native_code.scanner(_read_in_python) is not None or self._one_by_one(_FIRST)
        while is_more:
            before = fold.position
            expected = self._batches * (self._size - before) // before if before else 0
            scan = native_code.scanner(_read_in_python + expected)
            if scan is None and 0 < expected <= _FEW:
                is_more = self._one_by_one(_FEW)
                continue
            if scan is None:
                self._by_columns()
            else:
                self.natively(scan)
                if self._tables is not None:
                    self._hand_on(self._tables)
            is_more = self._one_by_one(1 if fold.position > before else _STRANGE)

    def _one_by_one(self, most: int) -> bool:
        """Read so many batches at most; whether there may be more."""
        fold, count = self.fold, 0
        for item in batches_between(self._stream, self._size, fold.position, fold.next_offset, verify_crc=self._verify_crc):
            fold.add(item)
            if isinstance(item, Damage):
                continue  # the last one, or offsets go back at the next
            if self._index is not None:
                self._index.add(item)
            count += 1
            if count == most:
                break
        self._count(count)
        return count == most

    def _by_columns(self) -> None:
        fold = self.fold
        batches = read_columns(self._stream, self._size, fold.position, fold.next_offset, verify_crc=self._verify_crc)
        if len(batches):
            fold.add_columns(batches)
            if self._index is not None:
                self._index.add_columns(batches.for_index())
            self._count(len(batches))

    def _count(self, batches: int) -> None:
        global _read_in_python
        self._batches += batches
        _read_in_python += batches

    def natively(self, scan: native_code.SegmentScan) -> None:
        """Go on in compiled code."""
        descriptor = None
        with suppress(OSError):  # an object of a store has none
            descriptor = self._stream.fileno()
        if descriptor is None:
            self._window(scan)
        else:
            self.scan_file_to(scan, descriptor, self._size)

    def scan_file_to(self, scan: native_code.SegmentScan, descriptor: int, end: int) -> None:
        """Go on as far as a file reaches `end`, in bytes."""
        if self._tables is None:
            room = 0 if self._index is None else HEADER_ROOM
            self._buffer = np.empty(min(self._size, BUFFER_BYTES), np.uint8)
            place = {"buffer": self._buffer.ctypes.data, "capacity": len(self._buffer)}
            self._tables = ScanTables(self.fold, room, fd=descriptor, verify_crc=self._verify_crc, **place)
        tables, is_more = self._tables, True
        tables.set(size=end)
        while is_more:
            tables.set(stop=self.fold.position + CALL_BYTES)
            is_more = tables.filled(scan)
            if tables.state["header_count"] == len(tables.headers):
                self._hand_on(tables)

    def _hand_on(self, tables: ScanTables) -> None:
        """Give the index the headers that were gathered."""
        count = int(tables.state["header_count"])
        if self._index is not None and count:
            columns = {name: tables.headers[name][:count] for name in HEADER}
            if not self._verify_crc:
                del columns["crc_valid"]
            self._index.add_columns(columns)
            tables.set(header_count=0)

    def _window(self, scan: native_code.SegmentScan) -> None:
        """Go on in what only Python can read, as far as batches fit into a window, which is then held in memory."""
        begin = self.fold.position
        self._stream.seek(begin)
        content = np.frombuffer(self._stream.read(min(WINDOW_BYTES, self._size - begin)), np.uint8)
        place = {"fd": -1, "buffer": content.ctypes.data, "begin": begin, "end": begin + len(content)}
        room = 0 if self._index is None else HEADER_ROOM
        tables = ScanTables(self.fold, room, verify_crc=self._verify_crc, size=place["end"], stop=place["end"], **place)
        while tables.filled(scan):
            self._hand_on(tables)
        self._hand_on(tables)


def scan_file(path: Path, *, verify_crc: bool = True, beside: Collection[str] = ()) -> Scan:
    """What a segment file comes to, read in compiled code where that is worth to be got.

    Compiled code reads a batch in some 50 ns, plain Python by columns in a microsecond, but compiled code takes half a second to load.
    So the first half million batches of a process are read in Python, unless a file will take more, judged by its first batches. A process
    that has compiled code uses it for every file. The measurements: benchmarks/README.md.

    CRCs are verified unless told otherwise: that finds the bytes that rotted on one disk, which nothing else does, for digests are made of
    the stored CRCs. Where the disk is what is waited for it costs less than a tenth, as long as batches are small: their headers cannot be
    had without what is between. Of cached batches of 350 bytes it takes half as long again. Only batches of some hundred KiB and more are
    read many times faster by their headers alone.

    Args:
        path: of the file, which may be in use: it is read as far as it went when it was opened.
        verify_crc: whether to read every byte and tell batches that do not match their CRC.
        beside: how the names of its index files end, which are checked against its batches.

    Raises:
        OSError: the file cannot be read.
    """
    is_local, base_offset = not is_stored(path), base_offset_of(path)
    check = None
    if beside:
        check = index_check(base_offset, beside, partial(_opened_beside, path, is_local=is_local), reads_markers=is_local)
    with opened(path, BUFFER if verify_crc else HEADERS_BUFFER) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        # most files are small, and to take the headers of their batches would cost more than to read them
        is_small = check is not None and not check.has_offsets and size <= BUFFER
        found = scan_stream(stream, size, base_offset, verify_crc=verify_crc, index=None if is_small else check)
        if check is None or (is_small and not check.may_find(found)):
            return found
        if is_small:
            scan_stream(stream, size, base_offset, verify_crc=False, index=check)
        read_at = reader_of(stream.fileno()) if is_local else None
        return replace(found, index_problems=tuple(check.problems(str(path), found, read_at)))


def _opened_beside(path: Path, suffix: str, *, is_local: bool) -> BinaryIO:
    if not is_local:
        return opened(path.with_suffix(suffix))
    return cast(BinaryIO, FileIO(open_descriptor(str(path).removesuffix(".log") + suffix)))


def scan_stream(stream: BinaryIO, size: int, base_offset: int, *, verify_crc: bool, index: Index | None = None) -> Scan:
    """The same for a file that is open, is taken to be `size` bytes long, and begins at an offset; `index` takes its headers."""
    fold = SegmentFold(base_offset)
    SegmentReader(stream, size, fold, verify_crc=verify_crc, index=index).read()
    return fold.scan()
