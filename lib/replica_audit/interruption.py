"""The signals that ask a command to end: Ctrl-C, the SIGTERM of a service manager, the SIGHUP of a terminal that is closed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONE_REQUEST_S = 1.0  # whoever ends a session sends several signals at once
_AGAIN_S = 0.01


class Interruption(KeyboardInterrupt):
    """A signal has asked the command to end."""

    def __init__(self, number: int) -> None:
        """Name the signal."""
        super().__init__()
        self.signal = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        """What a shell says of a process that the signal ended."""
        return exit_code_of(self.signal)


def exit_code_of(number: int) -> int:
    """The exit code that stands for the end by a signal."""
    return 128 + number


class _Listener:
    """What has been received since the command began."""

    def __init__(self) -> None:
        self.latest: Interruption | None = None
        self.raised_at = -_ONE_REQUEST_S
        self.is_over = False

    def take(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.is_over or now - self.raised_at < _ONE_REQUEST_S:
            return
        self.raised_at, self.latest = now, Interruption(number)
        raise self.latest


_listener = _Listener()


def listen() -> None:
    """Raise an `Interruption` in the main thread on each of the signals, except where this process was started to ignore it (nohup)."""
    global _listener
    _listener = _Listener()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _take)
    if sys.unraisablehook is not _raise_again:
        _raise_again.otherwise = sys.unraisablehook  # type: ignore[attr-defined]
        sys.unraisablehook = _raise_again


def received() -> Interruption | None:
    """The latest of the signals since `listen`; whatever fails after it fails because of it."""
    return _listener.latest


def ignore() -> None:
    """Ignore the signals from here on: a command that ends says its last words whole."""
    _listener.is_over = True


def _take(number: int, frame: FrameType | None) -> None:
    _listener.take(number, frame)


def _raise_again(unraisable: UnraisableHookArgs) -> None:
    """Send the signal again where it met a finalizer: what these raise is dropped."""
    if isinstance(unraisable.exc_value, Interruption):
        _listener.raised_at = -_ONE_REQUEST_S
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), unraisable.exc_value.signal)).start()
    else:
        _raise_again.otherwise(unraisable)  # type: ignore[attr-defined]
