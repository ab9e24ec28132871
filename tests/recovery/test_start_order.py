"""Who is started first where partitions need opposite orders."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.start_order import Wanted, start_order
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.replicas import ReplicaRole
from tests.recovery.blank_rows import row


def _wanted(number: int, isr: int, prices: dict[int, int], *, unclean: bool) -> Wanted:
    """A partition of which each broker's election loses so many committed records, in the order of the assignment; the ISR's is clean."""
    choices = tuple(
        row(
            ElectionChoice,
            candidate_id=broker,
            rank=rank,
            election=str(ElectionType.CLEAN if broker == isr else ElectionType.UNCLEAN),
            lost_committed=price,
            lost_records=price,
            lost_offsets=price,
            followers_diverged=0,
            unread_replicas=0,
        )
        for rank, (broker, price) in enumerate(sorted(prices.items(), key=lambda one: one[1]), 1)
    )
    one = row(RunFinding, topic="t", partition=number, isr=(isr,), elr=(), candidates=choices)
    roles = [row(ReplicaRole, broker_id=broker, position=place, unclean_leader_election=unclean) for place, broker in enumerate(prices)]
    return Wanted(partition=one, choices=choices, roles=roles)


def test_a_leader_that_anybody_may_take_away_is_started_first() -> None:
    """Where unclean elections are allowed whoever runs leads: the member of the ISR has to be there before."""
    mine = _wanted(0, isr=2, prices={1: 12, 2: 0}, unclean=True)
    other = _wanted(1, isr=2, prices={1: 0, 2: 6}, unclean=True)
    order = start_order([mine, other])
    assert (order.brokers, [one.partition.partition for one in order.crossed]) == ((2,), [1])


@pytest.mark.parametrize(("many", "first"), [(2, 1), (3, 2)])
def test_the_partitions_that_lose_less_together_give_way(many: int, first: int) -> None:
    alone = _wanted(0, isr=1, prices={1: 0, 2: 12}, unclean=True)
    others = [_wanted(number, isr=2, prices={1: 5, 2: 0}, unclean=True) for number in range(1, many + 1)]
    order = start_order([alone, *others])
    assert order.brokers == (first,)
    assert len(order.crossed) == (many if first == 1 else 1)


def _least(wanted: list[Wanted], brokers: tuple[int, ...]) -> int:
    """What all partitions lose together in the best of all orders, each led by whoever may lead it at the least price."""
    return min(sum(_lost(one, order) for one in wanted) for order in itertools.permutations(brokers))


def _lost(one: Wanted, order: tuple[int, ...]) -> int:
    """What a partition loses in an order: brokers are started one by one, and an election is asked for after any start."""
    prices = {choice.candidate_id: choice.lost_committed or 0 for choice in one.choices}
    assigned = [role.broker_id for role in one.roles]
    least: list[int] = []
    for number, broker in enumerate(order):
        running = order[: number + 1]
        first = next((one for one in assigned if one in running), None)
        if broker in prices and (broker in (one.partition.isr or ()) or one.roles[0].unclean_leader_election):
            return min([*least, prices[broker]])  # the controller elects it, asked or not
        if first is not None:
            least.append(prices[first])
    return min(least)


@pytest.mark.parametrize("seed", range(300))
def test_no_other_order_loses_less(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    brokers = tuple(range(1, random.randint(3, 5)))
    wanted = []
    for number in range(random.randint(2, 6)):
        assigned = random.sample(brokers, random.randint(2, len(brokers)))
        prices = {broker: random.choice((0, 0, 1, 5, 12)) for broker in assigned}
        wanted.append(_wanted(number, random.choice([*assigned, 9]), prices, unclean=random.random() < 0.3))
    order = start_order(wanted)
    assert sum(one.choice.lost_committed or 0 for one in order.leaders) == _least(wanted, brokers)
    assert len(order.leaders) == len(wanted)
    pairs = zip(wanted, order.leaders, strict=True)
    second = {one.partition.partition for one, led in pairs if led.choice.lost_committed != one.choices[0].lost_committed}
    assert {one.partition.partition for one in order.crossed} == second


def test_many_brokers_in_a_circle_are_put_in_order_all_the_same() -> None:
    """More orders than can be tried: each broker has to lead before the next one, and the last before the first."""
    many = 30
    wanted = [_wanted(one, isr=(one + 1) % many, prices={(one + 1) % many: 3, one: 0}, unclean=True) for one in range(many)]
    assert len(start_order(wanted).crossed) == 1
