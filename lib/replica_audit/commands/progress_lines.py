"""Progress as lines on stderr."""

from __future__ import annotations

from collections.abc import Callable

from replica_audit.progress import ProgressEvent, ProgressKind

EVERY_SECONDS = 10.0  # how often lines say how much is done


class ProgressLines:
    """Takes events, and tells a line of each that has a text; how much is done only now and then."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Take what is told a line."""
        self._tell, self._counted_at = tell, 0.0

    def take(self, event: ProgressEvent) -> None:
        """Tell an event."""
        if event.kind is ProgressKind.COUNTED:
            if event.seconds - self._counted_at < EVERY_SECONDS:
                return
            self._counted_at = event.seconds
        text = event.text or (f"... {event.done} of {event.total} {event.unit} done" if event.kind is ProgressKind.COUNTED else "")
        if text:
            self._tell(f"[{event.seconds:5.1f} s] {text}")
