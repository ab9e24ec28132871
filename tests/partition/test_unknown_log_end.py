"""A newest segment that cannot be read: nobody knows where its log ends, so no end is made up for it; what was read of it still counts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from tests.formats import kafka_files as kf
from tests.formats.rights import bound_by_modes
from tests.support import in_process

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "committed-loss"
LEADER, FOLLOWER = 2, 1
Rows = dict[str, list[dict[str, Any]]]


def rows(root: Path, **settings: Any) -> Rows:
    """What an audit by a user finds whom permissions bind."""
    return bound_by_modes(lambda: in_process.audit_cluster(root, settings=Settings(**settings), anew=True)[0])


def audited(tmp_path: Path, broker: int) -> Rows:
    """The rows of billing-0, of which a broker's only segment cannot be read."""
    root = shutil.copytree(SAMPLE, tmp_path / "root")
    (log,) = (root / f"broker-{broker}" / "data-0" / "billing-0").glob("*.log")
    log.chmod(0)
    return {name: [row for row in of if (row.get("topic"), row.get("partition")) == ("billing", 0)] for name, of in rows(root).items()}


@pytest.mark.parametrize(("broker", "verdict"), [(LEADER, "inconclusive"), (FOLLOWER, "unreadable")])
def test_no_offset_is_said_of_a_pair_that_cannot_be_compared(tmp_path: Path, broker: int, verdict: str) -> None:
    tables = audited(tmp_path, broker)
    (row,) = [row for row in tables["replica_verdicts"] if row["follower_id"] == FOLLOWER]
    assert (row["verdict"], "cannot be read" in row["reason"]) == (verdict, True)
    said = ("truncation_offset", "divergence_offset", "common_prefix_end_offset", "removed_offsets", "removed_records")
    assert {name: row[name] for name in said} == dict.fromkeys(said)
    assert [row for row in tables["truncation_points"] if row["follower_id"] == FOLLOWER] == []


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER])
def test_its_log_end_is_unknown(tmp_path: Path, broker: int) -> None:
    tables = audited(tmp_path, broker)
    for table in ("replica_logs", "replica_roles"):
        (row,) = [row for row in tables[table] if row["broker_id"] == broker]
        assert row["log_end_offset"] is None
        assert row["high_watermark"] is not None, "of a file that can be read"
    assert not any(row["code"] == "no-segments" for row in tables["input_errors"])
    assert not any(row["broker_id"] == broker for row in tables["epoch_start_offsets"]), "no batch bears a line out, or speaks against it"


def test_a_leader_that_cannot_be_read_is_a_finding_of_its_own(tmp_path: Path) -> None:
    found = audited(tmp_path, LEADER)["found"]
    assert ("unreadable", "error", LEADER) in {(row["code"], row["severity"], row["broker_id"]) for row in found}


def cluster(root: Path, segments: dict[int, Sequence[int]], unread: dict[int, int]) -> Path:
    """Replicas of t-0 with a batch of five records in each segment; the segment at an offset cannot be read. No metadata."""
    for broker, bases in segments.items():
        log_dir = root / f"broker-{broker}" / "data-0"
        replica = log_dir / "t-0"
        replica.mkdir(parents=True)
        for base in bases:
            kf.segment(replica, base, kf.batch(base, 0, deltas=range(5), value=b"0"))
        (replica / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(0, 0)]))
        (replica / "partition.metadata").write_bytes(kf.partition_metadata(kf.TOPIC_ID))
        (log_dir / "meta.properties").write_bytes(kf.meta_properties(broker))
        (log_dir / "replication-offset-checkpoint").write_bytes(kf.checkpoint([("t", 0, 5)]))
        (log_dir / ".kafka_cleanshutdown").touch()
        if broker in unread:
            (replica / f"{unread[broker]:020d}.log").chmod(0)
    return root


def test_it_may_hold_what_an_election_would_lose(tmp_path: Path) -> None:
    root = cluster(tmp_path / "c", {1: (0, 5, 10), 2: (0, 5), 3: (0,)}, {1: 10})
    found = {row["candidate_id"]: row for row in rows(root, what_if_leaders=True)["what_if_leaders"]}
    assert (found[1]["rank"], found[1]["log_end_offset"]) == (None, None)
    assert "cannot lead" in found[1]["reason"]
    assert found[2]["unread_replicas"] == 1
    assert "may hold more" in found[2]["reason"]


@pytest.mark.parametrize("unread", [LEADER, FOLLOWER])
def test_offsets_of_a_segment_that_cannot_be_read_are_no_gap(tmp_path: Path, unread: int) -> None:
    root = cluster(tmp_path / "c", {1: (0, 5, 10), 2: (0, 5, 10)}, {unread: 5})
    tables = rows(root)
    (verdict,) = tables["replica_verdicts"]
    assert verdict["verdict"] in ("unreadable", "inconclusive")
    assert (verdict["divergence_offset"], verdict["hole"]) == (None, None)
    assert not any(point["still_diverged"] for point in tables["truncation_points"])


def test_another_epoch_beside_such_a_segment_is_a_difference(tmp_path: Path) -> None:
    root = cluster(tmp_path / "c", {1: (0, 5), 2: (0, 5, 10)}, {2: 5})
    diverged = root / "broker-1" / "data-0" / "t-0"
    kf.segment(diverged, 10, kf.batch(10, 1, deltas=range(5), value=b"1"))
    (diverged / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(0, 0), (1, 10)]))
    (verdict,) = rows(root)["replica_verdicts"]
    assert verdict["divergence_offset"] == 10


def test_what_was_read_of_it_counts(tmp_path: Path) -> None:
    tables = rows(cluster(tmp_path / "c", {1: (0, 5, 10), 2: (0, 5)}, {1: 10}))
    (log,) = [row for row in tables["replica_logs"] if row["broker_id"] == 1]
    assert (log["batch_count"], log["record_count"], log["last_epoch"], log["log_end_offset"]) == (2, 10, 0, None)
    assert [(row["leader_epoch"], row["agrees"]) for row in tables["epoch_start_offsets"] if row["broker_id"] == 1] == [(0, True)]


def test_it_still_holds_a_good_copy_of_a_damaged_batch(tmp_path: Path) -> None:
    root = cluster(tmp_path / "c", {1: (0, 5), 2: (0, 5, 10)}, {2: 10})
    log = root / "broker-1" / "data-0" / "t-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[-2] ^= 1
    log.write_bytes(content)
    (damaged,) = rows(root)["damaged_batches"]
    assert (damaged["broker_id"], damaged["good_broker_ids"]) == (1, [2])


def test_a_segment_that_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    """The follower's cut begins in it, so its batches are asked for again."""
    root = cluster(tmp_path / "c", {1: (0, 5, 10), 2: (0,)}, {})
    diverged = root / "broker-2" / "data-0" / "t-0"
    for base in (5, 10):
        kf.segment(diverged, base, kf.batch(base, 1, deltas=range(5), value=b"1"))
    (diverged / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(0, 0), (1, 5)]))
    path = root / "broker-1" / "data-0" / "t-0" / f"{5:020d}.log"
    path.chmod(0)
    tables = rows(root)
    assert [row["truncation_offset"] for row in tables["replica_verdicts"]] == [5]
    assert [(row["broker_id"], row["path"]) for row in tables["input_errors"] if row["code"] == "cannot-read"] == [(1, str(path))]


def test_an_older_segment_leaves_the_end_known(tmp_path: Path) -> None:
    tables = rows(cluster(tmp_path / "c", {1: (0, 5, 10), 2: (0, 5, 10)}, {1: 0}))
    assert {row["broker_id"]: row["log_end_offset"] for row in tables["replica_logs"]} == {1: 15, 2: 15}


def test_what_groups_committed_is_read_from_what_can_be_read(tmp_path: Path) -> None:
    """Every replica of the groups' topic gets a newest segment that cannot be read: the offsets below it still count."""
    root = shutil.copytree(SAMPLE, tmp_path / "root")
    expected = len(in_process.audit(SAMPLE)["consumer_impacts"])
    for replica in root.glob("broker-*/data-0/__consumer_offsets-*"):
        newest = replica / f"{100_000:020d}.log"
        newest.write_bytes(b"0")
        newest.chmod(0)
    assert len(rows(root)["consumer_impacts"]) == expected > 0


@pytest.mark.parametrize("broker", [1, 2])
def test_an_oldest_segment_that_cannot_be_read_was_not_deleted(tmp_path: Path, broker: int) -> None:
    """A running broker deletes segments while they are copied; one that is there, and may not be read, is not one of these."""
    root = shutil.copytree(SAMPLE.parent / "clean-in-sync", tmp_path / "root")
    path = root / f"broker-{broker}" / "data-0" / "small-segments-0" / f"{0:020d}.log"
    path.chmod(0)
    tables = rows(root)
    assert [row["path"] for row in tables["input_errors"] if row["code"] == "cannot-read"] == [str(path)]
    of_it = [row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("small-segments", 0)]
    assert of_it
    assert not {row["verdict"] for row in of_it if broker in (row["leader_id"], row["follower_id"])} & {
        "identical",
        "consistent",
        "lagging",
    }


def test_a_table_that_cannot_be_loaded_hides_none_of_the_batches(tmp_path: Path) -> None:
    """The follower has the only copy of 20 committed records; what an election gave up is told with the broker that holds it."""
    root = shutil.copytree(SAMPLE, tmp_path / "root")
    (root / f"broker-{FOLLOWER}" / "data-0" / "billing-0" / "leader-epoch-checkpoint").write_text("0\n2\n1 0\nxx 7\n", encoding="utf-8")
    tables = in_process.audit(root)
    (verdict,) = [row for row in of_billing(tables, "replica_verdicts") if row["follower_id"] == FOLLOWER]
    assert verdict["verdict"] == "unreadable"
    told = [
        (row["given_up_offsets"], row["given_up_held_by"]) for row in of_billing(tables, "leader_epochs") if row["election"] == "unclean"
    ]
    assert told == [(20, [FOLLOWER])]
    (log,) = [row for row in of_billing(tables, "replica_logs") if row["broker_id"] == FOLLOWER]
    (rejoin,) = [row for row in log["rejoins_once_corrected"] if row["follower_id"] == FOLLOWER]
    assert (rejoin["truncation_offset"], log["log_end_offset"]) == (10, 30)


def of_billing(tables: Rows, name: str) -> list[dict[str, Any]]:
    return [row for row in tables[name] if (row["topic"], row["partition"]) == ("billing", 0)]
