"""The keys that differ, as text: read again from a replica that holds a record of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.formats.segment.hashed_records import key_hash
from replica_audit.formats.segment.shown_key import shown_key
from replica_audit.model import StoredBatch
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs.pair import Pair
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.compaction import CompactionCause, DifferingKey, RecordComparison

Hash = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKeys:
    """The texts of keys, by both halves of their hashes. `unread`: what could not be read again."""

    texts: Mapping[Hash, str]
    unread: tuple[UnreadBatchesError, ...] = ()


def shown_keys(pair: Pair, found: RecordComparison | None) -> ShownKeys:
    """The keys of which a pair has rows of their own, as text; transaction markers have none.

    A key whose record is no longer where it was, or hashes to something else by now, is left out.
    """
    keys = [one for part in (found.found if found else ()) if part.cause is not CompactionCause.MARKER_GONE for one in part.worst]
    of_leader = [one for one in keys if one.leader is not None]
    of_follower = [one for one in keys if one.leader is None]
    texts: dict[Hash, str] = {}
    unread = []
    for loaded, some in ((pair.leader.loaded, of_leader), (pair.follower.loaded, of_follower)):
        wanted = {_offset(one): (one.key_high, one.key_low) for one in some}
        try:
            for offset, key in keys_at(loaded, sorted(wanted)):
                if key_hash(key) == wanted[offset]:
                    texts[wanted[offset]] = shown_key(key)
        except UnreadBatchesError as error:
            unread.append(error)
    return ShownKeys(texts=texts, unread=tuple(unread))


def _offset(key: DifferingKey) -> int:
    record = key.leader or key.follower
    return -1 if record is None else record.offset


def keys_at(loaded: Loaded, offsets: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """The keys of the records of a replica at some offsets, those that can be read.

    Args:
        loaded: the replica.
        offsets: ascending. Only the batches that hold them are read and decompressed.

    Raises:
        UnreadBatchesError: its files can no longer be read.
    """
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
