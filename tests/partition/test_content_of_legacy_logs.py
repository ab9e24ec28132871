"""Logs without leader epochs: only the batches themselves tell where two of them part, whether or not a follower is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit.protocol.exchange.replay import Protocol
from tests.protocol.logs import Batch
from tests.scenarios.disks import Audited, Cluster, Disk

LEADER: list[Batch] = [(-1, 0, 19), (-1, 20, 29)]


def _audited(tmp_path: Path, follower: Disk, protocol: Protocol = Protocol.HIGH_WATERMARK) -> Audited:
    """Single messages of magic 1 on both sides; the follower's broker is down and will cut to the high watermark that it persisted."""
    disks = {1: Disk(batches=LEADER, high_watermark=30), 2: follower}
    return Cluster(disks=disks, leader_epoch=3, isr=(1,)).audit(tmp_path, protocol)


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize(
    ("other_from", "verdict"),
    [
        pytest.param(0, "content_mismatch", id="from the beginning"),
        pytest.param(19, "content_mismatch", id="in the last message that is not cut"),
        pytest.param(20, "stale_tail", id="from the cut on"),
        pytest.param(None, "identical", id="nowhere: it is fetched again"),
    ],
)
def test_what_differs_below_the_cut_stays_different(tmp_path: Path, protocol: Protocol, other_from: int | None, verdict: str) -> None:
    batches = [(-1, offset, offset) for offset in range(30)]
    found = _audited(tmp_path, Disk(batches=batches, high_watermark=20, other_from=other_from), protocol)
    row = found.row()
    assert (row["truncation_offset"], row["removed_offsets"]) == (20, 10)
    assert (row["verdict"], row["divergence_offset"]) == (verdict, other_from)


def test_where_a_longer_log_differs_tells_where_it_parts(tmp_path: Path) -> None:
    """It would else be taken to part where the leader ends."""
    row = _audited(tmp_path, Disk(batches=[*LEADER, (-1, 30, 39)], high_watermark=20, other_from=20)).row()
    assert (row["verdict"], row["divergence_offset"], row["truncation_offset"]) == ("stale_tail", 20, 20)
    row = _audited(tmp_path, Disk(batches=[*LEADER, (-1, 30, 39)], high_watermark=20)).row()
    assert (row["verdict"], row["divergence_offset"], row["truncation_offset"]) == ("stale_tail", 30, 20)
