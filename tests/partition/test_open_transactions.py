"""From the files of a cluster to rows of `open_transactions`: who ended what, whom it stops, and what an abort needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats import transaction_files as tf
from tests.support import in_process
from tests.support.in_process import Row

RECORD = (b"k", b"v")
# producer 9 has a transaction open from 3 on; offset 2 is a marker
COMMON: tuple[bytes, ...] = (
    rf.batch(0, RECORD, RECORD, producer_id=8),
    rf.control_batch(2, rf.COMMIT, producer_id=8),
    rf.batch(3, RECORD, RECORD, producer_id=9),
)
WENT_ON = kf.batch(5, 1)
GROUPS = {"at": 3, "before-the-marker": 2, "below": 0, "beyond": 5, "past-the-end": 99}


def cluster(
    tmp_path: Path,
    *others: Sequence[bytes],
    common: Sequence[bytes] = COMMON,
    states: Sequence[bytes] = (),
    groups: dict[str, int] | None = None,
    **metadata: Any,
) -> Path:
    """Broker 1 leads in epoch 1; each of the others has what all have in common, and then these batches of epoch 0."""
    root = tmp_path / "cluster"
    brokers = range(1, len(others) + 2)
    for broker, own in zip(brokers, ([WENT_ON], *others), strict=True):
        data = kf.log_dir(root / f"broker-{broker}" / "data", broker_id=broker)
        kf.replica(data, "orders-0", epochs=[(0, 0), (1, 5)] if broker == 1 else [(0, 0)], batches=[*common, *own])
        if broker == 1 and states:
            kf.replica(data, "__transaction_state-0", batches=states)
        if broker == 1 and groups:
            commits = [(rf.commit_key(name, "orders"), rf.commit_value(3, offset)) for name, offset in groups.items()]
            kf.replica(data, "__consumer_offsets-0", batches=[rf.batch(0, *commits)])
    topics = [
        {
            "topic": "orders",
            "topic_id": kf.TOPIC_ID,
            "partitions": [{"partition": 0, "leader": 1, "leader_epoch": 1, "replicas": [*brokers], "isr": [1]}],
        }
    ]
    up = [{"id": broker, "state": "up" if broker == 1 else "down"} for broker in brokers]
    known = {"version": 1, "cluster_id": kf.CLUSTER_ID, "kafka_version": "4.2.0", "brokers": up, "topics": topics} | metadata
    (root / "cluster-metadata.json").write_text(json.dumps(known))
    return root


def opened(root: Path) -> Row:
    (row,) = in_process.audit(root)["open_transactions"]
    assert (row["producer_id"], row["first_offset"], row["last_offset"], row["last_stable_offset"]) == (9, 3, 4, 3)
    return row


def marker(key: bytes, offset: int = 5) -> bytes:
    return rf.control_batch(offset, key, producer_id=9)


@pytest.mark.parametrize(("key", "outcome", "may_be"), [(rf.COMMIT, "committed", True), (rf.ABORT, "aborted", False)])
def test_a_marker_that_another_replica_has(tmp_path: Path, key: bytes, outcome: str, may_be: bool) -> None:
    row = opened(cluster(tmp_path, [marker(key)]))
    assert row["elsewhere"] == [{"broker_id": 2, "standing": "finished", "marker_offset": 5, "is_removed": True, "outcome": outcome}]
    assert (row["hangs_because"], row["may_be_committed"]) == ("marker-removed", may_be)


def test_markers_that_contradict_each_other(tmp_path: Path) -> None:
    row = opened(cluster(tmp_path, [marker(rf.ABORT)], [marker(rf.COMMIT)], []))
    assert [one["outcome"] for one in row["elsewhere"]] == ["aborted", "committed", None]
    assert row["may_be_committed"] is True


def test_a_marker_without_its_record_tells_nothing(tmp_path: Path) -> None:
    """A control batch of another type, and one whose record is cut short."""
    row = opened(cluster(tmp_path, [marker(b"\0\0\0\5")], [rf.control_batch(5, b"", producer_id=9)]))
    assert [(one["standing"], one["outcome"]) for one in row["elsewhere"]] == [("finished", None)] * 2
    assert row["may_be_committed"] is None


def test_it_is_open_everywhere(tmp_path: Path) -> None:
    row = opened(cluster(tmp_path, []))
    assert [(one["standing"], one["outcome"]) for one in row["elsewhere"]] == [("open", None)]
    assert (row["hangs_because"], row["may_be_committed"], row["marker_coordinator_epoch"]) == (None, None, None)


@pytest.mark.parametrize(
    ("metadata", "form"),
    [
        ({"kafka_version": "4.2.0"}, "start-offset"),
        ({"kafka_version": "2.8.2"}, "producer-id"),
        ({"kafka_version": None}, None),
        ({"kafka_version": None, "features": {"metadata.version": 7}}, "start-offset"),
        ({"kafka_version": None, "inter_broker_protocol_version": "3.0-IV1"}, "start-offset"),
        ({"kafka_version": None, "inter_broker_protocol_version": "2.8"}, None),
    ],
)
def test_what_an_abort_needs(tmp_path: Path, metadata: dict[str, Any], form: str | None) -> None:
    row = opened(cluster(tmp_path, [marker(rf.ABORT)], **metadata))
    assert (row["abort_form"], row["marker_coordinator_epoch"]) == (form, -1)


def test_the_coordinator_epoch_of_the_last_marker(tmp_path: Path) -> None:
    common = (rf.batch(0, RECORD, producer_id=9), rf.control_batch(1, rf.ABORT, producer_id=9), kf.batch(2, 0), COMMON[2])
    assert opened(cluster(tmp_path, [marker(rf.ABORT)], common=common))["marker_coordinator_epoch"] == 3


def test_whom_it_stops(tmp_path: Path) -> None:
    row = opened(cluster(tmp_path, [], groups=GROUPS))
    assert row["waiting_groups"] == ["at", "before-the-marker"]
    assert row["approaching_groups"] == ["below"]
    assert row["groups_beyond"] == ["beyond"]


def test_a_group_that_has_a_record_to_read_still_gets_it(tmp_path: Path) -> None:
    common = (*COMMON[:2], kf.batch(3, 0), rf.batch(4, RECORD, producer_id=9))
    (row,) = in_process.audit(cluster(tmp_path, [], common=common, groups={"g": 2, "h": 3, "i": 4}))["open_transactions"]
    assert (row["last_stable_offset"], row["waiting_groups"], row["approaching_groups"]) == (4, ["i"], ["g", "h"])


def test_nobody_committed(tmp_path: Path) -> None:
    row = opened(cluster(tmp_path, []))
    assert (row["waiting_groups"], row["approaching_groups"], row["groups_beyond"]) == ([], [], [])


def states(*, tags: dict[int, int], producer_id: int, status: int = tf.COMPLETE_COMMIT, epoch: int = 0) -> list[bytes]:
    encoded = {tag: number.to_bytes(8, "big") for tag, number in tags.items()}
    made = tf.value(status, {}, version=1, producer_id=producer_id, epoch=epoch, tags=encoded)
    return [rf.batch(0, (tf.key("pay"), made))]


def test_the_producer_id_that_its_transactional_id_had_before(tmp_path: Path) -> None:
    """The epochs of producer 9 were used up with the end of this transaction (KIP-890)."""
    row = opened(cluster(tmp_path, [marker(rf.COMMIT)], states=states(tags={0: 9}, producer_id=10)))
    assert (row["transactional_id"], row["coordinator_producer_id"], row["coordinator_state"]) == ("pay", 10, "CompleteCommit")
    other = opened(cluster(tmp_path / "other", [], states=states(tags={0: 9}, producer_id=10)))
    assert other["may_be_committed"] is True


def test_the_producer_id_of_another_transactional_id(tmp_path: Path) -> None:
    row = opened(cluster(tmp_path, [], states=states(tags={0: 7, 1: 11}, producer_id=10)))
    assert (row["transactional_id"], row["coordinator_producer_id"], row["may_be_committed"]) == (None, None, None)
