"""A replica of a stopped broker that stays diverged: its directory is moved away before the start, and the broker fetches all of it again.

The plan is carried out as it is printed, on brokers with one log directory and with two, on which the controller has placed the replica.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from replica_audit import cli
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.files import batches, replica_directories
from tests.kafka_lab.load import Batch, create_topic, send
from tests.kafka_lab.planted import plant
from tests.kafka_lab.snapshot import copy_all
from tests.live.conftest import LATEST, OLDER
from tests.live.plan_steps import Operator, tools

pytestmark = [pytest.mark.live, pytest.mark.slow]
_TOPIC = "aside"
_PLACES = [(_TOPIC, partition) for partition in range(3)]
_LINES = [LATEST, *(pytest.param(line, marks=pytest.mark.nightly) for line in OLDER)]


@pytest.mark.parametrize("log_dirs", [1, 2])
@pytest.mark.parametrize("line", _LINES)
def test_a_diverged_replica_is_moved_away_and_fetched_again(line: str, log_dirs: int, tmp_path: Path) -> None:
    with Lab(line, brokers=2, log_dirs=log_dirs, parent=tmp_path) as lab:
        _write(lab)
        lab.brokers[2].terminate()
        lab.wait_for("broker 1 leads alone", [_TOPIC], lambda one: one["isr_nodes"] == [1])
        planted = plant(lab.root, dict.fromkeys(_PLACES, 1), Random(1), topics={_TOPIC})  # noqa: S311
        assert planted
        own = replica_directories(lab.root)[planted]
        root, plan = copy_all(lab, tmp_path / "copy"), tmp_path / "plan"
        assert cli.main(["triage", "--input", str(root), "--plan", str(plan)]) == 1
        steps = Operator(lab, tools(lab, tmp_path / "bin"), tmp_path / "safe", audited=root).do(plan)
        assert steps[-1].title == "Start broker 2: 1 replica directory moved away before, it fetches it again"
        lab.wait_in_sync(_TOPIC)
        found = replica_directories(lab.root)
        assert found[planted] == own, "in the log directory that it is assigned to"
        assert batches(own) == batches(found[*planted[:2], 1])
        assert batches(tmp_path / "safe" / "moved-from-broker-2" / "DIR_1" / own.name) != batches(own)
        lab.brokers[1].terminate()
        lab.wait_for("it leads what it has fetched", [_TOPIC], lambda one: one["leader_id"] == 2)


def _write(lab: Lab) -> None:
    """Batches of two epochs in each partition, so that a batch can be of another one."""
    create_topic(lab, _TOPIC, {partition: [1, 2] for _topic, partition in _PLACES}, min_insync_replicas=1)
    for _epoch in range(2):
        for _batch in range(3):
            send(lab, [Batch(_TOPIC, partition, 5, 100) for _topic, partition in _PLACES], acks="all")
        lab.wait_in_sync(_TOPIC)
        lab.brokers[1].terminate()
        lab.wait_for("broker 2 leads", [_TOPIC], lambda one: one["leader_id"] == 2)
        lab.brokers[1].start()
        lab.wait_in_sync(_TOPIC)
