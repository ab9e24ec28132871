"""A history, performed by real brokers."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.history import BROKERS, History, Step, Stop
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.load import Batch, create_topic, delete_records, move, send
from tests.kafka_lab.node import Node, State
from tests.kafka_lab.transactions import STATE_TOPIC, Transacting

# What a broker writes once in a while: high watermarks, log starts. Before that a log start is in its memory alone, and in no copy; one
# that is killed forgets it, one that is frozen does not.
_CHECKPOINTS_S = 2.0


def perform(lab: Lab, java: JavaClient, history: History, *, age_ms: int = 0) -> Transacting:
    """Do all of it on a laboratory where all brokers run. At the end the broker of the last step runs alone and leads everything.

    Args:
        lab: the laboratory.
        java: performs the transactions.
        history: what is done.
        age_ms: how old the records of every other transactional id say that they are.

    Returns: what became of the transactions.
    """
    transacting = Transacting(java, age_ms)
    _begin(lab, history, transacting)
    names = [topic.name for topic in history.topics]
    for number, step in enumerate(history.steps):
        if step.stop is Stop.FREEZE and number and history.steps[number - 1].trims:
            time.sleep(_CHECKPOINTS_S)
        _go_alone(lab, step, names, history.keeper)
        transacting.end(history.transactions, number + 1)
        _send(lab, history, step.batches, acks=1, codec="gzip" if number % 2 else None, seed=history.seed + number)
        transacting.begin(history.transactions, number + 1, history.seed)
        _trim(lab, step)
        if step.joined_by:
            _join(lab, history, step, history.seed + number)
    transacting.leave()
    if history.additions:
        wanted = {TopicPartition(topic, partition): list(replicas) for topic, partition, replicas in history.additions}
        lab.ask(lambda client: client.alter_partition_reassignments(wanted))
    time.sleep(_CHECKPOINTS_S)
    return transacting


def _begin(lab: Lab, history: History, transacting: Transacting) -> None:
    """What is done while all replicas are in sync; some of them are moved when they have been written to."""
    for topic in history.topics:
        create_topic(lab, topic.name, topic.created_on, **topic.settings)
    names = [topic.name for topic in history.topics]
    lab.wait_in_sync(*names)
    _send(lab, history, history.first, acks="all", codec=None, seed=history.seed)
    move(lab, {(topic.name, partition): replicas for topic in history.topics for partition, replicas in topic.assignments.items()})
    keep_transactions(lab, [history.keeper] if history.keeper else BROKERS)
    transacting.begin(history.transactions, 0, history.seed)


def keep_transactions(lab: Lab, brokers: Sequence[int]) -> None:
    """Put the state of all transactions, and of what comes, on some of the brokers."""
    if STATE_TOPIC not in {topic for topic, _partition in lab.partitions()}:
        create_topic(lab, STATE_TOPIC, {partition: list(brokers) for partition in range(3)}, cleanup_policy="compact")
    move(lab, {place: list(brokers) for place in lab.partitions(STATE_TOPIC)})


def _send(lab: Lab, history: History, batches: Iterable[Batch], *, acks: int | str, codec: str | None, seed: int) -> None:
    send(lab, batches, acks=acks, codec=codec, seed=seed, tombstones=[topic.name for topic in history.topics if topic.is_compacted])


def come_back(lab: Lab, broker: Node) -> None:
    """Start a broker that is down, or let a frozen one go on."""
    if broker.state is State.FROZEN:
        broker.resume()
    elif broker.state is State.DOWN:
        broker.start()


def stop(broker: Node, how: Stop) -> None:
    """Make a broker that runs go away."""
    {Stop.KILL: broker.kill, Stop.TERMINATE: broker.terminate, Stop.FREEZE: broker.freeze}[how]()


def _go_alone(lab: Lab, step: Step, topics: list[str], keeper: int | None) -> None:
    """All others go away first: where the one that is to lead does not run yet it finds nobody, and is elected uncleanly."""
    for broker in lab.up:
        if broker.node_id not in (step.alone, keeper):
            stop(broker, step.stop)
    alone, kept = lab.brokers[step.alone], {keeper} if keeper else set[int]()
    if alone.state is not State.UP:
        lab.wait_registered(*kept)
        come_back(lab, alone)
    lab.wait_registered(step.alone, *kept)
    lab.wait_for(
        f"broker {step.alone} leads",
        topics,
        lambda one: one["leader_id"] == step.alone if step.alone in one["replica_nodes"] else one["leader_id"] < 0,
    )


def _trim(lab: Lab, step: Step) -> None:
    wanted = {TopicPartition(topic, partition): OffsetSpec.LATEST for topic, partition, _share in step.trims}
    if wanted:
        ends = {
            (key.topic, key.partition): found.offset for key, found in lab.ask(lambda client: client.list_partition_offsets(wanted)).items()
        }
        delete_records(lab, {(topic, partition): ends[topic, partition] * share // 100 for topic, partition, share in step.trims})


def _join(lab: Lab, history: History, step: Step, seed: int) -> None:
    assert step.joined_by
    topics, kept = [topic.name for topic in history.topics], {history.keeper} if history.keeper else set[int]()
    joining, known = lab.brokers[step.joined_by], lab.partitions(*topics)
    come_back(lab, joining)
    lab.wait_registered(step.alone, step.joined_by, *kept)
    lab.wait_back_in_sync(step.alone, known, _FailedFetchers(lab))
    _send(lab, history, step.batches_while_joined, acks="all", codec=None, seed=seed)
    stop(joining, step.stop)
    lab.wait_registered(step.alone, *kept)


class _FailedFetchers(Container[tuple[str, int, int]]):
    """Topic, partition and broker of replicas that do not come back: their fetcher has failed, on a batch that begins below its offset."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        topic, partition, broker = key
        return f"Unexpected error occurred while processing data for partition {topic}-{partition} at" in self.lab.brokers[broker].said()
