"""`commits`: what is said to be committed, against high watermarks asked over the wire and records that were acknowledged."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError

from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.console import say
from tests.kafka_lab.files import batches, replica_directories
from tests.kafka_lab.history import BROKERS, Stop
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.load import create_topic, producer
from tests.kafka_lab.perform import come_back, stop
from tests.kafka_lab.snapshot import copy_all
from tests.kafka_lab.wire import high_watermarks
from tests.support import in_process

Place = tuple[str, int]
Row = dict[str, Any]
# name: replicas, settings. What a topic does not set is the cluster's default on 4.3, and in no file on 3.9
TOPICS: dict[str, tuple[int, dict[str, object]]] = {
    "accounts": (3, {}),
    "journal": (2, {"min_insync_replicas": 1}),
    "vault": (3, {"min_insync_replicas": 2}),
}
_PASSED = ("checkpointed-high-watermark", "sole-in-sync-replica")
# In sessions of the laboratory: waits that end before and after the others are fenced, and around that moment
_WAITS = (0.0, 0.17, 0.67, 1.0, 1.17, 1.5, 2.0, 3.0)


@dataclass(slots=True)
class Truth:
    """What clients saw, as (epoch, offset): what was acknowledged with acks=all, and what a leader held below its high watermark."""

    acknowledged: dict[Place, set[tuple[int, int]]] = field(default_factory=dict)
    passed: dict[Place, set[tuple[int, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class Commits:
    """Counts of offsets: `proven` by evidence, of removed acknowledged ones those proven and those said to be unknown; what is wrong."""

    partitions: int = 0
    acknowledged: int = 0
    acknowledged_proven: int = 0
    likely: int = 0
    passed_unproven: int = 0
    proven: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Commits) -> None:
        """Sum up."""
        for name in ("partitions", "acknowledged", "acknowledged_proven", "likely", "passed_unproven"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.proven += other.proven
        self.verdicts += other.verdicts
        self.wrong += other.wrong

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.proven.most_common())
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.most_common())
        return (
            f"{self.partitions} partitions; {self.acknowledged} acknowledged offsets removed, {self.acknowledged_proven} of them proven "
            f"committed, the others unknown; proven: {kinds or 'none'}, {self.likely} of them very likely; {self.passed_unproven} that a "
            f"high watermark had passed are unknown; {verdicts}; {len(self.wrong)} wrong"
        )


def commits_one(line: str, seed: int, partitions: int, *, keep: Path | None = None) -> Commits:
    """One history in a laboratory of its own, in which high watermarks are seldom written down: the ISR must prove what they would."""
    with Lab(line, overrides={"replica.high.watermark.checkpoint.interval.ms": 20_000}) as lab:
        return commits_in(lab, seed, partitions, keep=keep)


def commits_in(lab: Lab, seed: int, partitions: int, *, keep: Path | None = None) -> Commits:
    """One history in a laboratory where all brokers run and none of its topics exists."""
    work = Path(tempfile.mkdtemp(prefix="commits-", dir=lab.root))
    truth, history = Truth(), _History(lab, random.Random(seed))  # noqa: S311
    history.perform(partitions, truth)
    root = copy_all(lab, work / "before")
    result = check(in_process.audit(root), root, truth)
    if result.wrong and keep:
        folder = keep / f"kafka-{lab.line}-commits-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work, folder)
        (folder / "wrong.txt").write_text("\n".join([*history.done, *result.wrong, str(truth), ""]))
    return result


class _History:
    def __init__(self, lab: Lab, chance: random.Random) -> None:
        self.lab, self.chance = lab, chance
        self.done: list[str] = []

    def perform(self, partitions: int, truth: Truth) -> None:
        """Leaders lose their followers, are written to and go away, before and after the ISR has shrunk."""
        names = list(TOPICS)
        for number, (name, (factor, settings)) in enumerate(TOPICS.items()):
            count = partitions // len(names) + (number < partitions % len(names))
            assignments = {partition: self.chance.sample(BROKERS, factor) for partition in range(count)}
            create_topic(self.lab, name, assignments, unclean_leader_election_enable="true", **settings)
        self.lab.wait_in_sync(*names)
        self._send(truth, "all", lambda _place: True)
        alone = self.chance.choice(BROKERS)
        for _ in range(self.chance.choice([2, 3])):
            self._lose_followers(truth, alone)
            self._stop_leader(truth, alone)
            alone = self._next(truth, alone)

    def _lose_followers(self, truth: Truth, alone: int) -> None:
        how, wait = self.chance.choice(list(Stop)), self.chance.choice(_WAITS) * self.lab.session_s
        for broker in self.lab.up:
            if broker.node_id != alone:
                stop(broker, how)
        self.done.append(f"others: {how}; after {wait:.1f} s broker {alone}")
        self._send(truth, 1, self._led_by(alone))
        time.sleep(wait)
        if self.lab.registered() == {alone}:
            # with acks=all the leader must have seen its ISR shrink, and with vault's settings it refuses
            self._send(truth, "all", self._led_by(alone, but="vault"))
            self._send(truth, 1, self._led_by(alone))

    def _stop_leader(self, truth: Truth, alone: int) -> None:
        known = self.lab.partitions(*TOPICS)
        places = [place for place, one in known.items() if one["leader_id"] == alone]
        how, broker = self.chance.choice([Stop.KILL, Stop.KILL, Stop.FREEZE, Stop.TERMINATE]), self.lab.brokers[alone]
        ends = high_watermarks(broker.port, places)
        (broker.freeze if how is Stop.FREEZE else broker.kill if how is Stop.KILL else broker.terminate)()
        self.done.append(f"{how} broker {alone}")
        for topic, partition in places:
            held = _records(broker.log_dirs[0] / f"{topic}-{partition}")
            below = {(epoch, offset) for offset, epoch in held if offset < ends[topic, partition]}
            truth.passed.setdefault((topic, partition), set()).update(below)

    def _next(self, truth: Truth, before: int) -> int:
        """Another broker, elected uncleanly where it was not in sync, perhaps joined by a third."""
        self.lab.wait_registered()
        alone = self.chance.choice([broker for broker in BROKERS if broker != before])
        come_back(self.lab, self.lab.brokers[alone])
        self.lab.wait_registered(alone)
        self.lab.wait_for(f"broker {alone} leads", TOPICS, lambda one: alone not in one["replica_nodes"] or one["leader_id"] == alone)
        self._send(truth, "all", self._led_by(alone, but="vault"))
        self._send(truth, 1, self._led_by(alone))
        self.done.append(f"broker {alone} leads")
        if self.chance.random() < 0.5:
            self._join(truth, alone)
        return alone

    def _join(self, truth: Truth, alone: int) -> None:
        """Another broker catches up and is in sync, and with it what is then acknowledged."""
        joining, known = self.chance.choice([broker for broker in BROKERS if broker != alone]), self.lab.partitions(*TOPICS)
        come_back(self.lab, self.lab.brokers[joining])
        self.lab.wait_registered(alone, joining)
        self.lab.wait_back_in_sync(alone, known)
        self._send(truth, "all", self._led_by(alone))
        self.done.append(f"joined by broker {joining}")

    def _led_by(self, broker: int, but: str = "") -> Callable[[Place], bool]:
        known = self.lab.partitions(*TOPICS)
        led = {place for place, one in known.items() if one["leader_id"] == broker and place[0] != but}
        return led.__contains__

    def _send(self, truth: Truth, acks: int | str, wanted: Callable[[Place], bool]) -> None:
        known = self.lab.partitions(*TOPICS)
        sent = []
        with producer(self.lab, acks=acks, enable_idempotence=False, retries=100_000) as client:
            for place in filter(wanted, known):
                records = self.chance.choice([0, 1, 3, 8])
                sent += [(place, client.send(place[0], self.chance.randbytes(40), partition=place[1])) for _ in range(records)]
            client.flush(timeout=300)
            for place, future in sent:
                offset = future.get(timeout=60).offset
                if acks == "all":
                    truth.acknowledged.setdefault(place, set()).add((known[place]["leader_epoch"], offset))


def check(tables: dict[str, list[Row]], root: Path, truth: Truth) -> Commits:
    """Hold every follower against what clients saw. The files are read by the laboratory's own reader.

    Args:
        tables: of the audit.
        root: the copies that it read.
        truth: what clients saw.
    """
    result = Commits(partitions=len({(row["topic"], row["partition"]) for row in tables["replica_verdicts"] if row["topic"] in TOPICS}))
    logs = {key: dict(_records(folder)) for key, folder in replica_directories(root).items() if key[0] in TOPICS}
    for row in tables["replica_verdicts"]:
        place, follower = (row["topic"], row["partition"]), row["follower_id"]
        if row["topic"] not in TOPICS or row["removed_offsets"] in (None, 0):
            continue
        result.verdicts[row["verdict"]] += 1
        own, leads = logs[(*place, follower)], logs.get((*place, row["leader_id"]), {})
        start = max(own, default=-1) + 1 - row["removed_offsets"]
        gone = {(epoch, offset) for offset, epoch in own.items() if offset >= start and leads.get(offset) != epoch}
        proven = dict(_proven(row, result))
        name = f"{place[0]}-{place[1]} on broker {follower}"
        acknowledged = gone & truth.acknowledged.get(place, set())
        passed = gone & truth.passed.get(place, set())
        result.acknowledged += len(acknowledged)
        result.acknowledged_proven += len(acknowledged & proven.keys())
        result.passed_unproven += len(passed - proven.keys())
        if acknowledged - proven.keys() and "unknown" not in row["reason"]:
            result.wrong.append(
                f"{name}: acknowledged {sorted(acknowledged - proven.keys())} are neither proven nor unknown: {row['reason']}"
            )
        never = sorted(one for one, evidence in proven.items() if evidence in _PASSED and one not in passed)
        if never:
            result.wrong.append(f"{name}: no high watermark passed (epoch, offset) {never}: {row['reason']}")
        if not proven.keys() <= gone:
            result.wrong.append(f"{name}: {sorted(proven.keys() - gone)} are not lost")
    return result


def _records(folder: Path) -> Iterator[tuple[int, int]]:
    for batch in batches(folder):
        yield from ((offset, batch.epoch) for offset in range(batch.base, batch.last + 1))


def _proven(row: Row, result: Commits) -> Iterator[tuple[tuple[int, int], str]]:
    for span in row["removed_commits"]:
        offsets = range(span["first_offset"], span["end_offset"])
        result.proven[span["evidence"]] += len(offsets)
        result.likely += len(offsets) if span["not_ruled_out"] else 0
        yield from (((span["leader_epoch"], offset), span["evidence"]) for offset in offsets)


def commits(line: str, *, seed: int, runs: int, partitions: int, keep: Path | None) -> Commits:
    """Several histories, each in a laboratory of its own; what is wrong and a line a run are printed."""
    totals, failed = Commits(), 0
    for number in range(seed, seed + runs):
        began = time.monotonic()
        try:
            result = commits_one(line, number, partitions, keep=keep)
        except (LabError, KafkaError, OSError) as error:
            failed += 1
            say(f"seed {number} could not be performed: {error}")
            continue
        totals.add(result)
        say(f"seed {number}, {time.monotonic() - began:.0f} s: {result}")
        for text in result.wrong:
            say(f"  {text}")
    say(f"Kafka {VERSIONS[line]}, seeds {seed} to {seed + runs - 1} ({failed} could not be performed): {totals}")
    return totals
