"""`--compare records` where content differs: the records that are not the same, held against what kafka-dump-log printed of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.clusters.test_scenarios import SHARED
from tests.support import in_process
from tests.support.shares import by_day

RECORDS = Settings(compare="records", show_keys=True)
MOMENTS = {"before": "dump-log-data", "after": "dump-log-after-data"}
ROOTS = sorted(path for name in MOMENTS for path in SHARED.glob(f"*/{name}") if (path.parent / MOMENTS[name]).is_dir())
_RECORD = re.compile(r"^(?:\| )?offset: (\d+) .*?(?:CreateTime|LogAppendTime): (-?\d+) .*?(?: key: (.*?))?(?: payload: (.*))?$")


def printed(root: Path, broker: int, topic: str, partition: int) -> dict[int, tuple[str, ...]]:
    """Time, key and payload of each record, as kafka-dump-log printed them."""
    folder = root.parent / MOMENTS[root.name] / f"broker-{broker}" / f"{topic}-{partition}"
    lines = [line for path in folder.glob("*.txt") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    found = (_RECORD.match(line) for line in lines)
    return {int(one[1]): one.groups()[1:] for one in found if one}


def differing(root: Path) -> list[dict[str, Any]]:
    return [row for row in in_process.audit(root, settings=RECORDS)["replica_verdicts"] if row["verdict"] == "content_mismatch"]


@pytest.mark.clusters
@pytest.mark.parametrize("root", by_day(ROOTS), ids=lambda root: "/".join(root.parts[-2:]))
def test_the_records_that_differ_are_those_that_kafka_prints_otherwise(root: Path) -> None:
    tables = in_process.audit(root, settings=RECORDS)
    for row in differing(root):
        pair = {name: row[name] for name in ("topic", "partition", "leader_id", "follower_id")}
        leader, follower = (printed(root, row[side], row["topic"], row["partition"]) for side in ("leader_id", "follower_id"))
        end = min(max(leader), max(follower)) + 1
        other = sorted(at for at in leader.keys() | follower.keys() if at < end and leader.get(at) != follower.get(at))
        assert other, pair
        assert sum(one["records"] for one in row["differing_records"]) == len(other), pair
        rows = [one for one in tables["differences"] if {name: one[name] for name in pair} == pair]
        assert [one["offset"] for one in rows] == other[:100]
        assert row["records_unread"] is None
        for one in rows:
            for side, told in (("leader", leader), ("follower", follower)):
                assert (one[side] is None) == (one["offset"] not in told)
                if one[side] is not None and told[one["offset"]][1] is not None:
                    assert one[side]["key"] == told[one["offset"]][1]
            if one["leader"] and one["follower"]:
                assert ("value" in one["parts"]) == (leader[one["offset"]][2] != follower[one["offset"]][2])


@pytest.mark.clusters
def test_nothing_differs_where_content_agrees() -> None:
    rows = [row for root in ROOTS for row in in_process.audit(root, settings=RECORDS)["replica_verdicts"]]
    assert len(rows) > 500
    assert len([row for row in rows if row["verdict"] == "content_mismatch"]) > 10, "else nothing is compared with what Kafka prints"
    assert not [row for row in rows if row["differing_records"] and row["verdict"] not in ("content_mismatch", "committed_loss")]
