"""Processes that do not outlive the one that starts them."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Looked up before any fork: nothing may be imported or loaded between fork and exec.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
_LOWEST_PORT, _HIGHEST_PORT = 10_000, 30_000


def end_with_parent() -> None:
    """Between fork and exec: let Linux end this process when the thread that starts it ends, however it does."""
    if _PRCTL:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(arguments: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start a process whose output is appended to a file. The kernel kills it when the thread that called this ends, however it ends."""
    with output.open("ab") as stream:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
            start_new_session=True,  # an interrupt at the terminal is for the laboratory, which then ends them in order
            preexec_fn=end_with_parent,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, frozen or not, and wait for the end."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now and that the kernel gives to no client: below the ephemeral range, so that a restart finds them."""
    chance, found = random.SystemRandom(), set[int]()
    while len(found) < count:
        port = chance.randrange(_LOWEST_PORT, _HIGHEST_PORT)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    return sorted(found)
