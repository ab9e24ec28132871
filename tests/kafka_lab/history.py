"""Random histories that leave replicas diverged: what is done is drawn from a seed beforehand, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.kafka_lab.load import CODECS, Batch

BROKERS = (1, 2, 3)
_TRIMMED = ("audit", "billing")


class Stop(StrEnum):
    """How a broker goes away."""

    KILL = "kill -9"
    TERMINATE = "clean shutdown"
    FREEZE = "SIGSTOP"


@dataclass(frozen=True, slots=True)
class Topic:
    """`assignments` by partition; the broker that leads at the end is in each."""

    name: str
    codec: str
    assignments: dict[int, list[int]]


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
    """All that is done; the broker of the last step leads every partition."""

    seed: int
    topics: tuple[Topic, ...]
    first: tuple[Batch, ...]
    steps: tuple[Step, ...]

    @property
    def partitions(self) -> int:
        """How many."""
        return sum(len(topic.assignments) for topic in self.topics)

    def __str__(self) -> str:
        steps = (f"{step.stop}, {step.alone} alone" + (f", joined by {step.joined_by}" if step.joined_by else "") for step in self.steps)
        return f"seed {self.seed}: {'; '.join(steps)}"


def draw(seed: int, partitions: int) -> History:
    """The history of a seed.

    Args:
        seed: any.
        partitions: how many, shared out among four topics.
    """
    chance = random.Random(seed)  # noqa: S311
    alone = [chance.choice(BROKERS)]
    for _ in range(chance.randrange(1, 5)):
        # two that take turns make tables that interleave, which takes several rounds
        others = [broker for broker in BROKERS if broker != alone[-1]]
        alone.append(alone[-2] if len(alone) > 1 and chance.random() < 0.6 else chance.choice(others))
    topics = tuple(_topic(chance, name, count, alone[-1]) for name, count in _shares(partitions) if count)
    places = [(topic.name, partition, set(replicas)) for topic in topics for partition, replicas in topic.assignments.items()]
    steps = tuple(_step(chance, broker, places, is_last=number == len(alone) - 1) for number, broker in enumerate(alone))
    return History(seed, topics, _batches(chance, places, set(BROKERS)), steps)


def _shares(partitions: int) -> list[tuple[str, int]]:
    names = ("orders", "ledger", "audit", "billing")
    return [(name, partitions // 4 + (number < partitions % 4)) for number, name in enumerate(names)]


def _topic(chance: random.Random, name: str, partitions: int, leads_last: int) -> Topic:
    factor, assignments = (3 if name in ("orders", "audit") else 2), {}
    for partition in range(partitions):
        others = chance.sample([broker for broker in BROKERS if broker != leads_last], factor - 1)
        assignments[partition] = chance.sample([leads_last, *others], factor)
    return Topic(name, chance.choice(CODECS), assignments)


def _step(chance: random.Random, broker: int, places: list[tuple[str, int, set[int]]], *, is_last: bool) -> Step:
    joins = None if is_last or chance.random() < 0.85 else chance.choice([one for one in BROKERS if one != broker])
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
