"""What coordinators say of transactions reaches the partitions that it is about, in both engines."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit.audit import ClusterInput, judge_clusters
from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.engine.mapped import Facts
from replica_audit.engine.spark import SparkEngine, _partitions
from replica_audit.engine.tally import Order, Tally
from replica_audit.model import TransactionState
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.rows import AuditedPartition
from replica_audit.stages.items import Item, OpenProducers
from replica_audit.stages.judged import judged
from replica_audit.stages.transactions import to_partitions, writers
from replica_audit.storage.inputs.sources import discover
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats import transaction_files as tf
from tests.support import in_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def clusters(root: Path) -> list[ClusterInput]:
    return [ClusterInput.of(one, None) for one in discover([str(root)]).roots]


@contextmanager
def gathered() -> Iterator[dict[tuple[str, int], KnownPartition]]:
    """The partitions that an engine of this process judges meanwhile."""
    known: dict[tuple[str, int], KnownPartition] = {}

    def watched(partitions: Sequence[tuple[KnownPartition, ClusterFacts]]) -> Iterator[AuditedPartition]:
        known.update({(one.topic, one.partition): one for one, _cluster in partitions})
        return judged(partitions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "judged", watched)
        yield known


class _Watching(SparkEngine):
    """An engine that keeps the partitions which it judges."""

    def judge(self, groups: DataFrame, facts: Facts, order: Order, most: int) -> Tally:
        self.partitions = list(_partitions(iter(groups.toArrow().to_batches())))
        return Tally()


def told(partitions: Iterable[KnownPartition]) -> dict[tuple[str, int], list[str]]:
    return {(one.topic, one.partition): [state.transactional_id for state in one.transactions] for one in partitions}


@pytest.mark.spark
@pytest.mark.parametrize("topics", ["", "orders"])
def test_in_spark(spark: SparkSession, tmp_path: Path, topics: str) -> None:
    engine = _Watching(spark, 2)
    judge_clusters(engine, clusters(cluster(tmp_path)), Settings(topics=topics))
    engine.release()
    found = told(engine.partitions)
    assert {key: names for key, names in found.items() if names} == EXPECTED
    assert ("__transaction_state" in {topic for topic, _partition in found}) == (not topics)
    state = next(one.transactions[0] for one in engine.partitions if (one.topic, one.partition) == ("orders", 1))
    assert (state.state, state.producer_id, state.partitions) == ("Ongoing", 5, (("orders", 0), ("orders", 1), ("elsewhere", 9)))


@pytest.mark.parametrize("topics", ["", "orders"])
def test_in_this_process(tmp_path: Path, topics: str) -> None:
    with gathered() as known:
        judge_clusters(local.LocalEngine(), clusters(cluster(tmp_path)), Settings(topics=topics))
    found = told(known.values())
    assert {key: names for key, names in found.items() if names} == EXPECTED
    assert ("__transaction_state" in {topic for topic, _partition in found}) == (not topics)


def test_to_which_partitions_a_state_goes() -> None:
    def state(name: str, producer_id: int, *topics: str, previous: int = -1, following: int = -1) -> Item:
        others: dict[str, Any] = dict.fromkeys((one.name for one in fields(TransactionState)), 0)
        ids = {"producer_id": producer_id, "previous_producer_id": previous, "next_producer_id": following}
        value = TransactionState(**{**others, "transactional_id": name, "partitions": tuple((topic, 0) for topic in topics), **ids})
        return Item("c", None, None, None, value)

    def written(topic: str, *producers: int, cluster_id: str = "c") -> Item:
        return Item(cluster_id, topic, 0, 1, OpenProducers(producers))

    opened = writers([written("v", 3, 5), written("t", 3), written("w", 7), written("x", 3, cluster_id="other")])
    assert opened == {("c", 3): {("v", 0), ("t", 0)}, ("c", 5): {("v", 0)}, ("c", 7): {("w", 0)}, ("other", 3): {("x", 0)}}

    def topics(of: Item) -> list[str | None]:
        return [item.topic for item in to_partitions(of, opened)]

    assert topics(state("a", 1, "t", "u", "t")) == ["t", "u"], "named twice, told once"
    assert topics(state("b", 3, "u")) == ["t", "u", "v"]
    assert topics(state("c", 6, previous=5, following=7)) == ["v", "w"]
    assert topics(state("d", 9)) == []


def test_what_cannot_be_read_is_reported_and_the_audit_goes_on(tmp_path: Path) -> None:
    broken = rf.batch(8, (tf.key("x"), b"\0\x07"))
    found = in_process.audit(cluster(tmp_path, records=(*RECORDS, *OPEN, broken)))
    (problem,) = [row for row in found["problems"] if row["kind"] == "transaction-state"]
    assert (problem["code"], problem["broker_id"], problem["byte_offset"]) == ("malformed-record", 1, sum(map(len, (*RECORDS, *OPEN))))
    assert "version 7 of TransactionLogValue is not known" in problem["detail"]
    assert len(found["replica_logs"]) == 6


def test_a_sound_topic_has_no_problems(tmp_path: Path) -> None:
    assert in_process.audit(cluster(tmp_path))["problems"] == []
