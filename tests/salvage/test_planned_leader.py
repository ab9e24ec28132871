"""Where nobody leads, what a salvage saves is what the plan's election cuts: verdicts there are against whoever is inferred to lead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replica_audit.past.cuts import clusters_with_cuts
from tests.formats import record_files as rf
from tests.formats.kafka_files import CLUSTER_ID
from tests.salvage.made import audited, replica, rows, saved, with_epoch
from tests.salvage.test_made_logs import COMMON


def _cluster(root: Path, leader: int) -> Path:
    """Broker 1 is of the later epoch, broker 2 has more to lose."""
    own = {
        1: [rf.batch(10, (b"a", b"of one"))],
        2: [rf.batch(10 + number, (b"b%d" % number, b"of two")) for number in range(5)],
    }
    replica(root, 1, "orders", [(0, 0), (2, 10)], [*COMMON, *with_epoch(2, *own[1])])
    replica(root, 2, "orders", [(0, 0), (1, 10)], [*COMMON, *with_epoch(1, *own[2])])
    partition = {"partition": 0, "leader": leader, "leader_epoch": 2, "replicas": [1, 2], "isr": [1] if leader == 1 else [1, 2], "elr": []}
    metadata = {
        "version": 1,
        "cluster_id": CLUSTER_ID,
        "kafka_version": "4.2.0",
        "brokers": [{"id": broker, "state": "up" if broker == leader else "down"} for broker in (1, 2)],
        "topics": [{"topic": "orders", "topic_id": None, "internal": False, "configs": {}, "partitions": [partition]}],
    }
    (root / "cluster-metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    return root


@pytest.mark.parametrize(("leader", "holder", "values"), [(-1, 1, [b"of one"]), (1, 2, [b"of two"] * 5)])
def test_saved_is_what_the_leader_to_come_does_not_hold(tmp_path: Path, leader: int, holder: int, values: list[bytes]) -> None:
    run = audited(_cluster(tmp_path / "made", leader))
    assert clusters_with_cuts(run) == [CLUSTER_ID]
    found = saved(run, tmp_path / "out")
    (one,) = found.cuts
    assert (one.cut.broker_id, one.cut.leader_id, one.cut.first_offset, one.unsaved) == (holder, 3 - holder, 10, ())
    assert [row["value"] for row in rows(tmp_path / "out")] == values
    assert one.cut.record_count == len(values) == found.replayed
    assert saved(run, tmp_path / "other", partitions=frozenset([("orders", 0)])).saved == len(values)
