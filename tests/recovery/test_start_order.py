"""Who is started first where partitions need opposite orders."""

from __future__ import annotations

import pytest

from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.start_order import start_order
from replica_audit.rows.findings import ElectionChoice, RunFinding
from replica_audit.rows.replicas import ReplicaRole
from tests.recovery.blank_rows import row


def _wanted(number: int, isr: int, prices: dict[int, int], *, unclean: bool) -> tuple[RunFinding, ElectionChoice, list[ReplicaRole]]:
    """A partition of which each broker's election loses so many committed records; the one of the ISR is elected cleanly."""
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
    return one, choices[0], roles


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
