"""Random histories that leave replicas diverged: what is done is drawn from a seed beforehand, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.kafka_lab.load import CODECS, Batch
from tests.kafka_lab.transactions import Transaction, draw_transactions

BROKERS = (1, 2, 3)
_TRIMMED = ("audit", "billing")
# rolled and cleaned while the history goes on; from topics like these no records can be deleted, so it is one of the others
_COMPACTED: dict[str, object] = {
    "cleanup_policy": "compact",
    "segment_ms": 700,
    "min_cleanable_dirty_ratio": 0.001,
    "delete_retention_ms": 1000,
}


class Stop(StrEnum):
    """How a broker goes away."""

    KILL = "kill -9"
    TERMINATE = "clean shutdown"
    FREEZE = "SIGSTOP"


@dataclass(frozen=True, slots=True)
class Topic:
    """`assignments` by partition; the broker that leads at the end is in each.

    `created_on`: where replicas are at first, and are written to, before they are moved. `is_compacted`: it is being cleaned.
    """

    name: str
    codec: str
    assignments: dict[int, list[int]]
    created_on: dict[int, list[int]] = field(default_factory=dict)
    is_compacted: bool = False

    @property
    def settings(self) -> dict[str, object]:
        """What it is created with."""
        return {"compression_type": self.codec, "unclean_leader_election_enable": "true", **(_COMPACTED if self.is_compacted else {})}


@dataclass(frozen=True, slots=True)
class Step:
    """The brokers that run are stopped, one runs alone, and is written to.

    `joined_by`: a broker that comes and gets in sync while the one runs, is written to as well, and then stopped. `trims`: by topic and
    partition the share of the log, of 100, below which records are then deleted.
    """

    alone: int
    stop: Stop
    batches: tuple[Batch, ...]
    joined_by: int | None = None
    batches_while_joined: tuple[Batch, ...] = ()
    trims: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All that is done; the broker of the last step leads every partition of these topics.

    `keeper`: a broker that runs all the time and has none of them, but the state of all transactions; None: that shares their fate.
    `additions`: topic, partition and replicas; the last is added at the end, when nobody can copy to it yet.
    """

    seed: int
    topics: tuple[Topic, ...]
    first: tuple[Batch, ...]
    steps: tuple[Step, ...]
    transactions: tuple[Transaction, ...] = ()
    keeper: int | None = None
    additions: tuple[tuple[str, int, tuple[int, ...]], ...] = ()

    @property
    def partitions(self) -> int:
        """How many."""
        return sum(len(topic.assignments) for topic in self.topics)

    def __str__(self) -> str:
        steps = (f"{step.stop}, {step.alone} alone" + (f", joined by {step.joined_by}" if step.joined_by else "") for step in self.steps)
        kept = f"; broker {self.keeper} keeps the state of transactions" if self.keeper else ""
        return f"seed {self.seed}: {'; '.join(steps)}{kept}"


def draw(seed: int, partitions: int) -> History:
    """The history of a seed.

    Args:
        seed: any.
        partitions: how many, shared out among four topics.
    """
    chance, beside = random.Random(seed), random.Random(f"beside {seed}")  # noqa: S311
    keeper = BROKERS[-1] if beside.random() < 0.5 else None
    brokers = tuple(broker for broker in BROKERS if broker != keeper)
    alone = [chance.choice(brokers)]
    for _ in range(chance.randrange(1, 5)):
        # two that take turns make tables that interleave, which takes several rounds
        others = [broker for broker in brokers if broker != alone[-1]]
        alone.append(alone[-2] if len(alone) > 1 and chance.random() < 0.6 else chance.choice(others))
    topics = tuple(_topic(chance, name, count, alone[-1], brokers) for name, count in _shares(partitions) if count)
    replicas = {(topic.name, partition): found for topic in topics for partition, found in topic.assignments.items()}
    places = [(*place, set(found)) for place, found in replicas.items()]
    steps = tuple(_step(chance, broker, places, brokers, is_last=number == len(alone) - 1) for number, broker in enumerate(alone))
    return History(
        seed,
        _compacted_and_moved(beside, topics),
        _batches(chance, places, set(brokers)),
        steps,
        draw_transactions(seed, replicas, alone),
        keeper,
        tuple((*place, (*found, _other(found))) for place, found in replicas.items() if len(found) == 2 and beside.random() < 0.1)
        if keeper is None
        else (),
    )


def _other(replicas: Sequence[int]) -> int:
    return next(broker for broker in BROKERS if broker not in replicas)


def _compacted_and_moved(chance: random.Random, topics: tuple[Topic, ...]) -> tuple[Topic, ...]:
    compacted = chance.choice(["orders", "ledger"])
    return tuple(
        replace(
            topic,
            is_compacted=topic.name == compacted,
            created_on={
                partition: chance.sample(BROKERS, len(found)) if chance.random() < 0.25 else found
                for partition, found in topic.assignments.items()
            },
        )
        for topic in topics
    )


def _shares(partitions: int) -> list[tuple[str, int]]:
    names = ("orders", "ledger", "audit", "billing")
    return [(name, partitions // 4 + (number < partitions % 4)) for number, name in enumerate(names)]


def _topic(chance: random.Random, name: str, partitions: int, leads_last: int, brokers: Sequence[int]) -> Topic:
    factor, assignments = (len(brokers) if name in ("orders", "audit") else 2), {}
    for partition in range(partitions):
        others = chance.sample([broker for broker in brokers if broker != leads_last], factor - 1)
        assignments[partition] = chance.sample([leads_last, *others], factor)
    return Topic(name, chance.choice(CODECS), assignments)


def _step(chance: random.Random, broker: int, places: list[tuple[str, int, set[int]]], brokers: Sequence[int], *, is_last: bool) -> Step:
    joins = None if is_last or chance.random() < 0.85 else chance.choice([one for one in brokers if one != broker])
    return Step(
        alone=broker,
        stop=chance.choice([Stop.KILL, Stop.KILL, Stop.FREEZE, Stop.FREEZE, Stop.TERMINATE]),
        batches=_batches(chance, places, {broker}),
        joined_by=joins,
        batches_while_joined=_batches(chance, places, {broker}) if joins else (),
        trims=tuple(
            (topic, partition, chance.randrange(1, 101))
            for topic, partition, replicas in places
            if topic in _TRIMMED and broker in replicas and chance.random() < 0.3
        ),
    )


def _batches(chance: random.Random, places: list[tuple[str, int, set[int]]], leaders: set[int]) -> tuple[Batch, ...]:
    """For each partition that one of the brokers can lead up to four batches; often none."""
    return tuple(
        Batch(topic, partition, chance.choice([1, 1, 2, 3, 5, 10, 25]), chance.choice([10, 100, 1000]))
        for topic, partition, replicas in places
        if replicas & leaders
        for _ in range(chance.choice([0, 1, 1, 2, 3, 4]))
    )
