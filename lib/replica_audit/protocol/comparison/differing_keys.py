"""The keys of which two replicas differ, counted and gathered: what comparing them gave, part by part, made one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from replica_audit.protocol.comparison.compaction import CompactionCause, KeyRecord, offset_of

MOST_KEYS = 100  # of one cause and pair that are kept, besides their number


class DifferingKey(NamedTuple):
    """One key, by both halves of its hash, or one marker (its producer's id and its offset), as of `KeyDifference`."""

    key_high: int
    key_low: int
    leader: KeyRecord | None
    follower: KeyRecord | None

    @property
    def shown_hash(self) -> str:
        """The half of the key's hash that is shown: 16 hexadecimal digits."""
        return f"{self.key_high % (1 << 64):016x}"

    @property
    def offset(self) -> int:
        """Of the newest record that either replica has."""
        return max(offset_of(self.leader), offset_of(self.follower))


class DifferingKeys(NamedTuple):
    """The number of keys that differ for a cause, of which a broker is wrong (`KeyDifference`). `worst`: those of the lowest offsets."""

    cause: CompactionCause | None
    broker_id: int
    number: int
    worst: tuple[DifferingKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordComparison:
    """What comparing the records of a pair gave. `unread`: why they could not be compared; None if they were.

    `is_held` is False where the input does not hold them at all: of a collection, or a text, nobody can compare records.
    `found`: the keys that differ, causes in their order; `unproven`: how many more differ as copies of different times may.
    """

    found: tuple[DifferingKeys, ...] = ()
    unproven: int = 0
    unread: str | None = None
    is_held: bool = True


_ORDER = {cause: place for place, cause in enumerate(CompactionCause)}


def compared(parts: Iterable[DifferingKeys]) -> RecordComparison:
    """All that was found of a pair as one, from what parts of the keys gave."""
    counts: Counter[tuple[CompactionCause, int]] = Counter()
    worst: defaultdict[tuple[CompactionCause, int], list[DifferingKey]] = defaultdict(list)
    unproven = 0
    for part in parts:
        if part.cause is None:
            unproven += part.number
            continue
        counts[part.cause, part.broker_id] += part.number
        worst[part.cause, part.broker_id] += part.worst
    found = (
        DifferingKeys(cause, broker, counts[cause, broker], tuple(sorted(worst[cause, broker], key=_place)[:MOST_KEYS]))
        for cause, broker in sorted(counts, key=lambda one: (_ORDER[one[0]], one[1]))
    )
    return RecordComparison(found=tuple(found), unproven=unproven)


def _place(key: DifferingKey) -> tuple[int, int, int]:
    return key.offset, key.key_high, key.key_low
