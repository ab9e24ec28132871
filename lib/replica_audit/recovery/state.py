"""The state of a cluster while a plan is carried out, and what each action does to it, by the rows of the run: no rule is replayed here.

A member of the ISR, or of the ELR where that is empty, leads as soon as its broker runs if nobody does (PartitionChangeBuilder); one that
was not stopped cleanly is removed from the ELR when it registers (ReplicationControlManager.handleBrokerUncleanShutdown).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, cut_as_corrected, known_cut, unknown_cut
from replica_audit.recovery.start_order import electable_brokers, lead_at_once
from replica_audit.recovery.steps import (
    Action,
    AskForInput,
    Copy,
    CorrectFile,
    Elect,
    ElectPreferred,
    EndTransaction,
    KeepCopy,
    NameTopic,
    PlanStep,
    PutBack,
    ResetGroup,
    SetAside,
    Shows,
    StartBroker,
    StopBroker,
    TakeOut,
    WaitForIsr,
)
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.what_if import FollowerCut


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Records that an action removes from a replica and that its leader does not hold, as far as that is known."""

    replica: ReplicaKey
    leader_id: int
    cut: FollowerCut
    was_copied: bool
    was_asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """A broker that begins to lead a partition; `is_clean` by the metadata, as the broker starts."""

    key: PartitionKey
    broker: int
    is_clean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A whole replica that its broker deletes."""

    replica: ReplicaKey
    was_copied: bool


Effect = Removal | Leads | Deleted


@dataclass(slots=True)
class State:
    """What is true at a point of a plan. `leaders` has no entry where nobody leads; `stuck` replicas run and never follow, or diverge.

    `absent`: replicas that were deleted, or moved out of their log directories. `early`: replicas that run before their leaders do.
    """

    running: dict[int, bool | None]
    leaders: dict[PartitionKey, int]
    isr: dict[PartitionKey, set[int]]
    copied: set[ReplicaKey] = field(default_factory=set)
    asked: set[ReplicaKey] = field(default_factory=set)
    asked_brokers: set[int] = field(default_factory=set)
    corrected: set[ReplicaKey] = field(default_factory=set)
    absent: set[ReplicaKey] = field(default_factory=set)
    stuck: set[ReplicaKey] = field(default_factory=set)
    early: set[ReplicaKey] = field(default_factory=set)
    waited: set[int] = field(default_factory=set)
    reset: set[tuple[str, PartitionKey]] = field(default_factory=set)
    ended: set[tuple[PartitionKey, int, int]] = field(default_factory=set)
    preferred: set[PartitionKey] = field(default_factory=set)


def first_state(facts: RecoveryFacts) -> State:
    """What the run saw."""
    brokers = {role.broker_id for role in facts.roles} | {choice.candidate_id for one in facts.offline for choice in one.candidates or ()}
    leaders = {key: roles[0].leader_id for key, roles in facts.replicas.items() if key not in facts.leaderless and roles[0].leader_id >= 0}
    for verdict in facts.verdicts:
        if verdict.key not in facts.leaderless and verdict.leader_id >= 0:
            leaders.setdefault(verdict.key, verdict.leader_id)
    isr = {key: {role.broker_id for role in roles if role.in_isr} for key, roles in facts.replicas.items()}
    stopped = {broker: facts.is_stopped(broker) for broker in brokers}
    return State(
        running={broker: None if stops is None else not stops for broker, stops in stopped.items()},
        leaders=leaders,
        isr={key: isr.get(key, set()) for key in {*isr, *leaders, *facts.leaderless}},
    )


def apply(facts: RecoveryFacts, state: State, action: Action) -> Iterator[Effect]:
    """Do one action: change the state, and return what it does to logs and leaderships."""
    match action:
        case StartBroker(broker, empty):
            state.running[broker] = True
            yield from _started(facts, state, broker, empty=empty)
        case Elect(key, broker, _is_clean):
            if state.leaders.get(key) != broker:
                yield from _leads(facts, state, key, broker, is_clean=False)
        case TakeOut(replica) | SetAside(replica):
            state.absent.add(replica)
            state.isr.setdefault(replica[:2], set()).discard(replica[2])
            yield Deleted(replica=replica, was_copied=replica in state.copied)
        case PutBack(replica):
            state.absent.discard(replica)
            state.stuck.discard(replica)
            state.isr.setdefault(replica[:2], set()).add(replica[2])
        case StopBroker(broker):
            state.running[broker] = False
        case _:
            _note(state, action)


def _note(state: State, action: Action) -> None:
    """Actions that change no log and no leadership."""
    match action:
        case Copy(replicas) | KeepCopy(replicas):
            state.copied.update(replicas)
        case AskForInput():
            state.asked.update(action.replicas)
            state.asked_brokers.update(action.brokers)
        case CorrectFile(replica) | NameTopic(replica):
            state.corrected.add(replica)
        case WaitForIsr(brokers):
            state.waited.update(brokers)
        case ResetGroup(group, key, _offset):
            state.reset.add((group, key))
        case EndTransaction(key, producer, first_offset):
            state.ended.add((key, producer, first_offset))
        case ElectPreferred(key):
            state.preferred.add(key)


def leads_by_itself(one: RunFinding, broker: int) -> bool:
    """Whether the controller makes a broker the leader as soon as it runs, in an election that is clean."""
    choice = choice_of(one, broker)
    return broker in electable_brokers(one) and (choice is None or choice.election == ElectionType.CLEAN)


def choice_of(one: RunFinding, broker: int) -> ElectionChoice | None:
    """A candidate by its broker."""
    return next((choice for choice in one.candidates or () if choice.candidate_id == broker), None)


def _started(facts: RecoveryFacts, state: State, broker: int, *, empty: bool) -> Iterator[Effect]:
    for key in facts.partitions_on.get(broker, ()):
        is_empty = empty or (*key, broker) in state.absent  # it is made again
        state.absent.discard((*key, broker))
        one = facts.leaderless.get(key)
        if key in state.leaders:
            yield from _follows(facts, state, (*key, broker), is_empty=is_empty)
            if state.leaders[key] == broker:
                yield from _meets(facts, state, key)
        elif one is not None and not is_empty and leads_by_itself(one, broker):
            yield from _leads(facts, state, key, broker, is_clean=True)
        elif one is not None and not is_empty and broker in lead_at_once(one, facts.replicas.get(key, ())):
            yield from _leads(facts, state, key, broker, is_clean=False)


def _meets(facts: RecoveryFacts, state: State, key: PartitionKey) -> Iterator[Effect]:
    """A leader that starts is followed by those that ran before it, with the file that it has by now."""
    for replica in sorted(one for one in state.early if one[:2] == key):
        state.early.discard(replica)
        state.stuck.discard(replica)
        yield from _follows(facts, state, replica)


def _leads(facts: RecoveryFacts, state: State, key: PartitionKey, broker: int, *, is_clean: bool) -> Iterator[Effect]:
    yield Leads(key=key, broker=broker, is_clean=is_clean)
    state.leaders[key] = broker
    state.isr[key] = {broker}
    for role in facts.replicas.get(key, ()):
        if role.broker_id != broker and state.running.get(role.broker_id):
            yield from _follows(facts, state, (*key, role.broker_id))


def _follows(facts: RecoveryFacts, state: State, replica: ReplicaKey, *, is_empty: bool = False) -> Iterator[Effect]:
    """A replica meets its leader: what it truncates, and whether it then gets into the ISR."""
    key, broker = replica[:2], replica[2]
    leader = state.leaders[key]
    if leader == broker:
        return
    if is_empty:
        state.isr.setdefault(key, set()).add(broker)
        return
    if state.running.get(leader) is False:
        state.early.add(replica)
    cut, catches_up = cut_of(facts, replica, leader, corrected=replica in state.corrected or (*key, leader) in state.corrected)
    if cut is not None:
        yield Removal(
            replica=replica,
            leader_id=leader,
            cut=cut,
            was_copied=replica in state.copied,
            was_asked=replica in state.asked,
        )
    if catches_up:
        state.isr.setdefault(key, set()).add(broker)
    else:
        state.stuck.add(replica)


_NEVER_FOLLOWS = (Verdict.LOG_MATCHING_VIOLATION, Verdict.CANNOT_REJOIN, Verdict.UNREADABLE, Verdict.INCONCLUSIVE)


def cut_of(facts: RecoveryFacts, replica: ReplicaKey, leader: int, *, corrected: bool) -> tuple[FollowerCut | None, bool]:
    """What a replica removes that a leader does not hold, None if nothing; and whether it then follows and equals the leader."""
    topic, partition, broker = replica
    one = facts.leaderless.get((topic, partition))
    if one is not None:
        cuts = facts.cuts_under(topic, partition, leader)
        cut = next((cut for cut in cuts if cut.broker_id == broker), None)
        choice = choice_of(one, leader)
        if cut is None:
            own = choice_of(one, broker)
            is_unread = own is not None and own.rank is None
            may_lose = choice is not None and (is_unread or (not cuts and choice.lost_offsets != 0))
            return (unknown_cut(broker) if may_lose else None), choice is not None or bool(one.cluster_stopped)
        removes = (cut.truncation_offset is not None or cut.restart_offset is not None) and 0 not in (cut.removed_offsets, cut.lost_offsets)
        return (cut if removes else None), cut.catches_up and not cut.still_diverged
    then = (facts.cut_once_corrected.get(replica) or facts.healed_by_leader.get(replica)) if corrected else None
    verdict = facts.verdict_of.get(replica)
    if then is not None:
        may_lose = then.is_cut and replica in facts.cut_once_corrected
        return (cut_as_corrected(then, verdict) if may_lose else None), then.catches_up and not then.still_diverged
    if corrected and replica in facts.corrected:
        return None, True
    if verdict is None or verdict.leader_id != leader:
        return None, True
    if verdict.verdict == Verdict.UNREADABLE and replica in facts.recovering:
        return unknown_cut(broker, facts.recovering[replica].first_offset), True
    follows = verdict.verdict not in _NEVER_FOLLOWS and replica not in facts.never_fetch
    return (facts.cut_of_verdict(verdict) if known_cut(verdict) else None), follows or (known_cut(verdict) and verdict.cause is not None)


def shown_by(shows: Shows, step: PlanStep, state: State) -> bool:
    """Whether a check of a step would be passed in a state."""
    kinds = _SHOWN[shows]
    holds = [_is_done(state, action) for action in step.actions if isinstance(action, kinds)]
    return bool(holds) and all(holds)


_SHOWN: dict[Shows, tuple[type, ...]] = {
    Shows.COPIED: (Copy, KeepCopy),
    Shows.ANSWERED: (AskForInput,),
    Shows.NAMED: (NameTopic,),
    Shows.RUNS: (StartBroker,),
    Shows.LED: (Elect,),
    Shows.IN_SYNC: (WaitForIsr, PutBack),
    Shows.RECOVERED: (CorrectFile,),
    Shows.TAKEN_OUT: (TakeOut,),
    Shows.ENDED: (EndTransaction,),
    Shows.RESET: (ResetGroup,),
    Shows.PREFERRED: (ElectPreferred,),
}


def _is_done(state: State, action: Action) -> bool:
    match action:
        case StartBroker(broker):
            return state.running.get(broker) is True
        case Elect(key, broker):
            return state.leaders.get(key) == broker
        case PutBack(replica):
            return replica not in state.absent and replica[2] in state.isr.get(replica[:2], ())
        case TakeOut(replica):
            return replica in state.absent
        case WaitForIsr(brokers):
            return state.waited >= set(brokers)
        case _:
            return _is_noted(state, action)


def _is_noted(state: State, action: Action) -> bool:
    match action:
        case Copy(replicas) | KeepCopy(replicas):
            return state.copied >= set(replicas)
        case AskForInput():
            return state.asked >= {*action.replicas} and state.asked_brokers >= {*action.brokers}
        case CorrectFile(replica) | NameTopic(replica):
            return replica in state.corrected
        case EndTransaction(key, producer, first_offset):
            return (key, producer, first_offset) in state.ended
        case ResetGroup(group, key):
            return (group, key) in state.reset
        case ElectPreferred(key):
            return key in state.preferred
        case _:
            return False
