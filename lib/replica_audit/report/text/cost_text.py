"""What an audit will read and about how long it will take, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.facts.cost import CRCS, DISK, HEADERS, RECORDS, TEXT, Amount, costs, total
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.words import count

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
