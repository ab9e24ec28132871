"""A follower that truncates, and keeps a batch that is not its leader's below the cut: nothing but the batches tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from replica_audit.config import Settings
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.scenarios.disks import TOPIC, Cluster, Disk
from tests.support import in_process

LEADER = Disk(batches=[(1, 0, 4), (1, 5, 9), (3, 10, 14)], high_watermark=15)
TAIL = Disk(batches=[(1, 0, 4), (1, 5, 9), (2, 10, 12)], high_watermark=5)
LOST = Disk(batches=[(1, 0, 4), (1, 5, 9), (2, 10, 12)], high_watermark=12)


def cluster(root: Path, follower: Disk, changed: int | None) -> Path:
    """Its folder; one of the follower's batches has another value."""
    Cluster(disks={1: LEADER, 2: follower}, leader_epoch=3, isr=(1,)).audit(root, Protocol.TRUNCATE_ON_FETCH)
    (home,) = root.iterdir()
    if changed is not None:
        path = home / "broker-2" / "data-0" / f"{TOPIC}-0" / f"{0:020d}.log"
        data, at = path.read_bytes(), 0
        for _ in range(changed):
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        other = bytearray(data[at:end])
        other[-2] ^= 1
        path.write_bytes(data[:at] + kf.sealed(other) + data[end:])
    return home


def verdict(root: Path, follower: Disk, changed: int | None) -> dict[str, Any]:
    """That on the follower."""
    (row,) = in_process.audit(cluster(root, follower, changed), anew=True)["replica_verdicts"]
    return row


@pytest.mark.parametrize(("batch", "first"), [(0, 0), (1, 5)])
def test_what_stays_different_is_worse_than_the_tail_that_goes(tmp_path: Path, batch: int, first: int) -> None:
    row = verdict(tmp_path, TAIL, batch)
    assert (row["verdict"], row["severity"]) == ("content_mismatch", "critical")
    assert (row["divergence_offset"], row["truncation_offset"], row["removed_offsets"]) == (first, 10, 3)
    assert row["mismatch"]["leader"]["first_offset"] == row["mismatch"]["follower"]["first_offset"] == first
    assert "it truncates to 10: offsets 10..12 are removed" in row["reason"]


def test_what_stays_different_is_named_beside_a_loss(tmp_path: Path) -> None:
    row = verdict(tmp_path, LOST, 1)
    assert (row["verdict"], row["divergence_offset"]) == ("committed_loss", 5)
    assert "of what it keeps, offsets 5..9 differ from the leader's batch" in row["reason"]


@pytest.mark.parametrize(("follower", "expected"), [(TAIL, "stale_tail"), (LOST, "committed_loss")])
@pytest.mark.parametrize("changed", [None, 2])
def test_what_goes_does_not_stay_different(tmp_path: Path, follower: Disk, expected: str, changed: int | None) -> None:
    row = verdict(tmp_path, follower, changed)
    assert (row["verdict"], row["divergence_offset"], row["mismatch"]) == (expected, 10, None)
    assert "of what it keeps" not in row["reason"]


@pytest.mark.parametrize(
    ("changed", "mode", "stays"),
    [
        (None, "content", False),
        (0, "content", True),
        pytest.param(0, "epochs", False, id="batches are not looked at"),
        pytest.param(2, "content", False, id="what differs goes"),
    ],
)
def test_a_corrected_table_mends_no_batch(tmp_path: Path, changed: int | None, mode: Literal["epochs", "content"], stays: bool) -> None:
    """A table that gives other epochs is wrong; with the right one the follower is cut rightly, and keeps what lies below."""
    home = cluster(tmp_path, TAIL, changed)
    (home / "broker-2" / "data-0" / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(1, 0), (2, 5)]))
    logs = in_process.audit_cluster(home, settings=Settings(compare=mode), anew=True)[0]["replica_logs"]
    (log,) = [row for row in logs if row["broker_id"] == 2]
    assert log["corrected_checkpoint"] == "0\n2\n1 0\n2 10\n"
    (rejoin,) = log["rejoins_once_corrected"]
    assert (rejoin["truncation_offset"], rejoin["catches_up"], rejoin["still_diverged"]) == (10, True, stays)


def test_a_cut_inside_of_a_batch_leaves_a_hole_with_a_corrected_table_too(tmp_path: Path) -> None:
    """Its batch goes as a whole, and is never fetched again below the offset to which it truncates."""
    leader = Disk(batches=[(1, 0, 4), (1, 5, 6), (3, 7, 14)], high_watermark=15)
    follower = Disk(batches=[(1, 0, 4), (1, 5, 9)], high_watermark=5)
    Cluster(disks={1: leader, 2: follower}, leader_epoch=3, isr=(1,)).audit(tmp_path, Protocol.TRUNCATE_ON_FETCH)
    (home,) = tmp_path.iterdir()
    (home / "broker-2" / "data-0" / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(1, 5)]))
    logs = in_process.audit_cluster(home, settings=Settings(compare="epochs"), anew=True)[0]["replica_logs"]
    (rejoin,) = next(row["rejoins_once_corrected"] for row in logs if row["broker_id"] == 2)
    assert (rejoin["truncation_offset"], rejoin["still_diverged"]) == (7, True)
