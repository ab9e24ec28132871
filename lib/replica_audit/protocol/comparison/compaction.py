"""Whether what compaction left of a key on two replicas can both be right: for each key the newest record that survives on either.

Replicas compact by themselves, at their own times, so one may have been cleaned further than the other. What a cleaner may do (Cleaner,
CleanedTransactionMetadata, 4.2.0; KIP-534):

- remove a record for which the log holds a newer one of the same key;
- remove a tombstone that no newer record replaces, or a transaction marker, from `delete.retention.ms` after the first cleaning that saw
  it; that is not before it was appended. Older records of the key are gone by then, and a marker stays as long as any record of its
  transaction does (CleanedTransactionMetadata.onControlBatchRead);
- remove the records of aborted transactions, which are taken as absent on both sides, and records without a key.

So the newest record of a key is never removed, unless it is a tombstone. All else is an illegal difference. One arises though brokers
follow the rules: a follower that was away for longer than `delete.retention.ms` is never sent the tombstone, and keeps the key.

That something was removed too early is said only where it is proven when it was written at the earliest: by its leader's clock, which
stamps markers and, under LogAppendTime, every record, or by the election of its leader epoch. A client's clock proves nothing (CreateTime
may lie ahead by years), nor does a delete horizon: a cleaner sets it, at any time after the record was written, so it bounds from above.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from replica_audit.model import BatchRun, Election, Segment
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.protocol.exchange.replica import Replica

LONGEST_COPY_MS = 3_600_000  # from the first file of a replica to its last


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
    """One record of a key. `value_hash` is of its value and headers; `timestamp_ms` is its own, -1 if it has none.

    `is_broker_time`: the timestamp is of the broker that appended it, not of its producer.
    """

    offset: int
    timestamp_ms: int
    is_tombstone: bool
    value_hash: int
    is_broker_time: bool = False


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
    `in_sync_from`: whatever was committed behind this offset, inclusive, it was sent: it has been in the ISR since; None: not proven.
    """

    broker_id: int
    start_offset: int
    end_offset: int
    cleaned_until: int = 0
    copied_at_ms: int
    last_timestamp_ms: int = -1
    runs: bool = False
    perhaps_missing: tuple[int, ...] = ()
    in_sync_from: int | None = None

    def may_lack(self, offset: int) -> bool:
        """Whether the file of an offset may have been there, and not have been copied."""
        spans = zip(self.perhaps_missing[::2], self.perhaps_missing[1::2], strict=True)
        return any(first <= offset < end for first, end in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLogs:
    """A leader and a follower that are compared key by key.

    `delete_retention_ms` is None where it is unknown. `written_since`: offsets and times in turn, both ascending: what is there and behind
    was not written before. `is_of_brokers`: only brokers write to the topic, so all times are theirs.
    """

    leader: KeptLog
    follower: KeptLog
    delete_retention_ms: int | None = None
    written_since: tuple[int, ...] = ()
    is_of_brokers: bool = False

    @property
    def start_offset(self) -> int:
        """Where the offsets begin that both must agree on, inclusive."""
        return max(self.leader.start_offset, self.follower.start_offset)

    @property
    def end_offset(self) -> int:
        """Where they end, exclusive."""
        return min(self.leader.end_offset, self.follower.end_offset)

    def expired(self, record: KeyRecord, log: KeptLog) -> bool:
        """Whether a cleaner of a replica may have removed a tombstone, or a marker, when it was copied; so it may what is not proven."""
        retention, since = self.delete_retention_ms, self._not_before(record)
        return retention is None or since is None or since + retention <= log.copied_at_ms

    def _not_before(self, record: KeyRecord) -> int | None:
        """When a record was written at the earliest, in milliseconds; None: nothing proves a time."""
        offsets, times = self.written_since[::2], self.written_since[1::2]
        bounds = [
            *times[: bisect_right(offsets, record.offset)][-1:],
            *([record.timestamp_ms] if record.is_broker_time or self.is_of_brokers else []),
        ]
        return max((one for one in bounds if one >= 0), default=None)


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
        is_same = of_leader[2:4] == of_follower[2:4]
        return None if is_same else KeyDifference(CompactionCause.OTHER_VALUE, logs.follower.broker_id, of_leader, of_follower)
    if offset_of(of_leader) > offset_of(of_follower):
        held, lacks, lacking, holder = of_leader, follower, logs.follower, logs.leader
    else:
        held, lacks, lacking, holder = of_follower, leader, logs.leader, logs.follower
    # beyond the end either replica may hold a newer record: the one that lacks this one has a reason, or the follower fetches it
    is_replaced = max(offset_of(leader.newest), offset_of(follower.newest)) >= logs.end_offset
    if held is None or held.offset < logs.start_offset or is_replaced:
        return None
    found = _cause(logs, held, lacks.below_end, lacking, holder)
    if found is not None and lacking.may_lack(held.offset):
        found = (None, lacking.broker_id)
    return found and KeyDifference(*found, of_leader, of_follower)


def marker_difference(
    logs: ComparedLogs, leader: KeyRecord | None, follower: KeyRecord | None, *, holds_records: bool = False
) -> KeyDifference | None:
    """The same for a transaction marker, of which one of the two has none; its timestamp is when the leader of then wrote it.

    Args:
        logs: the two.
        leader: the leader's marker.
        follower: the follower's.
        holds_records: whether the replica that lacks it holds records of its transaction, which is open there without it.
    """
    held, lacking = (leader, logs.follower) if follower is None else (follower, logs.leader)
    if held is None or (leader is not None and follower is not None) or not logs.start_offset <= held.offset < logs.end_offset:
        return None
    # both may have been removed between the copies of their segments, but not before the marker has been there for so long
    was_at_once = not lacking.runs or (logs.delete_retention_ms or 0) >= LONGEST_COPY_MS
    if lacking.may_lack(held.offset) or (logs.expired(held, lacking) and not (holds_records and was_at_once)):
        return None
    return KeyDifference(CompactionCause.MARKER_GONE, lacking.broker_id, leader, follower)


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
    if not logs.expired(held, lacking) or _was_in_sync(logs, held, lacking, holder):  # a tombstone is younger than what it deletes
        return CompactionCause.KEY_MISSING, lacking.broker_id
    if _deleted_later(logs, lacking, holder):
        return (None if holder.runs else CompactionCause.KEY_RESURRECTED), holder.broker_id  # one that is behind for good never sees it
    was_cut = lacking.cleaned_until > lacking.end_offset
    return CompactionCause.KEY_MISSING if was_cut else CompactionCause.KEY_MISSING_OR_DELETED, lacking.broker_id


def _was_in_sync(logs: ComparedLogs, held: KeyRecord, lacking: KeptLog, holder: KeptLog) -> bool:
    """Whether the replica that holds a record was sent all that was committed behind it, so that a tombstone would be there.

    The copy of a running broker may be older than the tombstone, if the other copy goes on behind its end.
    """
    is_as_new = not holder.runs or lacking.end_offset <= logs.end_offset
    return holder.in_sync_from is not None and held.offset >= holder.in_sync_from and is_as_new


def _deleted_later(logs: ComparedLogs, lacking: KeptLog, holder: KeptLog) -> bool:
    """Whether a tombstone beyond the other's end may have come and gone again."""
    if lacking.end_offset <= logs.end_offset or not (lacking.cleaned_until > logs.end_offset or lacking.runs or holder.runs):
        return False
    retention, last = logs.delete_retention_ms, holder.last_timestamp_ms
    return retention is None or last < 0 or last + retention <= lacking.copied_at_ms


def offset_of(record: KeyRecord | None) -> int:
    """The offset of a record; -1 if there is none."""
    return -1 if record is None else record.offset


# The keys of which two replicas differ, counted and gathered: what comparing them gave, part by part, made one.

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
        DifferingKeys(
            cause,
            broker,
            counts[cause, broker],
            tuple(sorted(worst[cause, broker], key=lambda key: (key.offset, key.key_high, key.key_low))[:MOST_KEYS]),
        )
        for cause, broker in sorted(counts, key=lambda one: (_ORDER[one[0]], one[1]))
    )
    return RecordComparison(found=tuple(found), unproven=unproven)


# Whether logs show that a cleaner was at work, where the input has neither a topic's cleanup.policy nor its cleaner checkpoints.
# Sources: Cleaner.cleanInto and MemoryRecords.filterTo (4.2.0). A leader appends batches whole, and offsets follow each other; a follower
# appends what its leader has; retention removes whole segments, and a segment is named after its first batch. So only a cleaner leaves a
# batch with fewer records than offsets, or offsets that are missing within one epoch and segment. A cut that falls inside a batch leaves a
# hole, too (KAFKA-6361), but a later epoch begins behind it. That a log lacks its first offsets could be either; a cut can do it only in
# the first batch of all, so it is taken for a cleaner's work.


def shows_cleaning(segments: Sequence[Segment]) -> bool:
    """Whether the segments of a replica do; they ascend."""
    first = next((segment for segment in segments if segment.runs), None)
    begins_late = first is not None and first.runs[0].first_offset > first.base_offset
    holes = (_is_hole(*both) for segment in segments for both in pairwise(segment.runs))
    return begins_late or lacks_records(segments) or any(holes)


def holds_every_record(runs: Sequence[BatchRun], log_start_offset: int, log_end_offset: int) -> bool:
    """Whether a log has a record for each of its offsets: then no cleaner has taken any from it, nor from what it was fetched from."""
    held = [run for run in runs if run.last_offset >= log_start_offset]
    if any(map(_lacks_records, held)):
        return False
    ends = [log_start_offset, *(run.last_offset + 1 for run in held)]
    return all(run.first_offset <= end for run, end in zip(held, ends, strict=False)) and ends[-1] >= log_end_offset


def lacks_records(segments: Sequence[Segment]) -> bool:
    """Whether a batch of a replica has fewer records than offsets."""
    return any(_lacks_records(run) for segment in segments for run in segment.runs)


def _lacks_records(run: BatchRun) -> bool:
    return run.record_count < run.last_offset - run.first_offset + 1


def _is_hole(run: BatchRun, following: BatchRun) -> bool:
    return run.leader_epoch == following.leader_epoch >= 0 and run.last_offset + 1 < following.first_offset


# What may have left the replicas of a compacted partition with other keys, though their offsets and epochs are the same.
# A cleaner removes a record for a newer one of its key. If the newer one is truncated later, the key is gone from that replica for good
# (KIP-279: impact of topic compaction). What a leader is chosen over loses, an unclean election loses.

_ELECTIONS = (EventKind.UNCLEAN_ELECTION, EventKind.UNCLEAN_RECOVERY)
_CUTS = (EventKind.LOG_TRUNCATION, EventKind.BELOW_HIGH_WATERMARK, EventKind.HIGH_WATERMARK_FELL)  # NO_EFFECT and a new log's are none


class TouchedBy(StrEnum):
    """What has touched a partition."""

    UNCLEAN_ELECTION = "unclean election"
    TRUNCATION = "truncation"
    EMPTIED_SEGMENT = "emptied segment"


def touched_by(elections: Iterable[Election], events: Iterable[LogEvent], replicas: Collection[Replica] = ()) -> TouchedBy | None:
    """What the metadata log, the brokers' logs and the replicas show; None if nothing, which proves nothing where the input has neither."""
    kinds = {event.kind for event in events}
    if any(one.kind == ElectionKind.UNCLEAN for one in elections) or not kinds.isdisjoint(_ELECTIONS):
        return TouchedBy.UNCLEAN_ELECTION
    if not kinds.isdisjoint(_CUTS):
        return TouchedBy.TRUNCATION
    return TouchedBy.EMPTIED_SEGMENT if any(_is_emptied(one, replicas) for one in replicas) else None


def _is_emptied(replica: Replica, replicas: Collection[Replica]) -> bool:
    """Whether a segment is empty where another replica, cleaned as far, holds batches: old tombstones are all that it may have beyond."""
    spans = [(base, replica.log.segment_end(base)) for base in replica.log.empty_segments]
    return any(
        other is not replica
        and (other.cleaner_offset or 0) >= max(end, replica.cleaner_offset or 0)
        and any(run.first_offset < end and run.last_offset >= base for run in other.log.runs)
        for base, end in spans
        for other in replicas
    )
