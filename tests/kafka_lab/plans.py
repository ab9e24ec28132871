"""`plans`: after a random history PLAN.md is made and done line by line, with Kafka's own tools; nothing is lost that it does not name.

What a plan promises is held against the brokers' files by a reader of the laboratory's own: every batch that a replica had is afterwards on
a replica, or in a copy that the plan asked for, and each replica whose truncation was planned was cut there and has what its leader has.
"""

from __future__ import annotations

import csv
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from replica_audit import cli
from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.files import FileBatch, batches, log_start_offset, replica_directories
from tests.kafka_lab.history import History
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.node import State
from tests.kafka_lab.perform import perform
from tests.kafka_lab.snapshot import copy_all
from tests.kafka_lab.starts import damage, each_history, is_intact, keep_files
from tests.live.plan_steps import Operator, StopsHereError, tools

Place = tuple[str, int]
_SETTLES_S = 120.0
_WRITTEN_LATE_S = 3.0
_ENDS = (0, 1, 3)  # exit codes of an audit that wrote its plan


@dataclass(slots=True)
class Planned:
    """What was carried out: histories, partitions, steps; what the plans named of the cuts; and what went otherwise."""

    histories: int = 0
    failed: int = 0
    stopped: int = 0
    partitions: int = 0
    steps: int = 0
    cut: int = 0
    saved: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: Planned) -> None:
        """Count another one with this."""
        self.histories += other.histories
        self.partitions += other.partitions
        self.steps += other.steps
        self.stopped += other.stopped
        self.cut += other.cut
        self.saved += other.saved
        self.differences += other.differences

    def __str__(self) -> str:
        return (
            f"{self.histories} histories ({self.failed} more could not be performed), {self.partitions} partitions, {self.steps} steps: "
            f"{len(self.differences)} differences; {self.stopped} stopped where the plan says so; {self.cut} replicas cut as planned, "
            f"{self.saved} batches that only copies have"
        )


def plans_in(lab: Lab, java: JavaClient, history: History, keep: Path | None) -> Planned:
    """Perform a history on a laboratory where all brokers run, stop and damage some, and do what the plan says."""
    chance = random.Random(f"plans {history.seed}")  # noqa: S311
    perform(lab, java, history)
    down = _stop_some(lab, history, chance)
    planted = [line for broker in down for line in damage(lab.brokers[broker], history, chance)]
    work = Path(tempfile.mkdtemp(prefix="plans-", dir=lab.root))
    before, plan = copy_all(lab, work / "before"), work / "plan"
    differences, steps, stopped = [], [], 0
    code = cli.main(["triage", "--input", str(before), "--plan", str(plan)])
    operator = Operator(lab, tools(lab, work / "bin"), work / "safe", before)
    if code not in _ENDS or not (plan / "PLAN.md").exists():
        differences.append(f"triage --plan ended with {code}")
    else:
        try:
            steps = operator.do(plan)
        except StopsHereError:
            stopped = 1
        except (AssertionError, LabError) as error:
            differences.append(f"step {operator.step.title!r}: {error}")
    after = _settled(lab, history, work / "after")
    compacted = {topic.name for topic in history.topics if topic.is_compacted}
    gone, copied = set(_gone(before, after, compacted)), set(_held(_copies(plan, work / "safe")))
    differences += [f"{topic}-{partition}: offsets {one.base} to {one.last} are gone" for (topic, partition), one in sorted(gone - copied)]
    cut = 0
    if (plan / "truncations.csv").exists() and not differences and not stopped:
        running = {broker.node_id for broker in lab.up}
        for row in (row for row in _planned(plan) if {int(row["broker"]), int(row["leader"])} <= running):
            cut += 1
            found = _cut(row, before, after, is_cleaned=row["topic"] in compacted or row["topic"].startswith("__"))
            differences += [f"{row['topic']}-{row['partition']} on broker {row['broker']}: {text}" for text in found]
    result = Planned(
        histories=1,
        partitions=history.partitions,
        steps=len(steps),
        stopped=stopped,
        cut=cut,
        saved=len(gone & copied),
        differences=differences,
    )
    if differences and keep:
        keep_files(lab, work, keep / f"plans-{lab.line}-seed-{history.seed}", [str(history), *planted, *differences, "", *operator.ran])
    return result


def _stop_some(lab: Lab, history: History, chance: random.Random) -> list[int]:
    """Frozen brokers are killed; of those that run none, or all, are stopped as people and crashes do."""
    for broker in lab.brokers.values():
        if broker.state is State.FROZEN:
            broker.kill()
    if chance.random() < 0.4:
        for broker in lab.up:
            (broker.terminate if chance.random() < 0.5 else broker.kill)()
    lab.wait_registered(*(one.node_id for one in lab.up))
    return [one.node_id for one in lab.brokers.values() if one.state is State.DOWN and one.node_id != history.keeper]


def _settled(lab: Lab, history: History, root: Path) -> Path:
    """A copy of everything once the replicas of brokers that run are in sync, or have had long enough."""
    ends, names = time.monotonic() + _SETTLES_S, [topic.name for topic in history.topics]
    while lab.up and time.monotonic() < ends:
        up = {one.node_id for one in lab.up}
        if all(
            up & set(one["replica_nodes"]) <= set(one["isr_nodes"]) for one in lab.partitions(*names).values() if one["leader_id"] in up
        ):
            break
        time.sleep(0.5)
    time.sleep(_WRITTEN_LATE_S)
    return copy_all(lab, root)


def _copies(plan: Path, safe: Path) -> Iterator[tuple[Place, Path]]:
    """The copies that a plan has asked for; of a directory with a suffix under the partition that it was of."""
    if (plan / "save-first.csv").exists():
        with (plan / "save-first.csv").open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                topic, _, partition = row["directory"].removeprefix("./").split(".")[0].rpartition("-")
                yield (topic, int(partition)), safe / row["copy_to"] / row["directory"]


def _replicas(root: Path) -> Iterator[tuple[Place, Path]]:
    return (((topic, partition), directory) for (topic, partition, _broker), directory in replica_directories(root).items())


def _held(directories: Iterable[tuple[Place, Path]]) -> Iterator[tuple[Place, FileBatch]]:
    """Every batch that a replica still serves and its CRC does not contradict, with its partition."""
    for (topic, partition), directory in directories:
        begins = log_start_offset(directory)
        yield from (((topic, partition), one) for one in batches(directory) if is_intact(one) and one.last >= begins)


def _gone(before: Path, after: Path, compacted: set[str]) -> Iterator[tuple[Place, FileBatch]]:
    """What a replica held and none does, but for what a log start has passed, and for topics that are cleaned all the time."""
    starts: dict[Place, int] = {}
    for (topic, partition, _broker), directory in replica_directories(after).items():
        starts[topic, partition] = max(log_start_offset(directory), starts.get((topic, partition), 0))
    held = {(place, _but_for_the_epoch(one)) for place, one in _held(_replicas(after))}
    for place, one in set(_held(_replicas(before))):
        is_cleaned = place[0] in compacted or place[0].startswith("__")
        if not is_cleaned and one.last >= starts.get(place, 0) and (place, _but_for_the_epoch(one)) not in held:
            yield place, one


def _but_for_the_epoch(one: FileBatch) -> tuple[int, bytes]:
    return one.base, one.content[16:]


def _planned(folder: Path) -> list[dict[str, str]]:
    with (folder / "truncations.csv").open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["planned"] == "yes" and row["truncates_to"] + row["starts_at"]]


def _cut(row: dict[str, str], before: Path, after: Path, *, is_cleaned: bool) -> Iterator[str]:
    """Where a truncation is not what was planned; of a log that is cleaned all the time only that it is there."""
    key = (row["topic"], int(row["partition"]), int(row["broker"]))
    to = 0 if row["starts_at"] else int(row["truncates_to"])  # who starts again has emptied its log
    was, became = replica_directories(before), replica_directories(after)
    leader = (*key[:2], int(row["leader"]))
    if key not in became or leader not in became:
        yield "it, or its leader, is not there any more"
        return
    had, has, leads = batches(was[key]), batches(became[key]), batches(became[leader])
    gone = sum(one.records for one in had if one.last >= max(to, log_start_offset(was[key])) and is_intact(one))
    if is_cleaned:
        return
    if row["records"] and int(row["records"]) != gone:
        yield f"{gone} records were cut, {row['records']} foretold"
    first = max(log_start_offset(became[key]), log_start_offset(became[leader]))
    if [one for one in has if one.last >= first] != [one for one in leads if one.last >= first]:
        yield "it does not have what its leader has"


def plans(line: str, *, seed: int, histories: int, partitions: int, keep: Path | None) -> Planned:
    """Several histories, as of `each_history`."""
    return each_history(line, range(seed, seed + histories), partitions, Planned(), partial(plans_in, keep=keep))
