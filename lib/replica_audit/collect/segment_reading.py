"""One segment of a running broker, read once: its scan, and the index of its batches."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np

from replica_audit.collect.live_file import LiveFile
from replica_audit.formats import native_code, segment_scan
from replica_audit.formats.batch_index import RAW_HEADER, BatchIndexWriter
from replica_audit.formats.native_code import HEADER_BYTES
from replica_audit.formats.native_scan import scan_natively
from replica_audit.formats.record_batch import LOG_OVERHEAD, decode_header
from replica_audit.formats.segment_scan import SegmentFold
from replica_audit.model import BatchHeader

_BUFFER = 1 << 20
_HEADERS_BUFFER = 1 << 12  # where payloads are skipped
_BETWEEN_CHOICES = 64  # batches read in Python until native code is thought of again
_READ_FOR_A_HEADER = 1 << 12
_STEP = 1 << 22  # read natively in one go
_ROW = np.dtype(
    {"names": ["position", "intact", "header"], "formats": ["=i8", "=i8", RAW_HEADER], "offsets": [0, 8, 16], "itemsize": HEADER_BYTES}
)


class SegmentReader:
    """Reads segments one after the other: in Python until native code is worth to be got, then with that."""

    def __init__(self, *, verify_crc: bool) -> None:
        self.verify_crc = verify_crc
        self._in_python = 0  # batches so far

    def read(self, file: LiveFile, base_offset: int, index: BatchIndexWriter | None) -> SegmentFold:
        """Read a segment.

        Args:
            file: of it.
            base_offset: the number in its name.
            index: takes the headers of its batches.

        Returns:
            What was read; `position` is the end of the last whole batch.

        Raises:
            OSError: the file cannot be read.
        """
        fold = SegmentFold(base_offset)
        buffered = io.BufferedReader(file, _BUFFER if self.verify_crc else _HEADERS_BUFFER)
        stream = cast(BinaryIO, buffered)
        try:
            native = native_code.scanner(self._in_python) or self._first_batches(stream, file.size, fold, index)
            if native is not None:
                self._natively(native, file, fold, index)
            self._in_order(stream, file.size, fold, index)
        finally:
            buffered.detach()
        return fold

    def _items(self, stream: BinaryIO, size: int, fold: SegmentFold) -> Iterator[Any]:
        return segment_scan.batches_between(stream, size, fold.position, fold.next_offset, verify_crc=self.verify_crc)

    def _first_batches(self, stream: BinaryIO, size: int, fold: SegmentFold, index: BatchIndexWriter | None) -> native_code.Scanner | None:
        """Read until it shows that native code is worth it, or to the end."""
        for number, item in enumerate(self._items(stream, size, fold), 1):
            fold.add(item)
            if index is not None and isinstance(item, BatchHeader):
                index.add(item)
            if number % _BETWEEN_CHOICES == 0:
                self._in_python += _BETWEEN_CHOICES
                native = native_code.scanner(self._in_python + number * (size - fold.position) // fold.position)
                if native is not None:
                    return native
        return None

    def _in_order(self, stream: BinaryIO, size: int, fold: SegmentFold, index: BatchIndexWriter | None) -> None:
        for item in self._items(stream, size, fold):
            fold.add(item)
            if index is not None and isinstance(item, BatchHeader):
                index.add(item)

    def _natively(self, native: native_code.Scanner, file: LiveFile, fold: SegmentFold, index: BatchIndexWriter | None) -> None:
        count = sum(run.batch_count for run in fold.runs)
        headers = None if index is None else _Headers(index, fold.next_offset, is_verified=self.verify_crc)
        usual = step = file.pace.at_once(_STEP)
        while fold.position < file.size:
            begin, end = fold.position, min(file.size, fold.position + step)
            file.admit(begin, end)
            scan_natively(
                native,
                file.fileno(),
                end,
                fold,
                verify_crc=self.verify_crc,
                mapped=False,
                max_runs=segment_scan.MAX_RUNS,
                take_headers=headers.take if headers else None,
            )
            file.release(fold.position)
            if not file.is_sequential:
                count, before = sum(run.batch_count for run in fold.runs), count
                file.pace.take(min(fold.position - begin, (count - before) * _READ_FOR_A_HEADER))
            if fold.position == begin:
                needed = _size_of_batch(file.fileno(), begin)
                if not end - begin < needed <= file.size - begin:
                    return  # something is wrong with it, or it is the last one and torn
                step = needed
            else:
                step = usual


def _size_of_batch(fd: int, position: int) -> int:
    length = os.pread(fd, 4, position + 8)
    return int.from_bytes(length, "big", signed=True) + LOG_OVERHEAD if len(length) == 4 else 0


class _Headers:
    """Puts what native code read of batches into an index."""

    def __init__(self, index: BatchIndexWriter, next_offset: int, *, is_verified: bool) -> None:
        self._index, self._next_offset, self._is_verified = index, next_offset, is_verified

    def take(self, rows: memoryview) -> None:
        """Take rows of HEADER_BYTES, which are copied."""
        table = np.frombuffer(bytes(rows), _ROW)
        if (table["header"]["magic"] == 2).all():
            self._index.add_raw(table["position"], table["header"], table["intact"] if self._is_verified else None)
            self._next_offset = int(table["header"]["base_offset"][-1]) + int(table["header"]["last_offset_delta"][-1]) + 1
            return
        for row, position, intact in zip(table["header"], table["position"].tolist(), table["intact"].tolist(), strict=True):
            header = decode_header(row.tobytes(), position, self._next_offset)
            self._index.add(header._replace(crc_valid=bool(intact) if self._is_verified else None))
            self._next_offset = header.last_offset + 1
