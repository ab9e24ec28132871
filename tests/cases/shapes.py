"""One small partition, as raw copies, as text of kafka-dump-log and as a collection, with metadata and without."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any

from replica_audit.config import Settings
from tests.collect.collections import collect_cluster
from tests.formats import kafka_files as kf
from tests.support import in_process
from tests.support.in_process import Row

RAW, TEXT, COLLECTED = SHAPES = ("raw", "text", "collected")
Segments = Mapping[int, bytes]  # the bytes of each segment by base offset


def filled(base: int, count: int, *, epoch: int = 3, each: int = 10) -> bytes:
    """A segment's batches of ten records each."""
    return b"".join(kf.batch(at, epoch, deltas=range(min(each, base + count - at))) for at in range(base, base + count, each))


def replica(
    root: Path, broker: int, segments: Segments, *, reached: int, table: Sequence[tuple[int, int]] = ((3, 0),), **offsets: int | None
) -> Path:
    """Write a replica of t-0; `offsets` are entries of the log directory's checkpoints, named as the file is up to its first hyphen."""
    log_dir = root / f"broker-{broker}" / "data"
    directory = log_dir / "t-0"
    directory.mkdir(parents=True)
    for base, content in segments.items():
        kf.segment(directory, base, content)
    (directory / "leader-epoch-checkpoint").write_bytes(kf.checkpoint(table))
    (directory / "partition.metadata").write_bytes(kf.partition_metadata())
    (log_dir / "meta.properties").write_bytes(kf.meta_properties(broker))
    (log_dir / ".lock").touch()
    told = {"replication": reached, "recovery-point": reached, "log-start": None, "cleaner": None} | offsets
    names = {"replication": "replication-offset", "recovery-point": "recovery-point-offset", "log-start": "log-start-offset"}
    for name, offset in told.items():
        entries = [] if offset is None else [("t", 0, offset)]
        (log_dir / f"{names.get(name, 'cleaner-offset')}-checkpoint").write_bytes(kf.checkpoint(entries))
    return directory


def stop(root: Path, broker: int, *, cleanly: bool) -> None:
    """Leave a broker's log directory as a stop does."""
    log_dir = root / f"broker-{broker}" / "data"
    if cleanly:
        (log_dir / ".kafka_cleanshutdown").touch()


def metadata(
    root: Path,
    leader: int,
    brokers: Sequence[int],
    *,
    isr: Sequence[int] = (),
    policy: str = "delete",
    epoch: int = 3,
    down: Sequence[int] = (),
) -> Path:
    """Say who leads, and which brokers do not run."""
    led = {"partition": 0, "leader": leader, "leader_epoch": epoch, "replicas": list(brokers), "isr": list(isr or brokers)}
    document = {
        "version": 1,
        "cluster_id": kf.CLUSTER_ID,
        "kafka_version": "4.2.0",
        "features": {"metadata.version": 29},
        "brokers": [{"id": broker, "state": "down" if broker in down else "up"} for broker in brokers],
        "topics": [{"topic": "t", "topic_id": kf.TOPIC_ID, "configs": {"cleanup.policy": policy}, "partitions": [led]}],
    }
    (root / "cluster-metadata.json").write_text(json.dumps(document), encoding="utf-8")
    return root


def shaped(root: Path, shape: str, to: Path) -> Path:
    """The same input in another shape."""
    if shape == RAW:
        return root
    if shape == COLLECTED:
        return collect_cluster(root, to)
    for broker in sorted(path for path in root.iterdir() if path.is_dir()):
        (to / broker.name).mkdir(parents=True)
        for number, path in enumerate(sorted(broker.rglob("t-0/*.log"))):
            (to / broker.name / f"dump-{number}.txt").write_text(dumped(path), encoding="utf-8")
    if (root / "cluster-metadata.json").exists():
        shutil.copy(root / "cluster-metadata.json", to)
    return to


def dumped(path: Path) -> str:
    """A segment as kafka-dump-log of 3.3 and later prints it, errors of the tool among it."""
    content, at = path.read_bytes(), 0
    lines = [f"Dumping /var/lib/kafka/data/t-0/{path.name}", f"Log starting offset: {int(path.stem)}"]
    while len(content) - at > 17:
        base, length, epoch, magic, crc, attributes, delta = unpack_from(">qiibIhi", content, at)
        if length < 14 or magic > 2:
            lines.append(
                f'Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException: Found record size {length} smaller '
                f"than minimum record overhead (14) in file /var/lib/kafka/data/t-0/{path.name}."
            )
            return "\n".join(lines) + "\n"
        if at + 12 + length > len(content):
            break
        _first, time, producer, producer_epoch, sequence, count = unpack_from(">qqqhii", content, at + 27)
        valid = kf.sealed(content[at : at + 12 + length])[17:21] == content[at + 17 : at + 21]
        lines.append(
            f"baseOffset: {base} lastOffset: {base + delta} count: {count} baseSequence: {sequence} lastSequence: {sequence} "
            f"producerId: {producer} producerEpoch: {producer_epoch} partitionLeaderEpoch: {epoch} "
            f"isTransactional: {str(bool(attributes & 0x10)).lower()} isControl: {str(bool(attributes & 0x20)).lower()} "
            f"deleteHorizonMs: OptionalLong.empty position: {at} CreateTime: {time} size: {length + 12} magic: {magic} compresscodec: none "
            f"crc: {crc} isvalid: {str(valid).lower()}"
        )
        at += 12 + length
    if at < len(content):
        lines.append(f"Found {len(content) - at} invalid bytes at the end of {path.name}")
    return "\n".join(lines) + "\n"


def verdicts(tables: Mapping[str, list[Row]]) -> dict[int, str]:
    """The verdict on each follower."""
    return {row["follower_id"]: row["verdict"] for row in tables["replica_verdicts"]}


def errors(tables: Mapping[str, list[Row]]) -> set[tuple[str, int]]:
    """Code and broker of each finding that ends an audit in exit code 1."""
    return {(row["code"], row["broker_id"]) for row in tables["found"] if row["severity"] in ("error", "critical")}


def problems(tables: Mapping[str, list[Row]]) -> set[str]:
    """The codes of all input problems."""
    return {row["code"] for row in (*tables["input_errors"], *tables["problems"])}


def audited(root: Path, **settings: Any) -> dict[str, list[Row]]:
    """All tables of an audit."""
    return in_process.audit(root, settings=Settings(**settings), anew=True)
