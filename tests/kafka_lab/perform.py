"""A history, performed by real brokers."""

from __future__ import annotations

import time

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.history import History, Step, Stop
from tests.kafka_lab.load import create_topic, delete_records, send
from tests.kafka_lab.node import Node, State

# What a broker writes once in a while: high watermarks, log starts. Before that a log start is in its memory alone, and in no copy; one
# that is killed forgets it, one that is frozen does not.
_CHECKPOINTS_S = 2.0


def perform(lab: Lab, history: History) -> None:
    """Do all of it on a laboratory where all brokers run. At the end the broker of the last step runs alone and leads everything."""
    for topic in history.topics:
        create_topic(lab, topic.name, topic.assignments, compression_type=topic.codec, unclean_leader_election_enable="true")
    names = [topic.name for topic in history.topics]
    lab.wait_in_sync(*names)
    send(lab, history.first, acks="all", seed=history.seed)
    for number, step in enumerate(history.steps):
        if step.stop is Stop.FREEZE and number and history.steps[number - 1].trims:
            time.sleep(_CHECKPOINTS_S)
        _go_alone(lab, step, names)
        send(lab, step.batches, acks=1, codec="gzip" if number % 2 else None, seed=history.seed + number)
        _trim(lab, step)
        if step.joined_by:
            _join(lab, step, names, history.seed + number)
    time.sleep(_CHECKPOINTS_S)


def come_back(lab: Lab, broker: Node) -> None:
    """Start a broker that is down, or let a frozen one go on."""
    if broker.state is State.FROZEN:
        broker.resume()
    elif broker.state is State.DOWN:
        broker.start()


def stop(broker: Node, how: Stop) -> None:
    """Make a broker that runs go away."""
    {Stop.KILL: broker.kill, Stop.TERMINATE: broker.terminate, Stop.FREEZE: broker.freeze}[how]()


def _go_alone(lab: Lab, step: Step, topics: list[str]) -> None:
    """All others go away first: where the one that is to lead does not run yet it finds nobody, and is elected uncleanly."""
    for broker in lab.up:
        if broker.node_id != step.alone:
            stop(broker, step.stop)
    alone = lab.brokers[step.alone]
    if alone.state is not State.UP:
        lab.wait_registered()
        come_back(lab, alone)
    lab.wait_registered(step.alone)
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


def _join(lab: Lab, step: Step, topics: list[str], seed: int) -> None:
    assert step.joined_by
    joining, known = lab.brokers[step.joined_by], lab.partitions(*topics)
    come_back(lab, joining)
    lab.wait_registered(step.alone, step.joined_by)
    lab.wait_back_in_sync(step.alone, known)
    send(lab, step.batches_while_joined, acks="all", seed=seed)
    stop(joining, step.stop)
    lab.wait_registered(step.alone)
