"""What a truncation takes away, measured on the batches of the follower and the leader.

Sources: LocalLog.truncateTo (the batch that holds the offset goes whole), Partition.appendRecordsToFollowerOrFutureReplica (a fetch that
returns a batch beginning below the log end offset fails, unless the log is empty), transaction markers of KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replica_audit.model import BatchHeader
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.replay import Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What lies from the physical cut (inclusive) to the log end offset (exclusive).

    Timestamps are the smallest and largest of the removed batches' max timestamps, in milliseconds; None if nothing with a time is removed.
    `open_producer_ids`: producers whose transaction began below the physical cut and whose marker is removed: the cut leaves it open. Of
    one that began in an earlier segment that is known only where nothing but its marker goes.
    """

    physical_offset: int
    offsets: int
    records: int
    size_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    open_producer_ids: tuple[int, ...]


def measure_removal(batches: Iterable[BatchHeader], offset: int, log_end_offset: int) -> Removal:
    """Measure the cut of a log at `offset`.

    Args:
        batches: of the log, in order, from the one that holds the offset or any earlier one on.
        offset: to truncate to; the first batch whose last offset is not below it is where the file is cut.
        log_end_offset: of the log before the cut, exclusive.
    """
    physical, records, size = offset, 0, 0
    earliest: int | None = None
    latest: int | None = None
    opened: set[int] = set()  # below the cut
    began: set[int] = set()
    ended: set[int] = set()
    left_open: list[int] = []
    for batch in batches:
        if batch.base_offset >= log_end_offset:
            continue
        if batch.last_offset < offset:
            if batch.is_transactional and batch.is_control:
                opened.discard(batch.producer_id)
                ended.add(batch.producer_id)
            elif batch.is_transactional:
                opened.add(batch.producer_id)
                ended.discard(batch.producer_id)
            continue
        physical = min(physical, batch.base_offset)
        records += records_in(batch)
        size += batch.size_bytes
        if (time := batch.max_timestamp_ms) >= 0:  # -1 is no time: all that magic 0 has (KAFKA-3918)
            earliest = time if earliest is None else min(earliest, time)
            latest = time if latest is None else max(latest, time)
        if batch.is_control and batch.is_transactional:
            if batch.producer_id in opened or (batch.producer_id not in began and batch.producer_id not in ended):
                left_open.append(batch.producer_id)
            opened.discard(batch.producer_id)
            began.discard(batch.producer_id)
            ended.add(batch.producer_id)  # a second marker without data behind the first ends nothing
        elif batch.is_transactional:
            began.add(batch.producer_id)
    return Removal(
        physical_offset=physical,
        offsets=log_end_offset - physical,
        records=records,
        size_bytes=size,
        first_timestamp_ms=earliest,
        last_timestamp_ms=latest,
        open_producer_ids=tuple(dict.fromkeys(left_open)),
    )


def measure_loss(batches: Iterable[BatchHeader], spans: Sequence[Span]) -> tuple[int, int]:
    """Records and bytes of the batches in spans: of a batch that lies in them in part as many records as offsets.

    Args:
        batches: of the log, in order, from the one that holds the first offset of the spans or any earlier one on.
        spans: ascending and disjoint. The bytes of a batch count where its last offset lies in them.
    """
    records, size, within = 0, 0, RecordsWithin(spans)
    for batch in batches:
        found, ends_there = within.of(batch)
        if within.is_behind:
            break
        records += found
        size += batch.size_bytes if ends_there else 0  # else it counts with whoever holds the rest
    return records, size


class RecordsWithin:
    """Counts the records that the batches of a log, taken in order, have in spans, which are ascending and disjoint."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Take the spans; no batch yet."""
        self._spans, self._place = spans, 0

    @property
    def is_behind(self) -> bool:
        """Whether the last batch lies behind all spans."""
        return self._place == len(self._spans)

    def of(self, batch: BatchHeader) -> tuple[int, bool]:
        """The records of a batch that lie in the spans, and whether its last offset does: in part as many records as offsets."""
        while not self.is_behind and self._spans[self._place].end_offset <= batch.base_offset:
            self._place += 1
        if self.is_behind:
            return 0, False
        offsets, ends_there = _part_of(batch, self._spans, self._place)
        return min(records_in(batch), offsets), ends_there


def _part_of(batch: BatchHeader, spans: Sequence[Span], place: int) -> tuple[int, bool]:
    """How many offsets of a batch lie in spans, from the one at a place on, and whether the last one does."""
    lost, ends_lost = 0, False
    while place < len(spans) and spans[place].first_offset <= batch.last_offset:
        span = spans[place]
        lost += min(span.end_offset, batch.last_offset + 1) - max(span.first_offset, batch.base_offset)
        ends_lost = span.end_offset > batch.last_offset
        place += 1
    return lost, ends_lost


def records_in(batch: BatchHeader) -> int:
    """The batch's record count; where its text does not tell it (before 2.0), the most that its offsets allow."""
    return batch.last_offset - batch.base_offset + 1 if batch.record_count is None else batch.record_count


def lies_inside_a_batch(batches: Iterable[BatchHeader], offset: int) -> bool:
    """Whether the offset is neither the first offset of a batch nor outside of all.

    A batch older than magic 2 is appended by its last offset: none of its offsets lies inside.
    """
    return any(batch.base_offset < offset <= batch.last_offset for batch in batches if batch.magic >= 2)


def can_fail_to_append(truncation: Truncation) -> bool:
    """Whether a first batch that begins below the fetch offset makes this follower's fetcher fail.

    It does not after a restart, nor if the log is empty (it then starts at that batch), nor without a clean fetch.
    """
    after = truncation.follower_after
    return truncation.restart_offset is None and not truncation.stuck and after.log_end_offset > after.log_start_offset
