"""Fields of the records that coordinators write (Kafka's message format: a length, then what is that long)."""

from __future__ import annotations

import struct

from replica_audit.errors import SegmentError

_INT16 = struct.Struct(">h")


def string(data: bytes, at: int) -> tuple[str, int]:
    """A text behind its length of two bytes, and where it ends.

    Raises:
        SegmentError: it does not end.
        struct.error: it has no length.
    """
    (size,) = _INT16.unpack_from(data, at)
    end = field_end(data, at + 2, size)
    return data[at + 2 : end].decode("utf-8", "replace"), end


def field_end(data: bytes, at: int, size: int) -> int:
    """Where a field of a size ends.

    Raises:
        SegmentError: it does not, or its size is negative.
    """
    if not 0 <= size <= len(data) - at:
        raise SegmentError(f"a field of {size} bytes where {len(data) - at} are left")
    return at + size
