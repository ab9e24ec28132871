"""Half of some work in a second process, where there is much of it: what Python does one thing at a time two cores do in half the time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")


def can_share() -> bool:
    """Whether a copy of this process can be made and helps: a second core, and no thread that the copy would lack, as in a notebook."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


def both(here: Callable[[], T], there: Callable[[], T]) -> tuple[T, T]:
    """What two functions return, the second of which a copy of this process runs; what that returns has to be one that can be pickled.

    What the copy cannot do is done here, after the first: if it failed, it fails here again, with its own traceback.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    copy = context.Process(target=_answer, args=(there, sender), daemon=True)
    copy.start()
    sender.close()
    try:
        first = here()
        try:
            return first, receiver.recv()
        except (EOFError, OSError):  # it ended without an answer
            return first, there()
    finally:
        receiver.close()
        copy.terminate()
        copy.join()


def _answer(work: Callable[[], T], sender: Connection) -> None:
    """Send what the work returns; nothing if it fails. Who interrupts the first process ends this one, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BaseException):
        sender.send(work())
