"""What a collection keeps beside the rows: indexes of batches, copies of segments, each with its CRC, taken over by the next collection.

They are linked where that can be done, else copied, so that the earlier collection can be deleted. A linked file is never written to.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import crc32c

from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.output import writing
from replica_audit.collect.pace import Pace
from replica_audit.collect.segment_capture import FLAGS, copy_file

_CHUNK = 1 << 20


def keep(old: Path, new: Path, size: int | None, checksum: int | None) -> bool:
    """Link or copy a file of the earlier collection; False, and nothing is there, if it is not what was collected.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(new):
        new.unlink(missing_ok=True)
    try:
        if not stat.S_ISREG(old.lstat().st_mode):
            return False
        try:
            os.link(old, new)
        except OSError:  # another file system, one without links, too many of them, or another user's file
            with LiveFile(os.open(old, FLAGS), old.stat().st_size, Pace(None)) as file:
                copy_file(file, new)
        if new.stat().st_size == size and checksum_of(new) == checksum:
            return True
    except OSError:
        pass  # gone or unreadable
    with writing(new):
        new.unlink(missing_ok=True)
    return False


def checksum_of(path: Path) -> int:
    """The CRC-32C of a file of a collection.

    Raises:
        OSError: it cannot be read.
    """
    checksum, buffer = 0, bytearray(_CHUNK)
    with LiveFile(os.open(path, FLAGS), path.stat().st_size, Pace(None)) as file:
        while count := file.readinto(buffer):
            checksum = crc32c.crc32c(memoryview(buffer)[:count], checksum)
    return checksum
