"""Which process holds something, told so that it can be recognised later: its number alone is given to others in time."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from replica_audit.rows.runs import RunHolder

_PROC = Path("/proc")


def this_process() -> RunHolder:
    """The process that runs this."""
    pid = os.getpid()
    return RunHolder(host=socket.gethostname(), machine=_machine(), pid=pid, began=_began(pid) or "")


def is_alive(process: RunHolder) -> bool | None:
    """Whether a process still runs; None if that cannot be seen from here: it is of another machine, or of another container."""
    here = this_process()
    if (process.host, process.machine) != (here.host, here.machine):
        return None
    return _began(process.pid) == process.began


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process of this machine began; None if there is none of this number."""
    if not (_PROC / "self").exists():
        return _listed(pid)
    try:
        # the command's name is in brackets and may hold blanks; the state is the first field after it, the start the 20th
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _listed(pid: int) -> str | None:
    """As `_began`, where there is no /proc."""
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return found.stdout.strip() or None
