"""The damaged batches of a partition, each with the replicas that hold it well."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.advice.damage_remedies import affected, good_copies, what_is_wrong
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import listed, paragraph
from replica_audit.rows.damage import DamagedBatch

TITLE = "Damaged batches"
HEAD = ("broker", "offsets", "damage", "byte", "stored CRC", "computed", "good copies", "recovery")
_MOST = 10


def damage_lines(facts: PartitionFacts) -> Iterator[str]:
    """Every damaged batch: what is wrong with it, and what the other copies prove."""
    if not facts.damaged:
        return
    yield TITLE
    for one in facts.damaged[:_MOST]:
        cut = " The broker cuts it off when it starts." if one.cut_by_recovery else ""
        told = good_copies(one)
        yield from paragraph(f"{what_is_wrong(one)}. {told[:1].upper()}{told[1:]}.{cut}", first="- ")
    if len(facts.damaged) > _MOST:
        yield from paragraph(f"and {len(facts.damaged) - _MOST} more {whole_in('the table damaged_batches', facts.warehouse)}")


def damage_row(one: DamagedBatch) -> tuple[str, ...]:
    """The cells below HEAD."""
    crcs = ("-" if crc is None else f"{crc:08x}" for crc in (one.stored_crc, one.computed_crc))
    source = f" from {one.recover_from_id}" if one.recover_from_id is not None else ""
    return (
        str(one.broker_id),
        affected(one).removeprefix("offsets ").removeprefix("offset "),
        f"{one.damage}{', cut by recovery' if one.cut_by_recovery else ''}",
        "-" if one.byte_offset is None else str(one.byte_offset),
        *crcs,
        listed(one.good_broker_ids) or "none",
        f"{one.recovery.replace('_', ' ')}{source}",
    )
