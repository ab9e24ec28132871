"""Reading a small file whole, and no file that only bears the name of one.

The limits are far above what brokers write and far below what fills memory: 64 MiB are 200,000 lines of an offset checkpoint with the
longest names that topics may have, or 2 million of an epoch checkpoint; 128 MiB are some 500,000 partitions of a document.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from replica_audit.files.locations import is_stored
from replica_audit.files.opened import open_descriptor
from replica_audit.formats.log_dir import names as log_dir

SETTINGS_LIMIT = 1 << 20
LIST_LIMIT = 64 << 20
DOCUMENT_LIMIT = 128 << 20
_AT_ONCE = 1 << 20
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
        LinkOutsideError, NotAFileError, OSError: it cannot be opened, or read.
        TooLargeError: it is larger than the limit, by its size or as it is read.
    """
    limit = limit_of(path.name) if limit is None else limit
    if is_stored(path):
        size = path.stat().st_size
        _refuse_larger(size, limit)
        with path.open("rb") as stream:
            return _whole(stream.read, limit, size)
    # of small files opening costs more than reading: without a stream around it
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if may_be_pipe else open_descriptor(path)
    try:
        size = os.fstat(descriptor).st_size
        _refuse_larger(size, limit)
        return _whole(partial(os.read, descriptor), limit, size)
    finally:
        os.close(descriptor)


def _refuse_larger(size: int, limit: int) -> None:
    if size > limit:
        raise TooLargeError(limit)


def _whole(read: Callable[[int], bytes], limit: int, size: int) -> bytes:
    parts: list[bytes] = []
    length, expected = 0, min(limit, size) + 1
    while length <= limit and (part := read(expected - length if length < expected else min(limit + 1 - length, _AT_ONCE))):
        parts.append(part)  # several: it came in parts, or it grows, or its size is not known
        length += len(part)
    _refuse_larger(length, limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)
