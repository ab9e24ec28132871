"""`--progress FILE`: what a command is doing, as JSON lines for whoever watches it. Once the command works, it does not fail for them."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from replica_audit.commands import outputs
from replica_audit.commands.command import Option, tell
from replica_audit.commands.running import ending_of
from replica_audit.errors import UsageError
from replica_audit.own_folder import open_to_write
from replica_audit.program import VERSION
from replica_audit.progress import ProgressEvent, ProgressKind, TellsEvent

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


FLAG = "--progress"
PROGRESS = Option(
    flag=FLAG,
    help="write what is being done as JSON lines, too, each when it happens: a new file, or a pipe that somebody reads",
    arguments={"type": Path, "metavar": "FILE"},
)
_LONGEST_TEXT = 500
_WHOLE = 4096  # bytes of a line that goes into a pipe whole or not at all
_BEGUN, _ENDED = "run-begun", "run-ended"


class ProgressFile:
    """The file of one run of a command."""

    def __init__(self, path: Path, command: str, run_id: str | None) -> None:
        """Open it, in place of an older one.

        Raises:
            UsageError: it cannot be written, or is a pipe that nobody reads.
        """
        self._path, self._common = path, {"command": command, "run_id": run_id}
        self._fd, self._size, self._is_told = _opened(path), 0, False
        self._counted: tuple[object, ...] = ()
        self._is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._write(event=_BEGUN, version=VERSION)

    def take(self, event: ProgressEvent) -> None:
        """Write an event, unless it only counts what was counted before."""
        known: dict[str, object] = {"seconds": round(event.seconds, 3), "stage": event.stage, "clusters": event.clusters or None}
        if event.kind is ProgressKind.COUNTED:
            counted = (event.stage, event.done, event.total, *event.numbers.values())
            if counted == self._counted:
                return
            self._counted = counted
            known |= {"done": event.done, "total": event.total, "unit": event.unit}
        self._write(event=event.kind, **known, **event.numbers, text=event.text[:_LONGEST_TEXT] or None)

    def end(self, exit_code: int, error: str | None = None) -> None:
        """Write how the command ended, and close it."""
        self._write(event=_ENDED, exit_code=exit_code, error=error[:_LONGEST_TEXT] if error else None)
        with suppress(OSError):
            os.close(self._fd)

    def _write(self, **known: object) -> None:
        """Write one line, whole: what is not known is left out."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **self._common, **known}
        text = _json(line)
        try:
            self._put(text if len(text) <= _WHOLE else _json({**line, "clusters": None}))
        except OSError as error:
            if self._is_file:  # a line that is there in part; the next one is tried again, the disk may have room by then
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
            if not self._is_told:
                self._is_told = True
                why = "its reader does not keep up" if error.errno == errno.EAGAIN else error.strerror
                tell(f"warning: {FLAG} {self._path}: {why}; the work goes on, and this file lacks what could not be written")

    def _put(self, line: bytes) -> None:
        if self._is_file:
            written = os.pwrite(self._fd, line, self._size)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._size += written
        else:
            os.write(self._fd, line)


def _json(line: Mapping[str, object]) -> bytes:
    return (json.dumps({name: value for name, value in line.items() if value is not None}) + "\n").encode()


def _opened(path: Path) -> int:
    outputs.check(FLAG, path)
    try:
        fd = open_to_write(FLAG, path, os.O_TRUNC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(f"{FLAG} {path}: a pipe that nobody reads; start its reader first, or give a file") from None
        raise UsageError(f"{FLAG} {path}: {error.strerror}; give a file that can be written") from None
    return fd


def followed(path: Path | None, command: str, run_id: str | None, work: Callable[[TellsEvent], int]) -> int:
    """Do work that tells its progress, and write that to a file, with the exit code at the end; returns the exit code.

    Raises:
        UsageError: the file cannot be written; nothing was done.
    """
    if path is None:
        return work(lambda _event: None)
    file = ProgressFile(path, command, run_id)
    try:
        code = work(file.take)
    except (Exception, KeyboardInterrupt) as error:
        ending = ending_of(command, error)
        file.end(ending.exit_code, ending.words)
        raise
    file.end(code)
    return code
