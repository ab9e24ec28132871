"""What coordinators say of transactions reaches the partitions that it is about, in both engines."""

from __future__ import annotations

import struct
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit.config import Settings
from replica_audit.engine import spark as engine
from replica_audit.formats.values import transaction_state
from replica_audit.model import Producers, ProducerSpan, ScannedSegment, Segment, SegmentFile, TransactionState
from replica_audit.partition.known.cluster_facts import cluster_facts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.stages.partitions import known_partition
from replica_audit.stages.transactions import TransactionsOfPartitions
from replica_audit.storage.inputs.sources import discover
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats import transaction_files as tf
from tests.support import in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATES = "__transaction_state-0"
RECORDS = (
    rf.batch(0, (tf.key("both"), tf.value(tf.ONGOING, {"orders": [0, 1], "elsewhere": [9]}, producer_id=5))),
    rf.batch(1, (tf.key("one"), tf.value(tf.PREPARE_ABORT, {"orders": [1, 1]}, producer_id=6, timeout=900_000))),
    rf.batch(2, (tf.key("done"), tf.value(tf.COMPLETE_COMMIT, {}))),
    rf.batch(3, (tf.key("gone"), tf.value(tf.ONGOING, {"orders": [0]})), (tf.key("gone"), None)),
)
# `lost` is complete by its coordinator, and open in the log; producer 8 has ended its transaction there; `changed` was producer 10 before
OPEN = (
    rf.batch(
        5,
        (tf.key("ended"), tf.value(tf.COMPLETE_COMMIT, {}, producer_id=8)),
        (tf.key("lost"), tf.value(tf.COMPLETE_ABORT, {}, producer_id=9)),
        (tf.key("changed"), tf.value(tf.COMPLETE_COMMIT, {}, version=1, producer_id=12, tags={0: struct.pack(">q", 10)})),
    ),
)
BATCHES = (
    rf.batch(0, (b"k", b"v"), producer_id=8),
    rf.batch(1, (b"k", b"v"), producer_id=9),
    rf.control_batch(2, rf.COMMIT, producer_id=8),
    rf.batch(3, (b"k", b"v"), producer_id=10),
)
EXPECTED = {("orders", 0): ["both"], ("orders", 1): ["both", "changed", "lost", "one"]}


def cluster(tmp_path: Path, *, records: tuple[bytes, ...] = (*RECORDS, *OPEN)) -> Path:
    """Two brokers; the leader of the coordinator's partition has all records, its follower the first."""
    for broker, held in ((1, records), (2, records[:1])):
        data = kf.log_dir(tmp_path / "cluster" / f"broker-{broker}" / "data", "orders-0", "orders-1", broker_id=broker)
        kf.replica(data, STATES, batches=held)
        kf.replica(data, "orders-1", batches=BATCHES)
    return tmp_path / "cluster"


def sources(root: Path) -> list[tuple[str, int | None, str, str]]:
    return list(discover([str(root)]).roots[0].sources())


def told(row: dict[str, Any]) -> list[str]:
    return [state.transactional_id for state in known_partition(row).transactions]


@pytest.mark.spark
@pytest.mark.parametrize("topics", ["", "orders"])
def test_in_spark(spark: SparkSession, tmp_path: Path, topics: str) -> None:
    listed = sources(cluster(tmp_path))
    facts = {listed[0][0]: cluster_facts(None, (), Settings())}
    inventory = engine.inventory(engine.source_rows(spark, listed), topics)
    gathered = engine.gather(inventory, engine.segments(inventory, 2, 1000, has_collections=False))
    found = engine.with_transactions(engine.with_commits(gathered, None), engine.transactions(gathered, facts))
    rows = {(row["topic"], row["partition"]): told(row.asDict(recursive=True)) for row in found.collect()}
    assert {key: names for key, names in rows.items() if names} == EXPECTED
    assert ("__transaction_state" in {topic for topic, _partition in rows}) == (not topics)
    (state, *_others) = next(known_partition(r.asDict(recursive=True)).transactions for r in found.where("partition = 1").collect())
    assert (state.state, state.producer_id, state.partitions) == ("Ongoing", 5, (("orders", 0), ("orders", 1), ("elsewhere", 9)))


@pytest.mark.spark
def test_partitions_without_any_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    inventory = engine.inventory(engine.source_rows(spark, sources(cluster(tmp_path))))
    gathered = engine.gather(inventory, engine.segments(inventory, 2, 1000, has_collections=False))
    assert engine.with_transactions(gathered, None) is gathered


def test_of_partitions() -> None:
    def state(name: str, producer_id: int, *topics: str, previous: int = -1, following: int = -1) -> TransactionState:
        partitions = [{"topic": topic, "partition": 0} for topic in topics]
        ids = {"producer_id": producer_id, "previous_producer_id": previous, "next_producer_id": following}
        others = dict.fromkeys((one.name for one in fields(TransactionState)), 0)
        return transaction_state({**others, "transactional_id": name, "partitions": partitions} | ids)

    changed = state("d", 6, previous=5, following=7)
    found = TransactionsOfPartitions([state("a", 1, "t", "u", "t"), state("b", 2, "u"), state("c", 3), changed])

    def told_of(topic: str, *opened: int) -> list[str]:
        nothing = dict.fromkeys(ProducerSpan._fields, 0)
        spans = [ProducerSpan(**{**nothing, "producer_id": producer, "open_first_offset": 5}) for producer in opened]
        spans.append(ProducerSpan(**{**nothing, "producer_id": 2, "open_first_offset": -1}))
        file = SegmentFile(path="s", source="raw", base_offset=0, size_bytes=0)
        segments = [Segment(base_offset=0, runs=(), producers=one) for one in (Producers(tuple(spans), (), 0), None)]
        scans = [ScannedSegment(log_dir="d", directory="t-0", file=file, segment=one, failed=False, problems=()) for one in segments]
        known = KnownPartition(cluster_id="c", topic=topic, partition=0, segments=tuple((1, scan) for scan in scans))
        return [one.transactional_id for one in found.of(known)]

    assert [told_of("v", producer) for producer in (5, 6, 7)] == [["d"]] * 3
    assert [told_of("t"), told_of("u"), told_of("v"), told_of("v", 3), told_of("t", 1, 3), told_of("v", 4)] == [
        *(["a"], ["a", "b"], [], ["c"], ["a", "c"], []),
    ]


def test_what_cannot_be_read_is_reported_and_the_audit_goes_on(tmp_path: Path) -> None:
    broken = rf.batch(8, (tf.key("x"), b"\0\x07"))
    found = in_process.audit(cluster(tmp_path, records=(*RECORDS, *OPEN, broken)))
    (problem,) = [row for row in found["problems"] if row["kind"] == "transaction-state"]
    assert (problem["code"], problem["broker_id"], problem["byte_offset"]) == ("malformed-record", 1, sum(map(len, (*RECORDS, *OPEN))))
    assert "version 7 of TransactionLogValue is not known" in problem["detail"]
    assert len(found["replica_logs"]) == 6


def test_a_sound_topic_has_no_problems(tmp_path: Path) -> None:
    assert in_process.audit(cluster(tmp_path))["problems"] == []
