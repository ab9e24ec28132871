"""What a follower truncates and its leader holds is fetched again: two facts, two sets of columns, and the severity follows the second."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.cuts import cuts_of
from replica_audit.past.metrics import run_metrics
from replica_audit.past.recovery import due_facts, recovery_of
from replica_audit.past.run import PastRun
from replica_audit.past.starts import starts_of
from replica_audit.report.facts.due_facts import due_of
from replica_audit.rows.codes import Protocol
from tests.scenarios.disks import VERSIONS, Cluster, Disk
from tests.support import in_process

HELD = [(2, 0, 4), (2, 5, 9), (5, 10, 14), (5, 15, 19)]
LEADER = Disk(batches=HELD, high_watermark=20)
SHORT_TABLE = Disk(batches=HELD, epochs=[(2, 0)], high_watermark=20)  # the file lacks the line of epoch 5
BEHIND = Disk(batches=HELD[:3], epochs=[(2, 0)], high_watermark=15)
COLUMNS = ("verdict", "severity", "removed_offsets", "removed_records", "lost_offsets", "lost_records", "lost_bytes")
NOTHING = (0, 0, 0)


def home_of(root: Path, disks: dict[int, Disk], protocol: Protocol = Protocol.TRUNCATE_ON_FETCH, **cluster: Any) -> Path:
    """The folder of a cluster."""
    version = cluster.pop("version", VERSIONS[protocol])
    partition = Cluster(disks=disks, leader_epoch=5, **cluster)
    up = (partition.leader,) if partition.up is None else partition.up
    for broker, disk in disks.items():
        partition._write(root / f"broker-{broker}" / "data-0", broker, disk, version, up=broker in up)
    (root / "cluster-metadata.json").write_text(json.dumps(partition._metadata(version, up)))
    return root


def row_of(home: Path, *, metadata: bool = True, settings: Settings | None = None) -> dict[str, Any]:
    """The verdict on follower 2."""
    found = in_process.audit(home, metadata=metadata, settings=settings, anew=True)["replica_verdicts"]
    return next(row for row in found if row["follower_id"] == 2)


@pytest.mark.parametrize("up", [(1,), (), None], ids=["the leader runs", "both are stopped", "default"])
@pytest.mark.parametrize(("follower", "removed"), [(SHORT_TABLE, 10), (BEHIND, 5)])
def test_what_the_leader_holds_is_fetched_again(tmp_path: Path, follower: Disk, removed: int, up: tuple[int, ...] | None) -> None:
    row = row_of(home_of(tmp_path, {1: LEADER, 2: follower}, up=up))
    assert tuple(row[name] for name in COLUMNS) == ("epoch_table_only", "warning", removed, removed, *NOTHING)
    assert (row["truncation_offset"], row["divergence_offset"]) == (10, None)
    assert f"it truncates to 10 and fetches offsets 10..{9 + removed} again from leader 1" in row["reason"]


def test_nobody_is_told_to_copy_what_is_fetched_again(tmp_path: Path) -> None:
    done = triage([str(home_of(tmp_path, {1: LEADER, 2: SHORT_TABLE}))], Settings(), tell=lambda event: None, run_id="now")
    run = PastRun(done.tables, "now")
    (cluster,) = {row.cluster_id for row in run.runs}
    facts = due_facts(run, cluster)
    assert facts == due_of(recovery_of(run, cluster))
    assert {one.outcome for one in starts_of(run)} == {"safe"}
    assert cuts_of(run, cluster).cuts == (), "nothing to save"
    assert [one.truncated_records for one in run_metrics(run)] == [{"to_remove": 0, "removed": 0}]
    assert run.runs[0].exit_code == 0


def test_of_what_nobody_surely_leads_nothing_counts_as_fetched_again(tmp_path: Path) -> None:
    row = row_of(home_of(tmp_path, {1: LEADER, 2: SHORT_TABLE}), metadata=False)
    assert row["leader_source"] == "inferred"
    assert tuple(row[name] for name in COLUMNS)[:4] == ("stale_tail", "error", 10, 10)
    assert (row["lost_offsets"], row["lost_records"], row["lost_bytes"]) == (10, 10, row["removed_bytes"])


def test_only_what_the_leader_lacks_is_lost(tmp_path: Path) -> None:
    """The leader ends inside the follower's epoch: the part below is sent again, the rest is gone."""
    follower = Disk(batches=[*HELD, (5, 20, 24)], epochs=[(2, 0)], high_watermark=20)
    row = row_of(home_of(tmp_path, {1: LEADER, 2: follower}))
    assert tuple(row[name] for name in COLUMNS)[:6] == ("stale_tail", "error", 15, 15, 5, 5)
    assert 0 < row["lost_bytes"] < row["removed_bytes"]
    assert "of the removed offsets the leader holds 10 in the same epochs" in row["reason"]


@pytest.mark.parametrize(
    ("mode", "verdict", "lost"),
    [
        ("content", "stale_tail", 5),
        ("records", "stale_tail", 5),
        pytest.param("epochs", "epoch_table_only", 0, id="batches are not looked at"),
    ],
)
def test_other_records_of_the_same_epoch_are_lost(tmp_path: Path, mode: Any, verdict: str, lost: int) -> None:
    home = home_of(tmp_path, {1: LEADER, 2: replace(SHORT_TABLE, other_from=15)})
    row = row_of(home, settings=Settings(compare=mode))
    assert (row["verdict"], row["removed_offsets"], row["lost_offsets"], row["lost_records"]) == (verdict, 10, lost, lost)


def test_a_leader_that_is_behind_loses_as_before(tmp_path: Path) -> None:
    leader = Disk(batches=[(2, 0, 4), (2, 5, 9), (6, 10, 14)], high_watermark=15)
    row = row_of(home_of(tmp_path, {1: leader, 2: replace(SHORT_TABLE, epochs=None, high_watermark=10)}))
    assert tuple(row[name] for name in COLUMNS)[:6] == ("stale_tail", "error", 10, 10, 10, 10)
    assert row["lost_bytes"] == row["removed_bytes"]


@pytest.mark.parametrize("other", [False, True], ids=["the leader has them", "the leader has others"])
def test_without_epochs_the_batches_tell(tmp_path: Path, other: bool) -> None:
    """By the high watermark rule a stopped follower truncates what it had not learned to be committed, and fetches it again."""
    single = [(-1, 0, 9), (-1, 10, 19)]
    leader, follower = Disk(batches=single, high_watermark=20), Disk(batches=single, high_watermark=10, other_from=10 if other else None)
    row = row_of(home_of(tmp_path, {1: leader, 2: follower}, Protocol.HIGH_WATERMARK))
    found = tuple(row[name] for name in COLUMNS)[:6]
    assert row["truncation_offset"] == 10
    assert found == (("stale_tail", "error", 10, 10, 10, 10) if other else ("identical", "none", 10, 10, 0, 0))
    unread = row_of(home_of(tmp_path, {1: leader, 2: follower}, Protocol.HIGH_WATERMARK), settings=Settings(compare="epochs"))
    assert (unread["verdict"], unread["lost_offsets"]) == ("stale_tail", 10), "equal offsets prove nothing"


def test_a_hole_that_the_cut_leaves_is_no_clean_verdict(tmp_path: Path) -> None:
    """The batch that holds the cut goes whole, and its first part is never fetched again, though the leader holds it."""
    leader = Disk(batches=[(2, 0, 4), (2, 5, 7), (2, 8, 9), (5, 10, 14)], high_watermark=15)
    follower = Disk(batches=[(2, 0, 4), (2, 5, 9), (4, 10, 14)], epochs=[(2, 0), (3, 8)], high_watermark=5)
    row = row_of(home_of(tmp_path, {1: leader, 2: follower}))
    assert row["severity"] in ("critical", "error")


def test_what_lies_below_the_leaders_log_start_is_not_sent_again() -> None:
    root = Path(__file__).resolve().parents[1] / "data" / "sample" / "leader-trimmed"
    (row,) = [one for one in in_process.audit(root)["replica_verdicts"] if (one["topic"], one["partition"]) == ("audit", 2)]
    assert row["restart_offset"] == 16
    assert row["reason"].endswith("the leader holds 4 in the same epochs, below its log start, which it does not send")
