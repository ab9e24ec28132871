"""Keeping out of the broker's way: bytes per second, and the lowest priority for CPU and disk that there is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

_LEAST = 1 << 14
_LOWEST = 7


class Pace:
    """How fast files are read. `bytes_read` is how much was, so far."""

    def __init__(
        self,
        rate: int | None,
        *,
        progress: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Allow `rate` bytes a second, None: as many as there come; call `progress` often."""
        self.rate = rate
        self.bytes_read = 0
        self._progress, self._clock, self._sleep = progress, clock, sleep
        self._free_at = clock()

    def at_once(self, most: int) -> int:
        """How much to ask for in one go, `most` at most: about a quarter of a second's worth."""
        return most if self.rate is None else max(_LEAST, min(most, self.rate // 4))

    def take(self, size: int) -> None:
        """Wait until what was read before has had its time; then `size` bytes may be read."""
        self.bytes_read += size
        if self._progress:
            self._progress()
        if self.rate is None:
            return
        now = self._clock()
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + size / self.rate


def step_back() -> None:
    """Let every other process have CPU and disk first, as far as the system lets itself be told."""
    this = psutil.Process()
    with suppress(OSError, psutil.Error):
        this.nice(19)
    if sys.platform == "linux":
        with suppress(OSError, psutil.Error):
            # not the idle class: where a scheduler knows it, a busy broker would stop the collection for good
            this.ionice(psutil.IOPRIO_CLASS_BE, _LOWEST)
