"""`starts`: after a random history one stopped broker is started alone, and does to its replicas what the audit said of its start."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from kafka.errors import KafkaError
from kafka.record.util import calc_crc32c

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.rows.starts import BrokerStart, ReplicaStart, StartBecause, StartOutcome
from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.console import say
from tests.kafka_lab.files import FileBatch, batches, log_start_offset, replica_directories
from tests.kafka_lab.history import History, draw
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.node import Node, State
from tests.kafka_lab.perform import perform
from tests.kafka_lab.predicted import Performed, lines_of, performed
from tests.kafka_lab.snapshot import copy_all

Place = tuple[str, int]
_CATCHES_UP_S = 90.0
_TORN_BYTES = 40  # fewer than the header of a batch has
_STRAY = re.compile(r"(.+)-(\d+)\.[0-9a-f]+-stray")
_LOSES = {StartBecause.TRUNCATES, StartBecause.RECOVERY_TRUNCATES, StartBecause.SETS_ASIDE}
_BROKEN = {
    StartBecause.TORN_END,
    StartBecause.DOES_NOT_LOAD,
    StartBecause.CANNOT_FOLLOW,
    StartBecause.STAYS_DIVERGED,
    StartBecause.OTHER_RECORDS,
}


@dataclass(slots=True)
class Started:
    """What was compared: replicas by what was said of their start, how many brokers, and what differs."""

    histories: int = 0
    failed: int = 0
    replicas: Counter[str] = field(default_factory=Counter)
    brokers: Counter[str] = field(default_factory=Counter)
    lost_records: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: Started) -> None:
        """Count another one with this."""
        self.histories += other.histories
        self.replicas += other.replicas
        self.brokers += other.brokers
        self.lost_records += other.lost_records
        self.differences += other.differences

    def __str__(self) -> str:
        replicas, brokers = (", ".join(f"{n} {what}" for what, n in one.most_common()) for one in (self.replicas, self.brokers))
        return (
            f"{self.histories} histories ({self.failed} more could not be performed): {len(self.differences)} differences; brokers: "
            f"{brokers}; replicas: {replicas}; {self.lost_records} records lost"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the start did to a replica: `was` and `became` are its batches, `leads` those of the leader (its own where it leads)."""

    was: list[FileBatch]
    became: list[FileBatch]
    leads: list[FileBatch]
    leaders_start: int
    start: int
    did: Performed
    is_stray: bool
    is_in_sync: bool
    leader_id: int

    @property
    def cut(self) -> int | None:
        return self.did.cuts[-1][0] if self.did.cuts else self.did.fallback

    @property
    def lost(self) -> int:
        """Records that it had and that neither it nor the leader has, but for those that the leader's log start lets go."""
        return sum(one.records for one in self.was if one not in self.became and one not in self.leads and one.last >= self.leaders_start)

    @property
    def truncated(self) -> int:
        """Records that its truncation took, and that the leader does not have."""
        first = self.start if self.did.restart is not None else self.cut
        gone = [] if first is None else [one for one in self.was if one.last >= max(first, self.start)]
        return sum(one.records for one in gone if one not in self.leads)

    @property
    def is_as_the_leader(self) -> bool:
        first = max((part[0].base for part in (self.became, self.leads) if part), default=0)
        mine, theirs = ([one for one in part if one.base >= first] for part in (self.became, self.leads))
        return self.is_in_sync and mine == theirs


def starts_in(lab: Lab, java: JavaClient, history: History, keep: Path | None) -> Started:
    """Perform a history on a laboratory where all brokers run, stop brokers, and start one of them alone."""
    chance = random.Random(f"starts {history.seed}")  # noqa: S311
    perform(lab, java, history)
    last = history.steps[-1].alone
    chosen = lab.brokers[chance.choice([one for one in lab.brokers if one not in (last, history.keeper)])]
    for broker in lab.brokers.values():
        if broker.state is State.FROZEN:
            broker.kill()
    leads_on = chance.random() < 0.7
    if not leads_on:
        (lab.brokers[last].terminate if chance.random() < 0.5 else lab.brokers[last].kill)()
    lab.wait_registered(*(one.node_id for one in lab.up))
    planted = list(damage(chosen, history, chance))
    work = Path(tempfile.mkdtemp(prefix="starts-", dir=lab.root))
    before = copy_all(lab, work / "before")
    run = triage([str(before)], Settings(), tell=lambda _event: None)
    (start,) = [one for one in run.tables.rows("broker_starts", BrokerStart) if one.broker_id == chosen.node_id]
    told = {(one.topic, one.partition): one for one in run.tables.rows("replica_starts", ReplicaStart) if one.broker_id == chosen.node_id}
    names = [topic.name for topic in history.topics]
    logged = chosen.log.stat().st_size
    chosen.start()
    lab.wait_registered(*(one.node_id for one in lab.up))
    known = _settled(lab, chosen, names, told, last if leads_on else chosen.node_id)
    after = copy_all(lab, work / "after")
    did = performed(lines_of(chosen.log, chosen.node_id, logged))
    result = Started(histories=1, brokers=Counter([start.outcome]))
    for place, seen in _seen(chosen, (before, after), known, did, names):
        said = told.get(place)
        result.replicas[f"{said.outcome} ({', '.join(said.because)})" if said is not None and said.because else "safe"] += 1
        result.lost_records += seen.lost
        compacted = any(topic.is_compacted and topic.name == place[0] for topic in history.topics)
        result.differences += [
            f"{place[0]}-{place[1]} on broker {chosen.node_id}: {text}" for text in held(said, seen, compacted=compacted)
        ]
    result.differences += [text for text in _of_broker(chosen) if StartBecause.DOES_NOT_LOAD not in start.because]
    if result.differences and keep:
        keep_files(lab, work, keep / f"kafka-{lab.line}-seed-{history.seed}", [str(history), *planted, *result.differences])
    return result


def held(said: ReplicaStart | None, seen: Seen, *, compacted: bool) -> Iterator[str]:
    """Where what was said of a start and what it did differ; of a compacted log only what the broker logged can be told."""
    because = set() if said is None else set(map(StartBecause, said.because))
    words = "safe" if said is None else f"{said.outcome} ({', '.join(said.because)})"
    if said is not None and said.outcome == StartOutcome.UNKNOWN:
        return
    if (StartBecause.BECOMES_STRAY in because) != seen.is_stray:
        yield f"{words}, and it is {'' if seen.is_stray else 'not '}set aside"
    elif seen.is_stray:
        return
    elif said is not None and (said.election is not None or StartBecause.OTHER_LOSES_LESS in because):
        if seen.leader_id != said.broker_id:
            yield f"{words}: it was to lead by itself, and {seen.leader_id} leads"
    elif seen.leader_id >= 0:
        differences = [*_of_records(said, because, seen, compacted=compacted), *_of_following(because, seen, compacted=compacted)]
        yield from (f"{words}, and {text}" for text in differences)


def _of_records(said: ReplicaStart | None, because: set[StartBecause], seen: Seen, *, compacted: bool) -> Iterator[str]:
    if not because & _LOSES and not compacted and seen.lost:
        yield f"{seen.lost} records are lost (cut to {seen.cut}, restarted at {seen.did.restart})"
    if said is None or StartBecause.TRUNCATES not in because or said.leader_id != seen.leader_id:
        return
    if said.first_offset is not None and said.first_offset != seen.cut:
        yield f"it was cut to {seen.cut}, not to {said.first_offset}"
    if said.lost_records is not None and not compacted and said.lost_records != seen.truncated:
        yield f"{seen.truncated} records are truncated, not {said.lost_records}"


def _of_following(because: set[StartBecause], seen: Seen, *, compacted: bool) -> Iterator[str]:
    if because & _BROKEN:
        if seen.is_as_the_leader and not compacted:
            yield "it has all that the leader has"
    elif seen.did.failed or not seen.is_in_sync:
        yield "its fetcher failed" if seen.did.failed else "it is not in sync"
    elif not seen.is_as_the_leader and not compacted:
        yield "it does not have what the leader has"


def damage(broker: Node, history: History, chance: random.Random) -> Iterator[str]:
    """Damage a few replicas of a stopped broker as disks and people do."""
    found = sorted(path for topic in history.topics for path in broker.log_dirs[0].glob(f"{topic.name}-*") if path.is_dir())
    for path in chance.sample(found, min(len(found), chance.choice([0, 0, 1, 2, 3]))):
        newest = max(path.glob("*.log"))
        content, how = newest.read_bytes(), chance.choice(["torn", "flipped", "without an id"])
        if how == "torn" and content:
            newest.write_bytes(content + content[:_TORN_BYTES])
        elif how == "flipped" and content and not (path.parent / ".kafka_cleanshutdown").exists():
            newest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        elif how == "without an id" and (path / "partition.metadata").exists():
            (path / "partition.metadata").unlink()
        else:
            continue
        yield f"{path.name}: {how}"


def _settled(lab: Lab, chosen: Node, names: list[str], told: dict[Place, ReplicaStart], leader: int) -> dict[Place, dict[str, Any]]:
    """Wait until the replicas that are to catch up have, or long enough. Returns what the metadata then says."""
    ends = time.monotonic() + _CATCHES_UP_S
    lags = {place for place, one in told.items() if set(one.because) & {*map(str, _BROKEN)} or one.outcome == StartOutcome.UNKNOWN}
    while True:
        known = lab.partitions(*names)
        mine = {place: one for place, one in known.items() if chosen.node_id in one["replica_nodes"] and leader in one["replica_nodes"]}
        if all(chosen.node_id in one["isr_nodes"] for place, one in mine.items() if place not in lags) or time.monotonic() > ends:
            time.sleep(3)  # what brokers write late, and the truncations of those that nobody waits for
            return lab.partitions(*names)
        time.sleep(0.5)


def _seen(
    chosen: Node, roots: tuple[Path, Path], known: dict[Place, dict[str, Any]], did: dict[tuple[str, int, int], Performed], names: list[str]
) -> Iterator[tuple[Place, Seen]]:
    was, became = map(replica_directories, roots)
    strays = {(found[1], int(found[2])) for path in chosen.log_dirs[0].iterdir() if (found := _STRAY.fullmatch(path.name))}
    for topic, partition, broker in sorted(was):
        if topic not in names or broker != chosen.node_id:
            continue
        key, leader = (topic, partition, broker), known[topic, partition]["leader_id"]
        leads = became.get((topic, partition, leader))
        yield (
            (topic, partition),
            Seen(
                was=[one for one in batches(was[key]) if is_intact(one)],  # recovery cuts off what is not
                became=batches(became[key]) if key in became else [],
                leads=[] if leads is None else batches(leads),
                leaders_start=0 if leads is None else log_start_offset(leads),
                start=log_start_offset(was[key]),
                did=did.get(key, Performed()),
                is_stray=(topic, partition) in strays,
                is_in_sync=broker in known[topic, partition]["isr_nodes"],
                leader_id=leader,
            ),
        )


def is_intact(one: FileBatch) -> bool:
    return bool(int.from_bytes(one.content[17:21], "big") == calc_crc32c(one.content[21:]))


def _of_broker(broker: Node) -> Iterator[str]:
    """What fails of a whole broker."""
    if broker.has_ended:
        yield f"broker {broker.node_id} ended"
    if "Error while loading log dir" in broker.said() or "Stopping serving logs in dir" in broker.said():
        yield f"broker {broker.node_id}: a log directory is offline"


def keep_files(lab: Lab, work: Path, folder: Path, lines: list[str]) -> None:
    """Keep what was made of a history, every node's log, and what differs."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work, folder)
    for node in (lab.controller, *lab.brokers.values()):
        shutil.copy(node.log, folder / f"{node.folder.name}.server.log")
    (folder / "differences.txt").write_text("\n".join([*lines, ""]))


class Totals(Protocol):
    """What came of one history, or of several."""

    failed: int
    differences: list[str]

    def add(self, other: Self) -> None:
        """Count another one with this."""


TotalsT = TypeVar("TotalsT", bound=Totals)


def each_history(
    line: str, numbers: range, partitions: int, totals: TotalsT, act: Callable[[Lab, JavaClient, History], TotalsT]
) -> TotalsT:
    """Act on the histories of some seeds, each in a laboratory of its own; every difference and a line a history are printed.

    Args:
        line: of Kafka.
        numbers: the seeds.
        partitions: of each.
        totals: takes what comes of each.
        act: performs one history where all brokers run.
    """
    for number in numbers:
        history, began = draw(number, partitions), time.monotonic()
        try:
            with Lab(line) as lab, JavaClient(lab) as java:
                found = act(lab, java, history)
        except (LabError, KafkaError) as error:
            totals.failed += 1
            say(f"{history} - could not be performed: {error}")
            continue
        totals.add(found)
        say(f"{history} - {found}, {time.monotonic() - began:.0f} s")
        for difference in found.differences:
            say(f"  {difference}")
    say(f"Kafka {VERSIONS[line]}, seeds {numbers[0]} to {numbers[-1]}: {totals}")
    return totals


def starts(line: str, *, seed: int, histories: int, partitions: int, keep: Path | None) -> Started:
    """Several histories, as of `each_history`."""
    return each_history(line, range(seed, seed + histories), partitions, Started(), partial(starts_in, keep=keep))
