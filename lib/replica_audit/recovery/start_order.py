"""In which order brokers are to be started, so that each partition without a leader gets the one that loses least.

A member of the ISR (of the ELR, where the ISR is empty) leads as soon as its broker runs, wanted or not; an unclean election takes the
first running replica of the assignment. So a leader has to be there before each of its rivals starts.
Sources: PartitionChangeBuilder (electLeader, electUncleanLeader), ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.rows.findings import ElectionChoice, FindingFacts, RunFinding
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.rows.what_if import WhatIfLeader

Price = tuple[int, int, int]
_Demand = tuple[int, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLeader:
    """A partition and who is to lead it. `rivals` must not run before: each would be elected instead."""

    partition: RunFinding
    choice: ElectionChoice
    rivals: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedLeader:
    """A partition whose best leader cannot be had, for others need the brokers in another order. `instead` leads it then, or nobody."""

    partition: RunFinding
    choice: ElectionChoice
    instead: ElectionChoice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """The brokers that are to lead, in the order in which they are started, and the partitions of each."""

    brokers: tuple[int, ...]
    leaders: tuple[PlannedLeader, ...]
    crossed: tuple[CrossedLeader, ...]

    def led_by(self, broker: int) -> list[PlannedLeader]:
        """The partitions that a broker is to lead."""
        return [one for one in self.leaders if one.choice.candidate_id == broker]


def start_order(wanted: Sequence[tuple[RunFinding, ElectionChoice, Sequence[ReplicaRole]]]) -> StartOrder:
    """The order in which most is saved: where partitions contradict each other, those that would lose less together give way.

    Args:
        wanted: each partition with the replica that is to lead it, and its replicas in the order of their assignment.
    """
    found = [PlannedLeader(partition=one, choice=best, rivals=rivals_of(one, best, roles)) for one, best, roles in wanted]
    assigned = {_key(one): roles for one, _best, roles in wanted}
    before: dict[int, set[int]] = {}
    kept_as: dict[tuple[str, int], PlannedLeader] = {}
    regrets = _regrets(found, assigned)
    for planned in sorted(found, key=lambda one: (regrets[_demand(one)], *_key(one.partition))):
        for choice in (planned, *_next_best(planned, assigned[_key(planned.partition)])):
            if not any(_leads_to(before, rival, choice.choice.candidate_id) for rival in choice.rivals):
                kept_as[_key(planned.partition)] = choice
                before.setdefault(choice.choice.candidate_id, set()).update(choice.rivals)
                break
    brokers = tuple(_sorted(before))
    kept = [kept_as[_key(one.partition)] for one in found if _key(one.partition) in kept_as]
    leaders = tuple(_first_of_equals(planned, assigned[_key(planned.partition)], brokers) for planned in kept)
    led = {one.choice.candidate_id for one in leaders}
    started = tuple(broker for broker in brokers if broker in led)
    everyone = [*started, *(broker for broker in brokers if broker not in started)]
    crossed = tuple(
        CrossedLeader(partition=one.partition, choice=one.choice, instead=_instead(one.partition, assigned[_key(one.partition)], everyone))
        for one in found
        if _key(one.partition) not in kept_as
    )
    return StartOrder(brokers=started, leaders=leaders, crossed=crossed)


def _key(one: RunFinding) -> tuple[str, int]:
    return one.topic, one.partition


def _next_best(planned: PlannedLeader, roles: Sequence[ReplicaRole]) -> Iterator[PlannedLeader]:
    """Where nobody is left that would lead by itself: the other candidates, the least loss first; else that one leads, or nobody."""
    one = planned.partition
    if _by_broker(one, electable_brokers(one)):
        return
    ranked = sorted((choice for choice in one.candidates or () if choice.rank is not None), key=lambda choice: choice.rank or 0)
    for choice in ranked:
        if choice is not planned.choice and not choice.followers_diverged:
            yield PlannedLeader(partition=one, choice=choice, rivals=rivals_of(one, choice, roles))


def price_of(choice: ElectionChoice | WhatIfLeader) -> Price:
    """What electing a replica loses, to be compared."""
    return choice.lost_committed or 0, choice.lost_records or 0, choice.lost_offsets or 0


def electable_brokers(one: FindingFacts) -> frozenset[int]:
    """Who leads as soon as its broker runs; where neither ISR nor ELR has anybody, the one that led last may (KIP-966)."""
    if one.isr or one.elr:
        return frozenset(one.isr or one.elr or ())
    return frozenset([] if one.last_leader_id is None or one.last_leader_id < 0 else [one.last_leader_id])


def rivals_of(one: RunFinding, best: ElectionChoice, roles: Sequence[ReplicaRole]) -> frozenset[int]:
    """Whoever would lead instead, and lose more; of an unclean election also those before it in the assignment (unknown: all)."""
    prices = {choice.candidate_id: price_of(choice) for choice in one.candidates or () if choice.rank is not None}
    electable = lead_at_once(one, roles)
    if best.election == ElectionType.CLEAN:
        return frozenset(broker for broker in electable if prices.get(broker) != price_of(best)) - {best.candidate_id}
    return frozenset(electable | before_in_assignment(roles, best.candidate_id)) - {best.candidate_id}


def before_in_assignment(roles: Sequence[ReplicaRole], broker: int) -> set[int]:
    """Whoever stands before a broker in the assignment; all where their order is not known."""
    places = {role.broker_id: role.position for role in roles}
    own = places.get(broker)
    return {other for other, place in places.items() if own is None or place is None or place < own}


def _demand(planned: PlannedLeader) -> _Demand:
    """Who is to start before whom: what partitions ask for together."""
    return planned.choice.candidate_id, planned.rivals


def _regrets(found: Sequence[PlannedLeader], assigned: Mapping[tuple[str, int], Sequence[ReplicaRole]]) -> dict[_Demand, Price]:
    """What the partitions of each demand lose more together where a rival leads, negative, so that the most sorts first."""
    totals: dict[_Demand, Price] = {}
    for one in found:
        committed, records, offsets = totals.get(_demand(one), (0, 0, 0))
        regret = _regret(one, assigned[_key(one.partition)])
        totals[_demand(one)] = committed + regret[0], records + regret[1], offsets + regret[2]
    return totals


def _regret(planned: PlannedLeader, roles: Sequence[ReplicaRole]) -> Price:
    """What is lost more where a rival leads that does so by itself, or any if there is no such; negative."""
    best, worst = price_of(planned.choice), price_of(planned.choice)
    by_themselves = _by_broker(planned.partition, lead_at_once(planned.partition, roles))
    for choice in planned.partition.candidates or ():
        if choice.candidate_id in planned.rivals and (choice.candidate_id in by_themselves or not by_themselves):
            worst = max(worst, price_of(choice))
    return best[0] - worst[0], best[1] - worst[1], best[2] - worst[2]


def _leads_to(before: dict[int, set[int]], start: int, end: int) -> bool:
    """Whether one broker has to be started before another, by what is settled."""
    seen, waiting = {start}, [start]
    while waiting:
        for later in before.get(waiting.pop(), ()):
            if later == end:
                return True
            if later not in seen:
                seen.add(later)
                waiting.append(later)
    return False


def _sorted(before: dict[int, set[int]]) -> Iterator[int]:
    """Brokers, each before those that have to wait for it; otherwise by id."""
    left = {*before, *(later for found in before.values() for later in found)}
    while left:
        free = min(broker for broker in left if not any(broker in before.get(other, ()) for other in left))
        left.remove(free)
        yield free


def _first_of_equals(planned: PlannedLeader, roles: Sequence[ReplicaRole], brokers: Iterable[int]) -> PlannedLeader:
    """Of those that the controller elects by itself at the same price the first one that is started leads."""
    best = planned.choice
    if best.election != ElectionType.CLEAN:
        return planned
    equal = _by_broker(planned.partition, lead_at_once(planned.partition, roles), price_of(best))
    first = next((equal[broker] for broker in brokers if broker in equal), best)
    return PlannedLeader(partition=planned.partition, choice=first, rivals=planned.rivals)


def lead_at_once(one: FindingFacts, roles: Sequence[ReplicaRole]) -> frozenset[int]:
    """Who leads as soon as its broker runs, wanted or not."""
    is_anybody = any(role.unclean_leader_election for role in roles)  # the controller elects whoever runs, unasked
    return electable_brokers(one) | {role.broker_id for role in roles if is_anybody}


def _by_broker(one: RunFinding, among: Collection[int], price: Price | None = None) -> dict[int, ElectionChoice]:
    found = {choice.candidate_id: choice for choice in one.candidates or () if choice.candidate_id in among}
    return {broker: choice for broker, choice in found.items() if price is None or (choice.rank is not None and price_of(choice) == price)}


def _instead(one: RunFinding, roles: Sequence[ReplicaRole], brokers: Iterable[int]) -> ElectionChoice | None:
    """Who leads when brokers are started in this order."""
    leading = _by_broker(one, lead_at_once(one, roles))
    return next((leading[broker] for broker in brokers if broker in leading), None)
