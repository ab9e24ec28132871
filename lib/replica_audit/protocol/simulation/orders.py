"""The ways to bring a partition back that has no leader, the one that loses least first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.context import Context
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.protocol.simulation.catching_up import Measure, by_offsets
from replica_audit.protocol.simulation.simulate import Simulation, simulate
from replica_audit.protocol.simulation.situation import Action, Elect, Situation, StartBroker


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


def orders(situation: Situation, *, protocol: Protocol, context: Context | None = None, measure: Measure = by_offsets) -> list[Order]:
    """Every order that elects one replica first and starts the others after it, least loss first; of equals a clean election first.

    Arguments as of `simulate`. Empty where somebody leads.
    """
    if situation.is_online:
        return []
    found = []
    for broker in (broker for broker in situation.assigned if broker in situation.replicas):
        done = simulate(situation, list(_steps(situation, broker)), protocol=protocol, context=context, measure=measure)
        if done.is_possible and done.after.leader_id == broker:
            found.append(Order(leader_id=broker, is_clean=broker in situation.electable, simulation=done))
    return sorted(found, key=lambda one: (one.price, not one.is_clean, -_end(situation, one.leader_id), one.leader_id))


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


def _end(situation: Situation, broker: int) -> int:
    return situation.replicas[broker].log.log_end_offset
