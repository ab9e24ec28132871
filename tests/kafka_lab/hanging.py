"""What the living brokers say of open transactions: `kafka-transactions.sh find-hanging`, and describe-producers of every replica."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.snapshot import copy_all

LONGEST_MINUTES = 15  # the tool's default
_TRIES = 20


class Open(NamedTuple):
    """A transaction that a replica holds open."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int


class OpenOn(NamedTuple):
    """The same, with what describe-producers says of it on one broker."""

    open: Open
    broker_id: int
    producer_epoch: int
    last_timestamp_ms: int


class Led(NamedTuple):
    """A partition's leader, if it runs, and what it gives consumers: log start, last stable offset, and without read_committed the end."""

    topic: str
    partition: int
    leader_id: int
    start_offset: int
    last_stable_offset: int
    end_offset: int


class Known(NamedTuple):
    """What a coordinator says of a transactional id; `partitions` are those that it is still to write a marker to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Living:
    """The answers of all brokers that run, of one moment: nothing was written between the first and the last.

    `hanging`: as find-hanging prints it of each broker, whatever the age; a broker answers for its followers, too. `hanging_long`: as it
    does by itself, of transactions that were last written to longer than 15 minutes ago.
    """

    hanging: frozenset[Open]
    hanging_long: frozenset[Open]
    open: frozenset[OpenOn]
    coordinators: frozenset[Known]
    led: frozenset[Led]

    def counts(self) -> Counter[str]:
        """How many are open on the leaders that run or on followers, and how many of them hang."""
        return Counter({"open": len({one.open for one in self.open}), "hanging": len(self.hanging)})

    def write(self, path: Path) -> None:
        """As JSON, to lie beside copies of the files."""
        path.write_text(json.dumps({name: sorted(values) for name, values in asdict(self).items()}, indent=1))


def copy_and_ask(lab: Lab, java: JavaClient, root: Path) -> Living:
    """Make a copy of everything at one instant, and `ROOT.transactions.json` beside it: what the brokers say in the same state."""

    def copy() -> None:
        shutil.rmtree(root, ignore_errors=True)
        copy_all(lab, root)

    said = living(lab, java, copy)
    said.write(root.with_name(f"{root.name}.transactions.json"))
    return said


def living(lab: Lab, java: JavaClient, copy: Callable[[], None]) -> Living:
    """Ask the brokers that run, and take a copy at the same state: what describe-producers says is the same before and after all of it.

    Raises:
        LabError: they went on writing.
    """
    for _ in range(_TRIES):
        before, known = frozenset(open_on(lab)), frozenset(_coordinators(lab))
        copy()
        hanging, long = (frozenset(_hanging(lab, java, minutes)) for minutes in (0, LONGEST_MINUTES))
        if before == frozenset(open_on(lab)) and known == frozenset(_coordinators(lab)):
            return Living(hanging, long, before, known, frozenset(led(lab)))
    raise LabError("transactions begin or end all the time")


def open_on(lab: Lab) -> Iterator[OpenOn]:
    """What every replica of a broker that runs holds open."""
    known = lab.partitions()
    for broker in lab.up:
        places = [TopicPartition(*place) for place, one in known.items() if broker.node_id in one["replica_nodes"]]
        described = lab.ask(partial(_described, places=places, broker=broker.node_id))
        for place, found in described.items():
            for one in found.active_producers:
                if (start := one.current_transaction_start_offset) is not None and start >= 0:
                    at = Open(place.topic, place.partition, one.producer_id, start)
                    yield OpenOn(at, broker.node_id, one.producer_epoch, one.last_timestamp)


def led(lab: Lab) -> Iterator[Led]:
    """The partitions that a broker that runs leads, and where consumers of either kind stand."""
    up = {broker.node_id for broker in lab.up}
    leaders = {TopicPartition(*place): one["leader_id"] for place, one in lab.partitions().items() if one["leader_id"] in up}
    wanted = dict.fromkeys(leaders, OffsetSpec.LATEST)
    starts = lab.ask(lambda client: client.list_partition_offsets(dict.fromkeys(leaders, OffsetSpec.EARLIEST)))
    ends = lab.ask(lambda client: client.list_partition_offsets(wanted))
    stable = lab.ask(lambda client: client.list_partition_offsets(wanted, isolation_level="read_committed"))
    for place, leader in leaders.items():
        yield Led(place.topic, place.partition, leader, starts[place].offset, stable[place].offset, ends[place].offset)


def _described(client: KafkaAdminClient, places: list[TopicPartition], broker: int) -> Any:
    return client.describe_producers(places, broker)


def _coordinators(lab: Lab) -> Iterator[Known]:
    listed = lab.ask(lambda client: client.list_transactions([broker.node_id for broker in lab.up]))
    names = [one.transactional_id for found in listed.values() for one in found]
    described = lab.ask(lambda client: client.describe_transactions(names)) if names else {}
    for name, one in described.items():
        partitions = tuple(sorted((place.topic, place.partition) for place in one.topic_partitions))
        yield Known(
            name, one.producer_id, one.producer_epoch, str(one.state), one.transaction_timeout_ms, one.transaction_start_time_ms, partitions
        )


def _hanging(lab: Lab, java: JavaClient, minutes: int) -> Iterator[Open]:
    for broker in lab.up:
        # all that are open, but for those of which a coordinator still knows that it is to end them
        for line in java.find_hanging(broker, minutes=minutes).splitlines():
            words = line.split()
            if len(words) == 8 and words[1].isdigit():
                yield Open(words[0], int(words[1]), int(words[2]), int(words[5]))
