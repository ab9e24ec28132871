"""One segment of a running broker, read once: its scan, and the index of its batches."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np

from replica_audit.collect.live_file import LiveFile
from replica_audit.errors import SegmentError
from replica_audit.formats import native_code, segment_scan
from replica_audit.formats.batch_index import RAW_HEADER, BatchIndexWriter
from replica_audit.formats.native_scan import scan_natively
from replica_audit.formats.record_batch import LOG_OVERHEAD, SMALLEST_LENGTH, decode_header
from replica_audit.formats.segment_scan import SegmentFold
from replica_audit.model import BatchHeader

_BUFFER = 1 << 20
_HEADERS_BUFFER = 1 << 12  # where payloads are skipped
_BETWEEN_CHOICES = 64  # batches read in Python until native code is thought of again
_HEADER = RAW_HEADER.itemsize
_LENGTH = struct.Struct(">i")


class FileChangedError(Exception):
    """The file is not what it was when its reading began."""


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
            FileChangedError: bytes that were read twice were not the same.
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
        return segment_scan._batches(stream, size, fold.position, fold.next_offset, verify_crc=self.verify_crc)

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
        step = _BUFFER
        while fold.position < file.size:
            begin, next_offset, end = fold.position, fold.next_offset, min(file.size, fold.position + step)
            file.admit(begin, end)
            scan_natively(native, file.fileno(), end, fold, verify_crc=self.verify_crc, mapped=False, max_runs=segment_scan.MAX_RUNS)
            if fold.position > begin:
                if index is not None:
                    _index_slice(file.fileno(), begin, next_offset, fold, index, verified=self.verify_crc)
                file.release(fold.position)
                step = _BUFFER
                continue
            needed = _size_of_batch(file.fileno(), begin)
            if not end - begin < needed <= file.size - begin:
                return  # something is wrong with it, or it is the last one and torn
            step = needed


def _size_of_batch(fd: int, position: int) -> int:
    length = os.pread(fd, 4, position + 8)
    return int.from_bytes(length, "big", signed=True) + LOG_OVERHEAD if len(length) == 4 else 0


def _index_slice(fd: int, begin: int, next_offset: int, fold: SegmentFold, index: BatchIndexWriter, *, verified: bool) -> None:
    """Add the batches from a position on to where the fold is, all of which were found to be in order."""
    at = begin
    while at < fold.position:
        wanted = min(_BUFFER, fold.position - at)
        data = os.pread(fd, wanted, at)
        if len(data) < wanted:
            raise FileChangedError
        data += bytes(_HEADER)  # the last entry of an old format may be shorter than a header
        last = wanted - (0 if at + wanted == fold.position else _HEADER)  # where a header may begin, the rest of which is not read
        positions, here, length_at = [], 0, _LENGTH.unpack_from
        while here < last:
            positions.append(here)
            (length,) = length_at(data, here + 8)
            if length < SMALLEST_LENGTH:
                raise FileChangedError
            here += length + LOG_OVERHEAD
        if not positions:
            raise FileChangedError
        next_offset = _add(data, at, positions, next_offset, fold, index, verified=verified)
        at += here
    if at != fold.position:
        raise FileChangedError


def _add(
    data: bytes, at: int, positions: list[int], next_offset: int, fold: SegmentFold, index: BatchIndexWriter, *, verified: bool
) -> int:
    """Add the batches that begin at some positions of `data`, which stands at a position of the file; the offset behind the last."""
    begin = np.array(positions)
    raw = np.ndarray((len(data) - _HEADER + 1,), RAW_HEADER, data, strides=(1,))[begin]
    if (raw["magic"] == 2).all():
        valid = _validity(raw["base_offset"].astype(np.int64), fold) if verified else None
        index.add_raw(begin + at, raw, valid)
        return int(raw["base_offset"][-1]) + int(raw["last_offset_delta"][-1]) + 1
    for position in positions:
        try:
            header = decode_header(data[position : position + _HEADER], at + position, next_offset)
        except SegmentError:
            raise FileChangedError from None
        valid_one = bool(_validity(np.array([header.base_offset]), fold)[0]) if verified else None
        index.add(header._replace(crc_valid=valid_one))
        next_offset = header.last_offset + 1
    return next_offset


def _validity(base_offsets: np.ndarray[Any, Any], fold: SegmentFold) -> np.ndarray[Any, Any]:
    """Whether the CRCs of batches match, as the runs tell that they are in."""
    if fold.first_bad_crc is None:
        return np.ones(len(base_offsets), bool)
    first = np.array([run.first_offset for run in fold.runs])
    intact = np.array([run.intact for run in fold.runs])
    return cast("np.ndarray[Any, Any]", intact[np.maximum(np.searchsorted(first, base_offsets, "right") - 1, 0)])
