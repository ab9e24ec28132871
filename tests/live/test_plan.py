"""An outage, planned and put right: every line of PLAN.md and SALVAGE.md is run as it is printed, with Kafka's own tools.

Three brokers have led the same partitions one after the other, each without the others' records. Nobody runs any more. What each replica
truncates, what a group finds, and what is saved and replayed is held against the files and against what real clients read.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from replica_audit import cli
from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.console import say
from tests.kafka_lab.files import FileBatch, batches, checkpointed_epochs, replica_directories
from tests.kafka_lab.load import create_topic, delete_topics, producer
from tests.kafka_lab.planted import plant
from tests.kafka_lab.snapshot import copy_all
from tests.live.plan_steps import Operator, tools
from tests.salvage.made import rows as records

pytestmark = [pytest.mark.live, pytest.mark.slow]
# REPLICA_AUDIT_PLAN_PARTITIONS=100 performs more of the same
PARTITIONS = range(int(os.environ.get("REPLICA_AUDIT_PLAN_PARTITIONS", "30")))
ORDERS, LEDGER, OFFSETS, GROUP = "orders", "ledger", "__consumer_offsets", "billing $(touch pwned)"
_KINDS = 5
_LAST_BY_THREE = {2, 3, 4}  # kinds of partitions that broker 3 has led, too
# records that only broker 1, 2, 3 has, by kind; the first of each kind is some more
_WRITTEN = {0: (9, 3, 0), 1: (3, 9, 0), 2: (15, 3, 4), 3: (3, 4, 12), 4: (3, 15, 4)}
_CROSSED = 4  # this partition's best leader, broker 2, has to wait for broker 1, which is before it in the assignment
_TRUNCATED = re.compile(r"partition=([\w-]+), dir=[^\]]*\] Truncating to offset (\d+) ")
_REPLAYED = 3  # partitions, by a JVM each
_ORDERS_OF_BROKERS = ([1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1])


def _replicas(partition: int) -> list[int]:
    if partition % _KINDS == 4 and partition != _CROSSED:
        return [2, 3, 1]
    return [1, 2, 3] if partition == _CROSSED else _ORDERS_OF_BROKERS[partition % 6]


def _own(broker: int, partition: int) -> int:
    """How many records only a broker has."""
    count = _WRITTEN[partition % _KINDS][broker - 1]
    return count + partition % 4 if count else 0


def _send(lab: Lab, what: str, counts: dict[tuple[str, int], int], acks: int | str = 1) -> None:
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


def _places(topic: str = ORDERS) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in PARTITIONS]


def _consumer(lab: Lab, group: str | None) -> KafkaConsumer:
    made = KafkaConsumer(
        bootstrap_servers=lab.bootstrap, group_id=group, auto_offset_reset="none" if group else "earliest", enable_auto_commit=False
    )
    made.assign(_places())
    return made


def _ends(lab: Lab) -> dict[int, int]:
    client = KafkaConsumer(bootstrap_servers=lab.bootstrap)
    try:
        return {place.partition: end for place, end in client.end_offsets(_places()).items()}
    finally:
        client.close(autocommit=False)


def _consume_and_commit(lab: Lab) -> dict[int, int]:
    """The group consumes all there is, as broker 1 has it. Returns where it then stands."""
    ends = _ends(lab)
    reading, client = _consumer(lab, None), _consumer(lab, GROUP)
    epochs: dict[int, int] = {}
    try:
        while any(reading.position(place) < ends[place.partition] for place in _places()):
            for found in reading.poll(timeout_ms=200).values():
                epochs.update({one.partition: one.leader_epoch for one in found})
        positions = {TopicPartition(ORDERS, one): OffsetAndMetadata(end, "", epochs[one]) for one, end in ends.items()}
        wait_until("the group's positions are committed", lambda: client.commit(positions) or True)
    finally:
        reading.close(autocommit=False)
        client.close(autocommit=False)
    return ends


def _read(lab: Lab, group: str | None, since: dict[int, int] | None = None) -> dict[int, list[tuple[int, bytes]]]:
    """Offsets and values that a consumer gets, up to the end: the group's from where it stands, another from offsets."""
    client, ends = _consumer(lab, group), _ends(lab)
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    try:
        for place in _places():
            if since is not None:
                client.seek(place, since[place.partition])
        while any(client.position(place) < ends[place.partition] for place in _places()):
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


def _outage(lab: Lab, operator: Operator, folder: Path) -> dict[int, int]:
    """Until nobody runs. Returns where the group stands."""
    settings = {"unclean_leader_election_enable": "false", "min_insync_replicas": 1}
    create_topic(lab, ORDERS, {partition: _replicas(partition) for partition in PARTITIONS}, **settings)
    create_topic(lab, LEDGER, {0: [1, 2, 3]}, **settings)
    if OFFSETS not in {topic for topic, _partition in lab.partitions()}:
        create_topic(lab, OFFSETS, {partition: [1, 2, 3] for partition in range(3)}, cleanup_policy="compact", **settings)
    lab.wait_in_sync(ORDERS, LEDGER)
    _send(lab, "common", {(ORDERS, partition): 4 + partition % 3 for partition in PARTITIONS} | {(LEDGER, 0): 5}, "all")
    _send(lab, "more", {(LEDGER, 0): 5}, "all")
    everyone = list(PARTITIONS)
    _alone(lab, operator, 1, everyone, folder)
    _send(lab, "one", {(ORDERS, partition): _own(1, partition) for partition in everyone} | {(LEDGER, 0): 5})
    committed = _consume_and_commit(lab)
    for broker, name in ((2, "two"), (3, "three")):
        partitions = [one for one in everyone if broker == 2 or one % _KINDS in _LAST_BY_THREE]
        lab.brokers[broker - 1].kill()
        _alone(lab, operator, broker, partitions, folder)
        _send(lab, name, {(ORDERS, partition): _own(broker, partition) for partition in partitions})
        wait_until("high watermarks are checkpointed", lambda: _checkpointed(lab, broker, partitions))  # noqa: B023
    lab.brokers[3].terminate()
    lab.wait_registered()
    return committed


def _checkpointed(lab: Lab, broker: int, partitions: list[int]) -> bool:
    lines = (lab.brokers[broker].log_dirs[0] / "replication-offset-checkpoint").read_text().splitlines()
    marks = {line.split()[1]: int(line.split()[2]) for line in lines[2:] if line.startswith(f"{ORDERS} ")}
    found = replica_directories(lab.root)
    return all(marks.get(str(one)) == batches(found[ORDERS, one, broker])[-1].last + 1 for one in partitions)


def _truncations(folder: Path) -> list[dict[str, str]]:
    with (folder / "truncations.csv").open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["planned"] == "yes" and row["topic"] == ORDERS]


def _by_the_files(rows: list[dict[str, str]], before: Path, after: Path) -> tuple[int, int]:
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
            assert (row["offsets"], row["records"]) == (str(_offsets(gone)), str(sum(one.records for one in gone))), key
            replicas, cut = replicas + bool(gone), cut + sum(one.records for one in gone)
        else:
            assert set(had) <= set(has), key
    return replicas, cut


def _offsets(gone: list[FileBatch]) -> int:
    return gone[-1].last + 1 - gone[0].base if gone else 0


def _by_the_logs(lab: Lab, rows: list[dict[str, str]]) -> None:
    """What followers logged of their truncations."""
    said = {
        broker: {partition: int(offset) for partition, offset in _TRUNCATED.findall(node.said())} for broker, node in lab.brokers.items()
    }
    for row in rows:
        logged = said[int(row["broker"])].get(f"{ORDERS}-{row['partition']}")
        if row["truncates_to"] and int(row["offsets"]):
            assert logged == int(row["truncates_to"]), row


def _replay(operator: Operator, folder: Path) -> set[int]:
    """Run the first lines of SALVAGE.md, each of which starts a JVM. Returns the partitions that they send to."""
    block = re.search(r"```sh\n(.*?)```", (folder / "SALVAGE.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block
    first, *lines = block[1].strip().split("\n")
    assert first == f"cd {folder}"
    sent = set()
    for line in lines[:_REPLAYED]:
        topic, _hyphen, partition = re.findall(r"replay/(\S+)\.console\.txt", line)[0].rpartition("-")
        assert topic == ORDERS
        operator.shell(line.replace("HOST:PORT", operator.lab.bootstrap[0]), folder)
        sent.add(int(partition))
    return sent


def test_the_outage_is_planned_and_put_right(lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator = Operator(lab, tools(lab, tmp_path / "bin"), tmp_path / "safe")
    committed = _outage(lab, operator, tmp_path)
    root, plan, saved = copy_all(lab, tmp_path / "copy"), tmp_path / "plan", tmp_path / "saved"
    assert cli.main(["triage", "--input", str(root), "--plan", str(plan), "--salvage", str(saved)]) == 1
    rows = _truncations(plan)
    removed = sum(int(row["records"]) for row in rows)
    assert f"Saved {removed:,} records" in capfd.readouterr().out

    steps = operator.do(plan)
    say("\n".join(step.title for step in steps))
    lab.wait_in_sync(ORDERS, LEDGER, OFFSETS)
    after = copy_all(lab, tmp_path / "after")
    replicas, cut = _by_the_files(rows, root, after)
    _by_the_logs(lab, rows)
    assert (cut, {int(row["partition"]) for row in rows}) == (removed, set(PARTITIONS))
    say(f"{len(PARTITIONS)} partitions: {replicas} replicas truncated {cut} records, as planned")

    _rebuild_and_reset(lab, operator, committed, tmp_path)

    assert Counter((row["partition"], row["value"]) for row in records(saved)) == _gone(root, rows, set(PARTITIONS))
    ends = _ends(lab)
    sent = _replay(operator, saved)
    assert len(sent) == _REPLAYED
    found = Counter(value for of in _read(lab, None, ends).values() for _offset, value in of)  # in partitions that keys hash to
    gone = _gone(root, rows, sent)
    assert found == Counter(value for _partition, value in gone.elements())
    assert not list(tmp_path.rglob("pwned"))
    delete_topics(lab, ORDERS, LEDGER)


def _gone(root: Path, rows: list[dict[str, str]], partitions: set[int]) -> Counter[tuple[int, bytes]]:
    """What the replicas of partitions that were cut had, from their offsets on, as it was sent."""
    held = replica_directories(root)
    names = {1: b"one", 2: b"two", 3: b"three"}
    found: Counter[tuple[int, bytes]] = Counter()
    for row in (row for row in rows if int(row["partition"]) in partitions):
        broker, partition = int(row["broker"]), int(row["partition"])
        count = sum(
            one.records for one in batches(held[ORDERS, partition, broker]) if row["truncates_to"] and one.last >= int(row["truncates_to"])
        )
        assert count in (0, _own(broker, partition))
        found.update((partition, b"%s-%d" % (names[broker], number)) for number in range(count))
    return found


def _rebuild_and_reset(lab: Lab, operator: Operator, committed: dict[int, int], folder: Path) -> None:
    """A second audit: of groups, whose positions can be known now, and of a replica that has diverged since, unnoticed."""
    for broker in (2, 3):
        lab.brokers[broker].terminate()
    leader = lab.partitions(LEDGER)[LEDGER, 0]["leader_id"]
    assert leader == 1
    planted = plant(lab.root, {(LEDGER, 0): leader}, Random(1), topics={LEDGER})  # noqa: S311
    assert planted
    for broker in (2, 3):
        lab.brokers[broker].start()
    lab.wait_in_sync(ORDERS, LEDGER, OFFSETS)
    root, plan = copy_all(lab, folder / "second"), folder / "second-plan"
    assert cli.main(["triage", "--input", str(root), "--plan", str(plan)]) == 1
    own, leads = replica_directories(root)[planted], replica_directories(root)[LEDGER, 0, leader]
    assert batches(own) != batches(leads)

    say("\n".join(step.title for step in operator.do(plan)))
    lab.wait_in_sync(LEDGER)
    rebuilt = replica_directories(lab.root)
    assert batches(rebuilt[planted]) == batches(rebuilt[LEDGER, 0, leader])
    end = batches(rebuilt[planted])[-1].last + 1  # an epoch without a batch comes with its first one
    epochs = [entry for entry in checkpointed_epochs(rebuilt[LEDGER, 0, leader]) if entry[1] < end]
    assert checkpointed_epochs(rebuilt[planted]) == epochs

    (reset,) = plan.glob("reset-*.csv")
    with reset.open(encoding="utf-8", newline="") as stream:
        places = {int(partition): int(offset) for topic, partition, offset in csv.reader(stream) if topic == ORDERS}
    assert places.keys() == {one for one in PARTITIONS if _leader_of(lab, one) != 1}
    found, ends = _read(lab, GROUP), _ends(lab)
    for partition in PARTITIONS:
        begins = places.get(partition, committed[partition])
        assert [offset for offset, _value in found[partition]] == list(range(begins, ends[partition])), partition


def _leader_of(lab: Lab, partition: int) -> int:
    """By its records: whose are in the log."""
    found = batches(replica_directories(lab.root)[ORDERS, partition, 1])
    common = 4 + partition % 3
    has = sum(one.records for one in found) - common
    (broker,) = [one for one in (1, 2, 3) if _own(one, partition) == has]
    return broker
