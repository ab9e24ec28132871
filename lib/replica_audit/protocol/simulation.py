"""Simulate the steps of a recovery on one partition: what each broker's log holds after every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import BatchRun
from replica_audit.protocol.comparison.candidates import never_begins, next_epoch, taken, with_new_epoch
from replica_audit.protocol.comparison.commitment import Context, Evidence
from replica_audit.protocol.comparison.copied_earlier import as_truncated
from replica_audit.protocol.comparison.pair import Comparison, Effect, catches_up
from replica_audit.protocol.epochs.epoch_table import EMPTY, Building, EpochTable
from replica_audit.protocol.epochs.lineage import Span, history_of_runs, until, without
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.rejoin import with_table
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import Protocol

# One partition between two steps: what its brokers' directories hold, which of them run, who leads; and the steps that change it. The
# rules of elections are those of the KRaft controller (PartitionChangeBuilder, ReplicationControlManager): a member of the ISR, or of the
# ELR where the ISR is empty, is elected as soon as its broker runs; anyone else only if an unclean election is asked for.


NOBODY = -1


@dataclass(frozen=True, slots=True)
class StartBroker:
    """Start a broker: it leads if it may be elected cleanly and nobody leads; else it follows, as soon as somebody does."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class StopBroker:
    """Stop a broker in order; if it leads, the first running member of the ISR takes over."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect a replica whose broker runs, as kafka-leader-election.sh does; `unclean`: also one that is not in the ISR."""

    broker_id: int
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceCheckpoint:
    """Write another leader-epoch-checkpoint into the directory of a broker that is stopped."""

    broker_id: int
    epochs: EpochTable


@dataclass(frozen=True, slots=True)
class RestoreCopy:
    """Put the audited copy of a replica, of the same broker or another, into the directory of a broker that is stopped."""

    broker_id: int
    copy_of: int


@dataclass(frozen=True, slots=True)
class LoseDisk:
    """A broker is gone for good, running or not: nobody has its replica any more. Its audited copy may still be restored elsewhere."""

    broker_id: int


Action = StartBroker | StopBroker | Elect | ReplaceCheckpoint | RestoreCopy | LoseDisk


class NotDone(StrEnum):
    """Why a step cannot be done."""

    NO_REPLICA = "no-replica"
    UNREADABLE = "unreadable"
    RUNS_ALREADY = "runs-already"
    DOES_NOT_RUN = "does-not-run"
    MUST_BE_STOPPED = "must-be-stopped"
    NOT_IN_ISR = "not-in-isr"
    LEADS_ALREADY = "leads-already"
    LEADER_RUNS = "leader-runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A partition between two steps.

    `replicas` holds what each broker's directory holds, `assigned` the partition's brokers in the order of their assignment; of one that is
    in no `replicas` nothing is known. `leader_id` is -1 where nobody leads; a leader's table has its epoch.
    """

    replicas: Mapping[int, Replica]
    assigned: tuple[int, ...]
    running: frozenset[int]
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    leader_id: int = NOBODY
    leader_epoch: int = -1

    @property
    def electable(self) -> frozenset[int]:
        """Who may be elected cleanly."""
        return self.isr or self.elr

    @property
    def is_online(self) -> bool:
        """Whether somebody leads."""
        return self.leader_id != NOBODY

    @property
    def followers(self) -> tuple[int, ...]:
        """The brokers that run and fetch from the leader, in the order of their assignment."""
        if not self.is_online:
            return ()
        others = (broker for broker in self.assigned if broker in self.running and broker != self.leader_id)
        return tuple(broker for broker in others if broker in self.replicas and not self.replicas[broker].unreadable)


# One follower that fetches from its leader until it has caught up: what it truncates, what it then holds.
# The exchange is that of `exchange.replay`, what is refused for good that of `exchange.rejoin`, what a cut takes that of
# `comparison.candidates`: nothing is decided here.


class CommittedSpans(NamedTuple):
    """Offsets that a cut takes and that the leader does not hold, proven to have been committed."""

    evidence: Evidence
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A follower after its exchange and its fetches. `caught_up` is False where the leader refuses it for good or its fetcher fails.

    `truncation_offset` and `restart_offset` are None where it does neither. `taken`: what of its records the leader does not hold.
    `diverged`: whether it then conflicts with the leader and does not notice.
    """

    replica: Replica
    truncation_offset: int | None
    restart_offset: int | None
    caught_up: bool
    diverged: bool
    taken: tuple[Span, ...]
    committed: tuple[CommittedSpans, ...]


def caught_up(leader: Replica, follower: Replica, witnesses: list[Replica], context: Context, protocol: Protocol) -> CaughtUp:
    """Run a follower until it holds all that its leader holds, or is refused for good; a cut is taken to lie between two batches.

    Args:
        leader: its table has the epoch in which it leads.
        follower: as its broker has loaded it.
        witnesses: other replicas, whose high watermarks may prove that what is cut was committed.
        context: of the partition.
        protocol: that the cluster runs.
    """
    truncation = RULES[protocol](leader.as_leader(), follower.as_follower())
    effect = Effect(truncation=truncation, physical_offset=truncation.truncation_offset, fetcher_fails=False)
    comparison = Comparison(leader=leader, follower=follower, context=context, effect=effect, witnesses=witnesses)
    is_caught_up = not never_begins(effect) and catches_up(leader, effect)
    kept = _kept(follower, effect)
    return CaughtUp(
        replica=fetched(leader, kept) if is_caught_up else kept,
        truncation_offset=effect.truncation.truncation_offset,
        restart_offset=effect.truncation.restart_offset,
        caught_up=is_caught_up,
        diverged=comparison.still_diverged and not never_begins(effect),
        taken=tuple(above(taken(comparison), follower.log.log_start_offset)),
        committed=tuple(CommittedSpans(one.bound.evidence, one.spans) for one in comparison.committed),
    )


def above(spans: Iterable[Span], log_start_offset: int) -> Iterator[Span]:
    """What of spans lies at or above a log start: a segment may begin below it, with records that nobody reads any more."""
    for span in spans:
        if span.end_offset > log_start_offset:
            yield span._replace(first_offset=max(span.first_offset, log_start_offset))


def _kept(follower: Replica, effect: Effect) -> Replica:
    """What the follower holds once it was cut, before it fetches; its table as the exchange left it."""
    after, cut = effect.truncation.follower_after, effect.truncation.truncation_offset
    if effect.truncation.restart_offset is not None:
        kept = as_truncated(follower, after.log_start_offset, 0)
    elif cut is not None:
        kept = as_truncated(follower, cut, cut if effect.physical_offset is None else effect.physical_offset)
    else:
        kept = follower
    log = replace(
        kept.log,
        log_start_offset=after.log_start_offset,
        log_end_offset=after.log_end_offset,
        first_segment_base=after.first_segment_base,
        epochs=after.epochs,
        epochs_on_disk=EMPTY,
    )
    return replace(kept, log=log)


def fetched(leader: Replica, follower: Replica) -> Replica:
    """The follower once it has appended all that its leader holds from its log end on; it then runs and is caught up."""
    end = follower.log.log_end_offset
    appended = list(_from(leader.log, end))
    building = Building(follower.log.epochs)
    for run in appended:
        building.append(run.leader_epoch, run.first_offset, run.magic)
    runs = (*follower.log.runs, *appended)
    log = replace(follower.log, log_end_offset=max(end, leader.log.log_end_offset), epochs=building.table(), runs=runs)
    return replace(follower, log=log, history=tuple(history_of_runs(runs)), high_watermark=log.log_end_offset, alive=True)


def _from(log: LoadedLog, offset: int) -> Iterator[BatchRun]:
    for run in log.runs:
        if run.last_offset >= offset:
            yield run._replace(first_offset=max(run.first_offset, offset))


# Steps of a recovery, one after the other: after each of them every running follower is run until it has caught up.


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
) -> Simulation:
    """Do steps one after the other. One that cannot be done changes nothing, and says why.

    Args:
        situation: of the partition before.
        actions: in order.
        protocol: that the cluster runs.
        context: of the partition: what proves that records were committed, whether its topic is compacted.
    """
    return _Run(situation, protocol, context or Context(leader_epoch=situation.leader_epoch)).done(actions)


class _Run:
    """The steps of one simulation; `copies` are the replicas as they were audited."""

    def __init__(self, situation: Situation, protocol: Protocol, context: Context) -> None:
        self.before, self.protocol, self.context = situation, protocol, context
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
            followed[broker] = caught_up(leader, follower, others, self.context, self.protocol)
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


# The ways to bring a partition back that has no leader, the one that loses least first.


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order of steps, and what comes of it: `leader_id` is elected, then all others are started."""

    leader_id: int
    is_clean: bool
    simulation: Simulation

    @property
    def price(self) -> tuple[int, int, int, int, int]:
        """What it costs, to be compared: as candidates for leadership are."""
        committed, found = self.simulation.committed, self.simulation
        proven = sum(committed.values())
        passed = proven - committed.get(Evidence.ALL, 0)
        return (passed, proven, found.lost_offsets, len(found.diverged), len(found.not_caught_up))


def orders(situation: Situation, *, protocol: Protocol, context: Context | None = None) -> list[Order]:
    """Every order that elects one replica first and starts the others after it, least loss first; of equals a clean election first.

    Arguments as of `simulate`. Empty where somebody leads.
    """
    if situation.is_online:
        return []
    found = []
    for broker in (broker for broker in situation.assigned if broker in situation.replicas):
        done = simulate(situation, list(_steps(situation, broker)), protocol=protocol, context=context)
        if done.is_possible and done.after.leader_id == broker:
            found.append(Order(leader_id=broker, is_clean=broker in situation.electable, simulation=done))
    return sorted(
        found, key=lambda one: (one.price, not one.is_clean, -situation.replicas[one.leader_id].log.log_end_offset, one.leader_id)
    )


def _steps(situation: Situation, broker: int) -> Iterator[Action]:
    """Start the broker, unless it runs; elect it, unless its start does; then start the others that can be read."""
    is_clean = broker in situation.electable
    if broker not in situation.running:
        yield StartBroker(broker)
    if not is_clean or broker in situation.running:
        yield Elect(broker, unclean=not is_clean)
    for other in sorted(situation.replicas):
        if other != broker and other not in situation.running and not situation.replicas[other].unreadable:
            yield StartBroker(other)
