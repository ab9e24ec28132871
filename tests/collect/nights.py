"""Nights of a broker: a log directory that changes between collections, and what a collection holds of it, to be compared."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replica_audit.collect import CollectRequest, CollectResult, collect, file_identity
from replica_audit.formats.collection.broker_folder import BATCHES_FOLDER
from replica_audit.formats.collection.manifest import SEGMENTS_FILE
from replica_audit.formats.segment.batch_index import read_index
from tests.collect import live_broker
from tests.collect.collections import quietly
from tests.formats import kafka_files as kf

SEGMENT_BYTES = 12_000  # so that there are bytes between those at both ends
OF_THE_NIGHT = ("capture", "verified_at_ms")


@contextmanager
def at_rest() -> Iterator[None]:
    """Let files count as at rest as soon as they are written: no test waits for 2 s, or changes a file while it is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_identity, "_AT_REST_NS", 0)
        patch.setattr(live_broker, "SEGMENT_BYTES", SEGMENT_BYTES)
        yield


class Broker:
    """A log directory of two topics, one of them compacted, with sealed segments and a newest one in each replica."""

    def __init__(self, path: Path, seed: int = 1, segments: int = 4) -> None:
        self.path, self.chance = path, random.Random(seed)  # noqa: S311
        path.mkdir(parents=True)
        (path / "meta.properties").write_bytes(kf.meta_properties(1))
        kinds = {"plain-0": False, "cleaned-0": True}
        self.replicas = [
            live_broker.Replica(path, name, self.chance, compacts=compacts, preallocates=False) for name, compacts in kinds.items()
        ]
        for replica in self.replicas:
            while len(replica.segments) < segments:
                replica.append()
        self.write_offsets()

    def write_offsets(self) -> None:
        offsets = {one.name: one.high_watermark for one in self.replicas}
        live_broker.write_offsets(self.path, "replication-offset-checkpoint", offsets)

    def sealed(self) -> list[Path]:
        """The segments that are not the newest of their replica."""
        while len(self.replicas[0].segments) == 1:
            self.replicas[0].append()
        return [replica.file(number) for replica in self.replicas for number in range(len(replica.segments) - 1)]

    def change(self, what: str) -> None:
        """Do one of CHANGES."""
        time.sleep(0.01)  # more than a tick of the clock that dates changes
        replica = self.chance.choice(self.replicas)
        CHANGES[what](self, replica)
        self.write_offsets()


def _append(_broker: Broker, replica: live_broker.Replica) -> None:
    for _number in range(replica.chance.randrange(1, 60)):
        replica.append()


def _roll(_broker: Broker, replica: live_broker.Replica) -> None:
    number = len(replica.segments)
    while len(replica.segments) == number:
        replica.append()


def _truncate(_broker: Broker, replica: live_broker.Replica) -> None:
    replica.high_watermark = replica.chance.randrange(replica.bases[0] + 1, replica.end)
    replica.truncate()
    replica.append()


def _compact(broker: Broker, _replica: live_broker.Replica) -> None:
    cleaned = broker.replicas[-1]
    while len(cleaned.segments) < 4:
        cleaned.append()
    cleaned.clean()


def _delete_and_come_back(broker: Broker, replica: live_broker.Replica) -> None:
    replica.delete()
    for _number in range(90):
        replica.append()


def _vanish(broker: Broker, _replica: live_broker.Replica) -> None:
    gone = broker.path / "gone-0"
    if gone.exists():
        shutil.rmtree(gone)
    else:
        shutil.copytree(broker.replicas[0].path, gone)


def rot(path: Path) -> None:
    """Change a byte of a record between those at both ends."""
    content = path.read_bytes()
    at = content.index(b"v" * 8, len(content) // 2)
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(b"w")


def _rot_in_disguise(broker: Broker, _replica: live_broker.Replica) -> None:
    path = broker.chance.choice(broker.sealed())
    before = path.stat()
    rot(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _other_content_of_the_same_size(broker: Broker, _replica: live_broker.Replica) -> None:
    path = broker.chance.choice(broker.sealed())
    before, content = path.stat(), path.read_bytes()
    path.unlink()
    path.write_bytes(content)  # file systems give the number of a file that was just deleted to the next
    rot(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _copied_back(broker: Broker, _replica: live_broker.Replica) -> None:
    path = broker.chance.choice(broker.sealed())
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


CHANGES: dict[str, Callable[[Broker, live_broker.Replica], None]] = {
    "nothing": lambda _broker, _replica: None,
    "append": _append,
    "roll": _roll,
    "elect": lambda _broker, replica: replica.elect(),
    "retention": lambda _broker, replica: replica.delete_oldest(),
    "truncate": _truncate,
    "compact": _compact,
    "delete and come back": _delete_and_come_back,
    "vanish": _vanish,
    "rot in disguise": _rot_in_disguise,
    "other content of the same size": _other_content_of_the_same_size,
    "copied back": _copied_back,
    "touch": lambda broker, _replica: os.utime(broker.chance.choice(broker.sealed())),
}


def taken(log_dir: Path, output: Path, **options: Any) -> CollectResult:
    """Collect a log directory."""
    return collect(CollectRequest(output=output, log_dirs=(log_dir,), **options), quietly)


def held(result: CollectResult) -> dict[tuple[str, str], Any]:
    """What a collection holds of every segment, by directory and name: its row, its index or copy. Without what is of the night."""
    (said,) = result.manifest.log_dirs
    folder = result.folder / said.folder
    captures = {replica.directory: replica.capture for replica in said.replicas}
    found = {}
    for row in pq.read_table(folder / SEGMENTS_FILE).to_pylist():
        directory, name = row["directory"], row["name"]
        if captures.get(directory) == row["capture"]:
            index, copy = folder / BATCHES_FOLDER / directory / f"{name[:20]}.parquet", folder / directory / name
            headers = list(read_index(index)) if index.exists() else None
            content = copy.read_bytes() if copy.exists() else None
            row = {key: value for key, value in row.items() if key not in OF_THE_NIGHT}
            found[directory, name] = row, headers, content
    assert len(found) == sum(replica.segments for replica in said.replicas)
    return found
