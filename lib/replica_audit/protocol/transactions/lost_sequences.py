"""Records that a producer wrote and that are in no log any more: what is missing from its sequence.

Sources: KIP-98, KIP-360; ProducerAppendInfo.checkProducerEpoch, checkSequence and inSequence, ProducerStateManager.isProducerExpired
(storage, 4.2.0). A leader refuses a batch whose sequence does not follow the producer's last one in the same epoch, or is not 0 in a new
one, unless it knows nothing of the producer: then it takes any. So a batch that does not follow what is before it in the log was appended
to a log that held what is missing, or by a leader that had forgotten the producer. In a log that was compacted a gap proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import Producers, ProducerSpan, SequenceGap

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
