"""Whether a broker is at work in a log directory: it holds `.lock` in it locked (LogManager.lockLogDirs)."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from replica_audit.files.opened import open_descriptor

LOCK = ".lock"
_FLOCK = struct.Struct("hhqqi")  # struct flock of 64-bit Linux


def is_locked(path: Path) -> bool | None:
    """Whether a process holds a file locked; None if it cannot be told."""
    try:
        fd = open_descriptor(path)
    except OSError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _FLOCK.unpack_from(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        return bool(kind != fcntl.F_UNLCK)
    except OSError:
        return None
    finally:
        os.close(fd)
