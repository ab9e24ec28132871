"""Plans of random clusters with damaged copies, in a simulation of their own: see `hunt`, which tries as many as one likes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from replica_audit.recovery.steps import StartBroker
from tests.recovery.hunt import Broken, Partition, World, carry_out, tried
from tests.recovery.test_invariants import RUNS, SAVED, plan, step


@pytest.mark.slow
def test_no_plan_breaks_a_rule(tmp_path: Path) -> None:
    kinds = Counter(tried(seed, tmp_path).partition(" of ")[0] for seed in range(150))
    assert len(kinds) == 6, "each way to damage a copy"


def test_the_simulation_sees_what_is_lost() -> None:
    def world() -> World:
        one = Partition(held={1: [(1, 0)], 2: [(1, 0), (1, 1)]}, leader=1, isr=(1,), replicas=(1, 2))
        return World(partitions={0: one}, running={1}, crashed=frozenset())

    with pytest.raises(Broken, match="broker 2 removes"):
        carry_out(plan(step(RUNS, StartBroker(2))), world())
    carry_out(plan(SAVED, step(RUNS, StartBroker(2))), world())
    with pytest.raises(Broken, match="started twice"):
        carry_out(plan(SAVED, step(RUNS, StartBroker(2)), step(RUNS, StartBroker(2))), world())
