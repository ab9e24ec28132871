"""An outage: three brokers have led the same partitions one after the other, each without the others' records; nobody runs any more."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.files import FileBatch, batches, replica_directories
from tests.kafka_lab.load import create_topic, producer
from tests.live.plan_steps import Operator

# REPLICA_AUDIT_PLAN_PARTITIONS=100 performs more of the same
PARTITIONS = range(int(os.environ.get("REPLICA_AUDIT_PLAN_PARTITIONS", "30")))
ORDERS, LEDGER, OFFSETS, GROUP = "orders", "ledger", "__consumer_offsets", "billing $(touch pwned)"
_KINDS = 5
_LAST_BY_THREE = {2, 3, 4}  # kinds of partitions that broker 3 has led, too
# records that only broker 1, 2, 3 has, by kind; the first of each kind is some more
_WRITTEN = {0: (9, 3, 0), 1: (3, 9, 0), 2: (15, 3, 4), 3: (3, 4, 12), 4: (3, 15, 4)}
_CROSSED = 4  # this partition's best leader, broker 2, has to wait for broker 1, which is before it in the assignment
_ORDERS_OF_BROKERS = ([1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1])


def _replicas(partition: int) -> list[int]:
    if partition % _KINDS == 4 and partition != _CROSSED:
        return [2, 3, 1]
    return [1, 2, 3] if partition == _CROSSED else _ORDERS_OF_BROKERS[partition % 6]


def own_records(broker: int, partition: int) -> int:
    """How many records only a broker has."""
    count = _WRITTEN[partition % _KINDS][broker - 1]
    return count + partition % 4 if count else 0


def send(lab: Lab, what: str, counts: dict[tuple[str, int], int], acks: int | str = 1) -> None:
    with producer(lab, acks=acks, enable_idempotence=False, retries=100_000) as client:
        sent = [
            client.send(
                topic,
                b"%s-%d" % (what.encode(), number),
                b"%s-%d-%s-%d" % (topic.encode(), partition, what.encode(), number),
                partition=partition,
            )
            for (topic, partition), count in counts.items()
            for number in range(count)
        ]
        client.flush(timeout=300)
        for one in sent:
            one.get(60)


def places(topic: str = ORDERS) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in PARTITIONS]


def _consumer(lab: Lab, group: str | None) -> KafkaConsumer:
    made = KafkaConsumer(
        bootstrap_servers=lab.bootstrap, group_id=group, auto_offset_reset="none" if group else "earliest", enable_auto_commit=False
    )
    made.assign(places())
    return made


def ends_of(lab: Lab) -> dict[int, int]:
    client = KafkaConsumer(bootstrap_servers=lab.bootstrap)
    try:
        return {place.partition: end for place, end in client.end_offsets(places()).items()}
    finally:
        client.close(autocommit=False)


def _consume_and_commit(lab: Lab) -> dict[int, int]:
    """The group consumes all there is, as broker 1 has it. Returns where it then stands."""
    ends = ends_of(lab)
    reading, client = _consumer(lab, None), _consumer(lab, GROUP)
    epochs: dict[int, int] = {}
    try:
        while any(reading.position(place) < ends[place.partition] for place in places()):
            for found in reading.poll(timeout_ms=200).values():
                epochs.update({one.partition: one.leader_epoch for one in found})
        positions = {TopicPartition(ORDERS, one): OffsetAndMetadata(end, "", epochs[one]) for one, end in ends.items()}
        wait_until("the group's positions are committed", lambda: client.commit(positions) or True)
    finally:
        reading.close(autocommit=False)
        client.close(autocommit=False)
    return ends


def read_all(lab: Lab, group: str | None, since: dict[int, int] | None = None) -> dict[int, list[tuple[int, bytes]]]:
    """Offsets and values that a consumer gets, up to the end: the group's from where it stands, another from offsets."""
    client, ends = _consumer(lab, group), ends_of(lab)
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    try:
        for place in places():
            if since is not None:
                client.seek(place, since[place.partition])
        while any(client.position(place) < ends[place.partition] for place in places()):
            for records in client.poll(timeout_ms=200).values():
                for one in records:
                    found[one.partition].append((one.offset, one.value))
    finally:
        client.close(autocommit=False)
    return found


def _alone(lab: Lab, operator: Operator, broker: int, partitions: list[int], folder: Path) -> None:
    """Only this broker runs, and is made the leader of partitions by an unclean election, if it is not yet."""
    for node in lab.up:
        if node.node_id != broker:
            node.kill()
    lab.wait_registered(*({broker} & {node.node_id for node in lab.up}))
    if lab.brokers[broker] not in lab.up:
        lab.brokers[broker].start()
        lab.wait_registered(broker)
        wanted = ", ".join(f'{{"topic": "{ORDERS}", "partition": {one}}}' for one in partitions)
        (folder / "elect.json").write_text(f'{{"partitions": [{wanted}]}}')
        operator.shell(
            'kafka-leader-election.sh --bootstrap-server "$BOOTSTRAP" --election-type UNCLEAN --path-to-json-file elect.json', folder
        )
    wait_until(
        f"broker {broker} leads",
        lambda: all(one["leader_id"] == broker for (_topic, number), one in lab.partitions(ORDERS).items() if number in partitions),
    )


def outage(lab: Lab, operator: Operator, folder: Path) -> dict[int, int]:
    """Until nobody runs. Returns where the group stands."""
    settings = {"unclean_leader_election_enable": "false", "min_insync_replicas": 1}
    create_topic(lab, ORDERS, {partition: _replicas(partition) for partition in PARTITIONS}, **settings)
    create_topic(lab, LEDGER, {0: [1, 2, 3]}, **settings)
    if OFFSETS not in {topic for topic, _partition in lab.partitions()}:
        create_topic(lab, OFFSETS, {partition: [1, 2, 3] for partition in range(3)}, cleanup_policy="compact", **settings)
    lab.wait_in_sync(ORDERS, LEDGER)
    send(lab, "common", {(ORDERS, partition): 4 + partition % 3 for partition in PARTITIONS} | {(LEDGER, 0): 5}, "all")
    send(lab, "more", {(LEDGER, 0): 5}, "all")
    everyone = list(PARTITIONS)
    _alone(lab, operator, 1, everyone, folder)
    send(lab, "one", {(ORDERS, partition): own_records(1, partition) for partition in everyone} | {(LEDGER, 0): 5})
    committed = _consume_and_commit(lab)
    for broker, name in ((2, "two"), (3, "three")):
        partitions = [one for one in everyone if broker == 2 or one % _KINDS in _LAST_BY_THREE]
        lab.brokers[broker - 1].kill()
        _alone(lab, operator, broker, partitions, folder)
        send(lab, name, {(ORDERS, partition): own_records(broker, partition) for partition in partitions})
        wait_until("high watermarks are checkpointed", lambda: _checkpointed(lab, broker, partitions))  # noqa: B023
    lab.brokers[3].terminate()
    lab.wait_registered()
    return committed


def _checkpointed(lab: Lab, broker: int, partitions: list[int]) -> bool:
    lines = (lab.brokers[broker].log_dirs[0] / "replication-offset-checkpoint").read_text().splitlines()
    marks = {line.split()[1]: int(line.split()[2]) for line in lines[2:] if line.startswith(f"{ORDERS} ")}
    found = replica_directories(lab.root)
    return all(marks.get(str(one)) == batches(found[ORDERS, one, broker])[-1].last + 1 for one in partitions)


def planned_truncations(folder: Path) -> list[dict[str, str]]:
    with (folder / "truncations.csv").open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["planned"] == "yes" and row["topic"] == ORDERS]


def by_the_files(rows: list[dict[str, str]], before: Path, after: Path) -> tuple[int, int]:
    """Hold each planned truncation against what a replica had, and has. Returns how many replicas were cut, and the records."""
    was, became = replica_directories(before), replica_directories(after)
    replicas = cut = 0
    for row in rows:
        key = (ORDERS, int(row["partition"]), int(row["broker"]))
        had, has = batches(was[key]), batches(became[key])
        leads = batches(became[(*key[:2], int(row["leader"]))])
        assert has == leads, key
        if row["truncates_to"]:
            to = int(row["truncates_to"])
            gone = [one for one in had if one.last >= to]
            assert [one for one in had if one.last < to] == [one for one in has if one.last < to], key
            assert not set(gone) & set(has), key
            assert (row["offsets"], row["records"]) == (str(offsets_of(gone)), str(sum(one.records for one in gone))), key
            replicas, cut = replicas + bool(gone), cut + sum(one.records for one in gone)
        else:
            assert set(had) <= set(has), key
    return replicas, cut


def offsets_of(gone: list[FileBatch]) -> int:
    return gone[-1].last + 1 - gone[0].base if gone else 0
