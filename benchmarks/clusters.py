#!/usr/bin/env python3
"""Makes clusters of any size for benchmarks: brokers' log directories, or what `collect` would have written of them.

.venv/bin/python benchmarks/clusters.py --output /tmp/cluster --partitions 10000
.venv/bin/python benchmarks/clusters.py --help

The same options give the same cluster, byte by byte. Each partition has a log of its own: one batch of magic 2 in each leader epoch, of
one to eight records, in one segment or several. Its replicas hold the same bytes, except of partitions that have diverged: of these one
follower missed the last epoch, and went on alone in the one before, as after an election while it was cut off. A collection has no batch
indexes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lib"))

from replica_audit.collect.rows_file import SmallFilesFile  # noqa: E402 - the package need not be installed
from replica_audit.formats.collection import manifest as manifests  # noqa: E402
from replica_audit.formats.collection.collected_rows import ROWS  # noqa: E402
from replica_audit.formats.collection.manifest import CapturedLogDir, CapturedReplica, Manifest  # noqa: E402
from replica_audit.formats.segment.segment_fold import WINDOW_BITS, digest  # noqa: E402

TIME = 1_700_000_000_000
_DAY_MS = 86_400_000
_METADATA_MS = 1_767_323_045_000  # 2026-01-02T03:04:05Z
OFFSETS_FILES = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
OF_REPLICA = ("leader-epoch-checkpoint", "partition.metadata")
_PER_TOPIC = 50
_MOST_RECORDS = 8
_DIFFERENT = 256  # batches: which of them a log has is drawn
_AT_ONCE = 10_000  # replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What is made. `diverged` is the share of partitions of which one follower has another last batch than its leader.

    `night`: each is the same cluster a day later, of which since night 0 the share `changed` of partitions has another last batch.
    """

    partitions: int
    replicas: int = 3
    brokers: int = 6
    epochs: int = 10
    segments: int = 1
    diverged: float = 0.01
    seed: int = 7
    night: int = 0
    changed: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of replicas as columns: of each one row, and of each batch one column. All but `partition` have a row per replica."""

    partition: Any
    batch: Any  # which of the different batches
    base: Any  # its first offset
    epoch: Any

    @property
    def size(self) -> int:
        """How many logs."""
        return len(self.partition)

    def parts(self, segments: int) -> list[Logs]:
        """The batches of each of so many segments, the first ones first."""
        places = np.array_split(np.arange(self.batch.shape[1]), segments)
        return [
            Logs(partition=self.partition, batch=self.batch[:, some], base=self.base[:, some], epoch=self.epoch[:, some]) for some in places
        ]


class Batches:
    """Some different batches at offset 0, and what a scan says of them."""

    def __init__(self, seed: int) -> None:
        """Make them: random values, as many records as drawn."""
        random = np.random.default_rng(seed)
        self.content = [_batch(int(random.integers(1, _MOST_RECORDS + 1)), random) for _ in range(_DIFFERENT)]
        self.size = np.array([len(one) for one in self.content])
        self.records = np.array([struct.unpack_from(">i", one, 57)[0] for one in self.content])
        self.crc = np.array([struct.unpack_from(">I", one, 17)[0] for one in self.content], dtype=np.uint64)


def _batch(records: int, random: np.random.Generator) -> bytes:
    """A batch of magic 2 at offset 0."""
    body = b"".join(_record(delta, random.bytes(int(random.integers(4, 12)))) for delta in range(records))
    covered = struct.pack(">hiqqqhii", 0, records - 1, TIME, TIME + records - 1, -1, -1, -1, records) + body
    return struct.pack(">qiibI", 0, 49 - 40 + len(covered), 0, 2, crc32c.crc32c(covered)) + covered


def _record(delta: int, value: bytes) -> bytes:
    """A record without a key; all of its numbers fit into one byte of a varint."""
    body = bytes((0, 2 * delta, 2 * delta, 1, 2 * len(value))) + value + b"\0"
    return bytes((2 * len(body),)) + body


@dataclass(slots=True)
class Maker:
    """Makes one cluster."""

    cluster: Cluster
    batches: Batches = field(init=False)
    leaders: Logs = field(init=False)
    is_diverged: Any = field(init=False)

    def __post_init__(self) -> None:
        """Draw what every leader holds."""
        made = self.cluster
        self.batches = Batches(made.seed)
        random = np.random.default_rng(made.seed + 1)
        partition = np.arange(made.partitions)
        batch = random.integers(0, _DIFFERENT, (made.partitions, made.epochs))
        first = random.integers(0, 3, made.partitions)
        epoch = np.cumsum(np.hstack([first[:, None], random.integers(1, 3, (made.partitions, made.epochs - 1))]), axis=1)
        if made.night:
            is_changed = np.random.default_rng((made.seed, made.night)).random(made.partitions) < made.changed
            batch[is_changed, -1] = (batch[is_changed, -1] + 1) % _DIFFERENT
        self.leaders = Logs(partition=partition, batch=batch, base=_bases(self.batches.records[batch]), epoch=epoch)
        self.is_diverged = random.random(made.partitions) < made.diverged

    @property
    def id(self) -> str:
        """The cluster's id."""
        made = self.cluster
        return _uuid(f"cluster {made.partitions} {made.replicas} {made.brokers} {made.epochs} {made.diverged} {made.seed}")

    @property
    def captured_at_ms(self) -> int:
        """When a collection was made."""
        return TIME + 10**7 + self.cluster.night * _DAY_MS

    def replicas_of(self, partition: int) -> list[int]:
        """The brokers of a partition, its leader first."""
        return [(partition + place) % self.cluster.brokers + 1 for place in range(self.cluster.replicas)]

    def on_broker(self, broker: int) -> Iterator[Logs]:
        """The logs of a broker, some replicas at once."""
        brokers = np.array([self.replicas_of(first) for first in range(self.cluster.brokers)])
        held = brokers[self.leaders.partition % self.cluster.brokers] == broker
        ours = np.flatnonzero(held.any(axis=1))
        for start in range(0, len(ours), _AT_ONCE):
            some = ours[start : start + _AT_ONCE]
            yield self._logs(some, is_other=self.is_diverged[some] & held[some, 1])

    def _logs(self, partition: Any, is_other: Any) -> Logs:
        batch, epoch = self.leaders.batch[partition].copy(), self.leaders.epoch[partition].copy()
        batch[is_other, -1] = (batch[is_other, -1] + 1) % _DIFFERENT
        if self.cluster.epochs > 1:
            epoch[is_other, -1] = epoch[is_other, -2]
        return Logs(partition=partition, batch=batch, base=_bases(self.batches.records[batch]), epoch=epoch)

    def names(self, logs: Logs) -> list[str]:
        """The directories of replicas."""
        return [f"{_topic(partition)}-{partition % _PER_TOPIC}" for partition in logs.partition.tolist()]

    def ends(self, logs: Logs) -> Any:
        """The log end offsets."""
        return logs.base[:, -1] + self.batches.records[logs.batch[:, -1]]

    def write(self, root: Path, *, is_collected: bool) -> None:
        """Write the cluster below a folder, which is made; over the log directories of another night, of which the same files stay."""
        root.mkdir(parents=True, exist_ok=not is_collected)
        _put(root / "cluster-metadata.json", json.dumps(self._metadata(), separators=(",", ":")))
        for broker in range(1, self.cluster.brokers + 1):
            _Broker(self, broker, root / f"broker-{broker}").write(is_collected=is_collected)

    def _metadata(self) -> dict[str, Any]:
        topics: dict[str, list[dict[str, Any]]] = {}
        for partition, epoch in enumerate(self.leaders.epoch[:, -1].tolist()):
            brokers = self.replicas_of(partition)
            isr = [one for place, one in enumerate(brokers) if not (place == 1 and self.is_diverged[partition])]
            known = {"partition": partition % _PER_TOPIC, "leader": brokers[0], "leader_epoch": epoch, "replicas": brokers, "isr": isr}
            topics.setdefault(_topic(partition), []).append(known)
        return {
            "version": 1,
            "cluster_id": self.id,
            "captured_at": manifests.utc_text(_METADATA_MS + self.cluster.night * _DAY_MS),
            "kafka_version": "4.2.0",
            "features": {"metadata.version": 29},
            "brokers": [{"id": broker, "state": "down"} for broker in range(1, self.cluster.brokers + 1)],
            "topics": [{"topic": name, "topic_id": _uuid(name), "configs": {}, "partitions": made} for name, made in topics.items()],
        }


@dataclass(slots=True)
class _Broker:
    """Writes the folder of one broker."""

    maker: Maker
    broker: int
    folder: Path
    captured: list[CapturedReplica] = field(default_factory=list)
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # by directory: log end offset, high watermark

    @property
    def path(self) -> str:
        """The log directory on the broker."""
        return f"/var/lib/kafka/broker-{self.broker}/data-0"

    def write(self, *, is_collected: bool) -> None:
        place = self.folder / "data-0"
        place.mkdir(parents=True, exist_ok=not is_collected)
        writer = pq.ParquetWriter(place / manifests.SEGMENTS_FILE, ROWS, compression="zstd") if is_collected else None
        small = SmallFilesFile(place / manifests.SMALL_FILES_FILE) if is_collected else None
        segments = self.maker.cluster.segments
        for logs in self.maker.on_broker(self.broker):
            names = self.maker.names(logs)
            for name, files in zip(names, self._small_files(logs, names), strict=True):
                if small is not None:
                    small.add(0, name, files)
                    continue
                (place / name).mkdir(exist_ok=True)
                for file, content in files.items():
                    _put(place / name / file, content)
            if writer is None:
                for part in logs.parts(segments):
                    _write_segments(place, part, names, self.maker.batches)
            else:
                rows = pa.concat_tables([_rows(part, names, self.maker.batches) for part in logs.parts(segments)])
                rows = rows.take(np.arange(rows.num_rows).reshape(segments, -1).T.ravel())  # those of a replica together
                writer.write_table(rows)
                sizes = self.maker.batches.size[logs.batch].sum(axis=1).tolist()
                self.captured += [
                    CapturedReplica(
                        directory=name,
                        capture=0,
                        captured_at_ms=self.maker.captured_at_ms,
                        segments=segments,
                        batches=logs.batch.shape[1],
                        size_bytes=size,
                        files=OF_REPLICA,
                    )
                    for name, size in zip(names, sizes, strict=True)
                ]
        self._offsets(place)
        if writer is not None and small is not None:
            writer.close()
            self._manifest(place, *small.close())

    def _small_files(self, logs: Logs, names: list[str]) -> Iterator[dict[str, bytes]]:
        """Of each replica what its small files hold."""
        leader_ends = (self.maker.leaders.base[logs.partition, -1]).tolist()
        own_ends, other = self.maker.ends(logs).tolist(), (logs.epoch != self.maker.leaders.epoch[logs.partition]).any(axis=1).tolist()
        topic_ids = {topic: _uuid(topic) for topic in {name.rpartition("-")[0] for name in names}}
        for name, epochs, bases, end, common, is_other in zip(
            names, logs.epoch.tolist(), logs.base.tolist(), own_ends, leader_ends, other, strict=True
        ):
            starts = dict(reversed(list(zip(epochs, bases, strict=True))))
            lines = [f"{epoch} {start}" for epoch, start in sorted(starts.items())]
            self.ends[name] = end, common if is_other else end
            contents = "\n".join(["0", str(len(lines)), *lines, ""]), f"version: 0\ntopic_id: {topic_ids[name.rpartition('-')[0]]}"
            yield dict(zip(OF_REPLICA, (content.encode() for content in contents), strict=True))

    def _offsets(self, place: Path) -> None:
        lines = {
            OFFSETS_FILES[0]: [0] * len(self.ends),
            OFFSETS_FILES[1]: [high_watermark for _end, high_watermark in self.ends.values()],
            OFFSETS_FILES[2]: [],
        }
        for file, offsets in lines.items():
            named = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in zip(self.ends, offsets, strict=False)]
            _put(place / file, "\n".join(["0", str(len(named)), *named, ""]))
        properties = {"version": 1, "node.id": self.broker, "cluster.id": self.maker.id, "directory.id": _uuid(str(self.broker))}
        _put(place / "meta.properties", "".join(f"{key}={value}\n" for key, value in properties.items()))

    def _manifest(self, place: Path, small_bytes: int, small_crc32c: int) -> None:
        content = (place / manifests.SEGMENTS_FILE).read_bytes()
        files = ("meta.properties", *OFFSETS_FILES)
        log_dir = CapturedLogDir(
            path=self.path,
            folder=place.name,
            directory_id=_uuid(str(self.broker)),
            in_use=False,
            segments_bytes=len(content),
            segments_crc32c=crc32c.crc32c(content),
            files=files,
            file_digests={name: manifests.file_digest((place / name).read_bytes()) for name in files},
            replicas=tuple(self.captured),
            small_files_bytes=small_bytes,
            small_files_crc32c=small_crc32c,
        )
        made = Manifest(
            broker_id=self.broker,
            cluster_id=self.maker.id,
            host=f"broker-{self.broker}",
            started_at_ms=self.maker.captured_at_ms,
            finished_at_ms=self.maker.captured_at_ms,
            log_dirs=(log_dir,),
        )
        (self.folder / manifests.MANIFEST).write_bytes(manifests.content(made))


def _write_segments(place: Path, logs: Logs, names: list[str], batches: Batches) -> None:
    for name, batch, bases, epochs in zip(names, logs.batch.tolist(), logs.base.tolist(), logs.epoch.tolist(), strict=True):
        content = bytearray()
        for which, base, epoch in zip(batch, bases, epochs, strict=True):
            start = len(content)
            content += batches.content[which]
            struct.pack_into(">q", content, start, base)  # the CRC covers neither of these
            struct.pack_into(">i", content, start + 12, epoch)
        _put(place / name / _segment(bases[0]), bytes(content))


def _put(path: Path, content: str | bytes) -> None:
    """Write a file, unless it has this content: brokers do not write again what did not change."""
    wanted = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != wanted:
        path.write_bytes(wanted)


def _rows(logs: Logs, names: list[str], batches: Batches) -> pa.Table:
    """The rows of `segments.parquet`: what a scan of the same bytes gives."""
    size = logs.size
    count, records, bytes_, crc = logs.batch.shape[1], batches.records[logs.batch], batches.size[logs.batch], batches.crc[logs.batch]
    # batches of one epoch are one run: only where a follower went on in the epoch before
    starts = np.hstack([np.ones((size, 1), bool), logs.epoch[:, 1:] != logs.epoch[:, :-1]])
    first = np.flatnonzero(starts.ravel())

    def summed(values: Any) -> Any:
        return np.add.reduceat(values.ravel(), first)

    last = logs.base + records - 1
    runs = pa.StructArray.from_arrays(
        [
            pa.array(values, kind.type)
            for values, kind in zip(
                (
                    logs.epoch.ravel()[first],
                    logs.base.ravel()[first],
                    np.maximum.reduceat(last.ravel(), first),
                    summed(np.ones_like(logs.base)),
                    summed(records),
                    summed(bytes_),
                    TIME + np.minimum.reduceat((records - 1).ravel(), first),
                    TIME + np.maximum.reduceat((records - 1).ravel(), first),
                    np.full(len(first), 2),
                    np.ones(len(first), bool),
                ),
                _RUN,
                strict=True,
            )
        ],
        fields=list(_RUN),
    )
    ends = np.cumsum(starts.sum(axis=1))
    with np.errstate(over="ignore"):
        digests = digest(logs.base.astype(np.uint64), (records - 1).astype(np.uint64), crc).sum(axis=1, dtype=np.uint64).view(np.int64)
    assert int(last.max(initial=0)) < 1 << WINDOW_BITS, "a log is one window"  # noqa: S101
    windows = pa.StructArray.from_arrays(
        [pa.array(values, pa.int64()) for values in (np.zeros(size, int), np.full(size, 1 << WINDOW_BITS), digests, np.full(size, count))],
        fields=list(_WINDOW),
    )
    columns = {
        "capture": np.zeros(size, np.int32),
        "directory": names,
        "topic": [name.rpartition("-")[0] for name in names],
        "partition": logs.partition % _PER_TOPIC,
        "name": [_segment(base) for base in logs.base[:, 0].tolist()],
        "base_offset": logs.base[:, 0],
        "swap": np.zeros(size, bool),
        "size_bytes": bytes_.sum(axis=1),
        "batch_count": np.full(size, count),
        "index_bytes": [None] * size,
        "runs": pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), runs),
        "damaged": np.zeros(size, bool),
        "failed": np.zeros(size, bool),
        "problems": [[]] * size,
        "windows": pa.ListArray.from_arrays(pa.array(np.arange(size + 1), pa.int32()), windows),
        "producers": [{"spans": [], "gaps": [], "untold_batches": 0}] * size,
    }
    columns |= {name: [None] * size for name in ROWS.names if name not in columns}  # what the next collection asks, and there is no index
    made = [
        one.cast(ROWS.field(name).type) if isinstance(one, pa.Array) else pa.array(one, ROWS.field(name).type)
        for name, one in columns.items()
    ]
    return pa.table(made, schema=ROWS)


_RUN, _WINDOW = ROWS.field("runs").type.value_type, ROWS.field("windows").type.value_type


def _bases(records: Any) -> Any:
    """The first offset of every batch of logs that begin at 0."""
    return np.cumsum(records, axis=1) - records


def _segment(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def _topic(partition: int) -> str:
    return f"topic-{partition // _PER_TOPIC}"


def _uuid(name: str) -> str:
    """A Kafka Uuid for a name: 22 characters, the first of which is no dash."""
    return "A" + base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")[1:]


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to make; only of raw log directories it may be there")
    parser.add_argument("--form", choices=("raw", "collected"), default="collected", help="log directories, or what collect writes of them")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=10, help="leader epochs of every log")
    parser.add_argument("--segments", type=int, default=1, help="of every log, at most as many as epochs")
    parser.add_argument("--diverged", type=float, default=0.01, metavar="SHARE", help="of partitions with a follower that has diverged")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--night", type=int, default=0, help="the same cluster so many days later")
    parser.add_argument("--changed", type=float, default=0.01, metavar="SHARE", help="of partitions that have changed since night 0")
    given = parser.parse_args(arguments)
    if not 1 <= given.segments <= given.epochs:
        parser.error(f"--segments {given.segments}: each has a batch at least, and a log one in each of --epochs {given.epochs}")
    names = ("partitions", "replicas", "brokers", "epochs", "segments", "diverged", "seed", "night", "changed")
    Maker(Cluster(**{name: getattr(given, name) for name in names})).write(given.output, is_collected=given.form == "collected")


if __name__ == "__main__":
    main()
