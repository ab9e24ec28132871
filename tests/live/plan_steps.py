"""PLAN.md and SALVAGE.md in the hands of an operator: lines are run as they are printed, what a person does is done to the laboratory.

A folder of the tools that a Kafka distribution has in its `bin` is on the PATH; each starts the class that the script of that name starts.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.files import batches
from tests.kafka_lab.jars import java
from tests.kafka_lab.node import State

_CLASSES: dict[str, str | dict[str, str]] = {
    "kafka-broker-api-versions.sh": {
        "3.9": "kafka.admin.BrokerApiVersionsCommand",
        "4.3": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    },
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-producer.sh": {"3.9": "kafka.tools.ConsoleProducer", "4.3": "org.apache.kafka.tools.ConsoleProducer"},
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
_QUIET = "rootLogger.level=OFF\n"
_QUIET_1 = "log4j.rootLogger=OFF\n"
_STEP = re.compile(r"^## Step \d+: (.*?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^(Do|Check):\n\n```sh\n(.*?)```", re.MULTILINE | re.DOTALL)


def tools(lab: Lab, folder: Path) -> Path:
    """Make the folder of tools, in which nothing logs."""
    folder.mkdir()
    (folder / "log4j2.properties").write_text(_QUIET)
    (folder / "log4j.properties").write_text(_QUIET_1)
    quiet = [f"-Dlog4j.configuration=file:{folder}/log4j.properties", f"-Dlog4j2.configurationFile={folder}/log4j2.properties"]
    flags = [flag for flag in lab.flags if not flag.startswith("-Dlog4j")]
    for name, found in _CLASSES.items():
        main = found if isinstance(found, str) else found[lab.line]
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join([java(), *quiet, *flags, main])} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedStep:
    """A step of PLAN.md: its title, the partitions that it mends, the lines to type."""

    title: str
    partitions: tuple[str, ...]
    commands: tuple[str, ...]
    checks: tuple[str, ...]


def printed_steps(folder: Path) -> list[PrintedStep]:
    """The steps of a plan in their order, as they are printed."""
    found = []
    for title, text in _STEP.findall((folder / "PLAN.md").read_text(encoding="utf-8")):
        blocks = {kind: tuple(lines.strip().split("\n")) for kind, lines in _BLOCK.findall(text)}
        names = tuple(
            "".join(found)
            for found in re.findall(
                r"^- `([^`]+)`: (?:broker \d+ loses|corrected file)|^- `([^`]+)`, (?:from offset|`)", text, re.MULTILINE
            )
        )
        found.append(
            PrintedStep(
                title=title,
                partitions=names,
                commands=blocks["Do"],
                checks=blocks["Check"],
            )
        )
    return found


class StopsHereError(Exception):
    """What a line tells one to stop at is so: the cluster has gone on since it was audited."""


class Operator:
    """Somebody who does what a plan says, and nothing else. `safe` is where copies go, `audited` the copy that the plan is about."""

    def __init__(self, lab: Lab, tools_folder: Path, safe: Path, audited: Path | None = None) -> None:
        self.audited, self.step = audited, PrintedStep(title="", partitions=(), commands=(), checks=())
        self.lab, self.tools, self.safe = lab, tools_folder, safe
        self.ran: list[str] = []
        self.printed = ""
        self._by_hand: Mapping[str, Callable[..., None]] = {
            r"# start broker (\d+)(?: on its host.*)?": self._start,
            r"# on the host of the new broker (\d+): (kafka-storage.sh format .*)": self._format,
            r"# start every broker, each on its host": self._start_all,
            r"# stop broker (\d+)\b.*": self._stop,
            r"# brokers? ([\d, ]+) must not run yet.*": self._not_running,
            r"# on each broker, stopped or from a snapshot, for each line of save-first.csv:": lambda: None,
            r"# (mkdir -p SAFE_PLACE/COPY_TO; cp -a LOG_DIR/DIRECTORY SAFE_PLACE/COPY_TO/)": self._copy,
            r"# on its host, in a copy of this folder(?:, while it runs)?: (?:DIR_\d+=LOG_DIR )+(?:ASIDE=SAFE_PLACE )?sh (checkpoints/\S+)"
            r"( check)?": self._in_place,
            r"# on the host of broker (\d+), in each log directory that holds (.*): rm (\S+)": self._remove_marker,
            r"# cat LOG_DIR/DIRECTORY/partition.metadata   # has the topic id": self._every_topic_is_named,
            r"# diff -r LOG_DIR/DIRECTORY SAFE_PLACE/COPY_TO/DIRECTORY.*": lambda: None,
            r"# (add it|audit again|look into SAVED|save the records|start one consumer|stop the consumers) .*": lambda *_: None,
            r"# (the records themselves|\(after `triage`).*": lambda *_words: None,
            r"# the new plan has no such step for these replicas": lambda: None,
            r"# kafka-dump-log.sh --files SEGMENT   # SEGMENT is the newest .log of (.*) on broker (\d+): it does not print.*": self._whole,
        }
        self.folder = safe

    def do(self, folder: Path) -> list[PrintedStep]:
        """All steps of the plan in a folder, each with its checks."""
        self.folder = folder
        steps = printed_steps(folder)
        for step in steps:
            self.step = step
            for line in step.commands:
                self._line(line)
            for line in step.checks:
                self._check(line, step)
        return steps

    def shell(self, line: str, folder: Path) -> str:
        """Run a line of a shell in a folder. Returns what it prints."""
        environment = {"PATH": f"{self.tools}:{os.environ['PATH']}", "BOOTSTRAP": ",".join(self.lab.bootstrap), "LANG": "C.UTF-8"}
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        self.ran.append(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _line(self, line: str) -> None:
        if "# must print nothing" in line:
            assert not self.shell(line, self.folder).strip()
            return
        if not line.startswith("#"):
            self.printed = self.shell(line, self.folder)
            told = re.search(r"# (.*): `Leader` is not (\d+), nor is \2 in `Isr` or `Elr`: else stop here", line)
            if told and _may_lead(self.printed, told[1].split(", "), int(told[2])):
                raise StopsHereError(line)
            return
        for pattern, act in self._by_hand.items():
            if told := re.fullmatch(pattern, line):
                act(*told.groups())
                return
        raise AssertionError(f"what is one to do? {line}")

    def _check(self, line: str, step: PrintedStep) -> None:
        if line.startswith("#"):
            self._line(line)
        elif joined := re.search(r"a line with a leader and (?:one of )?([\d, ]+) in `Replicas` has it in `Isr`", line):
            brokers = {int(broker) for broker in joined[1].split(", ")}
            wait_until(line, lambda: not any(one & brokers for one in _missing(self.shell(line, self.folder))))
        elif "prints nothing" in line:
            wait_until(line, lambda: not self.shell(line, self.folder).strip())
        elif "find-hanging" in line:
            wait_until(line, lambda: not set(_hanging(self.shell(line, self.folder))) & set(step.partitions))
        elif "listed" in line:
            wait_until(line, lambda: not set(_listed(self.shell(line, self.folder))) & set(step.partitions))
        elif "# is complete" in line:
            wait_until(line, lambda: _is_complete(self.shell(line, self.folder)))
        else:
            self.shell(line, self.folder)

    def _start(self, broker: str, *_more: str) -> None:
        node = self.lab.brokers[int(broker)]
        if node.state is State.DOWN:
            node.start()
        wait_until(f"broker {broker} is registered", lambda: int(broker) in self.lab.registered())

    def _format(self, broker: str, line: str) -> None:
        cluster_id = re.findall(r"Cluster ID: (\S+)", self.printed)[0]
        self.shell(line.replace("CLUSTER_ID", cluster_id), self.lab.brokers[int(broker)].folder)

    def _start_all(self) -> None:
        for broker in self.lab.brokers:
            self._start(str(broker))

    def _stop(self, broker: str) -> None:
        if self.lab.brokers[int(broker)].state is State.UP:
            self.lab.brokers[int(broker)].terminate()

    def _in_place(self, script: str, check: str | None) -> None:
        """The audit read copies: the broker's own log directories are given, as the plan says."""
        assert self.audited
        said_where = (self.folder / "PLAN.md").read_text(encoding="utf-8").partition(f"sh {script}`")[0].rpartition("## Step")[2]
        found = re.findall(r"(DIR_\d+) is the one that was audited as `([^`]*)`", said_where)
        own = {name: self.lab.root / Path(audited).relative_to(self.audited) for name, audited in found}
        own["ASIDE"] = self.safe
        self.safe.mkdir(parents=True, exist_ok=True)
        said = " ".join(f"{name}={shlex.quote(str(place))}" for name, place in own.items())
        self.shell(f"{said} sh {script}{check or ''}", self.folder)

    def _every_topic_is_named(self) -> None:
        found = re.search(r" on broker (\d+)", self.step.title)
        assert found
        for directory in self.lab.brokers[int(found[1])].folder.glob("data-*/*-[0-9]*"):
            assert (directory / "partition.metadata").exists() or "." in directory.name, directory

    def _remove_marker(self, broker: str, partitions: str, name: str) -> None:
        folder = self.lab.brokers[int(broker)].folder
        for log_dir in {found.parent for one in partitions.split(", ") for found in folder.glob(f"*/{one}")}:
            (log_dir / name).unlink()

    def _not_running(self, brokers: str) -> None:
        for broker in brokers.split(", "):
            if self.lab.brokers[int(broker)].state is State.UP:
                self._stop(broker)

    def _whole(self, partitions: str, broker: str) -> None:
        for partition in partitions.split(", "):
            for directory in self.lab.brokers[int(broker)].folder.glob(f"data-*/{partition}"):
                wait_until(f"{directory} ends in a batch", partial(_is_whole, directory))

    def _copy(self, line: str) -> None:
        with (self.folder / "save-first.csv").open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                log_dir = self.lab.root / f"broker-{row['broker_id']}" / Path(row["log_dir"]).name
                places = {"SAFE_PLACE": str(self.safe), "LOG_DIR": str(log_dir), "DIRECTORY": row["directory"], "COPY_TO": row["copy_to"]}
                self.shell(filled_in(line, {name: shlex.quote(place) for name, place in places.items()}), self.folder)


def _is_whole(directory: Path) -> bool:
    held = sum(len(one.content) for one in batches(directory))
    return held == sum(path.stat().st_size for path in directory.glob("*.log"))


def filled_in(line: str, places: Mapping[str, str]) -> str:
    """A line of a plan, with what a person puts in the place of each name."""
    return re.sub("|".join(places), lambda found: places[found[0]], line)


def _listed(said: str) -> list[str]:
    """The partitions that kafka-topics.sh lists."""
    return [f"{topic}-{partition}" for topic, partition in re.findall(r"Topic: (\S+)\s+Partition: (\d+)", said)]


def _may_lead(said: str, partitions: list[str], broker: int) -> list[str]:
    """Those of some partitions that a broker leads, or is in the ISR or the ELR of."""
    lines = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: \S+\s+Isr: ?(\S*)(?:\s+Elr: ?(\S*))?", said)
    named = {f"{topic}-{partition}": {leader, *isr.split(","), *elr.split(",")} for topic, partition, leader, isr, elr in lines}
    assert named.keys() >= {*partitions}
    return [one for one in partitions if str(broker) in named[one]]


def _hanging(said: str) -> list[str]:
    """The partitions that kafka-transactions.sh lists, below its head."""
    return [f"{words[0]}-{words[1]}" for words in map(str.split, said.splitlines()[1:]) if len(words) > 1]


def _missing(said: str) -> list[set[int]]:
    """Of each partition with a leader that kafka-topics.sh lists the brokers that are not in the ISR."""
    found = re.findall(r"Leader: \d+\s+Replicas: ([\d,]+)\s+Isr: ([\d,]*)", said)
    return [{int(one) for one in replicas.split(",")} - {int(one) for one in isr.split(",") if one} for replicas, isr in found]


def _is_complete(said: str) -> bool:
    """What --verify prints of each partition."""
    assert "failed" not in said.lower(), said
    return "still in progress" not in said and "is completed" in said
