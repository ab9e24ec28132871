"""Choice of unchanged segments whose CRCs are verified again: a disk that changes bytes by itself changes nothing else.

The oldest check comes first, and so many are chosen that every segment is verified within a cycle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from replica_audit.collect.previous_rows import PreviousRows

NEVER = 0  # milliseconds since 1970


class Scrub:
    """Segments due tonight: `count` and `size_bytes` verified so far, `left` and `left_bytes` left out by the time limit."""

    def __init__(
        self, within_s: int, time_limit_s: int | None, *, now_ms: int, began: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Verify every segment within a cycle.

        Args:
            within_s: length of the cycle, in seconds.
            time_limit_s: seconds after which no more segments are verified; None: unlimited.
            now_ms: the time of the run, in milliseconds since 1970.
            began: when the run began, by the clock.
            clock: which the limit goes by, in seconds.
        """
        self.count = self.size_bytes = self.left = self.left_bytes = 0
        self._within_ms, self._now_ms, self._clock = within_s * 1000, now_ms, clock
        self._until = began + time_limit_s if time_limit_s is not None else None
        self._due: dict[tuple[str, str], dict[str, int]] = {}  # when last verified, by log directory and replica directory, and by segment

    def plan(self, rows: Iterable[PreviousRows], last_ms: int) -> None:
        """Choose tonight's share of all bytes (time since the last run / cycle), and what would be overdue by the next run.

        Segments that were never verified come first, as part of that share.

        Args:
            rows: of the last collection, one of each log directory.
            last_ms: when that collection began, in milliseconds since 1970.
        """
        since_ms = min(max(self._now_ms - last_ms, 0), self._within_ms)
        found = [
            (segment.verified_at_ms or NEVER, path, directory, segment.name, segment.size_bytes)
            for one in rows
            for path, directory, segment in one.all_segments()
        ]
        wanted = sum(size for *_rest, size in found) * since_ms
        chosen = 0
        for verified_at_ms, path, directory, name, size in sorted(found):
            is_overdue = verified_at_ms != NEVER and verified_at_ms + self._within_ms <= self._now_ms + since_ms
            if chosen * self._within_ms >= wanted and not is_overdue:
                break
            chosen += size
            self._due.setdefault((path, directory), {})[name] = verified_at_ms

    def is_due(self, path: str, directory: str, name: str, size_bytes: int) -> bool:
        """Return True if a segment is to be verified now, and count it; `path` is its log directory in the last collection."""
        if name not in self._due.get((path, directory), ()):
            return False
        if self._until is not None and self._clock() >= self._until:
            self.left, self.left_bytes = self.left + 1, self.left_bytes + size_bytes
            return False
        self.count, self.size_bytes = self.count + 1, self.size_bytes + size_bytes
        return True

    def rank(self, path: str, directory: str) -> int:
        """Sort key of a replica directory in a run with a time limit: oldest due check first.

        Directories with nothing due come first: they have to be read in any case.
        """
        if self._until is None:
            return 0
        return min(self._due.get((path, directory), {}).values(), default=-1)
