"""The exchange between a follower and its leader, replayed until the first fetch that is answered with records: all generations' shape.

Sources: AbstractFetcherThread, ReplicaFetcherThread (1.1.1, 2.0.1, 2.8.1, 4.2.0), Partition (validation of a fetch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from replica_audit.frozen import made_quickly, once
from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epochs.epoch_table import EpochEntry, end_offset_for, kip101_end_offset_for, latest_epoch
from replica_audit.protocol.exchange.replica import ReplicaState, restarted, truncated
from replica_audit.rows.codes import Case, EpochRequest, FallsBack, OutOfRange, Protocol
from replica_audit.rows.pairs import HighWatermarkFallback


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request, its answer, and what the follower does.

    `case` decided that; None for a ListOffsets request, which belongs to the answer before it. `log_end_offset` is the follower's when it
    asks. `answered_*` are None where the answer carries none. `own_lookup` is what its own table says of the answered epoch, None where it
    was not asked or knows none as high. `truncate_to` is None where nothing is cut; `dropped_epochs` are those that a cut takes from it.
    """

    request: EpochRequest
    case: Case | None = None
    fetch_offset: int | None = None
    log_end_offset: int | None = None
    requested_epoch: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None
    own_lookup: EpochEntry | None = None
    out_of_range: OutOfRange | None = None
    truncate_to: int | None = None
    restart_offset: int | None = None
    dropped_epochs: tuple[int, ...] = ()
    complete: bool = True


def is_round(step: Step, protocol: Protocol) -> bool:
    """Whether it is an answer of the leader: ListOffsets belongs to the one before, a clean fetch counts if fetches carry epochs."""
    if step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH:
        return True
    return step.request is EpochRequest.FETCH and (step.out_of_range is not None or protocol is Protocol.TRUNCATE_ON_FETCH)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What one protocol does with one follower.

    `steps` holds every request in order; `cuts` every truncation that was ordered, as (offset, complete), effective or not;
    `effective_cuts` the offsets that really shortened the log by an answer of the leader; `fallback` the cut to the high watermark, None if
    it came to none.
    `fetch_offset` is where records first flow, or where a loop without end stands (`stuck`).
    """

    protocol: Protocol
    steps: tuple[Step, ...]
    cuts: tuple[tuple[int, bool], ...]
    effective_cuts: tuple[int, ...]
    fallback: HighWatermarkFallback | None
    restart_offset: int | None
    stuck: bool
    fetch_offset: int
    follower_after: ReplicaState

    @property
    def falls_back_to_high_watermark(self) -> bool:
        """Whether the follower falls back to its high watermark."""
        return self.fallback is not None

    @property
    def high_watermark_cut(self) -> int | None:
        """The offset to which that really cut the log."""
        return None if self.fallback is None else self.fallback.truncate_to

    @property
    def truncation_offset(self) -> int | None:
        """The last offset to which the log is really cut; a restart does not count."""
        return self.effective_cuts[-1] if self.effective_cuts else self.high_watermark_cut

    @property
    def round_trips(self) -> int:
        """Requests to the leader before the fetch that brings records, which is not counted."""
        return len(self.steps) - (0 if self.stuck else 1)


class Decision(NamedTuple):
    """What a follower does with an answer: the offset to truncate to, whether that ends the truncation, and the case that decided."""

    offset: int
    complete: bool
    case: Case


def follower_step(answer: EpochEntry, own_lookup: EpochEntry, log_end_offset: int, fetch_offset: int) -> Decision:
    """The follower's decision on one (epoch, end offset) answer (AbstractFetcherThread.getOffsetTruncationState, 2.0.1 to 4.2.0).

    Args:
        answer: the leader's; end offset -1 is undefined, epoch -1 with an offset is an answer of version 0.
        own_lookup: the follower's own `end_offset_for` of the answered epoch.
        log_end_offset: the follower's, exclusive.
        fetch_offset: where the follower stands: the fallback for an undefined answer.
    """
    if answer.start_offset == UNDEFINED_EPOCH_OFFSET:
        return Decision(fetch_offset, True, Case.UNDEFINED)
    if answer.epoch == UNDEFINED_EPOCH:
        return Decision(min(answer.start_offset, log_end_offset), True, Case.NO_EPOCH)
    if own_lookup.start_offset == UNDEFINED_EPOCH_OFFSET:
        return Decision(min(answer.start_offset, log_end_offset), True, Case.LATER_EPOCH)
    if own_lookup.epoch != answer.epoch:
        return Decision(min(own_lookup.start_offset, log_end_offset), False, Case.UNKNOWN_EPOCH)
    return Decision(min(own_lookup.start_offset, answer.start_offset, log_end_offset), True, Case.COMMON_EPOCH)


def diverging_epoch(leader: ReplicaState, fetch_offset: int, last_fetched_epoch: int) -> EpochEntry | None:
    """The leader's check of a fetch that carries the last fetched epoch (Partition.readRecords): where the logs diverge, or None.

    Raises:
        OffsetOutOfRange: the epoch is unknown to the leader, or the offset lies below its log start.
    """
    answer = end_offset_for(leader.epochs, last_fetched_epoch, leader.log_end_offset)
    if UNDEFINED_EPOCH in answer:
        raise OffsetOutOfRange(OutOfRange.EPOCH)
    # what is in remote storage alone is checked like the rest, and then answered OFFSET_MOVED_TO_TIERED_STORAGE
    if fetch_offset < (leader.log_start_offset if leader.begins_remotely is None else leader.begins_remotely):
        raise OffsetOutOfRange(OutOfRange.BELOW_START)
    if answer.epoch < last_fetched_epoch or answer.start_offset < fetch_offset:
        return answer
    return None


class OffsetOutOfRange(Exception):
    """The leader's OFFSET_OUT_OF_RANGE; `why` it answers so."""

    def __init__(self, why: OutOfRange) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class Replay:
    """The state of one exchange while it is replayed."""

    protocol: Protocol
    leader: ReplicaState
    follower: ReplicaState
    steps: list[Step] = field(default_factory=list)
    cuts: list[tuple[int, bool]] = field(default_factory=list)
    effective: list[int] = field(default_factory=list)
    fallback: HighWatermarkFallback | None = None
    restart_offset: int | None = None

    def ask(
        self,
        requested: int,
        answered_epoch: int | None,
        answered: int,
        decision: Decision | None = None,
        own_lookup: EpochEntry | None = None,
        *,
        complete: bool = True,
    ) -> None:
        """Record an OffsetsForLeaderEpoch request, and apply the decision on its answer; None: the leader cannot tell the end."""
        end = self.follower.log_end_offset
        cut, dropped = (None, ()) if decision is None else self._cut(decision)
        self.steps.append(
            Step(
                request=EpochRequest.OFFSET_FOR_LEADER_EPOCH,
                case=Case.UNDEFINED if decision is None else decision.case,
                log_end_offset=end,
                requested_epoch=requested,
                answered_epoch=answered_epoch,
                answered_end_offset=answered,
                own_lookup=own_lookup,
                truncate_to=cut,
                dropped_epochs=dropped,
                complete=complete if decision is None else decision.complete,
            )
        )

    def fall_back(self, offset: int, because: FallsBack = FallsBack.UNDEFINED) -> None:
        """Cut to the high watermark: no answer of the leader, hence no step."""
        end = self.follower.log_end_offset
        self.fallback = HighWatermarkFallback(
            because=because,
            after_round=sum(is_round(step, self.protocol) for step in self.steps),
            high_watermark=offset,
            in_memory=self.follower.high_watermark_in_memory,
            log_end_offset=end,
            truncate_to=offset if offset < end else None,
        )
        self.cuts.append((offset, True))
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
        step = Step(request=EpochRequest.FETCH, case=Case.RECORDS, fetch_offset=offset, log_end_offset=offset, requested_epoch=epoch)
        try:
            answer = None if epoch is None else diverging_epoch(self.leader, offset, epoch)
            if answer is None and not self.leader.log_start_offset <= offset <= self.leader.log_end_offset:
                raise OffsetOutOfRange(OutOfRange.BELOW_START if offset < self.leader.log_start_offset else OutOfRange.BEYOND_END)
        except OffsetOutOfRange as refused:
            self._out_of_range(replace(step, out_of_range=refused.why))
            return False
        if answer is None:
            self.steps.append(step)
            return True
        own_lookup = end_offset_for(self.follower.epochs, answer.epoch, offset)
        decision = follower_step(answer, own_lookup, offset, offset)
        cut, dropped = self._cut(decision)
        own = None if decision.case is Case.LATER_EPOCH else own_lookup
        step = replace(step, answered_epoch=answer.epoch, answered_end_offset=answer.start_offset, own_lookup=own)
        self.steps.append(replace(step, case=decision.case, truncate_to=cut, dropped_epochs=dropped, complete=decision.complete))
        return False

    def _out_of_range(self, step: Step) -> None:
        """AbstractFetcherThread.fetchOffsetAndTruncate: cut to the leader's end if longer, else restart at its start if shorter."""
        latest, earliest = self.leader.log_end_offset, self.leader.log_start_offset
        step = replace(step, answered_end_offset=latest)
        listed = [Step(request=EpochRequest.LIST_OFFSETS_LATEST, answered_end_offset=latest)]
        if latest < self.follower.log_end_offset:
            cut, dropped = self._cut(Decision(latest, True, Case.OUT_OF_RANGE_LONGER))
            self.steps += [replace(step, case=Case.OUT_OF_RANGE_LONGER, truncate_to=cut, dropped_epochs=dropped), *listed]
            return
        listed.append(Step(request=EpochRequest.LIST_OFFSETS_EARLIEST, answered_end_offset=earliest))
        if earliest > self.follower.log_end_offset:
            self.steps += [replace(step, case=Case.OUT_OF_RANGE_RESTART, restart_offset=earliest), *listed]
            self.restart_offset = earliest
            self.follower = restarted(self.follower, earliest)
            return
        self.steps += [replace(step, case=Case.OUT_OF_RANGE_AGAIN, complete=False), *listed]

    def _cut(self, decision: Decision) -> tuple[int | None, tuple[int, ...]]:
        """Truncate as decided. Returns the offset if that shortens the log, and the epochs that it takes from the table."""
        before = self.follower
        self.cuts.append((decision.offset, decision.complete))
        self.follower = truncated(before, decision.offset)
        if decision.offset >= before.log_end_offset:
            return None, ()
        self.effective.append(decision.offset)
        return decision.offset, tuple(entry.epoch for entry in before.epochs[len(self.follower.epochs) :])

    def _result(self, *, stuck: bool) -> Truncation:
        return Truncation(
            protocol=self.protocol,
            steps=tuple(self.steps),
            cuts=tuple(self.cuts),
            effective_cuts=tuple(self.effective),
            fallback=self.fallback,
            restart_offset=self.restart_offset,
            stuck=stuck,
            fetch_offset=self.follower.log_end_offset,
            follower_after=self.follower,
        )


# What a follower truncates to, one function per protocol generation over one shape.
# Sources: KIP-101, KIP-279, KIP-320; ReplicaFetcherThread (1.1.1) and AbstractFetcherThread (2.0.1 to 4.2.0).


def high_watermark(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """Up to 0.10.2: cut to the own high watermark, no question asked."""
    replay = Replay(Protocol.HIGH_WATERMARK, leader, follower)
    replay.fall_back(follower.high_watermark, FallsBack.ASKS_NOTHING)
    return replay.fetch_until_records(sends_epoch=False)


def kip_101(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """0.11 to 1.1: one request for the end of the own latest epoch; undefined means the high watermark."""
    replay = Replay(Protocol.KIP_101, leader, follower)
    requested = latest_epoch(follower.epochs)
    offset = kip101_end_offset_for(leader.epochs, requested, leader.log_end_offset)
    if offset == UNDEFINED_EPOCH_OFFSET:
        replay.ask(requested, None, offset)
        replay.fall_back(follower.high_watermark)
    else:
        replay.ask(requested, None, offset, Decision(min(offset, follower.log_end_offset), True, Case.NO_EPOCH))
    return replay.fetch_until_records(sends_epoch=False)


def kip_279(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """2.0 and later: ask for (epoch, end offset) until both sides know the answered epoch."""
    replay = Replay(Protocol.KIP_279, leader, follower)
    fetch_offset = follower.high_watermark
    complete = False
    while not complete:
        own = replay.follower
        if not own.epochs:
            replay.fall_back(fetch_offset, FallsBack.NO_EPOCHS)
            break
        requested = latest_epoch(own.epochs)
        answer = end_offset_for(leader.epochs, requested, leader.log_end_offset)
        own_lookup = end_offset_for(own.epochs, answer.epoch, own.log_end_offset)
        decision = follower_step(answer, own_lookup, own.log_end_offset, fetch_offset)
        fetch_offset, complete = decision.offset, decision.complete
        if decision.case is Case.UNDEFINED:
            replay.ask(requested, answer.epoch, answer.start_offset)
            replay.fall_back(fetch_offset)
        else:
            replay.ask(requested, answer.epoch, answer.start_offset, decision, None if decision.case is Case.LATER_EPOCH else own_lookup)
    return replay.fetch_until_records(sends_epoch=False)


def truncate_on_fetch(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """2.8 and later (KAFKA-10554): every fetch carries the last fetched epoch, and the leader answers where the logs diverge."""
    replay = Replay(Protocol.TRUNCATE_ON_FETCH, leader, follower)
    if not follower.epochs:
        replay.fall_back(follower.high_watermark, FallsBack.NO_EPOCHS)
    return replay.fetch_until_records(sends_epoch=True)


RULES: dict[Protocol, Callable[[ReplicaState, ReplicaState], Truncation]] = {
    Protocol.HIGH_WATERMARK: once(high_watermark),
    Protocol.KIP_101: once(kip_101),
    Protocol.KIP_279: once(kip_279),
    Protocol.TRUNCATE_ON_FETCH: once(truncate_on_fetch),
}
