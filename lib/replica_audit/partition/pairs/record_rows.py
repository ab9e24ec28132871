"""What comparing the records of a pair gave, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from replica_audit.formats.segment.records import key_hash, shown_key
from replica_audit.model import HashedRecord, StoredBatch
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs.decided_columns import record_differences
from replica_audit.partition.pairs.pair import Measured, Pair
from replica_audit.partition.replicas.loading import Loaded
from replica_audit.protocol.comparison.compaction import CompactionCause, DifferingKey, KeyRecord, RecordComparison
from replica_audit.protocol.comparison.record_cursor import DifferingRecords
from replica_audit.rows.records import Difference, DifferenceKind, HeldRecord


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


def record_rows(pair: Pair, measured: Measured, *, show_keys: bool) -> Iterator[Difference]:
    """The rows of `differences` of a pair whose records were compared; none of one whose were not.

    Args:
        pair: of two replicas.
        measured: the same.
        show_keys: whether keys may be shown as text.
    """
    keys = pair.keys
    row = partial(Difference, topic=keys.topic, partition=keys.partition, leader_id=keys.leader_id, follower_id=keys.follower_id)
    shown = ShownKeys(wanted=show_keys)
    if measured.comparison.records is not None:
        yield from _of_keys(pair, measured.comparison.records, shown, row)
    found = record_differences(measured.comparison)
    if found is not None:
        yield from _of_records(pair, found, shown, row)


def _of_keys(pair: Pair, compared: RecordComparison, shown: ShownKeys, row: Callable[..., Difference]) -> Iterator[Difference]:
    texts = _texts(pair, (one for part in compared.found if _is_of_key(part.cause) for one in part.worst), shown)
    for differing in compared.found:
        for one in differing.worst:
            yield row(
                kind=DifferenceKind.KEY,
                cause=str(differing.cause),
                broker_id=differing.broker_id,
                key_hash=one.shown_hash,
                key=texts.get((one.key_high, one.key_low)),
                leader=_surviving(one.leader),
                follower=_surviving(one.follower),
            )


def _is_of_key(cause: CompactionCause | None) -> bool:
    return cause is not CompactionCause.MARKER_GONE


def _texts(pair: Pair, keys: Iterable[DifferingKey], shown: ShownKeys) -> dict[tuple[int, int], str | None]:
    """The texts of keys, by both halves of their hashes; what hashes to something else by now is left out."""
    wanted: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})
    for one in keys:
        place = 0 if one.leader is not None else 1
        record = one.leader or one.follower
        if record is not None:
            wanted[place][record.offset] = (one.key_high, one.key_low)
    found = ((shown.at(side.loaded, list(of_side)), of_side) for side, of_side in zip((pair.leader, pair.follower), wanted, strict=True))
    return {of_side[offset]: text_of(key) for held, of_side in found for offset, key in held.items() if key_hash(key) == of_side[offset]}


def _surviving(record: KeyRecord | None) -> HeldRecord | None:
    if record is None:
        return None
    return HeldRecord(offset=record.offset, timestamp_ms=record.timestamp_ms, is_tombstone=record.is_tombstone)


def _of_records(pair: Pair, found: DifferingRecords, shown: ShownKeys, row: Callable[..., Difference]) -> Iterator[Difference]:
    of_leader = shown.at(pair.leader.loaded, [one.offset for one in found.first_ones if one.leader is not None])
    of_follower = shown.at(pair.follower.loaded, [one.offset for one in found.first_ones if one.follower is not None])
    for one in found.first_ones:
        yield row(
            kind=DifferenceKind.RECORD,
            offset=one.offset,
            parts=tuple(map(str, one.parts)),
            leader=_compared(one.offset, one.leader, text_of(of_leader.get(one.offset))),
            follower=_compared(one.offset, one.follower, text_of(of_follower.get(one.offset))),
        )


def _compared(offset: int, record: HashedRecord | None, key: str | None) -> HeldRecord | None:
    if record is None:
        return None
    return HeldRecord(
        offset=offset,
        timestamp_ms=record.timestamp_ms,
        key_bytes=record.key_bytes,
        key_hash=record.key.hex(),
        value_bytes=record.value_bytes,
        value_hash=record.value.hex(),
        headers_hash=record.headers.hex(),
        key=key,
    )
