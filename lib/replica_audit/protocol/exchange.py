"""The exchange between a follower and its leader, replayed until the first fetch that is answered with records.

The shape that all generations of the truncation rule share. Sources: AbstractFetcherThread and ReplicaFetcherThread (1.1.1, 2.0.1, 2.8.1,
4.2.0), UnifiedLog.truncateTo, Partition (validation of a fetch).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epoch_table import EMPTY, EpochEntry, EpochTable, end_offset_for, latest_epoch, truncate_from_end


class Protocol(StrEnum):
    """The generations of the truncation rule, oldest first."""

    HIGH_WATERMARK = "high-watermark"
    KIP_101 = "kip-101"
    KIP_279 = "kip-279"
    TRUNCATE_ON_FETCH = "truncate-on-fetch"


class Request(StrEnum):
    """What a follower asks its leader."""

    FETCH = "fetch"
    OFFSET_FOR_LEADER_EPOCH = "offset_for_leader_epoch"
    LIST_OFFSETS_LATEST = "list_offsets_latest"
    LIST_OFFSETS_EARLIEST = "list_offsets_earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One side of the exchange, with offsets as Kafka holds them in memory.

    `log_end_offset` is exclusive, `high_watermark` lies within [start, end].
    `first_segment_base` is the base offset of the oldest segment: a truncation below it restarts the log.
    """

    log_start_offset: int
    log_end_offset: int
    epochs: EpochTable
    high_watermark: int
    first_segment_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request and its answer. `answered_*` are None where the answer carries none (records, or OFFSET_OUT_OF_RANGE)."""

    request: Request
    fetch_offset: int | None = None
    requested_epoch: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    out_of_range: bool = False
    truncate_to: int | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What one protocol does with one follower.

    `steps` holds every request in order; `cuts` every truncation that was ordered, as (offset, complete), effective or not;
    `effective_cuts` the offsets that really shortened the log by an answer of the leader; `high_watermark_cut` the offset that the
    fallback cut to.
    `fetch_offset` is where records first flow, or where a loop without end stands (`stuck`).
    """

    protocol: Protocol
    steps: tuple[Step, ...]
    cuts: tuple[tuple[int, bool], ...]
    effective_cuts: tuple[int, ...]
    falls_back_to_high_watermark: bool
    high_watermark_cut: int | None
    restart_offset: int | None
    stuck: bool
    fetch_offset: int
    follower_after: ReplicaState

    @property
    def truncation_offset(self) -> int | None:
        """The last offset to which the log is really cut; a restart does not count."""
        return self.effective_cuts[-1] if self.effective_cuts else self.high_watermark_cut

    @property
    def round_trips(self) -> int:
        """Requests to the leader before the fetch that brings records, which is not counted."""
        return len(self.steps) - (0 if self.stuck else 1)


def truncated(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateTo(offset)` on offsets and table; at or above the log end only table entries without data go (KAFKA-10706)."""
    if offset >= replica.log_end_offset:
        epochs = truncate_from_end(replica.epochs, replica.log_end_offset)
        return replica if epochs is replica.epochs else replace(replica, epochs=epochs)
    if offset < replica.first_segment_base:
        return restarted(replica, offset)
    return replace(
        replica,
        log_start_offset=min(replica.log_start_offset, offset),
        log_end_offset=offset,
        epochs=truncate_from_end(replica.epochs, offset),
        high_watermark=min(replica.high_watermark, offset),
    )


def restarted(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateFullyAndStartAt(offset)`: an empty log and table that begin at the offset."""
    return replace(replica, log_start_offset=offset, log_end_offset=offset, epochs=EMPTY, high_watermark=offset, first_segment_base=offset)


def follower_step(answer: EpochEntry, own_lookup: EpochEntry, log_end_offset: int, fetch_offset: int) -> tuple[int, bool]:
    """The follower's decision on one (epoch, end offset) answer (AbstractFetcherThread.getOffsetTruncationState, 2.0.1 to 4.2.0).

    Args:
        answer: the leader's; end offset -1 is undefined, epoch -1 with an offset is an answer of version 0.
        own_lookup: the follower's own `end_offset_for` of the answered epoch.
        log_end_offset: the follower's, exclusive.
        fetch_offset: where the follower stands: the fallback for an undefined answer.

    Returns:
        (offset to truncate to, whether that ends the truncation).
    """
    if answer.start_offset == UNDEFINED_EPOCH_OFFSET:
        return fetch_offset, True
    if answer.epoch == UNDEFINED_EPOCH or own_lookup.start_offset == UNDEFINED_EPOCH_OFFSET:
        return min(answer.start_offset, log_end_offset), True
    if own_lookup.epoch != answer.epoch:
        return min(own_lookup.start_offset, log_end_offset), False
    return min(own_lookup.start_offset, answer.start_offset, log_end_offset), True


def diverging_epoch(leader: ReplicaState, fetch_offset: int, last_fetched_epoch: int) -> EpochEntry | None:
    """The leader's check of a fetch that carries the last fetched epoch (Partition.readRecords): where the logs part, or None.

    Raises:
        OffsetOutOfRange: the epoch is unknown to the leader, or the offset lies below its log start.
    """
    answer = end_offset_for(leader.epochs, last_fetched_epoch, leader.log_end_offset)
    if UNDEFINED_EPOCH in answer or fetch_offset < leader.log_start_offset:
        raise OffsetOutOfRange
    if answer.epoch < last_fetched_epoch or answer.start_offset < fetch_offset:
        return answer
    return None


class OffsetOutOfRange(Exception):
    """The leader's OFFSET_OUT_OF_RANGE."""


@dataclass(slots=True)
class Replay:
    """The state of one exchange while it is replayed."""

    protocol: Protocol
    leader: ReplicaState
    follower: ReplicaState
    steps: list[Step] = field(default_factory=list)
    cuts: list[tuple[int, bool]] = field(default_factory=list)
    effective: list[int] = field(default_factory=list)
    fell_back: bool = False
    high_watermark_cut: int | None = None
    restart_offset: int | None = None

    def ask(self, requested: int, answered_epoch: int | None, answered: int, target: int | None, complete: bool) -> None:
        """Record an OffsetsForLeaderEpoch request and apply its answer."""
        cut = None if target is None else self._cut(target, complete)
        self.steps.append(
            Step(
                request=Request.OFFSET_FOR_LEADER_EPOCH,
                requested_epoch=requested,
                answered_epoch=answered_epoch,
                answered_end_offset=answered,
                truncate_to=cut,
                complete=complete,
            )
        )

    def fall_back(self, offset: int) -> None:
        """Cut to the high watermark: no answer of the leader, hence no step."""
        self.fell_back = True
        self.cuts.append((offset, True))
        if offset < self.follower.log_end_offset:
            self.high_watermark_cut = offset
        self.follower = truncated(self.follower, offset)

    def fetch_until_records(self, *, sends_epoch: bool) -> Truncation:
        """Fetch from the log end until the leader answers with records, or the same state comes a second time."""
        # all that happens to a table here is that entries at its end go: their number identifies them
        seen: set[tuple[int, int, int]] = set()
        while (state := (self.follower.log_start_offset, self.follower.log_end_offset, len(self.follower.epochs))) not in seen:
            seen.add(state)
            if self._fetch(sends_epoch):
                return self._result(stuck=False)
        return self._result(stuck=True)

    def _fetch(self, sends_epoch: bool) -> bool:
        offset = self.follower.log_end_offset
        epoch = latest_epoch(self.follower.epochs) if sends_epoch and self.follower.epochs else None
        step = Step(request=Request.FETCH, fetch_offset=offset, requested_epoch=epoch)
        try:
            answer = None if epoch is None else diverging_epoch(self.leader, offset, epoch)
            if answer is None and not self.leader.log_start_offset <= offset <= self.leader.log_end_offset:
                raise OffsetOutOfRange
        except OffsetOutOfRange:
            self._out_of_range(step)
            return False
        if answer is None:
            self.steps.append(step)
            return True
        own_lookup = end_offset_for(self.follower.epochs, answer.epoch, offset)
        target, complete = follower_step(answer, own_lookup, offset, offset)
        cut = self._cut(target, complete)
        self.steps.append(
            replace(step, answered_epoch=answer.epoch, answered_end_offset=answer.start_offset, truncate_to=cut, complete=complete)
        )
        return False

    def _out_of_range(self, step: Step) -> None:
        """AbstractFetcherThread.fetchOffsetAndTruncate: cut to the leader's end if longer, else restart at its start if shorter."""
        latest = self.leader.log_end_offset
        shorter_than_own = latest < self.follower.log_end_offset
        cut = self._cut(latest, True) if shorter_than_own else None
        restarts = not shorter_than_own and self.leader.log_start_offset > self.follower.log_end_offset
        self.steps.append(
            replace(step, out_of_range=True, answered_end_offset=latest, truncate_to=cut, complete=shorter_than_own or restarts)
        )
        self.steps.append(Step(request=Request.LIST_OFFSETS_LATEST, answered_end_offset=latest))
        if not shorter_than_own:
            self.steps.append(Step(request=Request.LIST_OFFSETS_EARLIEST, answered_end_offset=self.leader.log_start_offset))
        if restarts:
            self.restart_offset = self.leader.log_start_offset
            self.follower = restarted(self.follower, self.restart_offset)

    def _cut(self, offset: int, complete: bool) -> int | None:
        self.cuts.append((offset, complete))
        effective = offset < self.follower.log_end_offset
        self.follower = truncated(self.follower, offset)
        if not effective:
            return None
        self.effective.append(offset)
        return offset

    def _result(self, *, stuck: bool) -> Truncation:
        return Truncation(
            protocol=self.protocol,
            steps=tuple(self.steps),
            cuts=tuple(self.cuts),
            effective_cuts=tuple(self.effective),
            falls_back_to_high_watermark=self.fell_back,
            high_watermark_cut=self.high_watermark_cut,
            restart_offset=self.restart_offset,
            stuck=stuck,
            fetch_offset=self.follower.log_end_offset,
            follower_after=self.follower,
        )
