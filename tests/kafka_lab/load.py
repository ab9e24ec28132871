"""What clients do to the laboratory's brokers."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kafka import KafkaProducer, TopicPartition

from tests.kafka_lab.cluster import Lab, wait_until

CODECS = ("producer", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are sent at once; `value_bytes` is the size of each."""

    topic: str
    partition: int
    records: int
    value_bytes: int


def create_topic(lab: Lab, topic: str, assignments: Mapping[int, list[int]], **configs: object) -> None:
    """Create a topic with chosen replicas; dots in the names of `configs` are written as underscores."""
    wanted = {"assignments": dict(assignments), "configs": {key.replace("_", "."): str(value) for key, value in configs.items()}}
    lab.ask(lambda client: client.create_topics({topic: wanted}))
    lab.wait_for("every partition has a leader", [topic], lambda one: one["leader_id"] >= 0)


def move(lab: Lab, assignments: Mapping[tuple[str, int], list[int]]) -> None:
    """Have replicas where they are wanted, moved by reassignments if they are not, and in sync."""
    topics = {topic for topic, _partition in assignments}

    def differing() -> dict[TopicPartition, list[int]]:
        found = lab.partitions(*topics)
        return {TopicPartition(*place): wanted for place, wanted in assignments.items() if found[place]["replica_nodes"] != wanted}

    if moved := differing():
        lab.ask(lambda client: client.alter_partition_reassignments(moved))
        wait_until("replicas are where they were moved to", lambda: not differing())
    lab.wait_in_sync(*topics)


def delete_topics(lab: Lab, *topics: str) -> None:
    """Delete topics, and wait until no broker has them: whoever uses the laboratory next finds nothing of them."""
    lab.ask(lambda client: client.delete_topics(list(topics)))

    def gone() -> bool:
        directories = [path.name.rpartition("-")[0] for broker in lab.brokers.values() for path in broker.log_dirs[0].iterdir()]
        return not set(topics) & set(directories)

    wait_until("the topics are gone", gone)


@contextmanager
def producer(lab: Lab, **settings: object) -> Iterator[KafkaProducer]:
    """A producer that makes one batch of what is sent before a flush."""
    made = KafkaProducer(
        bootstrap_servers=lab.bootstrap,
        linger_ms=20,
        batch_size=900_000,
        request_timeout_ms=10_000,
        delivery_timeout_ms=300_000,
        **settings,
    )
    try:
        yield made
    finally:
        made.close(timeout=5)


def send(
    lab: Lab, batches: Iterable[Batch], *, acks: int | str, codec: str | None = None, seed: int = 0, tombstones: Container[str] = ()
) -> int:
    """Send batches in order, each acknowledged before the next of its partition; to the topics of `tombstones` some, too. Returns how many.

    Raises:
        KafkaError: a batch was not acknowledged.
    """
    chance, sent = random.Random(seed), 0  # noqa: S311
    with producer(lab, acks=acks, enable_idempotence=False, compression_type=codec, retries=100_000) as client:
        for round_of in _rounds(batches):
            futures = [
                client.send(batch.topic, value, key=b"%d" % key, partition=batch.partition)
                for batch in round_of
                for value, key in _records(batch, chance, has_tombstones=batch.topic in tombstones)
            ]
            client.flush(timeout=300)
            for future in futures:
                future.get(timeout=60)
            sent += len(futures)
    return sent


def _records(batch: Batch, chance: random.Random, *, has_tombstones: bool) -> Iterator[tuple[bytes | None, int]]:
    for _ in range(batch.records):
        value, key = chance.randbytes(batch.value_bytes), chance.randrange(50)
        yield (None if has_tombstones and value[0] % 5 == 0 else value), key


def _rounds(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Groups in which no partition comes twice, as what is sent to one partition before a flush becomes one batch."""
    waiting = list(batches)
    while waiting:
        seen: dict[tuple[str, int], Batch] = {}
        rest = []
        for batch in waiting:
            if seen.setdefault((batch.topic, batch.partition), batch) is not batch:
                rest.append(batch)
        yield list(seen.values())
        waiting = rest


def delete_records(lab: Lab, before: Mapping[tuple[str, int], int]) -> None:
    """Ask the leaders to delete what lies below an offset."""
    lab.ask(lambda client: client.delete_records({TopicPartition(*key): offset for key, offset in before.items()}))
