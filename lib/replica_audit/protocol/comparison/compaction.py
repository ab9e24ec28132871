"""Whether what compaction left of a key on two replicas can both be right: for each key the newest record that survives on either.

Replicas compact by themselves, at their own times, so one may have been cleaned further than the other. What a cleaner may do (Cleaner,
CleanedTransactionMetadata, 4.2.0; KIP-534):

- remove a record for which the log holds a newer one of the same key;
- remove a tombstone that no newer record replaces, or a transaction marker, from `delete.retention.ms` after the first cleaning that saw
  it; that is not before it was appended. Older records of the key are gone by then;
- remove the records of aborted transactions, which are taken as absent on both sides, and records without a key.

So the newest record of a key is never removed, unless it is a tombstone. All else is an illegal difference. One arises though brokers
follow the rules: a follower that was away for longer than `delete.retention.ms` is never sent the tombstone, and keeps the key.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class CompactionCause(StrEnum):
    """What is wrong with a key, or with a transaction marker, on one of two replicas."""

    KEY_MISSING = "key-missing"  # a live key that the other replica lacks
    KEY_MISSING_OR_DELETED = (
        "key-missing-or-deleted"  # the same, but its tombstone may have come and gone while the one that has it was away
    )
    KEY_RESURRECTED = "key-resurrected"  # a live key whose tombstone the other replica holds, or has already been rid of
    OTHER_VALUE = "other-value"  # another newest value
    TOMBSTONE_GONE = "tombstone-gone"  # too early
    MARKER_GONE = "marker-gone"  # too early


class KeyRecord(NamedTuple):
    """One record of a key. `value_hash` is of its value and headers; `timestamp_ms` is its own, -1 if it has none."""

    offset: int
    timestamp_ms: int
    is_tombstone: bool
    value_hash: int


class KeyState(NamedTuple):
    """What a replica holds of a key: its newest record in all of the log that stays, and its newest one below the end of the comparison.

    Both are None where it holds none there. Records of aborted transactions do not count.
    """

    newest: KeyRecord | None = None
    below_end: KeyRecord | None = None


NOTHING = KeyState()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """How far a replica can be compared.

    `end_offset`, exclusive: of what it keeps, for a follower that truncates the physical cut. `cleaned_until`: its cleaner checkpoint.
    `copied_at_ms`: its files were copied no later than then. `last_timestamp_ms`: the newest that it keeps, -1 if unknown. `runs`: its
    broker was running and the copies were not simultaneous, so that the other one may be newer. `perhaps_missing`: spans of offsets, first
    and end (exclusive) in turn, of which the copy may lack a file: the cleaner of a running broker replaces files while they are copied.
    """

    broker_id: int
    start_offset: int
    end_offset: int
    cleaned_until: int = 0
    copied_at_ms: int
    last_timestamp_ms: int = -1
    runs: bool = False
    perhaps_missing: tuple[int, ...] = ()

    def may_lack(self, offset: int) -> bool:
        """Whether the file of an offset may have been there, and not have been copied."""
        spans = zip(self.perhaps_missing[::2], self.perhaps_missing[1::2], strict=True)
        return any(first <= offset < end for first, end in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLogs:
    """A leader and a follower that are compared key by key. `delete_retention_ms` is None where it is unknown."""

    leader: KeptLog
    follower: KeptLog
    delete_retention_ms: int | None = None

    @property
    def start_offset(self) -> int:
        """Where the offsets begin that both must agree on, inclusive."""
        return max(self.leader.start_offset, self.follower.start_offset)

    @property
    def end_offset(self) -> int:
        """Where they end, exclusive."""
        return min(self.leader.end_offset, self.follower.end_offset)

    def expired(self, record: KeyRecord, log: KeptLog) -> bool:
        """Whether a cleaner of a replica may have removed a tombstone, or a marker, when it was copied."""
        retention = self.delete_retention_ms
        return retention is None or record.timestamp_ms < 0 or record.timestamp_ms + retention <= log.copied_at_ms


class KeyDifference(NamedTuple):
    """One key, or marker, of which two replicas differ.

    `broker_id` is the replica that is wrong about it: the one that lacks it, or has it back, or serves the older value. Of two values at
    one offset, the follower. `cause` is None where it may be that the copies are of different times. `leader` and `follower` are the
    newest records below the end of the comparison.
    """

    cause: CompactionCause | None
    broker_id: int
    leader: KeyRecord | None
    follower: KeyRecord | None


def key_difference(logs: ComparedLogs, leader: KeyState, follower: KeyState) -> KeyDifference | None:
    """How two replicas differ in a key in a way that compaction does not allow; None if they do not.

    Args:
        logs: the two.
        leader: what the leader holds of the key.
        follower: what of it the follower keeps.
    """
    of_leader, of_follower = leader.below_end, follower.below_end
    if of_leader == of_follower:
        return None
    if of_leader is not None and of_follower is not None and of_leader.offset == of_follower.offset:
        is_same = of_leader[2:] == of_follower[2:]
        return None if is_same else KeyDifference(CompactionCause.OTHER_VALUE, logs.follower.broker_id, of_leader, of_follower)
    if _offset(of_leader) > _offset(of_follower):
        held, lacks, lacking, holder = of_leader, follower, logs.follower, logs.leader
    else:
        held, lacks, lacking, holder = of_follower, leader, logs.leader, logs.follower
    # beyond the end either replica may hold a newer record: the one that lacks this one has a reason, or the follower fetches it
    is_replaced = max(_offset(leader.newest), _offset(follower.newest)) >= logs.end_offset
    if held is None or held.offset < logs.start_offset or is_replaced:
        return None
    found = _cause(logs, held, lacks.below_end, lacking, holder)
    if found is not None and lacking.may_lack(held.offset):
        found = (None, lacking.broker_id)
    return found and KeyDifference(*found, of_leader, of_follower)


def marker_difference(logs: ComparedLogs, leader: KeyRecord | None, follower: KeyRecord | None) -> KeyDifference | None:
    """The same for a transaction marker, of which one of the two has none; its timestamp is when the leader of then wrote it."""
    held, lacking = (leader, logs.follower) if follower is None else (follower, logs.leader)
    if held is None or (leader is not None and follower is not None) or not logs.start_offset <= held.offset < logs.end_offset:
        return None
    gone = (
        None
        if logs.expired(held, lacking) or lacking.may_lack(held.offset)
        else KeyDifference(CompactionCause.MARKER_GONE, lacking.broker_id, leader, follower)
    )
    return gone


def _cause(
    logs: ComparedLogs, held: KeyRecord, older: KeyRecord | None, lacking: KeptLog, holder: KeptLog
) -> tuple[CompactionCause | None, int] | None:
    """Why it is illegal that a replica lacks the newest record that the other holds, and which of the two is wrong; None if it is legal.

    Args:
        logs: the two replicas.
        held: the record.
        older: what the replica that lacks it has of the key instead.
        lacking: that replica.
        holder: the other one.
    """
    has_older_value = older is not None and not older.is_tombstone
    if held.is_tombstone:
        if has_older_value:
            return CompactionCause.KEY_RESURRECTED, lacking.broker_id
        is_deleted = older is not None or logs.expired(held, lacking)
        return None if is_deleted else (CompactionCause.TOMBSTONE_GONE, lacking.broker_id)
    if has_older_value:
        return CompactionCause.OTHER_VALUE, lacking.broker_id
    if not _deleted_later(logs, lacking, holder):
        was_cut = lacking.cleaned_until > lacking.end_offset
        is_lost = was_cut or not logs.expired(held, lacking)  # a tombstone is younger than what it deletes
        return CompactionCause.KEY_MISSING if is_lost else CompactionCause.KEY_MISSING_OR_DELETED, lacking.broker_id
    return (None if holder.runs else CompactionCause.KEY_RESURRECTED), holder.broker_id  # one that is behind for good never sees it


def _deleted_later(logs: ComparedLogs, lacking: KeptLog, holder: KeptLog) -> bool:
    """Whether a tombstone beyond the other's end may have come and gone again."""
    if lacking.end_offset <= logs.end_offset or not (lacking.cleaned_until > logs.end_offset or lacking.runs or holder.runs):
        return False
    retention, last = logs.delete_retention_ms, holder.last_timestamp_ms
    return retention is None or last < 0 or last + retention <= lacking.copied_at_ms


def _offset(record: KeyRecord | None) -> int:
    return -1 if record is None else record.offset


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
        return max(_offset(self.leader), _offset(self.follower))


class DifferingKeys(NamedTuple):
    """The number of keys that differ for a cause, of which a broker is wrong (`KeyDifference`). `worst`: those of the lowest offsets."""

    cause: CompactionCause | None
    broker_id: int
    number: int
    worst: tuple[DifferingKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordComparison:
    """What comparing the records of a pair gave. `unread`: why they could not be compared; None if they were.

    `found`: the keys that differ, causes in their order; `unproven`: how many more differ as copies of different times may.
    """

    found: tuple[DifferingKeys, ...] = ()
    unproven: int = 0
    unread: str | None = None


_ORDER = {cause: place for place, cause in enumerate(CompactionCause)}


def compared(parts: Iterable[DifferingKeys], most: int) -> RecordComparison:
    """All that was found of a pair as one.

    Args:
        parts: what parts of the keys gave.
        most: of how many keys of each cause more than their number is kept.
    """
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
        DifferingKeys(cause, broker, counts[cause, broker], tuple(sorted(worst[cause, broker], key=_place)[:most]))
        for cause, broker in sorted(counts, key=lambda one: (_ORDER[one[0]], one[1]))
    )
    return RecordComparison(found=tuple(found), unproven=unproven)


def _place(key: DifferingKey) -> tuple[int, int, int]:
    return key.offset, key.key_high, key.key_low
