"""Transactions of a random history: drawn from its seed, then performed by Kafka's own client; many stay open, some lose their markers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.kafka_lab.java_client import ClientError, JavaClient, TransactionalProducer
from tests.kafka_lab.load import Batch

Place = tuple[str, int]
STATE_TOPIC = "__transaction_state"
_IDS = 6
_TIMEOUT_MS = 900_000  # the most that a broker allows: none is to end by itself while it is looked at


class End(StrEnum):
    """What becomes of a transaction."""

    COMMIT = "committed"
    ABORT = "aborted"
    FENCE = "fenced"  # another producer of its transactional id comes, and the coordinator aborts it
    LEAVE = "left open"  # its producer is killed


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the producer `name`.

    It begins in a phase and ends in the same or a later one: 0 is while all replicas are in sync, n while the broker of step n is alone.
    Where it ends in a later one its markers reach other replicas than its records.
    """

    name: str
    batches: tuple[Batch, ...]
    begins: int
    ends: int
    end: End


def draw_transactions(seed: int, places: Mapping[Place, Sequence[int]], alone: Sequence[int]) -> tuple[Transaction, ...]:
    """The transactions of a history.

    Args:
        seed: of the history.
        places: the replicas of each partition.
        alone: the broker of each step.
    """
    chance, found = random.Random(f"transactions of {seed}"), []  # noqa: S311
    for number in range(_IDS):
        phase = 0
        while phase <= len(alone):
            available = [place for place, replicas in places.items() if phase == 0 or alone[phase - 1] in replicas]
            if chance.random() < 0.2 or not available:
                phase += 1
                continue
            batches = tuple(
                Batch(*place, chance.choice([1, 2, 5]), chance.choice([10, 100]))
                for place in chance.sample(available, min(len(available), chance.choice([1, 2, 4])))
            )
            end = chance.choice([End.COMMIT, End.COMMIT, End.COMMIT, End.ABORT, End.ABORT, End.FENCE, End.LEAVE])
            ends = min(len(alone), phase + chance.choice([0, 0, 1, 1, 2]))
            # a marker for a partition that nobody leads keeps its producer waiting for good, once it goes on
            waits = ends > 0 and any(alone[ends - 1] not in places[batch.topic, batch.partition] for batch in batches)
            end = End.ABORT if waits and end is End.FENCE else end
            found.append(Transaction(f"mover-{number}", batches, phase, ends, end))
            phase = len(alone) + 1 if waits or end is End.LEAVE else ends + (ends > phase or chance.random() < 0.5)
    return tuple(found)


@dataclass(slots=True)
class Transacting:
    """Performs transactions; `done` counts what became of them, `failed` says which could not be ended as they were to.

    `age_ms`: how old the records of every other transactional id say that they are.

    After an unclean election the coordinator may know nothing of a transaction any more, or wait for a partition that nobody leads. A
    producer that failed is not used again: the next one of its transactional id would wait as long.
    """

    java: JavaClient
    age_ms: int = 0
    done: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    given_up: set[str] = field(default_factory=set)
    producers: dict[str, TransactionalProducer] = field(default_factory=dict)

    def end(self, transactions: Iterable[Transaction], phase: int) -> None:
        """End those that began in an earlier phase and end in this one."""
        for one in transactions:
            if one.begins < one.ends == phase and one.name in self.producers:
                self._try(one, self._end)

    def begin(self, transactions: Iterable[Transaction], phase: int, seed: int) -> None:
        """Begin those of this phase, and end them if they end in it."""
        for one in transactions:
            if one.begins != phase or one.name in self.given_up:
                continue
            if self._try(one, lambda what: self._begin(what, seed)) and one.ends == phase:
                self._try(one, self._end)

    def _try(self, one: Transaction, what: Callable[[Transaction], None]) -> bool:
        try:
            what(one)
        except ClientError as error:
            self.failed.append(f"{one.name}, {one.end} in phase {one.ends}: {error}")
            self.done["failed"] += 1
            self.given_up.add(one.name)
            self._drop(one.name)
            return False
        return True

    def _begin(self, one: Transaction, seed: int) -> None:
        chance, is_old = random.Random(seed), self.age_ms and int(one.name.rpartition("-")[2]) % 2  # noqa: S311
        timestamp_ms = int(time.time() * 1000) - self.age_ms if is_old else None
        if one.name not in self.producers:
            self.producers[one.name] = self._new(one.name)
        producer = self.producers[one.name]
        producer.begin()
        sent = [
            producer.send(batch.topic, batch.partition, b"%d" % chance.randrange(50), chance.randbytes(batch.value_bytes), timestamp_ms)
            for batch in one.batches
            for _ in range(batch.records)
        ]
        producer.acknowledged(sent)

    def _end(self, one: Transaction) -> None:
        producer = self.producers[one.name]
        if one.end is End.COMMIT:
            producer.commit()
        elif one.end is End.ABORT:
            producer.abort()
        elif one.end is End.FENCE:
            self.producers[one.name] = self._new(one.name)
            producer.kill()
        else:
            self._drop(one.name)
        self.done[one.end] += 1

    def _new(self, name: str) -> TransactionalProducer:
        made = self.java.producer(name, timeout_ms=_TIMEOUT_MS)
        try:
            made.init()
        except ClientError:
            made.kill()
            raise
        return made

    def _drop(self, name: str) -> None:
        if producer := self.producers.pop(name, None):
            producer.kill()

    def leave(self) -> None:
        """End the producers as a crash does: what is open stays open."""
        for name in list(self.producers):
            self._drop(name)
