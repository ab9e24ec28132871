"""What a busy cluster is made of: producers with every setting, transactions, groups that commit, and leaders that move all the time."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.java_client import ClientError, JavaClient, TransactionalProducer
from tests.kafka_lab.load import create_topic
from tests.kafka_lab.perform import keep_transactions
from tests.kafka_lab.transactions import End

_ROLL = {"segment_ms": 1500, "file_delete_delay_ms": 1000}
# a broker that is away for longer than tombstones are kept never sees them: keys are back on it for good, and the audit rightly says so
_CLEAN = {
    **{"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01, "delete_retention_ms": 90_000},
    "message_timestamp_type": "LogAppendTime",  # by clients' clocks nothing is proven to be gone too early
}
TOPICS: dict[str, tuple[int, int, dict[str, object]]] = {
    # name: partitions, replicas, settings
    "plain": (4, 2, {"segment_ms": 4000, "retention_ms": 90_000}),  # longer than it is copied and audited, so that starts hardly move
    "expiring": (6, 3, {**_ROLL, "retention_ms": 5000, "compression_type": "lz4"}),
    "small": (3, 3, {**_ROLL, "retention_bytes": 100_000}),
    "state": (3, 3, {**_ROLL, **_CLEAN}),
    "both": (3, 3, {**_ROLL, **_CLEAN, "cleanup_policy": "compact,delete", "retention_ms": 10_000}),
    "payments": (3, 3, {**_ROLL, "retention_ms": 15_000, "compression_type": "zstd"}),
    # compacted and transactional, and on two of three brokers, so that reassignments move replicas while they are cleaned
    "balances": (4, 2, {**_ROLL, **_CLEAN, "compression_type": "lz4"}),
    "holdings": (4, 3, {**_ROLL, **_CLEAN, "delete_retention_ms": 300_000}),
}
COMPACTED = tuple(name for name, (_partitions, _replicas, settings) in TOPICS.items() if "cleanup_policy" in settings)
_TRANSACTIONAL = ("payments", "balances", "holdings")
_TRANSACTION_MS = 6000
_RETRY_S = 30
_CLIENT: dict[str, Any] = {"request_timeout_ms": 5000, "reconnect_backoff_max_ms": 500, "metadata_max_age_ms": 2000}


class Workload:
    """Clients in threads of their own, until the block ends; `errors` counts what failed and was tried again."""

    def __init__(self, lab: Lab, seed: int, *, min_insync_replicas: int = 2) -> None:
        self.lab, self.seed = lab, seed
        self.stopped = threading.Event()
        self.records = 0
        self.errors: list[str] = []
        chance = random.Random(seed)  # noqa: S311
        for name, (partitions, replicas, settings) in TOPICS.items():
            assignments = {partition: chance.sample(sorted(lab.brokers), replicas) for partition in range(partitions)}
            create_topic(
                lab,
                name,
                assignments,
                min_insync_replicas=min(min_insync_replicas, replicas - 1),
                unclean_leader_election_enable="false",
                **settings,
            )
        keep_transactions(lab, sorted(lab.brokers))
        self.java = JavaClient(lab)
        self.transactions: Counter[str] = Counter()
        work = [self._produce_all, self._produce_one, self._transact, self._consume, *[self._transact_and_crash] * 2]
        self.threads = [
            threading.Thread(target=self._again, args=(one,), name=f"{one.__name__}-{number}", daemon=True)
            for number, one in enumerate(work)
        ]

    def __enter__(self) -> Self:
        self.java.__enter__()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(_RETRY_S)
        self.java.__exit__()

    def _again(self, work: Callable[[], None]) -> None:
        while not self.stopped.is_set():
            try:
                work()
            except (KafkaError, OSError, ClientError) as error:
                self.errors.append(f"{work.__name__}: {type(error).__name__}: {error}")
                time.sleep(0.5)

    def _produce(self, topics: list[str], **settings: Any) -> None:
        chance = random.Random(self.seed)  # noqa: S311
        addresses = [broker.address for broker in self.lab.brokers.values()]
        client = KafkaProducer(bootstrap_servers=addresses, linger_ms=10, delivery_timeout_ms=15_000, **_CLIENT, **settings)
        try:
            while not self.stopped.is_set():
                topic = chance.choice(topics)
                for _ in range(chance.randrange(1, 12)):
                    place = chance.randrange(TOPICS[topic][0])
                    client.send(topic, _value(chance, topic), key=_key(chance), partition=place)
                    self.records += 1
                self.stopped.wait(0.05)
        finally:
            client.close(timeout=2)

    def _produce_all(self) -> None:
        self._produce(["plain", "expiring", "state", "both"], acks="all", enable_idempotence=True)

    def _produce_one(self) -> None:
        self._produce(["small"], acks="all", enable_idempotence=False, compression_type="gzip")

    def _transact(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311
        addresses = [broker.address for broker in self.lab.brokers.values()]
        client = KafkaProducer(bootstrap_servers=addresses, transactional_id="payments", delivery_timeout_ms=15_000, linger_ms=5, **_CLIENT)
        try:
            client.init_transactions()
            while not self.stopped.is_set():
                client.begin_transaction()
                for _ in range(chance.randrange(1, 6)):
                    client.send("payments", chance.randbytes(100), partition=chance.randrange(3))
                    self.records += 1
                if chance.random() < 0.2:
                    client.abort_transaction()
                else:
                    client.commit_transaction()
                self.stopped.wait(0.2)
        finally:
            client.close(timeout=2)

    def _transact_and_crash(self) -> None:
        """Transactions of Kafka's own client: committed, aborted, of producers that are fenced, and of some that die and are timed out."""
        mine = threading.current_thread().name
        name, chance = f"mover{mine}", random.Random(f"{self.seed} {mine}")  # noqa: S311
        producer = self._java_producer(name)
        try:
            while not self.stopped.is_set():
                producer.begin()
                sent = []
                for _ in range(chance.randrange(1, 12)):
                    topic = chance.choice(_TRANSACTIONAL)
                    value = _value(chance, topic)
                    sent.append(producer.send(topic, chance.randrange(TOPICS[topic][0]), _key(chance), value))
                    self.records += 1
                producer.acknowledged(sent)
                end = chance.choice([End.COMMIT] * 12 + [End.ABORT] * 4 + [End.FENCE, End.LEAVE])
                self.transactions[end] += 1
                if end is End.COMMIT:
                    producer.commit()
                elif end is End.ABORT:
                    producer.abort()
                else:
                    producer.kill()
                    # the same id comes again and has it aborted, or another one comes and the coordinator is to wait for the time-out
                    name = name if end is End.FENCE else f"mover-{chance.randrange(1 << 30)}"
                    producer = self._java_producer(name)
                self.stopped.wait(0.1)
        finally:
            producer.kill()

    def _java_producer(self, name: str) -> TransactionalProducer:
        made = self.java.producer(name, timeout_ms=_TRANSACTION_MS)
        try:
            made.init()
        except ClientError:
            made.kill()
            raise
        return made

    def _consume(self) -> None:
        addresses = [broker.address for broker in self.lab.brokers.values()]
        client = KafkaConsumer(
            bootstrap_servers=addresses, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False, **_CLIENT
        )
        try:
            client.assign([TopicPartition(topic, partition) for topic in ("plain", "expiring", "payments") for partition in range(3)])
            while not self.stopped.is_set():
                if client.poll(timeout_ms=300):
                    client.commit()
        finally:
            client.close(autocommit=False, timeout_ms=2000)


def _key(chance: random.Random) -> bytes:
    """One of a few that are written all the time, or one that perhaps is never written again."""
    return b"%d" % chance.randrange(30 if chance.random() < 0.95 else 5000)


def _value(chance: random.Random, topic: str) -> bytes | None:
    value = chance.randbytes(chance.choice([20, 200, 900]))
    return None if topic in COMPACTED and chance.random() < 0.1 else value


class Mover:
    """Moves leaders and replicas of a laboratory about, one thing at a time. Call it from the thread that started the brokers."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.chance = lab, random.Random(seed)  # noqa: S311
        self.done: dict[str, int] = {}
        self.next_restart: int | None = None  # the broker that another thread wants to be the next

    def move(self) -> None:
        """One thing, drawn at random."""
        what = self.chance.choice([self._prefer, self._prefer, self._reassign, self._restart])
        what = what if self.next_restart is None else self._restart
        self.done[what.__name__[1:]] = self.done.get(what.__name__[1:], 0) + 1
        what()

    def _prefer(self) -> None:
        self.lab.ask(lambda client: client.elect_leaders(0, raise_errors=False))

    def _reassign(self) -> None:
        """Another order of replicas makes another preferred leader; where not every broker holds one, the replica moves, too."""
        topic = self.chance.choice(list(TOPICS))
        replicas = TOPICS[topic][1]
        wanted = {
            TopicPartition(topic, partition): self.chance.sample(sorted(self.lab.brokers), replicas)
            for partition in range(TOPICS[topic][0])
        }
        self.lab.ask(lambda client: client.alter_partition_reassignments(wanted))
        self._prefer()

    def _restart(self) -> None:
        """As a rolling restart does: in order, and not before everything is in sync."""
        try:
            self.lab.wait_in_sync(*TOPICS, timeout_s=20)
        except LabError:
            return
        wanted, self.next_restart = self.next_restart, None
        broker = self.lab.brokers[wanted or self.chance.choice(sorted(self.lab.brokers))]
        broker.terminate()
        broker.start()
        self.lab.wait_registered(*self.lab.brokers)
