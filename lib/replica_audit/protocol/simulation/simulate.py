"""Steps of a recovery, one after the other: after each of them every running follower is run until it has caught up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from replica_audit.protocol.comparison.candidates import next_epoch, with_new_epoch
from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.epochs.lineage import Span, until, without
from replica_audit.protocol.exchange.healed import with_table
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.simulation.catching_up import CaughtUp, Measure, above, by_offsets, caught_up
from replica_audit.protocol.simulation.situation import (
    NOBODY,
    Action,
    Elect,
    LoseDisk,
    NotDone,
    ReplaceCheckpoint,
    RestoreCopy,
    Situation,
    StartBroker,
    StopBroker,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What came of a step. `not_done` says why it could not be done: nothing changed then.

    `followed`: each running follower, by broker. `lost`: offsets that no broker's directory holds any more, those of each epoch once;
    `committed` how many of them are proven to have been committed, by their strongest evidence.
    """

    action: Action
    situation: Situation
    not_done: NotDone | None = None
    followed: Mapping[int, CaughtUp]
    lost: tuple[Span, ...] = ()
    committed: Mapping[Evidence, int]

    @property
    def lost_offsets(self) -> int:
        """How many offsets the step loses."""
        return _count(self.lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Steps and what came of them, in order."""

    before: Situation
    outcomes: tuple[StepOutcome, ...]

    @property
    def after(self) -> Situation:
        """How the partition ends."""
        return self.outcomes[-1].situation if self.outcomes else self.before

    @property
    def is_possible(self) -> bool:
        """Whether every step can be done."""
        return all(outcome.not_done is None for outcome in self.outcomes)

    @property
    def lost(self) -> list[Span]:
        """What some step lost and no later one brought back from a copy."""
        held = [span for one in self.after.replicas.values() for span in one.history]
        return without([span for outcome in self.outcomes for span in outcome.lost], held)

    @property
    def lost_offsets(self) -> int:
        """How many offsets are lost in the end."""
        return _count(self.lost)

    @property
    def committed(self) -> dict[Evidence, int]:
        """How many of the offsets that steps lost are proven to have been committed, by their strongest evidence."""
        counts = {evidence: sum(outcome.committed.get(evidence, 0) for outcome in self.outcomes) for evidence in Evidence}
        return {evidence: count for evidence, count in counts.items() if count}

    @property
    def at_stake(self) -> list[Span]:
        """What only brokers that are stopped hold in the end: they truncate it when they start."""
        after = self.after
        if not after.is_online:
            return []
        leader = after.replicas[after.leader_id]
        held = [span for broker in after.running for span in (after.replicas[broker].history if broker in after.replicas else ())]
        stopped = [one for broker, one in after.replicas.items() if broker not in after.running]
        starts = ((one, max(one.log.log_start_offset, leader.log.log_start_offset)) for one in stopped)
        return without([span for one, start in starts for span in above(one.history, start) if span.leader_epoch >= 0], held)

    @property
    def not_caught_up(self) -> list[int]:
        """The running brokers that cannot follow the leader in the end."""
        return sorted(broker for broker, one in self.outcomes[-1].followed.items() if not one.caught_up) if self.outcomes else []

    @property
    def diverged(self) -> list[int]:
        """The brokers that conflict with the leader and do not notice."""
        return sorted({broker for outcome in self.outcomes for broker, one in outcome.followed.items() if one.diverged})


def simulate(
    situation: Situation,
    actions: Sequence[Action],
    *,
    protocol: Protocol,
    context: Context | None = None,
    measure: Measure = by_offsets,
) -> Simulation:
    """Do steps one after the other. One that cannot be done changes nothing, and says why.

    Args:
        situation: of the partition before.
        actions: in order.
        protocol: that the cluster runs.
        context: of the partition: what proves that records were committed, whether its topic is compacted.
        measure: what the batches say of a truncation; without it cuts are taken to lie between batches.
    """
    return _Run(situation, protocol, context or Context(leader_epoch=situation.leader_epoch), measure).done(actions)


class _Run:
    """The steps of one simulation; `copies` are the replicas as they were audited."""

    def __init__(self, situation: Situation, protocol: Protocol, context: Context, measure: Measure) -> None:
        self.before, self.protocol, self.context, self.measure = situation, protocol, context, measure
        self.copies = situation.replicas

    def done(self, actions: Sequence[Action]) -> Simulation:
        outcomes: list[StepOutcome] = []
        situation = self.before
        for action in actions:
            changed = self._changed(situation, action)
            if isinstance(changed, NotDone):
                outcomes.append(StepOutcome(action=action, situation=situation, not_done=changed, followed={}, committed={}))
                continue
            outcomes.append(self._converged(action, situation, changed))
            situation = outcomes[-1].situation
        return Simulation(before=self.before, outcomes=tuple(outcomes))

    def _changed(self, now: Situation, action: Action) -> Situation | NotDone:
        broker = action.broker_id
        if broker not in now.replicas and not (isinstance(action, RestoreCopy) and action.copy_of in self.copies):
            return NotDone.NO_REPLICA
        if isinstance(action, StartBroker):
            return NotDone.RUNS_ALREADY if broker in now.running else _started(now, broker)
        if isinstance(action, StopBroker):
            return _stopped(now, broker) if broker in now.running else NotDone.DOES_NOT_RUN
        if isinstance(action, LoseDisk):
            return _without(now, broker)
        if isinstance(action, Elect):
            return _elected(now, broker, unclean=action.unclean)
        if broker in now.running:
            return NotDone.MUST_BE_STOPPED
        if isinstance(action, ReplaceCheckpoint):
            return _with_replica(now, with_table(now.replicas[broker], action.epochs))
        copy = self.copies.get(action.copy_of)
        return NotDone.NO_REPLICA if copy is None else _with_replica(now, replace(copy, broker_id=broker, alive=False))

    def _converged(self, action: Action, before: Situation, now: Situation) -> StepOutcome:
        """Every follower, until it has caught up; then what nobody holds any more."""
        followed = {}
        for broker in now.followers:
            others = [one for other, one in self.copies.items() if other not in (broker, now.leader_id) and not one.unreadable]
            leader, follower = now.replicas[now.leader_id], now.replicas[broker]
            followed[broker] = caught_up(leader, follower, others, self.context, self.protocol, self.measure)
        replicas = {**now.replicas, **{broker: one.replica for broker, one in followed.items()}}
        in_sync = {broker for broker, one in followed.items() if one.caught_up}
        after = replace(now, replicas=replicas, isr=(now.isr - followed.keys()) | in_sync)
        disk = before.replicas.get(action.broker_id) if isinstance(action, LoseDisk) else None
        gone = [span for one in followed.values() for span in one.taken] + self._replaced(action, before, now)
        gone += () if disk is None else disk.history
        kept = [span for one in replicas.values() for span in one.history if span.leader_epoch >= 0]
        lost = without(gone, kept)
        return StepOutcome(action=action, situation=after, followed=followed, lost=tuple(lost), committed=_committed(followed, kept, disk))

    @staticmethod
    def _replaced(action: Action, before: Situation, now: Situation) -> list[Span]:
        """What a restored copy writes over."""
        if not isinstance(action, RestoreCopy) or action.broker_id not in before.replicas:
            return []
        return without(before.replicas[action.broker_id].history, now.replicas[action.broker_id].history)


def _committed(followed: Mapping[int, CaughtUp], kept: Sequence[Span], disk: Replica | None) -> dict[Evidence, int]:
    """What cuts take by each evidence, and of a disk that is lost what lies below its high watermark."""
    counts, taken = {}, list(kept)
    for evidence in Evidence:
        proven = [span for one in followed.values() for found in one.committed if found.evidence is evidence for span in found.spans]
        if evidence is Evidence.CHECKPOINT and disk is not None and disk.high_watermark is not None:
            proven += until(disk.history, disk.high_watermark)
        spans = without(proven, taken)
        taken += spans
        if spans:
            counts[evidence] = _count(spans)
    return counts


def _started(now: Situation, broker: int) -> Situation | NotDone:
    if now.replicas[broker].unreadable:
        return NotDone.UNREADABLE
    loaded = _with_replica(now, replace(now.replicas[broker], alive=False))
    now = replace(loaded, running=now.running | {broker})
    return now if now.is_online or broker not in now.electable else _led_by(now, broker, isr=now.electable & now.running)


def _stopped(now: Situation, broker: int) -> Situation:
    now = replace(now, running=now.running - {broker})
    isr = now.isr - {broker} or now.isr  # the last one stays
    if broker != now.leader_id:
        return replace(now, isr=isr)
    heir = next((other for other in now.assigned if other in now.running and other in isr), None)
    return replace(now, leader_id=NOBODY) if heir is None else _led_by(now, heir, isr=isr)


def _without(now: Situation, broker: int) -> Situation:
    """The controller fences a broker that is gone: as if it had been stopped, and its replica is no more."""
    stopped = _stopped(now, broker) if broker in now.running else now
    return replace(stopped, replicas={other: one for other, one in stopped.replicas.items() if other != broker})


def _elected(now: Situation, broker: int, *, unclean: bool) -> Situation | NotDone:
    """An unclean election is held only where nobody leads; a clean one moves the leadership within the ISR."""
    if broker not in now.running:
        return NotDone.DOES_NOT_RUN
    if now.replicas[broker].unreadable:
        return NotDone.UNREADABLE
    if broker == now.leader_id:
        return NotDone.LEADS_ALREADY
    if broker in now.electable:
        return _led_by(now, broker, isr=now.electable & now.running)
    if not unclean:
        return NotDone.NOT_IN_ISR
    return NotDone.LEADER_RUNS if now.is_online else _led_by(now, broker, isr=frozenset({broker}))


def _led_by(now: Situation, broker: int, *, isr: frozenset[int]) -> Situation:
    """The leader enters a new epoch at its log end."""
    epoch = next_epoch(now.replicas.values(), now.leader_epoch)
    led = with_new_epoch(now.replicas[broker], epoch)
    return replace(_with_replica(now, led), leader_id=broker, leader_epoch=epoch, isr=isr, elr=frozenset())


def _with_replica(now: Situation, replica: Replica) -> Situation:
    return replace(now, replicas={**now.replicas, replica.broker_id: replica})


def _count(spans: Sequence[Span]) -> int:
    return sum(span.end_offset - span.first_offset for span in spans)
