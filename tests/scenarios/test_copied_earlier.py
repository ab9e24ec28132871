"""A cluster that goes on while its brokers are copied one after the other: healthy partitions are clean, sick ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.rows.codes import Protocol
from tests.scenarios.disks import Audited, Cluster, Disk

EARLIER = [(1, 0, 4), (2, 5, 9)]
LATER = [*EARLIER, (2, 10, 14), (2, 15, 19)]


def audit(tmp_path: Path, leader: Disk, follower: Disk, protocol: Protocol = Protocol.TRUNCATE_ON_FETCH, **given: object) -> Audited:
    known: dict[str, object] = {"leader_epoch": 2, "isr": (1, 2), "up": (1, 2), **given}
    return Cluster(disks={1: leader, 2: follower}, **known).audit(tmp_path, protocol)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", [Protocol.KIP_101, Protocol.KIP_279])
def test_brokers_that_may_come_back_in_the_same_epoch(tmp_path: Path, protocol: Protocol) -> None:
    found = audit(tmp_path, Disk(batches=EARLIER, high_watermark=10), Disk(batches=LATER, high_watermark=15), protocol)
    assert (found.verdict(), found.row()["cause"]) == ("inconclusive", "leader copied earlier")


def test_a_healthy_partition(tmp_path: Path) -> None:
    found = audit(tmp_path, Disk(batches=EARLIER, high_watermark=10), Disk(batches=LATER, high_watermark=15))
    row = found.row()
    assert (row["verdict"], row["severity"], row["cause"]) == ("consistent", "none", None)
    assert (row["common_prefix_end_offset"], row["not_compared_offsets"], row["divergence_offset"]) == (10, 10, None)
    assert (row["truncation_offset"], row["removed_offsets"], row["removed_records"]) == (None, 0, 0)
    assert found.effect() == (None, 0, False, False)
    assert found.tables["found"] == []
    assert {row["truncation_offset"] for row in found.tables["truncation_points"]} == {None}


def test_other_bytes_below_the_end_of_the_leaders_copy(tmp_path: Path) -> None:
    found = audit(tmp_path, Disk(batches=EARLIER, high_watermark=10), Disk(batches=LATER, high_watermark=15, other_from=5))
    assert (found.verdict(), found.row()["divergence_offset"]) == ("content_mismatch", 5)


def test_the_same_copies_of_brokers_that_were_down(tmp_path: Path) -> None:
    found = audit(tmp_path, Disk(batches=EARLIER, high_watermark=10), Disk(batches=LATER, high_watermark=15), up=(2,))
    assert found.verdict() not in ("consistent", "identical", "lagging")


def test_a_follower_that_was_elected_meanwhile(tmp_path: Path) -> None:
    """Nothing but its epoch table says that the leader's time is over."""
    follower = Disk(batches=LATER, epochs=[(1, 0), (2, 5), (3, 20)], high_watermark=15)
    leader = Disk(batches=EARLIER, high_watermark=10)
    (row,) = audit(tmp_path, leader, follower, problems=("metadata-outdated",)).tables["replica_verdicts"]
    assert (row["leader_id"], row["leader_source"], row["follower_id"]) == (2, "inferred", 1)
