"""Batches that come late: their transaction is complete, and they begin another one of which no coordinator knows (KAFKA-14402)."""

from __future__ import annotations

import time
from typing import Any

from kafka import TopicPartition

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.records import Record, RecordBatch
from tests.kafka_lab.wire import written

_MOST = 4
_TRANSACTIONAL = 0x10
Place = tuple[str, int]


def write_late(lab: Lab, java: JavaClient, age_ms: int) -> list[Place]:
    """Write such a batch to a few partitions; the brokers must not verify transactions, which they do from 3.6 on.

    Args:
        lab: all partitions have leaders that run.
        java: completes the transactions.
        age_ms: how old the records say that they are.

    Returns: the partitions.
    """
    places = [place for place in sorted(lab.partitions()) if not place[0].startswith("__")]
    chosen = places[:: max(1, len(places) // _MOST)][:_MOST]
    for number, place in enumerate(chosen):
        write_one_late(lab, java, f"late-{number}", place, int(time.time() * 1000) - age_ms)
    return chosen


def write_one_late(lab: Lab, java: JavaClient, name: str, place: Place, timestamp_ms: int, *, commits: bool = True) -> None:
    """Write such a batch to a partition, of a transactional id whose transaction was committed or aborted."""
    producer = java.producer(name, timeout_ms=60_000)
    producer.init()
    producer.begin()
    producer.acknowledged([producer.send(*place, b"1", b"in time")])
    if commits:
        producer.commit()
    else:
        producer.abort()
    producer.kill()
    leader = lab.brokers[lab.partitions(place[0])[place]["leader_id"]]
    producer_id = lab.ask(lambda client: client.describe_transactions([name]))[name].producer_id
    (state,) = [one for one in _active(lab, place, leader.node_id) if one.producer_id == producer_id]
    batch = RecordBatch(
        base=0,
        epoch=-1,
        attributes=_TRANSACTIONAL,
        last_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=state.producer_epoch,
        base_sequence=state.last_sequence + 1,
        records=(Record(0, 0, b"1", b"late"),),
    )
    written(leader.port, *place, name, batch.encoded())


def _active(lab: Lab, place: Place, broker: int) -> list[Any]:
    at = TopicPartition(*place)
    return list(lab.ask(lambda client: client.describe_producers([at], broker))[at].active_producers)
