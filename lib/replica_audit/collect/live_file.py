"""A file that a broker may be writing to, truncating or deleting while it is read.

It is read into buffers, never mapped: a page of a map that the broker cuts off would end the process. What the broker had in the page cache
stays there; what reading brought in is given back.
"""

from __future__ import annotations

import io
import os
from collections import deque
from contextlib import suppress
from typing import Any

from replica_audit.collect.pace import Pace

_BLOCK = 1 << 18
_AHEAD = 1 << 21  # asked of the disk while what was asked for before is worked on
_PAGE = 1 << 12
_NOWAIT = getattr(os, "RWF_NOWAIT", None)
_CAN_ADVISE = hasattr(os, "posix_fadvise")


class LiveFile(io.RawIOBase):
    """A file of a fixed size, for sequential reading: through itself as a raw stream, or by its descriptor with `admit` and `release`."""

    def __init__(self, fd: int, size: int, pace: Pace, *, is_hot: bool = False, is_sequential: bool = True) -> None:
        """Read from a descriptor, which is closed with the file.

        Args:
            fd: open for reading.
            size: as long as the file counts.
            pace: to keep.
            is_hot: whether the broker is likely to have it cached, where the system does not tell.
            is_sequential: whether all of it will be read; else what is read is asked of the disk when it is.
        """
        super().__init__()
        self.size = size
        self._fd, self._pace, self._is_hot, self._is_sequential = fd, pace, is_hot, is_sequential
        self._position = 0
        self._admitted = 0
        self._ours: deque[tuple[int, int]] = deque()  # blocks that were not in the cache before
        self._can_tell = _NOWAIT is not None
        self._probe = bytearray(1)
        if _CAN_ADVISE:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # what is read ahead is decided here

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a byte."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read up to as much as fits, 0 at the end."""
        wanted = min(len(buffer), self.size - self._position)
        if wanted <= 0:
            return 0
        begin, end = self._position, self._position + wanted
        self.admit(begin, end)
        count = os.preadv(self._fd, [memoryview(buffer)[:wanted]], begin)
        self._position += count
        self.release(self._position if self._is_sequential else end)
        return count

    def admit(self, begin: int, end: int) -> None:
        """Wait until the bytes up to `end` may be read, and note which of them are not in the page cache."""
        if not self._is_sequential:
            self._pace.take(end - begin)
            if not self._is_cached(begin):
                self._ours.append((begin, end))
            return
        ahead = 0 if self._pace.rate else _AHEAD
        while self._admitted < min(end + ahead, self.size):
            first, last = self._admitted, min(self._admitted + _BLOCK, self.size)
            self._pace.take(last - first)
            if not self._is_cached((first + last) // 2):
                self._ours.append((first, last))
                if ahead and _CAN_ADVISE:
                    os.posix_fadvise(self._fd, first, last - first, os.POSIX_FADV_WILLNEED)
            self._admitted = last

    def release(self, position: int) -> None:
        """Give back the cache of what was read up to a byte."""
        while self._ours and self._ours[0][1] <= position:
            first, last = self._ours.popleft()
            while self._ours and self._ours[0][0] == last and self._ours[0][1] <= position:
                last = self._ours.popleft()[1]
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
        """Give back what is left, and the descriptor."""
        if not self.closed:
            with suppress(OSError):
                self.release(self.size)
            os.close(self._fd)
        super().close()
