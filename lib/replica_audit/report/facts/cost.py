"""How long an audit will take, by what it has to read and by rates that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from replica_audit.model import BytesToRead

# Bytes that one core reads in a second with everything in the page cache (benchmarks/README.md: "Results" and "Text of kafka-dump-log",
# small batches, for which it takes longest; records: "Where two replicas differ").
HEADERS, CRCS, TEXT, RECORDS = 20 << 30, 12 << 30, 190 << 20, 60 << 20
# Seconds of one core for each file, replica, and partition ("Spark's ingest", "Whole audits of large clusters", "Judging a partition").
PER_FILE, PER_REPLICA, PER_PARTITION = 0.0004, 0.0003, 0.0008
DISK = 200 << 20  # bytes in a second where nothing is cached: no measurement, a plain disk or a busy volume
START = 0.7  # seconds of one core to start triage ("`triage` beside `audit`"); Spark takes thirty times that


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount(BytesToRead):
    """What there is to read of a cluster, or of all."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """What one mode reads: bytes at most, seconds of one core, and seconds to get the bytes from a disk."""

    mode: str
    reads: str
    read_bytes: int
    core_seconds: float
    disk_seconds: float


def total(amounts: Iterable[Amount]) -> Amount:
    """All clusters together."""
    listed = tuple(amounts)
    sums = {field.name: sum(getattr(one, field.name) for one in listed) for field in fields(Amount) if field.name != "name"}
    return Amount(name="total", **sums)


def costs(amount: Amount) -> Iterator[ModeCost]:
    """Each mode of `--compare`, all that those before it do and more."""
    besides = amount.text_bytes + amount.collected_bytes
    fixed = START + amount.files * PER_FILE + amount.replicas * PER_REPLICA + amount.partitions * PER_PARTITION + besides / TEXT
    raw = amount.raw_bytes
    yield _cost("epochs", "checkpoints and batch headers", raw + besides, fixed + raw / HEADERS)
    yield _cost("content", "every byte, each batch by its CRC", raw + besides, fixed + raw / CRCS)
    again = amount.compacted_bytes
    yield _cost("records", "and the records of compacted topics", raw + besides + again, fixed + raw / CRCS + again / RECORDS)


def _cost(mode: str, reads: str, read_bytes: int, core_seconds: float) -> ModeCost:
    return ModeCost(mode=mode, reads=reads, read_bytes=read_bytes, core_seconds=core_seconds, disk_seconds=read_bytes / DISK)
