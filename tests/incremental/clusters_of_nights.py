"""Clusters that change from night to night, as log directories or as what `collect` writes of them, to be audited each night."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from replica_audit.collect import CollectRequest, collect
from tests.collect.collections import quietly
from tests.formats import kafka_files as kf
from tests.formats import metadata_files as mf
from tests.formats import record_files as rf

BROKERS = (1, 2, 3)
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_OFFSETS, _METADATA = "__consumer_offsets-0", "__cluster_metadata-0"
_RECORD_MS = 1_000_000  # the timestamp of the record at offset 0; of each after it a millisecond more
_SEGMENT_BATCHES = 3


@dataclass(slots=True)
class Copy:
    """One replica's log: (base offset, epoch, bytes) of its batches, and the offsets at which its segments begin."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    rolls: list[int] = field(default_factory=lambda: [0])
    marks: dict[str, bytes] = field(default_factory=dict)  # small files that are not what they should be
    start: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0] + 1 if self.batches else self.start

    def append(self, epoch: int, value: bytes) -> None:
        if len([one for one in self.batches if one[0] >= self.rolls[-1]]) >= _SEGMENT_BATCHES:
            self.rolls.append(self.end)
        self.batches.append((self.end, epoch, kf.batch(self.end, epoch, value=value, timestamp=_RECORD_MS + self.end)))

    def copied(self) -> Copy:
        return Copy(batches=list(self.batches), rolls=list(self.rolls), start=self.start)

    def files(self) -> dict[str, bytes]:
        found = {}
        for first, end in zip(self.rolls, [*self.rolls[1:], 1 << 62], strict=True):
            if end > self.start:
                found[f"{first:020d}.log"] = b"".join(content for base, _epoch, content in self.batches if first <= base < end)
        starts: dict[int, int] = {}
        for base, epoch, _content in self.batches:
            starts.setdefault(epoch, max(base, self.start))
        found["leader-epoch-checkpoint"] = kf.checkpoint(sorted(starts.items()))
        found["partition.metadata"] = kf.partition_metadata()
        return found | self.marks


@dataclass(slots=True)
class Topic:
    """A partition with three replicas; `copies` lacks those that are not there."""

    name: str
    leader: int = 1
    epoch: int = 0
    isr: tuple[int, ...] = BROKERS
    copies: dict[int, Copy] = field(default_factory=dict)


class MetadataLog:
    """The log of a controller that notes each night what became of partitions, and that time passed."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.time_ms, self.end, self.content = chance, _RECORD_MS, 0, b""
        self.known: dict[str, tuple[int, int, tuple[int, ...]]] = {}  # leader, epoch and ISR by partition
        brokers = [mf.record("REGISTER_BROKER_RECORD", brokerId=broker, brokerEpoch=broker, fenced=False) for broker in BROKERS]
        self._add(mf.record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=29), *brokers, mf.topic("orders", kf.TOPIC_ID))

    def _add(self, *values: bytes) -> None:
        self.content += mf.batch(self.end, 1, *values, timestamp=self.time_ms)
        self.end += len(values)

    def night(self, topics: Mapping[str, Topic]) -> None:
        # a broker that is up for so long after a change has heard of it; else the timestamps of records tell
        self.time_ms += self.chance.choice((1, 3, 7, 20_000))
        self._add(mf.record("NO_OP_RECORD"))
        for name, topic in sorted(topics.items()):
            leader, epoch, isr = self.known.get(name, (topic.leader, -1, topic.isr))
            number = int(name.rsplit("-", 1)[1])
            if epoch < 0:
                self._add(mf.partition(number, kf.TOPIC_ID, leader=topic.leader, leaderEpoch=topic.epoch, isr=list(topic.isr)))
            elif (leader, epoch, isr) != (topic.leader, topic.epoch, topic.isr):
                for _election in range(topic.epoch - epoch):  # each with a leader has the next epoch
                    self._add(mf.change(number, kf.TOPIC_ID, leader=topic.leader, isr=list(topic.isr)))
                self._add(mf.change(number, kf.TOPIC_ID, isr=list(topic.isr)))
            self.known[name] = topic.leader, topic.epoch, topic.isr

    def files(self) -> dict[str, bytes]:
        return {f"{_METADATA}/{0:020d}.log": self.content, f"{_METADATA}/leader-epoch-checkpoint": kf.checkpoint([(1, 0)])}


class Cluster:
    """Three brokers on disk below `place`; what is audited of them is in `root`, another one each night if it is collected."""

    def __init__(self, place: Path, seed: int, *, is_collected: bool, partitions: int = 6, has_log: bool = False) -> None:
        self.place, self.chance, self.is_collected = place, random.Random(seed), is_collected  # noqa: S311
        self.id = f"night-cluster-{seed:08d}"[:22].ljust(22, "x")
        self.topics = {f"orders-{number}": Topic(f"orders-{number}") for number in range(partitions)}
        for topic in self.topics.values():
            first = Copy()
            for _number in range(self.chance.randrange(2, 9)):
                first.append(0, b"record")
            topic.copies = {broker: first.copied() for broker in BROKERS}
        self.log = MetadataLog(self.chance) if has_log else None
        self.commits: list[tuple[str, int, int]] = []
        self.down: set[int] = set()
        self.high_watermarks: dict[tuple[int, str], int] = {}
        self.logged: dict[int, list[str]] = {}
        self.night = 0
        self.changes: list[str] = []
        self.previous: dict[int, Path] = {}
        self.written = 0
        self._write()

    @property
    def root(self) -> Path:
        return self.place / f"collected-{self.night:04d}" if self.is_collected else self.place / "raw"

    def next_night(self) -> None:
        """Change something, or nothing."""
        self.night += 1
        self.changes = [self.chance.choice(sorted(CHANGES)) for _number in range(self.chance.randrange(3))]
        for what in self.changes:
            CHANGES[what](self, self.topics[self.chance.choice(sorted(self.topics))])
        self._write()

    def change(self, what: str) -> None:
        """Do one of CHANGES, to the first partition."""
        CHANGES[what](self, self.topics[min(self.topics)])
        self._write()

    def _write(self) -> None:
        raw = self.place / "raw"
        if self.log:
            self.log.night(self.topics)
        for broker in BROKERS:
            log_dir = raw / f"broker-{broker}" / "data"
            wanted = {"meta.properties": kf.meta_properties(broker, self.id)}
            for topic in self.topics.values():
                if broker in topic.copies:
                    wanted |= {f"{topic.name}/{name}": content for name, content in topic.copies[broker].files().items()}
            if self.commits and broker == 1:
                wanted |= self._group_offsets()
            if self.log and broker == 1:
                wanted |= self.log.files()
            ends = {name: topic.copies[broker].end for name, topic in self.topics.items() if broker in topic.copies}
            marks = [(*name.rsplit("-", 1), self.high_watermarks.get((broker, name), end)) for name, end in sorted(ends.items())]
            wanted["replication-offset-checkpoint"] = kf.checkpoint(marks)
            starts = [(*name.rsplit("-", 1), topic.copies[broker].start) for name, topic in self.topics.items() if broker in topic.copies]
            wanted["log-start-offset-checkpoint"] = kf.checkpoint(one for one in starts if one[-1])
            self._put(log_dir, wanted)
            if broker in self.logged:
                self._put_file(raw / f"broker-{broker}" / "server.log", "".join(f"{line}\n" for line in self.logged[broker]).encode())
        self._put_file(raw / "cluster-metadata.json", json.dumps(self._metadata()).encode())
        if self.is_collected:
            self._collect(raw)

    def _put(self, folder: Path, wanted: dict[str, bytes]) -> None:
        """Files that did not change are not touched."""
        there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        for name in there - wanted.keys():
            (folder / name).unlink()
        for name, content in wanted.items():
            self._put_file(folder / name, content)
        for path in list(folder.iterdir()):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def _put_file(self, path: Path, content: bytes) -> None:
        if path.exists() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.written += 1  # long ago, and never twice at one time: no test waits for a file to be at rest
        os.utime(path, ns=(0, (1_700_000_000 + self.written) * 1_000_000_000))

    def _group_offsets(self) -> dict[str, bytes]:
        made = [
            rf.records_batch([(place, 0, rf.commit_key(group, *_split(self._some(number))), rf.commit_value(3, offset, epoch=0), ())])
            for place, (group, number, offset) in enumerate(self.commits)
        ]
        files = {"00000000000000000000.log": b"".join(made), "leader-epoch-checkpoint": kf.checkpoint([(0, 0)])}
        return {f"{_OFFSETS}/{name}": content for name, content in files.items()}

    def _some(self, number: int) -> str:
        names = sorted(self.topics)
        return names[number % len(names)]

    def _metadata(self) -> dict[str, object]:
        partitions = [
            {
                "partition": int(topic.name.rsplit("-", 1)[1]),
                "leader": topic.leader,
                "leader_epoch": topic.epoch,
                "replicas": list(BROKERS),
                "isr": list(topic.isr),
            }
            for topic in self.topics.values()
        ]
        captured_at = _FIRST + timedelta(days=self.night)
        return {
            "version": 1,
            "cluster_id": self.id,
            "captured_at": captured_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "kafka_version": "4.2.0",
            "features": {"metadata.version": 29},
            "brokers": [{"id": broker, "state": "down" if broker in self.down else "up"} for broker in BROKERS],
            "topics": [{"topic": "orders", "topic_id": kf.TOPIC_ID, "configs": {}, "partitions": partitions}],
        }

    def _collect(self, raw: Path) -> None:
        for broker in BROKERS:
            request = CollectRequest(output=self.root, log_dirs=(raw / f"broker-{broker}" / "data",), since=self.previous.get(broker))
            self.previous[broker] = collect(request, quietly).folder
        shutil.copy2(raw / "cluster-metadata.json", self.root)


def _split(name: str) -> tuple[str, int]:
    topic, _dash, number = name.rpartition("-")
    return topic, int(number)


def _append(cluster: Cluster, topic: Topic) -> None:
    for _number in range(cluster.chance.randrange(1, 4)):
        value = f"night {cluster.night}".encode()
        for copy in topic.copies.values():
            copy.append(topic.epoch, value)


def _lag(cluster: Cluster, topic: Topic) -> None:
    if topic.leader in topic.copies:
        topic.copies[topic.leader].append(topic.epoch, f"only leader, night {cluster.night}".encode())


def _elect(_cluster: Cluster, topic: Topic) -> None:
    topic.epoch += 1
    topic.leader = topic.leader % len(BROKERS) + 1
    if topic.leader in topic.copies:
        for broker in topic.copies.keys() - {topic.leader}:
            topic.copies[broker] = topic.copies[topic.leader].copied()
        for copy in topic.copies.values():
            copy.append(topic.epoch, b"first of an epoch")


def _diverge(cluster: Cluster, topic: Topic) -> None:
    old = topic.leader
    topic.leader, topic.epoch = old % len(BROKERS) + 1, topic.epoch + 1
    topic.isr = tuple(broker for broker in BROKERS if broker != old)
    if old in topic.copies:
        cluster.high_watermarks[old, topic.name] = topic.copies[old].end
    for broker, copy in topic.copies.items():
        copy.append(topic.epoch - 1 if broker == old else topic.epoch, f"night {cluster.night} of {broker == old}".encode())


def _alone_in_sync(_cluster: Cluster, topic: Topic) -> None:
    topic.isr = (topic.leader,)


def _truncate(_cluster: Cluster, topic: Topic) -> None:
    for broker in sorted(topic.copies.keys() - {topic.leader})[:1]:
        _lose_two(topic.copies[broker])


def _lose_two(copy: Copy) -> None:
    copy.batches = copy.batches[: max(1, len(copy.batches) - 2)]
    copy.rolls = [first for first in copy.rolls if first < copy.end] or [copy.start]


def _leader_loses_its_end(cluster: Cluster, topic: Topic) -> None:
    if topic.leader in topic.copies:
        _lose_two(topic.copies[topic.leader])
        for broker in topic.copies:
            cluster.high_watermarks[broker, topic.name] = topic.copies[topic.leader].end


def _retention(_cluster: Cluster, topic: Topic) -> None:
    for copy in topic.copies.values():
        if len(copy.rolls) > 1:
            copy.rolls.pop(0)
            copy.start = copy.rolls[0]
            copy.batches = [one for one in copy.batches if one[0] >= copy.start]


def _compact(_cluster: Cluster, topic: Topic) -> None:
    for copy in topic.copies.values():
        if len(copy.rolls) > 1 and len(copy.batches) > 4:
            copy.batches.pop(1)


def _roll(_cluster: Cluster, topic: Topic) -> None:
    for copy in topic.copies.values():
        if copy.end not in copy.rolls:
            copy.rolls.append(copy.end)
    _append(_cluster, topic)


def _vanish(cluster: Cluster, topic: Topic) -> None:
    if len(topic.copies) > 1:
        topic.copies.pop(cluster.chance.choice(sorted(topic.copies)))


def _come_back(_cluster: Cluster, topic: Topic) -> None:
    for broker in set(BROKERS) - topic.copies.keys():
        topic.copies[broker] = next(iter(topic.copies.values())).copied()


def _heal(_cluster: Cluster, topic: Topic) -> None:
    if topic.leader in topic.copies:
        topic.copies = {broker: topic.copies[topic.leader].copied() for broker in BROKERS}
        topic.isr = BROKERS


def _rot(cluster: Cluster, topic: Topic) -> None:
    copy = topic.copies[cluster.chance.choice(sorted(topic.copies))]
    if not copy.batches:
        return
    at = cluster.chance.randrange(len(copy.batches))
    base, epoch, content = copy.batches[at]
    copy.batches[at] = base, epoch, content[:-1] + bytes([content[-1] ^ 0x01])


def _garble(cluster: Cluster, topic: Topic) -> None:
    copy = topic.copies[cluster.chance.choice(sorted(topic.copies))]
    copy.marks = {} if copy.marks else {"leader-epoch-checkpoint": b"0\n1\nnonsense\n"}


def _topic_removed(cluster: Cluster, topic: Topic) -> None:
    if len(cluster.topics) > 3:
        del cluster.topics[topic.name]


def _topic_added(cluster: Cluster, _topic: Topic) -> None:
    name = f"orders-{100 + cluster.night}"
    made = Topic(name, copies={broker: Copy() for broker in BROKERS})
    cluster.topics[name] = made
    _append(cluster, made)


def _broker_state(cluster: Cluster, _topic: Topic) -> None:
    cluster.down ^= {cluster.chance.choice(BROKERS)}


def _high_watermark(cluster: Cluster, topic: Topic) -> None:
    cluster.high_watermarks[cluster.chance.choice(BROKERS), topic.name] = cluster.chance.randrange(3)


def _commit(cluster: Cluster, _topic: Topic) -> None:
    cluster.commits.append((f"group-{cluster.chance.randrange(2)}", cluster.chance.randrange(9), cluster.chance.randrange(12)))


def _logged(cluster: Cluster, topic: Topic) -> None:
    broker = cluster.chance.choice(BROKERS)
    line = f"[2026-01-02 03:04:05,{cluster.night:03d}] INFO [Log partition={topic.name}, dir=/data] Truncating to offset 1 (kafka.log.Log)"
    cluster.logged.setdefault(broker, []).append(line)


CHANGES: dict[str, Callable[[Cluster, Topic], None]] = {
    "append": _append,
    "lag": _lag,
    "elect": _elect,
    "diverge": _diverge,
    "alone in sync": _alone_in_sync,
    "truncate": _truncate,
    "leader loses its end": _leader_loses_its_end,
    "retention": _retention,
    "compact": _compact,
    "roll": _roll,
    "vanish": _vanish,
    "come back": _come_back,
    "heal": _heal,
    "rot": _rot,
    "garble": _garble,
    "topic removed": _topic_removed,
    "topic added": _topic_added,
    "broker state": _broker_state,
    "high watermark": _high_watermark,
    "commit": _commit,
    "logged": _logged,
}
