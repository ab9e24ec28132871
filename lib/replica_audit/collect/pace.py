"""Limits on what `collect` takes from the broker: bytes per second, and the lowest priority for CPU and disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

_MIN_CHUNK = 1 << 14
_LOWEST_IO_PRIORITY = 7


class Pace:
    """Limit on the rate of reading. `bytes_read` is the number of bytes read so far."""

    def __init__(
        self,
        rate: int | None,
        *,
        progress: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Allow `rate` bytes a second (None: unlimited); call `progress` often."""
        self.rate = rate
        self.bytes_read = 0
        self._progress, self._clock, self._sleep = progress, clock, sleep
        self._free_at = clock()

    def chunk_size(self, most: int) -> int:
        """Number of bytes to read at once: about a quarter of a second of the rate, at most `most`."""
        return most if self.rate is None else max(_MIN_CHUNK, min(most, self.rate // 4))

    def wait_for(self, size: int) -> None:
        """Wait until the rate allows another `size` bytes."""
        self.bytes_read += size
        if self._progress:
            self._progress()
        if self.rate is None:
            return
        now = self._clock()
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + size / self.rate


def lower_priority() -> None:
    """Give this process the lowest priority for CPU and disk, where the OS allows it."""
    this = psutil.Process()
    with suppress(OSError, psutil.Error):
        this.nice(19)
    if sys.platform == "linux":
        with suppress(OSError, psutil.Error):
            # not the idle class: where a scheduler knows it, a busy broker would stop the collection for good
            this.ionice(psutil.IOPRIO_CLASS_BE, _LOWEST_IO_PRIORITY)
