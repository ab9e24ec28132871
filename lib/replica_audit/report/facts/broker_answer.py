"""May this broker be started: the answer, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.rows.starts import BrokerStart, ReplicaStart, StartOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswer:
    """One broker of a run. `replicas` are the worst of those with something at stake, of `at_stake`."""

    start: BrokerStart
    replicas: tuple[ReplicaStart, ...]

    @property
    def at_stake(self) -> int:
        """How many replicas are not plainly safe."""
        return sum(number for outcome, number in self.start.outcomes.items() if outcome != StartOutcome.SAFE)

    @property
    def exit_code(self) -> int:
        """0 safe, 1 a start that costs something or has to wait, 3 nothing worse than not known."""
        costs = any(self.start.outcomes.get(one) for one in (StartOutcome.ORDER, StartOutcome.COPY_FIRST, StartOutcome.REPAIR_FIRST))
        if costs:
            return 1
        return 0 if self.start.outcome == StartOutcome.SAFE else 3
