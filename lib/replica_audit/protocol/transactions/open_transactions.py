"""Transactions that are open at the end of a log, and records that are missing from a producer's sequence.

Sources: ProducerStateManager (firstUndecidedOffset; a transaction goes on until a marker of its producer id), UnifiedLog.lastStableOffset,
KIP-664 and TransactionsCommand.FindHangingTransactionsCommand (a transaction hangs if its producer last wrote longer ago than any
transaction may take, and its coordinator does not have the partition in an open transaction of that producer), KIP-890 (the coordinator
bumps the producer's epoch with the end of each transaction).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from replica_audit.model import Producers, ProducerSpan, SequenceGap, TransactionState

LONGEST_TRANSACTION_MS = 15 * 60_000  # transaction.max.timeout.ms by default, as the tool takes it
MARGIN_MS = 5 * 60_000  # the tool's, for clocks and for markers on their way
_ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_COMMITTED, _ABORTED = "CompleteCommit", "CompleteAbort"
_OPEN = "Ongoing"
_NAMED = 5
_PRODUCER, _PREVIOUS, _NEXT = (attrgetter(name) for name in ("producer_id", "previous_producer_id", "next_producer_id"))


class HangsBecause(StrEnum):
    """Why nobody will end a transaction."""

    MARKER_REMOVED = "marker-removed"
    COORDINATOR_WENT_ON = "coordinator-went-on"
    PAST_TIMEOUT = "past-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that no marker ends in a log. Offsets are inclusive; `epoch` and `last_timestamp_ms` are of its last batch.

    `is_certain`: whether its broker takes it for open, which is not known of one that lies below the log start.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    is_certain: bool = True


def open_transactions(producers: Producers | None) -> tuple[OpenTransaction, ...] | None:
    """The transactions that are open at the end of a log, by first offset; None if that is not known.

    Args:
        producers: of the whole log, as `producers_of_log`.
    """
    if producers is None or producers.untold_batches:
        return None
    found = (
        OpenTransaction(
            producer_id=span.producer_id,
            producer_epoch=span.last_epoch,
            first_offset=span.open_first_offset,
            last_offset=span.last_data_offset,
            first_timestamp_ms=span.open_timestamp_ms,
            last_timestamp_ms=span.last_timestamp_ms,
        )
        for span in producers.spans
        if span.open_first_offset >= 0
    )
    return tuple(sorted(found, key=lambda one: one.first_offset))


def last_stable_offset(opened: Iterable[OpenTransaction], log_start_offset: int, log_end_offset: int) -> int:
    """Where read_committed consumers are stuck: at the first open transaction, or at the log end if none is open.

    It is never below the log start, though the transaction may be (UnifiedLog.maybeIncrementFirstUnstableOffset). The high watermark, which
    may hold consumers up below that, is not looked at.
    """
    return max(log_start_offset, min((one.first_offset for one in opened), default=log_end_offset))


def state_of(opened: OpenTransaction, states: Sequence[TransactionState]) -> TransactionState | None:
    """What the coordinator says last of the transactional id that uses a producer id; else of the one that used it before, or will next."""
    for of_state in (_PRODUCER, _PREVIOUS, _NEXT):
        found = [state for state in states if of_state(state) == opened.producer_id]
        if found:
            return max(found, key=lambda state: (state.producer_epoch, state.last_update_ms))
    return None


def hangs_because(
    opened: OpenTransaction,
    state: TransactionState | None,
    place: tuple[str, int],
    *,
    marker_is_removed: bool,
    state_is_earlier: bool,
    known_until_ms: int | None,
) -> HangsBecause | None:
    """Why nobody will end a transaction that is open on the leader; None if somebody may, or if that is not known.

    Args:
        opened: on the leader.
        state: the coordinator's, None if it is not known.
        place: topic and partition.
        marker_is_removed: whether its marker was written to a replica that cuts it, or has cut it, to follow this leader.
        state_is_earlier: whether the coordinator wrote the state before the leader's log was copied: else the marker may have come between.
        known_until_ms: a time at which it still was open, in milliseconds since the epoch; None if there is none.
    """
    if state is not None and _is_of_the_one_before(opened, state):
        state = None  # it speaks of the transaction before
    has_other_id = state is not None and state.producer_id != opened.producer_id  # which it gets when a transaction is completed
    if state is not None and state.state in _ENDING and not has_other_id:
        return None  # its marker is on its way
    has_gone_on = state is not None and state_is_earlier and (has_other_id or state.producer_epoch > opened.producer_epoch)
    if state is not None and state.state == _OPEN and place in state.partitions and not has_gone_on and not has_other_id:
        return None  # its producer, or else the coordinator, ends it in time
    if marker_is_removed:
        return HangsBecause.MARKER_REMOVED
    if has_gone_on:
        return HangsBecause.COORDINATOR_WENT_ON
    if state is None or not state_is_earlier or known_until_ms is None:
        return None  # a producer may ask for a timeout of days, and only its coordinator knows
    longest = max(LONGEST_TRANSACTION_MS, state.timeout_ms) + MARGIN_MS
    return HangsBecause.PAST_TIMEOUT if opened.last_timestamp_ms + longest < known_until_ms else None


def _is_of_the_one_before(opened: OpenTransaction, state: TransactionState) -> bool:
    """Whether a state is older than a transaction: its producer id is only the one that is to be used next."""
    return opened.producer_id not in (state.producer_id, state.previous_producer_id)


def may_be_committed(opened: OpenTransaction, state: TransactionState | None, commits: Collection[bool]) -> bool | None:
    """Whether a producer may take a transaction that is open on the leader for committed; None if that is not known.

    Args:
        opened: on the leader.
        state: the coordinator's, as `state_of` gives it; with the producer epoch of the transaction, or the next one (KIP-890).
        commits: of each marker that ends it in another replica's log, whether it is a COMMIT.
    """
    if commits:
        return any(commits)
    if state is None or _is_of_the_one_before(opened, state):
        return None
    has_other_id = state.producer_id != opened.producer_id
    if state.producer_epoch not in ((0,) if has_other_id else (opened.producer_epoch, opened.producer_epoch + 1)):
        return None
    if state.state == _COMMITTED:
        return True
    # without a new epoch for each transaction it may speak of a later one, unless that began before this one was written
    return False if state.state == _ABORTED and 0 <= state.start_ms <= opened.last_timestamp_ms else None


def marker_missing_sentence(opened: Sequence[OpenTransaction]) -> str:
    """That transactions never end in a follower's log; at least one, by first offset."""
    named = ", ".join(f"{one.first_offset} (producer {one.producer_id}, epoch {one.producer_epoch})" for one in opened[:_NAMED])
    named += f" and {len(opened) - _NAMED} more" if len(opened) > _NAMED else ""
    many = "a transaction" if len(opened) == 1 else f"{len(opened)} transactions"
    stops = f"once it leads, read_committed consumers stop at offset {opened[0].first_offset} for good"
    return f"the end of {many} from offset {named} is missing from this replica, and lies below what it fetches next: {stops}"


def hanging_sentence(hanging: Sequence[tuple[int, int, int]], stable_offset: int) -> str:
    """That transactions hang, and where that stops consumers.

    Args:
        hanging: first offset, producer id and producer epoch of each, by first offset; at least one.
        stable_offset: the last stable offset of the leader.
    """
    where = ", ".join(f"{first} (producer {producer}, epoch {epoch})" for first, producer, epoch in hanging[:_NAMED])
    where += f" and {len(hanging) - _NAMED} more" if len(hanging) > _NAMED else ""
    what = f"{len(hanging)} transactions hang, from offsets {where}" if len(hanging) > 1 else f"the transaction from offset {where} hangs"
    return f"{what}: read_committed consumers stop at the last stable offset {stable_offset}"


# Records that a producer wrote and that are in no log any more: what is missing from its sequence.
# Sources: KIP-98, KIP-360; ProducerAppendInfo.checkProducerEpoch, checkSequence and inSequence, ProducerStateManager.isProducerExpired
# (storage, 4.2.0). A leader refuses a batch whose sequence does not follow the producer's last one in the same epoch, or is not 0 in a new
# one, unless it knows nothing of the producer: then it takes any. So a batch that does not follow what is before it in the log was appended
# to a log that held what is missing, or by a leader that had forgotten the producer. In a log that was compacted a gap proves nothing.

EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms where it is not set (3.5 and later; before that a week)


class GapDoubt(StrEnum):
    """Why records need not have been lost where sequences are missing."""

    FIRST_IN_LOG = "first-in-log"  # the producer's first batches may have been refused while a later one was on its way
    DAMAGED_BATCHES = "damaged-batches"  # the records may be in batches of which nothing is known
    LOG_START_MOVED = "log-start-moved"  # a leader whose log began later may have known nothing of the producer
    STATE_EXPIRED = "state-expired"  # the producer may have been silent for so long that the leader had forgotten it
    TIME_UNKNOWN = "time-unknown"  # when the later batch was appended is not known, so the same cannot be ruled out


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOfProducers:
    """What is known of the log in which gaps are looked for.

    `first_offset` is that of the log as it is stored; `log_start_offsets` are those of all replicas of the partition. `others` are the
    producers of the other replicas' logs, by broker; None of one that is not known.
    """

    producers: Producers
    first_offset: int
    log_start_offsets: tuple[int, ...]
    others: Mapping[int, Producers | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSequences:
    """Sequences of a producer that are missing before a batch; -1 and None before the producer's first one.

    `missing_count` records, from `expected_sequence` up to `found_sequence`, exclusive. Offsets are inclusive. `doubt`: why they need not
    have been lost; None if they must have been in the log. `held_by`: brokers whose replica still has them, at least the first.
    """

    gap: SequenceGap
    doubt: GapDoubt | None
    held_by: tuple[int, ...]

    @property
    def is_certain(self) -> bool:
        """Whether the records had been written, and no replica holds them."""
        return self.doubt is None and not self.held_by


def lost_sequences(log: LogOfProducers, latest_append_ms: Mapping[int, int | None]) -> Iterator[LostSequences]:
    """What is missing from the sequences of the producers of a log that was never compacted, by offset.

    Args:
        log: the log.
        latest_append_ms: by offset of a batch behind a gap, the latest time at which it can have been appended, by the brokers' clocks:
            timestamps of records are the clients'. None or absent: not known.
    """
    gaps = [gap for gap in log.producers.gaps if gap.missing_count > 0]
    if log.first_offset == 0:  # where the log begins later retention has the first batches
        gaps += [_before_first(span) for span in log.producers.spans if span.first_sequence > 0]
    for gap in sorted(gaps, key=lambda one: one.first_offset_after):
        doubt = _doubt(gap, log, latest_append_ms.get(gap.first_offset_after))
        yield LostSequences(gap=gap, doubt=doubt, held_by=tuple(broker for broker, other in log.others.items() if _holds(other, gap)))


def _before_first(span: ProducerSpan) -> SequenceGap:
    """Before the first batch of a producer, which begins above 0."""
    return SequenceGap(
        producer_id=span.producer_id,
        last_offset_before=-1,
        first_offset_after=span.first_data_offset,
        producer_epoch_before=-1,
        producer_epoch=span.first_epoch,
        expected_sequence=0,
        found_sequence=span.first_sequence,
        missing_count=span.first_sequence,
        timestamp_before_ms=-1,
        timestamp_after_ms=span.first_timestamp_ms,
    )


def _doubt(gap: SequenceGap, log: LogOfProducers, latest_append_ms: int | None) -> GapDoubt | None:
    if gap.last_offset_before < 0:
        return GapDoubt.FIRST_IN_LOG
    if log.producers.untold_batches:
        return GapDoubt.DAMAGED_BATCHES
    if gap.last_offset_before < max(log.log_start_offsets, default=0):
        return GapDoubt.LOG_START_MOVED
    if latest_append_ms is None or gap.timestamp_before_ms < 0:
        return GapDoubt.TIME_UNKNOWN
    return GapDoubt.STATE_EXPIRED if latest_append_ms - gap.timestamp_before_ms >= EXPIRATION_MS else None


def _holds(other: Producers | None, gap: SequenceGap) -> bool:
    """Whether another log has, or may have, the first of the missing records."""
    if other is None or other.untold_batches:
        return False
    span = next((one for one in other.spans if one.producer_id == gap.producer_id), None)
    if span is None or span.first_data_offset < 0:
        return False
    reaches = (span.last_epoch, span.last_sequence) >= (gap.producer_epoch, gap.expected_sequence)
    begins = (span.first_epoch, span.first_sequence) <= (gap.producer_epoch, gap.expected_sequence)
    place = (gap.producer_id, gap.producer_epoch, gap.expected_sequence, gap.found_sequence)
    same = any((one.producer_id, one.producer_epoch, one.expected_sequence, one.found_sequence) == place for one in other.gaps)
    return reaches and begins and not same
