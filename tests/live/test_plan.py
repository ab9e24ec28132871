"""An outage, planned and put right: every line of PLAN.md and SALVAGE.md is run as it is printed, with Kafka's own tools.

Three brokers have led the same partitions one after the other, each without the others' records. Nobody runs any more. What each replica
truncates, what a group finds, and what is saved and replayed is held against the files and against what real clients read.
"""

from __future__ import annotations

import csv
import re
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from replica_audit import cli
from replica_audit.collect import CollectRequest, collect
from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.console import say
from tests.kafka_lab.files import batches, checkpointed_epochs, replica_directories
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.late import write_one_late
from tests.kafka_lab.load import create_topic, delete_topics
from tests.kafka_lab.planted import plant
from tests.kafka_lab.snapshot import copy_all
from tests.live.outage import (
    GROUP,
    LEDGER,
    OFFSETS,
    ORDERS,
    PARTITIONS,
    by_the_files,
    ends_of,
    outage,
    own_records,
    planned_truncations,
    read_all,
)
from tests.live.plan_steps import Operator, tools
from tests.salvage.made import rows as records

pytestmark = [pytest.mark.live, pytest.mark.slow]
_TRUNCATED = re.compile(r"partition=([\w-]+), dir=[^\]]*\] Truncating to offset (\d+) ")
PAYMENTS, _AN_HOUR_MS = "payments", 3_600_000
_SETTLED_S = 11.0  # what a coordinator wrote less than 10 s before may be newer than a log: clocks differ
_REPLAYED = 3  # partitions, by a JVM each


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
    assert first == f"cd -- {folder}"
    sent = set()
    for line in lines[:_REPLAYED]:
        topic, _hyphen, partition = re.findall(r"replay/(\S+)\.console\.txt", line)[0].rpartition("-")
        assert topic == ORDERS
        operator.shell(line.replace("HOST:PORT", operator.lab.bootstrap[0]), folder)
        sent.add(int(partition))
    return sent


def test_the_outage_is_planned_and_put_right(lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator = Operator(lab, tools(lab, tmp_path / "bin"), tmp_path / "safe")
    committed = outage(lab, operator, tmp_path)
    root, plan, saved = copy_all(lab, tmp_path / "copy"), tmp_path / "plan", tmp_path / "saved"
    assert cli.main(["triage", "--input", str(root), "--plan", str(plan), "--salvage", str(saved)]) == 1
    rows = planned_truncations(plan)
    removed = sum(int(row["records"]) for row in rows)
    assert f"Saved {removed:,} records" in capfd.readouterr().out

    steps = operator.do(plan)
    say("\n".join(step.title for step in steps))
    lab.wait_in_sync(ORDERS, LEDGER, OFFSETS)
    after = copy_all(lab, tmp_path / "after")
    replicas, cut = by_the_files(rows, root, after)
    _by_the_logs(lab, rows)
    assert (cut, {int(row["partition"]) for row in rows}) == (removed, set(PARTITIONS))
    say(f"{len(PARTITIONS)} partitions: {replicas} replicas truncated {cut} records, as planned")

    _rebuild_and_reset(lab, operator, committed, tmp_path)

    assert Counter((row["partition"], row["value"]) for row in records(saved)) == _gone(root, rows, set(PARTITIONS))
    ends = ends_of(lab)
    sent = _replay(operator, saved)
    assert len(sent) == _REPLAYED
    found = Counter(value for of in read_all(lab, None, ends).values() for _offset, value in of)  # in partitions that keys hash to
    gone = _gone(root, rows, sent)
    assert found == Counter(value for _partition, value in gone.elements())
    assert not list(tmp_path.rglob("pwned"))
    delete_topics(lab, ORDERS, LEDGER, PAYMENTS)


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
        assert count in (0, own_records(broker, partition))
        found.update((partition, b"%s-%d" % (names[broker], number)) for number in range(count))
    return found


def _hang(lab: Lab, operator: Operator, folder: Path) -> int:
    """Leave a transaction that nobody will end: brokers that verify nothing let it begin. Returns where read_committed consumers stand."""
    create_topic(lab, PAYMENTS, {0: [2, 3, 1]}, min_insync_replicas=1)
    lab.wait_in_sync(PAYMENTS)
    config = 'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type brokers --entity-default'
    operator.shell(f"{config} --add-config transaction.partition.verification.enable=false", folder)
    with JavaClient(lab) as java:
        write_one_late(lab, java, "payer", (PAYMENTS, 0), int(time.time() * 1000) - _AN_HOUR_MS, commits=False)
        goes_on = java.producer("payer", timeout_ms=60_000)
        goes_on.init()
        goes_on.kill()
    operator.shell(f"{config} --delete-config transaction.partition.verification.enable", folder)
    wait_until("the transaction is open", lambda: _last_stable_offset(lab) < _last_stable_offset(lab, "read_uncommitted"))
    return _last_stable_offset(lab)


def _last_stable_offset(lab: Lab, isolation: str = "read_committed") -> int:
    place = TopicPartition(PAYMENTS, 0)
    found = lab.ask(lambda client: client.list_partition_offsets({place: OffsetSpec.LATEST}, isolation_level=isolation))
    return int(found[place].offset)


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
    stands_at = _hang(lab, operator, folder)
    time.sleep(_SETTLED_S)
    root, plan = copy_all(lab, folder / "second"), folder / "second-plan"
    collected = folder / "collected"  # which says when it was made: without, nobody knows that a transaction hangs
    for node in lab.brokers.values():
        collect(CollectRequest(output=collected, log_dirs=tuple(node.log_dirs)), lambda _line: None)
    assert cli.main(["triage", "--input", str(collected), "--plan", str(plan)]) == 1
    own, leads = replica_directories(root)[planted], replica_directories(root)[LEDGER, 0, leader]
    assert batches(own) != batches(leads)

    say("\n".join(step.title for step in operator.do(plan)))
    lab.wait_in_sync(LEDGER)
    assert "sh abort-transactions.sh" in operator.ran
    for broker in lab.brokers:
        line = f'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --broker-id {broker} --max-transaction-timeout 0'
        assert PAYMENTS not in operator.shell(line, plan)
    assert _last_stable_offset(lab) > stands_at, "consumers with read_committed go on"
    rebuilt = replica_directories(lab.root)
    assert batches(rebuilt[planted]) == batches(rebuilt[LEDGER, 0, leader])
    end = batches(rebuilt[planted])[-1].last + 1  # an epoch without a batch comes with its first one
    epochs = [entry for entry in checkpointed_epochs(rebuilt[LEDGER, 0, leader]) if entry[1] < end]
    assert checkpointed_epochs(rebuilt[planted]) == epochs

    (reset,) = plan.glob("reset-*.csv")
    with reset.open(encoding="utf-8", newline="") as stream:
        places = {int(partition): int(offset) for topic, partition, offset in csv.reader(stream) if topic == ORDERS}
    assert places.keys() == {one for one in PARTITIONS if _leader_of(lab, one) != 1}
    found, ends = read_all(lab, GROUP), ends_of(lab)
    for partition in PARTITIONS:
        begins = places.get(partition, committed[partition])
        assert [offset for offset, _value in found[partition]] == list(range(begins, ends[partition])), partition


def _leader_of(lab: Lab, partition: int) -> int:
    """By its records: whose are in the log."""
    found = batches(replica_directories(lab.root)[ORDERS, partition, 1])
    common = 4 + partition % 3
    has = sum(one.records for one in found) - common
    (broker,) = [one for one in (1, 2, 3) if own_records(one, partition) == has]
    return broker
