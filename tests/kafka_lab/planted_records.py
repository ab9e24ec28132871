"""Differences in records, planted into copies of replicas: each of the kind that no epoch and, on a compacted topic, no digest shows.

Of every batch that is changed the CRC is mended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from tests.kafka_lab.files import log_start_offset, replica_directories
from tests.kafka_lab.keys import Newest, cleaned_until, is_abort, newest
from tests.kafka_lab.records import Record, RecordBatch, batches_of, replaced

Key = tuple[str, int, int]


class Kind(StrEnum):
    """What is planted into a follower's copy."""

    KEY_MISSING = "a live key is missing"
    OLD_KEY_MISSING = "a key is missing that is older than tombstones are kept"
    KEY_RESURRECTED = "a deleted key is back"
    OTHER_VALUE = "a key has another newest value"
    TOMBSTONE_GONE = "a tombstone is gone too early"
    MARKER_GONE = "a marker is gone too early"
    FLIPPED = "a bit of a value is flipped"
    SPLIT = "a batch is split in two"
    RECOMPRESSED = "a batch is compressed otherwise"


OF_COMPACTED = (Kind.KEY_MISSING, Kind.OLD_KEY_MISSING, Kind.KEY_RESURRECTED, Kind.OTHER_VALUE, Kind.TOMBSTONE_GONE, Kind.MARKER_GONE)


@dataclass(frozen=True, slots=True)
class Planted:
    """A difference: on which follower, at which offset, and of which key if it is about one."""

    kind: Kind
    at: Key
    offset: int
    record_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A follower's directory that is to be changed, and the batches of both.

    `start`: from it on both logs count. `until`: below it both are cleaned. `copied_ms`: when they were copied. `audited_ms`: they are
    audited before that. `retention_ms`: the topic's delete.retention.ms.
    """

    directory: Path
    follower: list[RecordBatch]
    leader: list[RecordBatch]
    start: int
    until: int
    copied_ms: int
    audited_ms: int
    retention_ms: int

    def is_young(self, timestamp_ms: int) -> bool:
        """Whether a tombstone of that time, or a marker, cannot have been removed yet."""
        return timestamp_ms + self.retention_ms > self.audited_ms

    def is_old(self, timestamp_ms: int) -> bool:
        """Whether a tombstone of that time may have been removed already."""
        return timestamp_ms + self.retention_ms <= self.copied_ms

    def shared(self) -> Iterator[RecordBatch]:
        """Batches of records that both have, but for the first and the last of the follower."""
        known = set(self.leader)
        return (
            batch for batch in self.follower[1:-1] if batch in known and not batch.is_control and batch.records and batch.base >= self.start
        )

    def cleaned(self) -> Iterator[tuple[bytes, Newest]]:
        """Keys whose newest record is the same on both, and cleaned; no transaction says anything of them that is not yet decided."""
        both = newest(self.follower), newest(self.leader)
        dirty = {
            record.key
            for batch in (*self.follower, *self.leader)
            for record in batch.records
            if not batch.is_control and batch.base + record.delta >= self.until
        }
        for key, one in both[0].items():
            if both[1].get(key) == one and self.start <= one.offset < self.until and key not in dirty:
                yield key, one

    def change(self, batch: RecordBatch, records: Iterable[Record]) -> None:
        """Give a batch of the follower other records."""
        replaced(self.directory, batch.base, replace(batch, records=tuple(records)))


def plant(
    root: Path,
    pairs: dict[Key, int],
    chance: random.Random,
    kind: Kind,
    *,
    retention_ms: dict[str, int],
    copied_ms: int,
    audited_ms: int,
) -> Planted | None:
    """Plant a difference into the copy of one of the followers.

    Args:
        root: the copies.
        pairs: the leader of each follower that may be changed; of compacted topics those of `retention_ms`.
        chance: draws.
        kind: what is planted.
        retention_ms: the delete.retention.ms of each compacted topic.
        copied_ms: when the copies were taken; all of them were taken before.
        audited_ms: they are audited before that.

    Returns: None if no follower has what it takes.
    """
    found = replica_directories(root)
    candidates = [key for key in sorted(pairs) if (key[0] in retention_ms) == (kind in OF_COMPACTED)]
    chance.shuffle(candidates)
    for key in candidates:
        directory, leads = found.get(key), found.get((*key[:2], pairs[key]))
        if directory is None or leads is None:
            continue
        until = min(cleaned_until(directory), cleaned_until(leads))
        start, kept_ms = max(log_start_offset(directory), log_start_offset(leads)), retention_ms.get(key[0], 0)
        pair = Pair(directory, batches_of(directory), batches_of(leads), start, until, copied_ms, audited_ms, kept_ms)
        if made := _PLANTERS[kind](pair, chance):
            return Planted(kind, key, *made)
    return None


Made = tuple[int, bytes | None] | None


def _key_missing(pair: Pair, chance: random.Random) -> Made:
    return _without_key(pair, chance, pair.is_young)


def _old_key_missing(pair: Pair, chance: random.Random) -> Made:
    return _without_key(pair, chance, pair.is_old)


def _without_key(pair: Pair, chance: random.Random, is_wanted: Callable[[int], bool]) -> Made:
    live = [(key, one) for key, one in pair.cleaned() if one.value is not None and is_wanted(one.timestamp_ms)]
    if not live:
        return None
    key, one = chance.choice(live)
    _remove(pair, key)
    return one.offset, key


def _other_value(pair: Pair, chance: random.Random) -> Made:
    live = [(key, one) for key, one in pair.cleaned() if one.value]
    if not live:
        return None
    key, one = chance.choice(live)
    _edit(pair, one.offset, lambda record: replace(record, value=_flipped(record.value, chance)))
    return one.offset, key


def _tombstone_gone(pair: Pair, chance: random.Random) -> Made:
    early = [(key, one) for key, one in pair.cleaned() if one.value is None and pair.is_young(one.timestamp_ms)]
    if not early:
        return None
    key, one = chance.choice(early)
    _remove(pair, key)
    return one.offset, key


def _key_resurrected(pair: Pair, chance: random.Random) -> Made:
    """The tombstone goes, and a value comes back at an offset that compaction has left empty."""
    deleted = [(key, one) for key, one in pair.cleaned() if one.value is None]
    chance.shuffle(deleted)
    for key, one in deleted:
        for batch in pair.follower:
            free = set(range(batch.last_delta + 1)) - {record.delta for record in batch.records}
            if batch.last < one.offset and free and batch.records and not batch.is_control and not batch.is_transactional:
                _remove(pair, key)
                added = Record(min(free), 0, key, b"back again")
                batch = next(now for now in batches_of(pair.directory) if now.base == batch.base)
                pair.change(batch, sorted([*batch.records, added], key=lambda record: record.delta))
                return one.offset, key
    return None


def _marker_gone(pair: Pair, chance: random.Random) -> Made:
    known, members = set(pair.leader), {batch.producer_id for batch in pair.follower if batch.records and not batch.is_control}
    markers = [
        batch
        for batch in pair.follower[1:-1]
        if batch.is_control
        and batch in known
        and batch.records
        and not is_abort(batch)
        and batch.last < pair.until
        and pair.is_young(batch.max_timestamp)
        and batch.producer_id in members
    ]
    said = newest(pair.follower)
    for marker in chance.sample(markers, len(markers)):
        # where no later marker says the same of its records, keys are missing as well
        if newest(batch for batch in pair.follower if batch is not marker) == said:
            replaced(pair.directory, marker.base)
            return marker.base, None
    return None


def _flipped_bit(pair: Pair, chance: random.Random) -> Made:
    shared = [(batch, record) for batch in pair.shared() for record in batch.records if record.value]
    if not shared:
        return None
    batch, record = chance.choice(shared)
    _edit(pair, batch.base + record.delta, lambda one: replace(one, value=_flipped(one.value, chance)))
    return batch.base + record.delta, record.key


def _split(pair: Pair, chance: random.Random) -> Made:
    shared = [batch for batch in pair.shared() if len(batch.records) > 1]
    if not shared:
        return None
    batch = chance.choice(shared)
    at = chance.randrange(1, len(batch.records))
    middle = batch.records[at].delta
    first = replace(batch, last_delta=middle - 1, records=batch.records[:at])
    rest = tuple(replace(record, delta=record.delta - middle) for record in batch.records[at:])
    sequence = batch.base_sequence + middle if batch.base_sequence >= 0 else batch.base_sequence
    second = replace(batch, base=batch.base + middle, last_delta=batch.last_delta - middle, base_sequence=sequence, records=rest)
    replaced(pair.directory, batch.base, first, second)
    return batch.base, None


def _recompressed(pair: Pair, chance: random.Random) -> Made:
    shared = list(pair.shared())
    if not shared:
        return None
    batch = chance.choice(shared)
    replaced(pair.directory, batch.base, batch.with_codec(chance.choice([codec for codec in ("gzip", "zstd") if codec != batch.codec])))
    return batch.base, None


_PLANTERS: dict[Kind, Callable[[Pair, random.Random], Made]] = {
    Kind.KEY_MISSING: _key_missing,
    Kind.OLD_KEY_MISSING: _old_key_missing,
    Kind.KEY_RESURRECTED: _key_resurrected,
    Kind.OTHER_VALUE: _other_value,
    Kind.TOMBSTONE_GONE: _tombstone_gone,
    Kind.MARKER_GONE: _marker_gone,
    Kind.FLIPPED: _flipped_bit,
    Kind.SPLIT: _split,
    Kind.RECOMPRESSED: _recompressed,
}


def _remove(pair: Pair, key: bytes) -> None:
    for batch in pair.follower:
        if not batch.is_control and any(record.key == key for record in batch.records):
            pair.change(batch, (record for record in batch.records if record.key != key))


def _edit(pair: Pair, offset: int, change: Callable[[Record], Record]) -> None:
    (batch,) = (one for one in pair.follower if one.base <= offset <= one.last)
    pair.change(batch, (change(record) if batch.base + record.delta == offset else record for record in batch.records))


def _flipped(value: bytes | None, chance: random.Random) -> bytes:
    assert value
    at = chance.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]
