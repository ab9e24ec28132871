"""Damaged disks of stopped brokers: see `damaged_disks`, which tries as many as one likes, on any clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import GroupPolicy, Plan, Stage
from tests.recovery import damaged_disks
from tests.recovery.damaged_disks import DAMAGES, LostError, tried

DATA = Path(__file__).resolve().parents[1] / "data"
CLUSTERS = [DATA / "sample" / "committed-loss", DATA / "transactions" / "before"]


@pytest.mark.slow
def test_nothing_that_only_one_disk_holds_is_removed_unsaid(tmp_path: Path) -> None:
    done = Counter(tried(seed, CLUSTERS[seed % 2], tmp_path) for seed in range(60))
    assert {kind.partition(",")[0] for kind in done} == {*DAMAGES}, "each way to damage a batch"
    assert sum(count for kind, count in done.items() if kind.endswith("lost")) > 20


def test_a_plan_without_its_copies_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_copies(facts: RecoveryFacts, policy: GroupPolicy) -> Plan:
        made = plan_of(facts, policy)
        return replace(made, steps=tuple(step for step in made.steps if step.stage is not Stage.COPY))

    monkeypatch.setattr(damaged_disks, "plan_of", without_copies)
    with pytest.raises(LostError, match="copied: False"):
        for seed in range(20):
            tried(seed, CLUSTERS[0], tmp_path)
