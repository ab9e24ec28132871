"""A file that a broker may be writing to, truncating or deleting while it is read.

It is read into buffers, never mapped: a page of a map that the broker cuts off would end the process. What the broker had in the page cache
stays there; what reading brought in is given back.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from typing import Any

from replica_audit.collect.pace import Pace
from replica_audit.files.opened import RawReader

_BLOCK = 1 << 18
_AHEAD = 1 << 21  # asked of the disk while what was asked for before is worked on
_PAGE = 1 << 12
_NOWAIT = getattr(os, "RWF_NOWAIT", None)
_CAN_ADVISE = hasattr(os, "posix_fadvise")
_CAN_SEEK_HOLES = hasattr(os, "SEEK_HOLE")


class LiveFile(RawReader):
    """A file of a fixed size, read from its beginning on: as a raw stream, or by its descriptor between `admit` and `release`."""

    def __init__(self, fd: int, size: int, pace: Pace, *, is_hot: bool = False, is_sequential: bool = True) -> None:
        """Take over an open descriptor, which `close` closes.

        Args:
            fd: open for reading.
            size: length at which the file ends for this reader.
            pace: limits the rate.
            is_hot: True if the broker is likely to have it cached, where the OS cannot say.
            is_sequential: True if all of it will be read, so that reading ahead pays.
        """
        super().__init__()
        self.size, self.pace, self.is_sequential = size, pace, is_sequential
        self._fd, self._is_hot = fd, is_hot
        self._probed_to = 0  # blocks before it were probed for being cached
        self._uncached: deque[tuple[int, int]] = deque()
        self._can_tell = _NOWAIT is not None
        self._probe = bytearray(1)
        self._zeros_from = _end_of_data(fd)
        if _CAN_ADVISE:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # what is read ahead is decided here

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a byte."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.size}[whence]
        self.at = max(0, start + offset)
        return self.at

    def readinto(self, buffer: Any, /) -> int:
        """Read up to as much as fits, 0 at the end. A file that was made longer in advance is known to end in zeros without reading."""
        wanted = min(len(buffer), self.size - self.at, self.pace.chunk_size(len(buffer)))
        if wanted <= 0:
            return 0
        begin, view = self.at, memoryview(buffer)[:wanted]
        if self._zeros_from is not None and begin >= self._zeros_from:
            view[:] = bytes(wanted)
            self.at += wanted
            return wanted
        self.admit(begin, begin + wanted)
        if not self.is_sequential:
            self.pace.wait_for(wanted)
        count = os.preadv(self._fd, [view], begin)
        self.at += count
        self.release(self.at if self.is_sequential else begin + _BLOCK)
        return count

    def admit(self, begin: int, end: int) -> None:
        """Note which of the bytes are not in the page cache. Where all of the file is read, wait until those up to `end` may be."""
        ahead = _AHEAD if self.is_sequential and self.pace.rate is None else 0
        size = self.size if self._zeros_from is None else min(self.size, self._zeros_from)
        first = max(self._probed_to, begin - begin % _BLOCK)
        while first < min(end + ahead, size):
            last = min(first + _BLOCK, size)
            if self.is_sequential:
                last = min(last, first + self.pace.chunk_size(_BLOCK))
                self.pace.wait_for(last - first)
            if not self._is_cached((first + last) // 2):
                self._uncached.append((first, last))
                if ahead and _CAN_ADVISE:
                    os.posix_fadvise(self._fd, first, last - first, os.POSIX_FADV_WILLNEED)
            self._probed_to = first = last

    def release(self, position: int) -> None:
        """Drop from the page cache what this reader brought in, up to a byte."""
        while self._uncached and self._uncached[0][1] <= position:
            first, last = self._uncached.popleft()
            while self._uncached and self._uncached[0][0] == last and self._uncached[0][1] <= position:
                last = self._uncached.popleft()[1]
            if _CAN_ADVISE:
                os.posix_fadvise(self._fd, first - first % _PAGE, last - first + first % _PAGE, os.POSIX_FADV_DONTNEED)

    def _is_cached(self, position: int) -> bool:
        if self._can_tell and _NOWAIT is not None:
            try:
                return os.preadv(self._fd, [self._probe], position, _NOWAIT) == 1
            except BlockingIOError:
                return False
            except OSError:
                self._can_tell = False  # not on this file system
        return self._is_hot

    def close(self) -> None:
        """Drop what is left from the page cache, and close the descriptor."""
        if not self.closed:
            with suppress(OSError):
                self.release(self._probed_to)
            os.close(self._fd)
        super().close()


def _end_of_data(fd: int) -> int | None:
    """Return the position of the hole at the end of a file; None if it does not end in one."""
    if not _CAN_SEEK_HOLES:
        return None
    hole = 0
    try:
        hole = os.lseek(fd, 0, os.SEEK_HOLE)
        if hole < os.fstat(fd).st_size:
            os.lseek(fd, hole, os.SEEK_DATA)  # there is data behind the first hole
    except OSError as error:
        return hole if error.errno == errno.ENXIO else None
    return None
