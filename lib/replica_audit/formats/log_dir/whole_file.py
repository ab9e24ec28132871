"""Reading a small file whole, and no file that only bears the name of one.

The limits are far above what brokers write and far below what fills memory: 64 MiB are 200,000 lines of an offset checkpoint with the
longest names that topics may have, or 2 million of an epoch checkpoint; 128 MiB are some 500,000 partitions of a document.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from replica_audit.files.locations import beginning
from replica_audit.formats.log_dir import names as log_dir

SETTINGS_LIMIT = 1 << 20
LIST_LIMIT = 64 << 20
DOCUMENT_LIMIT = 128 << 20
_LIMITS = {
    **dict.fromkeys((log_dir.META_PROPERTIES, log_dir.PARTITION_METADATA, log_dir.CLEAN_SHUTDOWN, "quorum-state"), SETTINGS_LIMIT),
    **dict.fromkeys((log_dir.EPOCH_CHECKPOINT, *log_dir.OFFSET_CHECKPOINTS), LIST_LIMIT),
    log_dir.CLUSTER_METADATA: DOCUMENT_LIMIT,
}


class TooLargeError(OSError):
    """A file that is larger than any of its name can be. `code` and `remedy` are those of the problem that it becomes."""

    code = "too-large"
    remedy = "check what the file is, and copy the broker's own; a sparse or overwritten file does not hold what its name says"

    def __init__(self, limit: int) -> None:
        """Larger than `limit` bytes."""
        super().__init__(errno.EFBIG, f"is larger than {limit >> 20} MiB, too large for a file of this kind: it is not read")


def limit_of(name: str) -> int:
    """How many bytes a small file of this name may have; of a name that is not known, SETTINGS_LIMIT."""
    return _LIMITS.get(name, SETTINGS_LIMIT)


def whole_content(path: Path, limit: int | None = None, *, may_be_pipe: bool = False) -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
        limit: in bytes; None for that of the file's name.
        may_be_pipe: whether a user has named it, and may have named a pipe. Else what is no regular file is not opened: it might block.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        TooLargeError: it is larger than the limit, by its size or as it is read.
    """
    limit = limit_of(path.name) if limit is None else limit
    status = path.stat()
    if not may_be_pipe and not stat.S_ISREG(status.st_mode):
        raise OSError(0, "is not a regular file")
    if status.st_size > limit:
        raise TooLargeError(limit)
    found = beginning(path, limit + 1, status.st_size)
    if len(found) > limit:
        raise TooLargeError(limit)
    return found
