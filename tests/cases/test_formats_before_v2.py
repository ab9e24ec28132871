"""A log in a format before v2 beside an epoch table that a broker wrote when it was elected (KAFKA-7897)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replica_audit.rows.codes import Protocol
from tests.cases.test_truncated_is_not_lost import home_of
from tests.scenarios.disks import Disk, Version
from tests.support import in_process

OLD = [(-1, 0, 9), (-1, 10, 19)]
LEADER = Disk(batches=OLD, epochs=[(2, 0), (5, 8)], high_watermark=20)
FOLLOWER = Disk(batches=OLD, epochs=[(2, 4), (3, 6)], high_watermark=20)


def audited(root: Path, version: str, ibp: str | None, *, follower: Disk = FOLLOWER, **cluster: Any) -> dict[str, list[dict[str, Any]]]:
    home = home_of(root, {1: LEADER, 2: follower}, Protocol.KIP_279, version=Version(version, ibp), **cluster)
    return in_process.audit(home, anew=True)


@pytest.mark.parametrize("configs", [{}, {"message.format.version": "0.10.2-IV0"}], ids=["not told", "told"])
@pytest.mark.parametrize(
    ("version", "ibp", "truncates"),
    [
        ("2.3.0", "2.3", False),
        ("2.8.1", "2.8", False),
        ("3.4.0", "2.8", False),
        ("2.0.1", "2.0", True),
        ("2.1.0", "2.1", True),
        ("3.4.0", "3.4", True),
    ],
)
def test_the_table_is_not_used(tmp_path: Path, version: str, ibp: str, truncates: bool, configs: dict[str, str]) -> None:
    found = audited(tmp_path, version, ibp, configs=configs)
    (row,) = found["replica_verdicts"]
    assert (row["truncation_offset"] is not None) is truncates
    assert (row["severity"], row["lost_records"]) == ("none", 0), "where it truncates, it fetches the same again"
    assert {one["checkpoint_state"] for one in found["replica_logs"]} == {"ok" if truncates else "not-used"}
    assert not any(one["code"].startswith("checkpoint-") for one in found["input_errors"])


def test_then_the_high_watermark_decides(tmp_path: Path) -> None:
    (row,) = audited(tmp_path, "2.3.0", "2.3", follower=Disk(batches=OLD, epochs=[(2, 4)], high_watermark=15))["replica_verdicts"]
    assert (row["verdict"], row["truncation_offset"], row["removed_records"], row["lost_records"]) == ("identical", 15, 5, 0)


def test_what_the_leader_does_not_hold_is_lost_all_the_same(tmp_path: Path) -> None:
    follower = Disk(batches=OLD, epochs=[(2, 4)], high_watermark=10, other_from=10)
    (row,) = audited(tmp_path, "2.3.0", "2.3", follower=follower)["replica_verdicts"]
    assert (row["verdict"], row["severity"], row["truncation_offset"], row["lost_records"]) == ("stale_tail", "error", 10, 10)


def test_a_log_of_v2_keeps_its_table(tmp_path: Path) -> None:
    """The near neighbour: the same brokers, and a topic whose format nobody set back."""
    new = [(2, 0, 9), (5, 10, 19)]
    home = home_of(
        tmp_path,
        {1: Disk(batches=new, high_watermark=20), 2: Disk(batches=[(2, 0, 9), (3, 10, 19)], high_watermark=20)},
        Protocol.KIP_279,
        version=Version("2.3.0", "2.3"),
    )
    found = in_process.audit(home, anew=True)
    assert [row["verdict"] for row in found["replica_verdicts"]] == ["committed_loss"]
    assert {one["checkpoint_state"] for one in found["replica_logs"]} == {"ok"}
