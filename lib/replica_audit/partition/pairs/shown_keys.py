"""Keys as text: read again from the replicas that hold the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from replica_audit.formats.segment.records import shown_key
from replica_audit.model import StoredBatch
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.replicas.loading import Loaded


class ShownKeys:
    """The keys of single records."""

    def __init__(self, *, wanted: bool) -> None:
        """Keys are read if they are wanted; else there are none."""
        self._wanted = wanted

    def at(self, loaded: Loaded, offsets: Sequence[int]) -> dict[int, bytes]:
        """The keys of the records of a replica at some offsets, by offset; those that can be read."""
        found: dict[int, bytes] = {}
        with suppress(UnreadBatchesError):  # told with the input problems
            found.update(_keys_at(loaded, sorted(offsets) if self._wanted else ()))
        return found


def text_of(key: bytes | None) -> str | None:
    """A key as a column has it."""
    return None if key is None else shown_key(key)


def _keys_at(loaded: Loaded, offsets: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Keys with their offsets; only the batches that hold them are decompressed."""
    left = list(offsets)
    while left:
        held, keys = _batch_at(loaded, left)
        left = left[len(held) :]
        yield from ((offset, key) for offset in held if (key := keys.get(offset)) is not None)


def _batch_at(loaded: Loaded, offsets: Sequence[int]) -> tuple[list[int], Mapping[int, bytes | None]]:
    """Which of some ascending offsets the batch holds that holds the first of them, and its keys; none where there is no such batch."""
    for item in loaded.stored_from(offsets[0]):
        if isinstance(item, StoredBatch) and item.header.last_offset >= offsets[0]:
            held = [offset for offset in offsets if offset <= item.header.last_offset]
            return held, item.read_keys() if item.read_keys is not None else {}
    return [offsets[0]], {}
