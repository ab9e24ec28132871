"""Logs of which the input does not say whether they are compacted; records that are missing in a batch; transactions without a marker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.stages import records
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.support import in_process

TOPIC = "t"
DAY_MS = 86_400_000
A, B, C, D = (bytes([key]) for key in b"abcd")
Segments = Mapping[int, Sequence[bytes]]  # by base offset
WHOLE: Segments = {0: [rf.batch(at, (key, b"%d" % at)) for at, key in enumerate([C, A, A, B])], 4: [rf.batch(4, (D, b"4"))]}
CLEANED: Segments = {0: [*WHOLE[0][:1], *WHOLE[0][2:]], 4: WHOLE[4]}


def audited(
    root: Path, replicas: Mapping[int, Segments], *, policy: str | None = None, checkpoints: bool = True, cleaned: int | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The tables of a partition that broker 1 leads; without a policy nothing tells of the topic."""
    end = 1 + max(kf.decoded(held[-1])[-1].base_offset for segments in replicas.values() for held in segments.values())
    for broker, segments in replicas.items():
        log_dir = root / f"broker-{broker}" / "data"
        for base, batches in segments.items():
            kf.segment(log_dir / f"{TOPIC}-0", base, *(kf.with_field(one, ">i", 12, 0) for one in batches))
        if not checkpoints:
            continue
        (log_dir / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(0, 0)]))
        (log_dir / "meta.properties").write_bytes(kf.meta_properties(broker))
        (log_dir / ".kafka_cleanshutdown").touch()
        (log_dir / "replication-offset-checkpoint").write_bytes(kf.checkpoint([(TOPIC, 0, end)]))
        (log_dir / "cleaner-offset-checkpoint").write_bytes(kf.checkpoint([] if cleaned is None else [(TOPIC, 0, cleaned)]))
    if policy is not None:
        configs = {"cleanup.policy": policy, "delete.retention.ms": str(DAY_MS)}
        brokers = sorted(replicas)
        led = {"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": brokers, "isr": brokers}
        document = {
            "version": 1,
            "cluster_id": kf.CLUSTER_ID,
            "brokers": [{"id": broker, "state": "down"} for broker in brokers],
            "topics": [{"topic": TOPIC, "configs": configs, "partitions": [led]}],
        }
        (root / "cluster-metadata.json").write_text(json.dumps(document), encoding="utf-8")
    return in_process.audit(root, settings=Settings(compare="records"), anew=True)


def verdict(tables: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (row,) = tables["replica_verdicts"]
    return row


@pytest.mark.parametrize("cleaned_broker", [1, 2])
def test_directories_that_come_alone_are_taken_for_compacted_if_a_cleaner_was_there(tmp_path: Path, cleaned_broker: int) -> None:
    found = verdict(audited(tmp_path, {1: WHOLE, 2: WHOLE} | {cleaned_broker: CLEANED}, checkpoints=False))
    assert (found["verdict"], found["compacted"], found["differing_keys"]) == ("identical", True, [])


@pytest.mark.parametrize(("checkpoints", "policy"), [(True, None), (False, "delete")])
def test_a_cleaner_checkpoint_without_an_entry_or_a_policy_says_that_none_was_there(
    tmp_path: Path, checkpoints: bool, policy: str | None
) -> None:
    found = verdict(audited(tmp_path, {1: WHOLE, 2: CLEANED}, checkpoints=checkpoints, policy=policy))
    assert (found["verdict"], found["compacted"]) == ("log_matching_violation", False)


@pytest.mark.parametrize("lacking", [1, 2])
@pytest.mark.parametrize(("policy", "code"), [("delete", "content_mismatch"), (None, "compaction_differs")])
def test_a_batch_that_lacks_records_shows_a_cleaner_only_where_the_policy_is_unknown(
    tmp_path: Path, lacking: int, policy: str | None, code: str
) -> None:
    """The newest record of a key is nothing that a cleaner takes; and under `delete` there is no cleaner."""
    pairs = [(A, b"0"), (B, b"1"), (C, b"2")]
    whole, less = rf.batch(0, *pairs), rf.batch(0, pairs[0], pairs[2], deltas=[0, 2])
    tables = audited(tmp_path, {1: {0: [whole]}, 2: {0: [whole]}} | {lacking: {0: [less]}}, policy=policy)
    assert verdict(tables)["verdict"] == code
    if policy is None:
        (row,) = tables["differences"]
        assert (row["broker_id"], row["leader" if lacking == 2 else "follower"]["offset"]) == (lacking, 1)


@pytest.mark.parametrize("policy", ["delete", None])
def test_one_replica_that_lacks_records_excuses_no_other_pair(tmp_path: Path, policy: str | None) -> None:
    pairs = [(A, b"0"), (B, b"1"), (C, b"2")]
    whole, less = rf.batch(0, *pairs), rf.batch(0, pairs[0], pairs[2], deltas=[0, 2])
    other = rf.batch(0, *pairs[:2], (C, b"other"))
    tables = audited(tmp_path, {1: {0: [whole]}, 2: {0: [less]}, 3: {0: [other]}, 4: {0: [whole]}}, policy=policy)
    found = {row["follower_id"]: row["verdict"] for row in tables["replica_verdicts"]}
    assert found == {2: "content_mismatch" if policy else "compaction_differs", 3: "content_mismatch", 4: "identical"}


@pytest.mark.parametrize(
    ("policy", "cleaned", "code"), [("delete", None, "content_mismatch"), ("delete", 4, "identical"), (None, None, "identical")]
)
def test_logs_that_were_compacted_once_are_compared_as_such(tmp_path: Path, policy: str | None, cleaned: int | None, code: str) -> None:
    """As a topic whose cleanup.policy was changed: each replica was cleaned by itself, and the cleaner's checkpoint still tells of it."""
    pairs = [(A, b"0"), (A, b"1"), (B, b"2"), (B, b"3")]
    held = {broker: {0: [rf.batch(0, *(pairs[at] for at in left), deltas=left)]} for broker, left in ((1, [1, 2, 3]), (2, [0, 1, 3]))}
    found = verdict(audited(tmp_path, held, policy=policy, cleaned=cleaned))
    assert (found["verdict"], found["compacted"]) == (code, code == "identical")


def transaction(*offsets: int, end: int, marker: bytes = rf.COMMIT) -> list[bytes]:
    """Records of keys of their own in a transaction of producer 7, and its marker."""
    return [*(rf.batch(at, (b"key %d" % at, b"%d" % at), producer_id=7) for at in offsets), rf.control_batch(end, marker, producer_id=7)]


@pytest.mark.parametrize("in_bucket", [1, 1 << 20])
@pytest.mark.parametrize("marker", [rf.COMMIT, rf.ABORT])
@pytest.mark.parametrize("lacking", [1, 2])
def test_a_marker_may_not_go_before_the_records_of_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: int, marker: bytes, in_bucket: int
) -> None:
    monkeypatch.setattr(records, "IN_BUCKET", in_bucket)
    written = transaction(0, end=1, marker=marker)
    after = {2: [rf.batch(2, (A, b"2"))]}
    replicas = {1: {0: written} | after, 2: {0: written} | after} | {lacking: {0: written[:1]} | after}
    tables = audited(tmp_path, replicas, policy="compact", cleaned=2)
    assert verdict(tables)["verdict"] == "compaction_differs", "it is older than delete.retention.ms, yet its records are there"
    (row,) = tables["differences"]
    record = row["leader" if lacking == 2 else "follower"]
    assert (row["cause"], row["broker_id"], record["offset"]) == ("marker-gone", lacking, 1)


@pytest.mark.parametrize("lacking", [1, 2])
def test_a_marker_may_go_after_its_records_whatever_its_producer_wrote_before(tmp_path: Path, lacking: int) -> None:
    earlier, later = transaction(0, end=1), transaction(2, end=3, marker=rf.ABORT)
    after = {4: [rf.batch(4, (A, b"4"))]}
    whole = {0: [*earlier, *later]} | after
    replicas = {1: whole, 2: whole} | {lacking: {0: earlier} | after}
    assert verdict(audited(tmp_path, replicas, policy="compact", cleaned=4))["verdict"] == "identical"


@pytest.mark.parametrize("has_key", [True, False])
def test_the_end_of_a_transaction_is_found_however_many_segments_lie_between(tmp_path: Path, has_key: bool) -> None:
    (record, marker), other = transaction(0, end=9), {at: [rf.batch(at, (b"other %d" % at, b""))] for at in range(1, 9)}
    last = {10: [rf.batch(10, (A, b"10"))]}
    leader = {0: [record]} | other | {9: [marker]} | last
    follower = ({0: [record]} if has_key else {}) | {1: [*(one for held in other.values() for one in held), marker]} | last
    if not has_key:  # as a cleaner leaves it: the segment is there
        follower = {0: follower.pop(1)} | follower
    tables = audited(tmp_path, {1: leader, 2: follower}, policy="compact", cleaned=10)
    assert [(row["cause"], row["leader"]["offset"]) for row in tables["differences"]] == (
        [] if has_key else [("key-missing-or-deleted", 0)]
    )
