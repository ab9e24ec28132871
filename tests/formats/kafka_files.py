"""What Kafka writes, for tests: segments encoded by kafka-python (an encoder of its own), small files by hand."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

with warnings.catch_warnings():  # kafka-python reads its own resources in a deprecated way while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record._crc32c import crc as crc32c  # the slow one in pure Python: not the library that the product calls
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

NONE, GZIP = 0, 1
TRANSACTIONAL, CONTROL = 0x10, 0x20
TOPIC_ID = "Qp6JWkXMQF-e2A5xW3-mBQ"
CLUSTER_ID = "E_J-ecJCQVWFCFPOsnJhsA"
_LARGEST = 1 << 30


def batch(
    base_offset: int,
    epoch: int,
    *,
    deltas: Sequence[int] = (0,),
    codec: int = NONE,
    value: bytes = b"value",
    timestamp: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """A batch of magic 2; one record per delta. Base offset and leader epoch are put in as a broker does: the CRC covers neither."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, _LARGEST)
    for delta in deltas:
        builder.append(delta, timestamp + delta, b"key", value, [])
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base_offset)
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


def empty_batch(base_offset: int, epoch: int, *, last_delta: int) -> bytes:
    """What the cleaner leaves of a batch whose records are all gone: the header, offsets and epoch."""
    made = bytearray(batch(base_offset, epoch, deltas=()))
    struct.pack_into(">i", made, 23, last_delta)
    return sealed(made)


def control_batch(base_offset: int, epoch: int, *, producer_id: int = 7) -> bytes:
    """A transaction marker: one record in a transactional control batch."""
    made = bytearray(batch(base_offset, epoch, producer=(producer_id, 1, -1), transactional=True))
    made[22] |= CONTROL
    return sealed(made)


def sealed(made: bytes | bytearray) -> bytes:
    """The batch (magic 2) with the CRC that its bytes have now."""
    changed = bytearray(made)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def with_field(made: bytes, form: str, at: int, value: int) -> bytes:
    """The bytes with one field overwritten, whatever it does to the CRC."""
    changed = bytearray(made)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def legacy(magic: int, offsets: Sequence[int], *, codec: int = NONE, value: bytes = b"value", timestamp: int = 1_000) -> bytes:
    """Entries of magic 0 or 1: one per offset, or one compressed wrapper that carries its last offset, as a broker stores it."""
    builder = LegacyRecordBatchBuilder(magic, codec, _LARGEST)
    for i, offset in enumerate(offsets):
        # inside a wrapper offsets are absolute in magic 0 and relative in magic 1
        builder.append(i if codec and magic else offset, timestamp, b"key", value)
    made = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", made, 0, offsets[-1])
        if magic:
            struct.pack_into(">q", made, 18, timestamp)
            struct.pack_into(">I", made, 12, zlib.crc32(made[16:]))
    return bytes(made)


def decoded(content: bytes) -> list[Any]:
    """The batches of a segment as kafka-python's decoder reads them."""
    return list(MemoryRecords(content))


def segment(folder: Path, base_offset: int, *batches: bytes, suffix: str = "") -> Path:
    """Write a segment file of these bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020d}.log{suffix}"
    path.write_bytes(b"".join(batches))
    return path


def checkpoint(entries: Iterable[Sequence[object]]) -> bytes:
    """A checkpoint file of any kind: version 0, count, one entry a line."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{line}\n" for line in ("0", len(lines), *lines)).encode()


def meta_properties(broker_id: int, cluster_id: str | None = CLUSTER_ID, *, version: int = 1) -> bytes:
    """`meta.properties` as KRaft (version 1) or ZooKeeper brokers (version 0) write it."""
    key = "node.id" if version else "broker.id"
    lines = ["#", "#Sat Nov 21 05:43:41 UTC 2026", f"{key}={broker_id}", f"version={version}"]
    return "".join(f"{line}\n" for line in (*lines, *([f"cluster.id={cluster_id}"] if cluster_id else []))).encode()


def partition_metadata(topic_id: str = TOPIC_ID) -> bytes:
    """`partition.metadata`; Kafka writes no line end at its end."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def replica(log_dir: Path, name: str, *, epochs: Iterable[tuple[int, int]] = ((0, 0),), batches: Sequence[bytes] | None = None) -> Path:
    """Write a replica directory: one segment, the epoch checkpoint and the topic id."""
    path = log_dir / name
    segment(path, 0, *(batches if batches is not None else (batch(0, 0), batch(1, 0))))
    (path / "leader-epoch-checkpoint").write_bytes(checkpoint(epochs))
    (path / "partition.metadata").write_bytes(partition_metadata())
    return path


def log_dir(path: Path, *replicas: str, broker_id: int | None = 1, cluster_id: str | None = CLUSTER_ID, high_watermark: int = 2) -> Path:
    """Write a log directory: its replicas, their high watermarks and, if it has a broker id, `meta.properties`."""
    path.mkdir(parents=True, exist_ok=True)
    for name in replicas:
        replica(path, name)
    split = (name.rpartition("-") for name in replicas)
    (path / "replication-offset-checkpoint").write_bytes(checkpoint((topic, number, high_watermark) for topic, _, number in split))
    if broker_id is not None:
        (path / "meta.properties").write_bytes(meta_properties(broker_id, cluster_id))
    return path
