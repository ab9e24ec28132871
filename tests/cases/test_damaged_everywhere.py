"""A batch that is damaged on every replica, or on the leader, too: nothing is fetched again from what has the same damage."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.recovery import recovery_of
from replica_audit.past.run import PastRun
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import GroupPolicy, Stage
from tests.cases.test_truncated_is_not_lost import home_of
from tests.scenarios.disks import TOPIC, Disk

GOOD = Disk(batches=[(5, 0, 4), (5, 5, 9), (5, 10, 14)], high_watermark=15)


def damaged_home(root: Path, brokers: Collection[int]) -> Path:
    """A cluster of three brokers that run; of these the batch at 5 does not match its CRC."""
    home = home_of(root, dict.fromkeys((1, 2, 3), GOOD), isr=(1, 2, 3), up=(1, 2, 3))
    for broker in brokers:
        path = home / f"broker-{broker}" / "data-0" / f"{TOPIC}-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[2 * (12 + int.from_bytes(data[8:12], "big")) - 2] ^= 1
        path.write_bytes(data)
    return home


def run_of(home: Path) -> PastRun:
    return PastRun(triage([str(home)], Settings(), tell=lambda event: None, run_id="now").tables, "now")


def problems(run: PastRun) -> list[dict[str, Any]]:
    rows = run.tables.dataset("input_errors")
    assert rows is not None
    return [row for row in rows.to_table().to_pylist() if row["code"] == "crc-mismatch"]


def test_of_the_same_damage_everywhere_all_copies_are_kept(tmp_path: Path) -> None:
    run = run_of(damaged_home(tmp_path, (1, 2, 3)))
    remedies = {row["remedy"] for row in problems(run)}
    assert len(problems(run)) == 3 and len(remedies) == 1
    assert "keep every copy" in remedies.pop()
    (cluster,) = {row.cluster_id for row in run.runs}
    plan = plan_of(recovery_of(run, cluster), GroupPolicy.RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.ASK]
    assert "keep every replica" in " ".join(plan.steps[1].reasons)


@pytest.mark.parametrize("brokers", [(1, 2)], ids=["the leader and a follower"])
def test_a_damaged_leader_is_not_fetched_from(tmp_path: Path, brokers: Collection[int]) -> None:
    remedies = {row["broker_id"]: row["remedy"] for row in problems(run_of(damaged_home(tmp_path, brokers)))}
    assert "do not fetch it from leader 1" in remedies[2] and "let broker 3" in remedies[2]
    assert "change nothing there by hand" in remedies[1]


def test_a_damaged_follower_is_fetched_again(tmp_path: Path) -> None:
    run = run_of(damaged_home(tmp_path, (2,)))
    (one,) = problems(run)
    assert "change nothing there by hand" in one["remedy"]
    (cluster,) = {row.cluster_id for row in run.runs}
    plan = plan_of(recovery_of(run, cluster), GroupPolicy.RE_READ)
    assert [step.stage for step in plan.steps] == [Stage.COPY, Stage.REBUILD, Stage.REBUILD]
    assert "`kafka-dump-log.sh --deep-iteration --files SEGMENT` on the broker shows the same damage" in plan.steps[1].reasons[-1]
