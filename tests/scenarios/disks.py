"""What a scenario left on the brokers' disks, written as real files (valid CRCs, checkpoints), and what the audit says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from replica_audit.config import Settings
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.codes import Protocol
from tests.formats import kafka_files as kf
from tests.protocol import logs
from tests.support import in_process

TOPIC = "orders"
Row = dict[str, Any]


class Version(NamedTuple):
    """Release of the brokers, their inter.broker.protocol.version (ZooKeeper era), their metadata.version (KRaft)."""

    kafka: str
    inter_broker_protocol: str | None = None
    metadata_version: int | None = None


VERSIONS = {
    Protocol.HIGH_WATERMARK: Version("1.1.1", "0.10.2-IV0"),
    Protocol.KIP_101: Version("1.1.1", "1.1-IV0"),
    Protocol.KIP_279: Version("2.4.1", "2.4-IV1"),
    Protocol.TRUNCATE_ON_FETCH: Version("4.2.0", None, 29),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One replica: batches as (epoch, base, last), single messages of the format before where the epoch is -1.

    `epochs` is what leader-epoch-checkpoint holds: the first batch of each epoch unless given. `segments`: base offsets of more segments.
    `clean`: whether its broker, if down, was shut down cleanly. `other_from`: from this offset on the records have other values. `cleaned`:
    the offset up to which its cleaner has gone, if it has.
    """

    batches: Sequence[logs.Batch]
    epochs: logs.Pairs | None = None
    high_watermark: int = 0
    log_start: int | None = None
    segments: tuple[int, ...] = ()
    codec: int = kf.NONE
    checkpoint: bool = True
    clean: bool = True
    other_from: int | None = None
    cleaned: int | None = None

    @property
    def table(self) -> logs.Pairs:
        return logs.first_of_each_epoch(self.batches) if self.epochs is None else self.epochs

    @property
    def end(self) -> int:
        return self.batches[-1][2] + 1 if self.batches else 0

    @property
    def state(self) -> ReplicaState:
        """The replica as one side of the exchange, by its table alone."""
        return logs.state(self.table, self.end, start=self.log_start or 0, high_watermark=self.high_watermark)

    def write(self, directory: Path) -> None:
        bases = (self.batches[0][1] if self.batches else 0, *self.segments)
        for base, following in zip(bases, (*bases[1:], None), strict=True):
            held = [batch for batch in self.batches if batch[1] >= base and (following is None or batch[1] < following)]
            kf.segment(directory, base, *(self._encoded(*batch) for batch in held))
        if self.checkpoint:
            (directory / log_dir.EPOCH_CHECKPOINT).write_bytes(kf.checkpoint(self.table))

    def _encoded(self, epoch: int, base: int, last: int) -> bytes:
        value = b"other" if self.other_from is not None and base >= self.other_from else b"value"
        if epoch < 0:
            return kf.legacy(1, range(base, last + 1), value=value)
        return kf.batch(base, epoch, deltas=range(last - base + 1), codec=self.codec, value=value)


@dataclass(frozen=True, slots=True)
class Audited:
    """The rows of an audit of the one partition, by follower."""

    tables: dict[str, list[Row]]

    def cut(self, follower: int = 2) -> Row:
        """The row of truncation_points that applies."""
        return next(row for row in self.tables["truncation_points"] if row["applies"] and row["follower_id"] == follower)

    def effect(self, follower: int = 2) -> tuple[int | None, int, bool, bool]:
        """Truncation offset, offsets removed from the file, whether the fetcher fails, whether what survives conflicts with the leader."""
        row = self.cut(follower)
        return row["truncation_offset"], row["removed_offsets"], row["fetcher_fails"], row["still_diverged"]

    def rounds(self, follower: int = 2) -> list[tuple[int | None, int | None, int | None, int | None, bool]]:
        """(requested epoch, answered epoch, answered end offset, truncated to, complete) of each answer."""
        names = ("requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to", "complete")
        return [tuple(part[name] for name in names) for part in self.cut(follower)["rounds"]]

    def verdict(self, follower: int = 2) -> str:
        return str(self.row(follower)["verdict"])

    def row(self, follower: int = 2) -> Row:
        return next(row for row in self.tables["replica_verdicts"] if row["follower_id"] == follower)

    def in_effect(self, broker: int) -> list[tuple[int, int]]:
        """The epoch table that a broker uses once it has loaded the log."""
        rows = [row for row in self.tables["epoch_start_offsets"] if row["broker_id"] == broker and row["in_effect"]]
        return [(row["leader_epoch"], row["start_offset"]) for row in rows]

    def log(self, broker: int) -> Row:
        return next(row for row in self.tables["replica_logs"] if row["broker_id"] == broker)

    def epochs_on_disk(self, broker: int) -> list[int]:
        """The leader epochs in the order in which the batches have them."""
        return [row["leader_epoch"] for row in self.tables["segment_epochs"] if row["broker_id"] == broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Replicas of one partition by broker, with what cluster-metadata.json says.

    Who is not `up` is down; the leader alone is up unless given. `problems`: the codes that input_errors must have.
    """

    disks: Mapping[int, Disk]
    leader: int = 1
    leader_epoch: int
    isr: tuple[int, ...] = ()
    up: tuple[int, ...] | None = None
    problems: tuple[str, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)

    def audit(self, root: Path, protocol: Protocol, version: Version | None = None) -> Audited:
        """Write everything below a new folder of `root` and audit it under the rule that follows from the version."""
        version = version or VERSIONS[protocol]
        home = root / f"{len(list(root.iterdir()))}-{protocol}"
        up = (self.leader,) if self.up is None else self.up
        for broker, disk in self.disks.items():
            self._write(home / f"broker-{broker}" / "data-0", broker, disk, version, up=broker in up)
        (home / log_dir.CLUSTER_METADATA).write_text(json.dumps(self._metadata(version, up)), encoding="utf-8")
        found = Audited(in_process.audit(home, settings=Settings(detail="all")))
        assert not found.tables["problems"]
        assert tuple(row["code"] for row in found.tables["input_errors"]) == self.problems
        assert {row["protocol"] for row in found.tables["truncation_points"] if row["applies"]} <= {str(protocol)}
        return found

    def _write(self, path: Path, broker: int, disk: Disk, version: Version, *, up: bool) -> None:
        replica = path / f"{TOPIC}-0"
        disk.write(replica)
        offsets = {log_dir.HIGH_WATERMARKS: disk.high_watermark, log_dir.LOG_STARTS: disk.log_start}
        for name, offset in offsets.items():
            (path / name).write_bytes(kf.checkpoint([] if offset is None else [(TOPIC, 0, offset)]))
        if disk.cleaned is not None:
            (path / log_dir.CLEANER_OFFSETS).write_bytes(kf.checkpoint([(TOPIC, 0, disk.cleaned)]))
        kraft = version.metadata_version is not None
        (path / log_dir.META_PROPERTIES).write_bytes(kf.meta_properties(broker, version=int(kraft)))
        if kraft:
            (replica / log_dir.PARTITION_METADATA).write_bytes(kf.partition_metadata())
        if disk.clean and not up:
            (path / log_dir.CLEAN_SHUTDOWN).write_bytes(b"")

    def _metadata(self, version: Version, up: tuple[int, ...]) -> Row:
        partition = {"partition": 0, "leader": self.leader, "leader_epoch": self.leader_epoch, "replicas": sorted(self.disks)}
        return {
            "version": 1,
            "cluster_id": kf.CLUSTER_ID,
            "kafka_version": version.kafka,
            "inter_broker_protocol_version": version.inter_broker_protocol,
            "features": {} if version.metadata_version is None else {"metadata.version": version.metadata_version},
            "brokers": [{"id": broker, "state": "up" if broker in up else "down"} for broker in self.disks],
            "topics": [
                {"topic": TOPIC, "configs": dict(self.configs), "partitions": [partition | {"isr": self.isr or (self.leader,)}]},
            ],
        }
