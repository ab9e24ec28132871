"""One segment of a running broker, read once: its scan, and the index of its batches."""

from __future__ import annotations

import io
import os
from typing import BinaryIO, cast

from replica_audit.collect.live_file import LiveFile
from replica_audit.formats.native.native_code import SegmentScan
from replica_audit.formats.replicas import segment_reader
from replica_audit.formats.segment.record_batch import LOG_OVERHEAD, length_in
from replica_audit.formats.segment.segment_fold import SegmentFold

_BUFFER = 1 << 20
_HEADERS_BUFFER = 1 << 12  # where payloads are skipped
_READ_FOR_A_HEADER = 1 << 12
_STEP = 1 << 22  # read natively in one go


def read_segment(file: LiveFile, base_offset: int, index: segment_reader.Index | None, *, verify_crc: bool) -> SegmentFold:
    """Read a segment.

    Args:
        file: of it.
        base_offset: the number in its name.
        index: takes the headers of its batches.
        verify_crc: whether its records are read, too.

    Returns:
        What was read; `position` is the end of the last whole batch.

    Raises:
        OSError: the file cannot be read.
    """
    fold = SegmentFold(base_offset)
    buffered = io.BufferedReader(file, _BUFFER if verify_crc else _HEADERS_BUFFER)
    try:
        _LiveReader(file, cast(BinaryIO, buffered), fold, verify_crc=verify_crc, index=index).read()
    finally:
        buffered.detach()
    return fold


class _LiveReader(segment_reader.SegmentReader):
    """Reads in compiled code only a step at a time, as the pace allows."""

    def __init__(
        self, file: LiveFile, stream: BinaryIO, fold: SegmentFold, *, verify_crc: bool, index: segment_reader.Index | None
    ) -> None:
        super().__init__(stream, file.size, fold, verify_crc=verify_crc, index=index)
        self._live = file

    def natively(self, scan: SegmentScan) -> None:
        """Go on in compiled code."""
        file, fold = self._live, self.fold
        count = sum(run.batch_count for run in fold.runs)
        usual = step = file.pace.chunk_size(_STEP)
        while fold.position < file.size:
            begin, end = fold.position, min(file.size, fold.position + step)
            file.admit(begin, end)
            self.scan_file_to(scan, file.fileno(), end)
            file.release(fold.position)
            if not file.is_sequential:
                count, before = sum(run.batch_count for run in fold.runs), count
                file.pace.wait_for(min(fold.position - begin, (count - before) * _READ_FOR_A_HEADER))
            if fold.position == begin:
                needed = _size_of_batch(file.fileno(), begin)
                if not end - begin < needed <= file.size - begin:
                    return  # something is wrong with it, or it is the last one and torn
                step = needed
            else:
                step = usual


def _size_of_batch(fd: int, position: int) -> int:
    head = os.pread(fd, LOG_OVERHEAD, position)
    return length_in(head) + LOG_OVERHEAD if len(head) == LOG_OVERHEAD else 0
