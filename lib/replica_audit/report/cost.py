"""How long an audit will take, by what it has to read and by rates that were measured: the numbers, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from replica_audit.model import BytesToRead
from replica_audit.report.layout.paragraphs import fitted, paragraph
from replica_audit.words import count

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


_HEAD = ("--compare", "reads", "at most", "one core, cached", "from disk")


def render(amounts: Sequence[Amount], not_counted: Sequence[str] = ()) -> str:
    """A section for each cluster, one for all if they are several, the inputs that are not counted, and what it rests on."""
    shown = [*amounts, total(amounts)] if len(amounts) > 1 else list(amounts)
    sections = ["\n".join(line.rstrip() for line in _section(one)) for one in shown]
    lacking = ["\n".join(["Not counted", *(line for one in not_counted for line in paragraph(one))])] if not_counted else []
    return "\n\n".join([*sections, *lacking, "\n".join(_assumptions())]) + "\n"


def _section(amount: Amount) -> Iterator[str]:
    yield from paragraph(f"{amount.name}: {count(amount.partitions, 'partition')}, {count(amount.replicas, 'replica')}", 0)
    kinds = (
        (amount.raw_bytes, "of segments"),
        (amount.compacted_bytes, "of which compacted topics"),
        (amount.text_bytes, "of text of kafka-dump-log, unpacked"),
        (amount.collected_bytes, "of collections"),
    )
    said = [f"{size(number)} {what}" for number, what in kinds if number]
    yield from paragraph(f"{count(amount.files, 'file')}: {', '.join(said) or 'nothing to read'}.")
    rows = [(one.mode, one.reads, size(one.read_bytes), duration(one.core_seconds), duration(one.disk_seconds)) for one in costs(amount)]
    yield from fitted(_HEAD, rows)


def _assumptions() -> Iterator[str]:
    yield "What this estimate assumes"
    yield from paragraph(
        f"One core, all in the page cache, small batches, as measured in benchmarks/README.md: headers {size(HEADERS)}/s, CRCs "
        f"{size(CRCS)}/s, text {size(TEXT)}/s, records {size(RECORDS)}/s in plain Python, plus 0.4 ms per file and 0.8 ms per "
        "partition. With two cores it takes half as long. Spark's start, some 20 s of a core, is not included."
    )
    yield from paragraph(
        f"From disk: the bytes at {size(DISK)}/s, assumed, not measured; the longer of the two columns counts. epochs reads "
        "headers only (8 KiB of each larger batch), so it may read far less; a listing does not show how large the batches are."
    )
    yield from paragraph("Batches that differ between replicas are read a second time: not included, because only the audit finds them.")


def size(number: int) -> str:
    """Bytes in the unit that people read."""
    amount, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours; no more than two figures, because it is an estimate."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
