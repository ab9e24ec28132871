"""A cluster's files as something that is damaged, and what a mutation is."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.mutation.broker_view import METADATA, framed, partition_of, replicas

EPOCHS, TOPIC_ID, META = "leader-epoch-checkpoint", "partition.metadata", "meta.properties"
EXTREME = 2**62


@dataclass(frozen=True, slots=True)
class Mutation:
    """What was done: `changes` are new contents by path, None for a file that is gone. `facts` are what exceptions look at."""

    kind: str
    partition: str | None
    changes: dict[str, bytes | None]
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Tree:
    """The files of a cluster, by path below its root, and its replicas by partition."""

    files: dict[str, bytes]
    homes: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the replicas."""
        for folder in sorted(replicas(self.files)):
            if folder.rpartition("/")[2] == partition_of(folder):
                self.homes.setdefault(partition_of(folder), []).append(folder)

    def segments(self, home: str) -> list[str]:
        """The paths of a replica's segments, in order."""
        return sorted(path for path in self.files if path.startswith(f"{home}/") and re.search(r"/\d{20}\.log$", path))

    def document(self) -> dict[str, Any] | None:
        """The metadata beside the brokers."""
        content = self.files.get(METADATA)
        return None if content is None else json.loads(content)

    def metadata_of(self, partition: str) -> dict[str, Any]:
        """What the document says of a partition."""
        topic, _dash, number = partition.rpartition("-")
        for one in (self.document() or {"topics": []})["topics"]:
            if one["topic"] == topic:
                return next(
                    (part | {"configs": one.get("configs", {})} for part in one["partitions"] if part["partition"] == int(number)), {}
                )
        return {}

    @property
    def states(self) -> set[str]:
        """The states that the document gives brokers."""
        return {one.get("state") for one in (self.document() or {"brokers": []})["brokers"]}

    @property
    def is_running(self) -> bool:
        """Whether brokers ran, and were not frozen, while they were copied."""
        return "up" in self.states

    @property
    def is_alive(self) -> bool:
        """Whether brokers ran or were frozen."""
        return bool(self.states & {"up", "paused"})

    @property
    def is_killed(self) -> bool:
        """Whether brokers are down and recover their logs when they start."""
        return "down" in self.states and not any(path.endswith(".kafka_cleanshutdown") for path in self.files)

    def is_compacted(self, partition: str) -> bool:
        """Whether the document says that the topic is compacted."""
        return "compact" in self.metadata_of(partition).get("configs", {}).get("cleanup.policy", "delete")

    def end(self, home: str) -> int:
        """The end of a replica's log."""
        ends = [one.last + 1 for path in self.segments(home) for one in framed(self.files[path])]
        return max(ends, default=max((int(path[-24:-4]) for path in self.segments(home)), default=0))

    def log_start(self, partition: str) -> int:
        """The lowest log start that a checkpoint gives a replica; 0 if none does."""
        topic, _dash, number = partition.rpartition("-")
        found = []
        for home in self.homes.get(partition, []):
            lines = self.files.get(f"{home.rpartition('/')[0]}/log-start-offset-checkpoint", b"").decode().splitlines()
            found.append(next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} {number} ")), 0))
        return min(found, default=0)

    def leader_home(self, partition: str) -> str | None:
        """The replica of the leader that the document names."""
        leader = self.metadata_of(partition).get("leader")
        return next((home for home in self.homes[partition] if home.startswith(f"broker-{leader}/")), None)


class Judged(Protocol):
    """A cluster of which a mutation is judged: its files, and the shape in which it is audited."""

    @property
    def tree(self) -> Tree:
        """The files."""

    @property
    def shape(self) -> str:
        """The shape."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A cluster that is damaged already, and not audited."""

    tree: Tree
    shape: str


Mutator = Callable[[random.Random, Tree, str], Mutation | None]


def scope(rng: random.Random, tree: Tree, partition: str) -> tuple[str, list[str]]:
    """Whose replicas: the leader's, a follower's, or all."""
    homes = tree.homes[partition]
    leader = tree.leader_home(partition)
    name = rng.choice(("leader", "follower", "follower", "all"))
    if name == "all" or leader is None:
        return ("all", homes) if name == "all" else ("a replica", [rng.choice(homes)])
    others = [home for home in homes if home != leader]
    if name == "leader" or not others:
        return "leader", [leader]
    return "follower", [rng.choice(others)]


def place_of(rng: random.Random, count: int) -> tuple[str, int]:
    """One of so many things: whether it is the first, the last, or in the middle, and its number."""
    number = rng.choice((0, count - 1, rng.randrange(count)))
    return "only" if count == 1 else "first" if number == 0 else "last" if number == count - 1 else "middle", number
