"""What a replica's files say of each key of a compacted topic, by the laboratory's own reader."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.kafka_lab.records import RecordBatch

_ABORT = 0


class Newest(NamedTuple):
    """The newest record of a key; a tombstone has no value."""

    offset: int
    timestamp_ms: int
    value: bytes | None


def newest(batches: Iterable[RecordBatch]) -> dict[bytes, Newest]:
    """By key; records of aborted and of open transactions are left out, as a consumer with read_committed has it."""
    found: dict[bytes, Newest] = {}
    waiting: dict[int, list[tuple[bytes, Newest]]] = defaultdict(list)
    for batch in batches:
        if batch.is_control:
            made = waiting.pop(batch.producer_id, [])
            if not is_abort(batch):
                for key, one in made:
                    found[key] = max(found.get(key, one), one)
            continue
        for record in batch.records:
            if record.key is not None:
                one = Newest(batch.base + record.delta, batch.base_timestamp + record.timestamp_delta, record.value)
                if batch.is_transactional:
                    waiting[batch.producer_id].append((record.key, one))
                else:
                    found[record.key] = one
    return found


def apart(
    one: Mapping[bytes, Newest], other: Mapping[bytes, Newest], *, expired_ms: int
) -> dict[bytes, tuple[Newest | None, Newest | None]]:
    """The keys of which two replicas that hold the same log, compacted each at its own time, say what cannot both be right.

    Args:
        one: what a replica has of each key.
        other: what another one has, whose log ends at the same offset.
        expired_ms: tombstones with a timestamp up to this may be gone.
    """
    found = {}
    for key in one.keys() | other.keys():
        both = one.get(key), other.get(key)
        held = [known for known in both if known]
        is_expired = len(held) == 1 and held[0].value is None and held[0].timestamp_ms <= expired_ms
        if both[0] != both[1] and not is_expired:
            found[key] = both
    return found


def is_abort(marker: RecordBatch) -> bool:
    """Whether a transaction's marker aborts it. One that was cleaned away to nothing does not."""
    if not marker.records or marker.records[0].key is None:
        return False
    _version, kind = struct.unpack_from(">hh", marker.records[0].key)
    return bool(kind == _ABORT)


def cleaned_until(directory: Path) -> int:
    """The replica's entry of cleaner-offset-checkpoint, exclusive; 0 if there is none."""
    file, (topic, _, partition) = directory.parent / "cleaner-offset-checkpoint", directory.name.rpartition("-")
    for line in file.read_text().splitlines()[2:] if file.exists() else []:
        if line.split()[:2] == [topic, partition]:
            return int(line.split()[2])
    return 0
