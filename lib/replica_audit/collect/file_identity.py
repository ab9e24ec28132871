"""Whether a segment file is still the one that was read: what its file system says of it, and the bytes at both ends.

A file system dates changes by the last tick of a clock, so that of two changes within a tick the second may leave no trace. A file
counts as the one that was read only if nothing had changed it for a while by then: whatever came later has another time.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import StrEnum

END_BYTES = 1 << 12
_AT_REST_NS = 2_000_000_000  # the coarsest clock that file systems date changes with
_LARGEST = 2**63 - 1


class ReadCause(StrEnum):
    """Why a segment is read though there is an earlier collection."""

    NO_PREVIOUS = "no usable earlier collection"
    NEW = "new"
    NEWEST = "newest of a replica"
    WAS_NEWEST = "newest of a replica, or changing, when last read"
    NOT_AT_REST = "changed within 2 s before the last read"
    SIZE = "its size changed"
    OTHER_FILE = "another file with its name"
    CHANGED = "its times changed"
    ENDS = "its bytes changed, but not its size and times"
    PROBLEMS = "problems were found in it"
    OPTIONS = "last collected with fewer options"
    DUE = "verified again"
    DAMAGED = "its earlier row, index or copy is unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file as it was when it was read: its device and inode in decimal digits (they may need 64 bits), times in nanoseconds.

    `ends` is a digest of END_BYTES at both ends, `was_at_rest` whether its last change was at least 2 s before reading began.
    """

    device: str
    inode: str
    mtime_ns: int
    ctime_ns: int
    ends: str
    was_at_rest: bool


def identity_of(fd: int, before: os.stat_result, began_ns: int) -> FileIdentity | None:
    """The identity of a file that was read.

    Args:
        fd: open for reading.
        before: its status before it was read.
        began_ns: when reading began, by the clock of this machine, before `before` was taken.

    Returns:
        None if it changed while it was read, cannot be read any more, or has times that no file has.
    """
    try:
        now = os.fstat(fd)
        ends = digest(*(os.pread(fd, END_BYTES, position) for position in end_positions(now.st_size)))
    except OSError:
        return None
    if _status(now) != _status(before) or not all(0 <= time <= _LARGEST for time in (now.st_mtime_ns, now.st_ctime_ns)):
        return None
    return FileIdentity(
        device=str(now.st_dev),
        inode=str(now.st_ino),
        mtime_ns=now.st_mtime_ns,
        ctime_ns=now.st_ctime_ns,
        ends=ends,
        was_at_rest=max(now.st_mtime_ns, now.st_ctime_ns) <= began_ns - _AT_REST_NS,
    )


def _status(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def end_positions(size: int) -> tuple[int, int]:
    """Where the bytes at both ends begin, of which there are END_BYTES at most each; they may overlap."""
    return 0, max(0, size - END_BYTES)


def digest(*ends: bytes) -> str:
    """A digest of the bytes at both ends."""
    made = hashlib.blake2b(digest_size=16)
    for end in ends:
        made.update(len(end).to_bytes(4, "big") + end)
    return made.hexdigest()


def difference(identity: FileIdentity, size_bytes: int, now: os.stat_result) -> ReadCause | None:
    """What of a file, by its status, is not as it was when it was read; None: nothing."""
    if (str(now.st_dev), str(now.st_ino)) != (identity.device, identity.inode):
        return ReadCause.OTHER_FILE
    if now.st_size != size_bytes:
        return ReadCause.SIZE
    if (now.st_mtime_ns, now.st_ctime_ns) != (identity.mtime_ns, identity.ctime_ns):
        return ReadCause.CHANGED
    return None
