"""The entries of an offset index (`%020d.index`) or a time index (`%020d.timeindex`), without the room behind them.

Sources: AbstractIndex, OffsetIndex, TimeIndex (storage, 4.2.0). The file of the segment that is written to is made in its full length, of
zeros, and cut to its entries when the segment is rolled or the broker stops. What a truncation takes from it stays behind its entries
until it is overwritten or cut off.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, BinaryIO, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[Any, Any]
OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_AT_ONCE = 24 << 10  # a multiple of both sizes
_ZEROS = bytes(_AT_ONCE)


class IndexEntries:
    """The entries in the order of the file. `is_cut`: the file ends with them, as that of a segment that was rolled or closed does."""

    def __init__(self, content: bytes, entry: np.dtype[Any], count: int, base_offset: int, *, is_cut: bool) -> None:
        """So many entries of a kind at the beginning of some content."""
        self.is_cut, self._count, self._base_offset = is_cut, count, base_offset
        self._content, self._entry = content, entry

    def __len__(self) -> int:
        return self._count

    @cached_property
    def offsets(self) -> Numbers:
        """The offset of each."""
        return self._rows["offset"].astype(np.int64) + self._base_offset

    @cached_property
    def values(self) -> Numbers:
        """The position, or the timestamp, of each."""
        return self._rows["position" if self._entry is OFFSET_ENTRY else "timestamp"].astype(np.int64)

    @cached_property
    def _rows(self) -> Numbers:
        return np.frombuffer(self._content, self._entry, self._count)

    def is_older(self, timestamp: int) -> bool:
        """Whether an entry of a time index has a lower timestamp."""
        if self._count == 1:  # as of most segments
            return int.from_bytes(self._content[:8], "big", signed=True) < timestamp
        return bool((self.values < timestamp).any())


def index_entries(stream: BinaryIO, entry: np.dtype[Any], base_offset: int) -> IndexEntries | None:
    """Read the entries of an index, and at most some KiB of the zeros behind them; None if there are none.

    Args:
        stream: at the beginning of the file.
        entry: OFFSET_ENTRY or TIME_ENTRY.
        base_offset: of the segment.

    Raises:
        OSError: the file cannot be read.
    """
    content, is_cut, is_more = b"", True, True
    while is_more:
        part = stream.read(_AT_ONCE)
        is_more = len(part) == _AT_ONCE
        if part == _ZEROS[: len(part)]:
            is_cut, is_more = not part, False
        else:
            content += part
    whole = len(content) // entry.itemsize
    count = min(whole, -(-len(content.rstrip(b"\0")) // entry.itemsize))
    if not count:
        return None
    return IndexEntries(content, entry, count, base_offset, is_cut=is_cut and count == whole)
