"""What is known of damaged batches, and from which broker to recover them, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.layout.paragraphs import listed
from replica_audit.rows.damage import DamagedBatch

_DAMAGE = {
    "crc": "the batch does not match its CRC",
    "unframed": "the bytes there are not a batch, and reading stops",
    "base_offset": "the batch is at other offsets than those it was written at",
    "leader_epoch": "the batch has a leader epoch that cannot be right",
}
_MOST = 5


def affected(one: DamagedBatch) -> str:
    """The offsets of a damaged batch."""
    if one.last_offset is None:
        return f"offsets from {one.first_offset} on"
    return f"offset {one.first_offset}" if one.last_offset == one.first_offset else f"offsets {one.first_offset}..{one.last_offset}"


def what_is_wrong(one: DamagedBatch) -> str:
    """What is wrong with a batch, and where it lies."""
    crcs = ""
    if one.damage == "crc" and one.stored_crc is not None and one.computed_crc is not None:
        crcs = f" (stored {one.stored_crc:08x}, computed {one.computed_crc:08x})"
    at = "" if one.byte_offset is None else f" at byte {one.byte_offset}"
    wrong = ""
    if one.wrong_fields and one.recovery == "recoverable":
        wrong = f"; differs from the other replicas in: {', '.join(one.wrong_fields)}"
    return f"broker {one.broker_id}, {affected(one)}: {_DAMAGE.get(one.damage, one.damage)}{crcs}, {one.path}{at}{wrong}"


def good_copies(one: DamagedBatch) -> str:
    """What the other replicas' copies prove."""
    brokers = listed(one.good_broker_ids)
    match one.recovery:
        case "recoverable":
            others = [broker for broker in one.good_broker_ids if broker != one.recover_from_id]
            besides = f"; the same is on broker {listed(others)}" if others else ""
            return (
                f"recover {affected(one)} from broker {one.recover_from_id}: its copy passes its CRC and is the batch as written{besides}"
            )
        case "unconfirmed":
            return f"only the copy of broker {brokers} passes its CRC, and nothing proves that it is the same batch"
        case "copies_disagree":
            return f"the copies of brokers {brokers} pass their CRCs and differ: compare them before you use one"
    return (
        "no other replica's copy of these offsets passes its CRC: the records cannot be recovered from this input. Keep every copy, and "
        "let consumers seek beyond them"
    )


def damage_steps(damaged: Sequence[DamagedBatch]) -> Iterator[str]:
    """A step for each damaged batch, the first few of them."""
    for one in damaged[:_MOST]:
        wrong, copies = what_is_wrong(one), good_copies(one)
        if one.cut_by_recovery:
            cut = "The broker cuts it off when it starts, with all that is behind it: copy its directory first"
            yield f"{_begun(wrong)}. {cut}. {_begun(copies)}."
            continue
        yield f"{_begun(copies)} ({wrong})."
        if one.damage == "unframed" and one.last_offset is None:
            yield (
                f"Do not start broker {one.broker_id} with it: after a clean stop nothing cuts it off, and the broker appends what it "
                "fetches behind it."
            )
    if len(damaged) > _MOST:
        yield f"And {len(damaged) - _MOST} more damaged batches: table damaged_batches."


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]
