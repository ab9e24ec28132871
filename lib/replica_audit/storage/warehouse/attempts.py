"""Attempts at runs, as `audit_runs` has them, and whether the process that makes one still lives."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from replica_audit.rows.runs import RunHolder

RUNNING = "running"
SILENT_FOR = timedelta(minutes=15)  # of a process that cannot be seen from here, until it is taken for dead
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


held_here: set[tuple[str, str, datetime]] = set()  # what this process makes: the warehouse, the run, when its attempt began


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a run, as `audit_runs` has it.

    Args:
        number: higher than that of every attempt before; 0 of an older version, which did not count.
        started_at: when it began, UTC, to the microsecond; later than every attempt before.
        status: running or complete.
        holder: the process that made it; None by an older version.
        alive_at: when that process last showed that it lives, UTC.
    """

    number: int
    started_at: datetime
    status: str
    holder: RunHolder | None
    alive_at: datetime | None

    @property
    def version(self) -> int:
        """The number that the commit of its rows of `audit_runs` carries."""
        return 2 * self.number + (self.status != RUNNING)

    @property
    def fence(self) -> int:
        """The number that its commits to every other table carry: microseconds since 1970."""
        return microseconds(self.started_at)

    def is_same(self, other: Attempt | None) -> bool:
        """Whether two rows are of one attempt."""
        mine = (self.number, self.started_at, self.holder)
        return other is not None and mine == (other.number, other.started_at, other.holder)


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """The attempt that a row of `audit_runs` is of, by the columns `status`, `attempt`, `holder`, `started_at` and `alive_at`."""
    return Attempt(
        number=row["attempt"] or 0,
        started_at=row["started_at"].astimezone(UTC),
        status=row["status"],
        holder=RunHolder(**row["holder"]) if row["holder"] else None,
        alive_at=row["alive_at"].astimezone(UTC) if row["alive_at"] else None,
    )


def is_held(location: str, run_id: str, attempt: Attempt) -> bool:
    """Whether a process is at a run of the warehouse at a location: it lives, as far as can be seen from here."""
    if attempt.status != RUNNING or attempt.holder is None:
        return False
    if attempt.holder == this_process():
        return (location, run_id, attempt.started_at) in held_here
    alive = is_alive(attempt.holder)
    if alive is None:
        return attempt.alive_at is not None and datetime.now(UTC) - attempt.alive_at < SILENT_FOR
    return alive


def microseconds(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND
