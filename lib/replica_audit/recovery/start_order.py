"""In which order brokers are to be started, so that each partition without a leader gets the one that loses least.

A member of the ISR (of the ELR, where the ISR is empty) leads as soon as its broker runs, wanted or not; an unclean election takes the
first running replica of the assignment. So a leader has to be there before each of its rivals starts.
Sources: PartitionChangeBuilder (electLeader, electUncleanLeader), ReplicationControlManager.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.rows.findings import ElectionChoice, FindingFacts, RunFinding
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.rows.what_if import WhatIfLeader

Price = tuple[int, int, int]
_Total = tuple[int, ...]  # partitions that nobody leads whose price is known, the prices together, and how far from the best ones
_Ways = tuple[tuple[int, frozenset[int]], ...]  # who may lead a partition, each with those that must not run before
_NOTHING: _Total = (0, 0, 0, 0, 0)
_UNJUDGED: _Total = (1, 0, 0, 0, 0)
_MOST_COMPARED = 300_000  # prices of beginnings; from there on the best one alone is gone on with


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLeader:
    """A partition and who is to lead it. `rivals` must not run before: each would be elected instead."""

    partition: RunFinding
    choice: ElectionChoice
    rivals: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedLeader:
    """A partition whose best leader the order has no place for. `instead` leads it then, or nobody."""

    partition: RunFinding
    choice: ElectionChoice
    instead: ElectionChoice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """The brokers that are to lead, in the order in which they are started, and the partitions of each.

    `crossed`: the partitions that another one than the best leads, or nobody.
    """

    brokers: tuple[int, ...]
    leaders: tuple[PlannedLeader, ...]
    crossed: tuple[CrossedLeader, ...]

    def led_by(self, broker: int) -> list[PlannedLeader]:
        """The partitions that a broker is to lead."""
        return [one for one in self.leaders if one.choice.candidate_id == broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A partition that is to get a leader: who may lead it, the least loss first, and its replicas in the order of their assignment."""

    partition: RunFinding
    choices: tuple[ElectionChoice, ...]
    roles: Sequence[ReplicaRole]


def start_order(wanted: Sequence[Wanted]) -> StartOrder:
    """The order in which all partitions together lose least; of equals the one that begins with the lowest ids.

    Of more brokers than can be tried in every order, one that loses little.
    """
    ways = [tuple((choice.candidate_id, rivals_of(one.partition, choice, one.roles)) for choice in one.choices) for one in wanted]
    brokers = _best_order(wanted, ways)
    places = {broker: place for place, broker in enumerate(brokers)}
    leaders: dict[int, PlannedLeader] = {}
    for at, (one, of_one) in enumerate(zip(wanted, ways, strict=True)):
        number = _first_possible(of_one, places)
        if number is not None:
            choice = _first_of_equals(one.choices[number], _leading(one), brokers)
            leaders[at] = PlannedLeader(partition=one.partition, choice=choice, rivals=of_one[number][1])
    led = {one.choice.candidate_id for one in leaders.values()}
    started = tuple(broker for broker in brokers if broker in led)
    crossed = []
    for at, one in enumerate(wanted):
        best, leader = one.choices[0], leaders.get(at)
        if leader is None or price_of(leader.choice) != price_of(best):
            leading = _leading(one)
            forced = next((leading[broker] for broker in dict.fromkeys((*started, *brokers)) if broker in leading), None)
            crossed.append(CrossedLeader(partition=one.partition, choice=best, instead=leader.choice if leader is not None else forced))
    return StartOrder(brokers=started, leaders=tuple(leaders.values()), crossed=tuple(crossed))


def _best_order(wanted: Sequence[Wanted], ways: Sequence[_Ways]) -> tuple[int, ...]:
    """All brokers that may lead, in the order that costs least.

    The beginning of an order has a price, too: what no order that begins so can avoid. The cheapest beginning is gone on with.
    """
    totals: dict[_Ways, list[_Total]] = {}
    for one, of_one in zip(wanted, ways, strict=True):
        if of_one[0][1]:  # else the best one can always be had
            total = totals.setdefault(of_one, [_NOTHING] * len(of_one) + [_NOTHING])
            prices = [*((0, *price_of(choice), number) for number, choice in enumerate(one.choices)), _UNJUDGED]
            total[:] = [_sum(so_far, price) for so_far, price in zip(total, prices, strict=True)]
    brokers = sorted({broker for of_one in ways for broker, _rivals in of_one})
    waiting: list[tuple[_Total, int, tuple[int, ...]]] = [(_NOTHING, len(brokers), ())]
    compared = 0
    while waiting[0][1]:
        *_price, begun = heapq.heappop(waiting)
        if compared > _MOST_COMPARED:
            waiting.clear()
        for broker in brokers:
            if broker not in begun:
                order = (*begun, broker)
                heapq.heappush(waiting, (_price_of_order(totals, order), len(brokers) - len(order), order))
                compared += len(totals)
    return waiting[0][2]


def _price_of_order(totals: Mapping[_Ways, Sequence[_Total]], begun: Sequence[int]) -> _Total:
    """What all partitions lose at least where brokers are started in an order that begins so."""
    places, price = {broker: place for place, broker in enumerate(begun)}, _NOTHING
    for ways, total in totals.items():
        number = _first_possible(ways, places)
        price = _sum(price, total[-1 if number is None else number])
    return price


def _first_possible(ways: _Ways, places: Mapping[int, int]) -> int | None:
    """The number of the first broker before which none of its rivals has been started; None if there is none."""
    last = len(places)
    for number, (broker, rivals) in enumerate(ways):
        place = places.get(broker, last)
        if all(places.get(rival, last) >= place for rival in rivals):
            return number
    return None


def _sum(one: _Total, other: _Total) -> _Total:
    return tuple(map(operator.add, one, other))


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


def _first_of_equals(best: ElectionChoice, leading: Mapping[int, ElectionChoice], brokers: Iterable[int]) -> ElectionChoice:
    """Of those that the controller elects by itself at the same price the first one that is started leads."""
    if best.election != ElectionType.CLEAN:
        return best
    equal = {broker for broker, choice in leading.items() if choice.rank is not None and price_of(choice) == price_of(best)}
    return next((leading[broker] for broker in brokers if broker in equal), best)


def lead_at_once(one: FindingFacts, roles: Sequence[ReplicaRole]) -> frozenset[int]:
    """Who leads as soon as its broker runs, wanted or not."""
    is_anybody = any(role.unclean_leader_election for role in roles)  # the controller elects whoever runs, unasked
    return electable_brokers(one) | {role.broker_id for role in roles if is_anybody}


def _leading(one: Wanted) -> dict[int, ElectionChoice]:
    """The candidates that lead as soon as their brokers run."""
    at_once = lead_at_once(one.partition, one.roles)
    return {choice.candidate_id: choice for choice in one.partition.candidates or () if choice.candidate_id in at_once}
