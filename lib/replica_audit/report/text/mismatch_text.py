"""Where the batches of two logs first differ: the batch of either side, field by field, and the first record that is not the same."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.leader_words import leader_name
from replica_audit.report.layout.paragraphs import epoch, moment, paragraph
from replica_audit.rows.pair_structs import BatchFacts, BatchMismatch, RecordSizes

TITLE = "Where the batches first differ"
_KINDS = {
    "other_records": "The records are not the same.",
    "other_batching": "The same records are in other batches.",
    "other_encoding": "The same records are in the same batches, compressed differently.",
    "not_read": "Whether the records are the same is not known.",
}
_NONE = "-"


def mismatch_lines(explanation: Explanation) -> Iterator[str]:
    """The section of an explanation; nothing where no batch is known to differ."""
    found = explanation.verdict.mismatch
    if found is None:
        return
    yield TITLE
    for sentence in mismatch_sentences(found):
        yield from paragraph(sentence)
    yield from fitted(mismatch_head(explanation), list(mismatch_rows(found)))


def mismatch_sentences(found: BatchMismatch) -> Iterator[str]:
    """What kind of difference it is, and how far was compared."""
    yield _KINDS.get(found.kind, f"{found.kind}.")
    if found.unread is not None:
        until = "" if found.compared_end_offset is None else f" Up to offset {found.compared_end_offset} they are."
        yield f"They were not compared: {found.unread}.{until}"
    if found.record is not None:
        yield f"The first such record is at offset {found.record.offset}. Not the same: {', '.join(found.record.parts)}."


def mismatch_head(explanation: Explanation) -> tuple[str, ...]:
    """The heads of the columns."""
    return "", leader_name(explanation.verdict), f"follower {explanation.verdict.follower_id}"


def mismatch_rows(found: BatchMismatch) -> Iterator[tuple[str, ...]]:
    """A row for each field: its name, the leader's, the follower's."""
    sides = [_batch(side) for side in (found.leader, found.follower)]
    for name in next((side for side in sides if side), {}):
        yield name, *(side.get(name, _NONE) for side in sides)
    if found.record is not None:
        records = [_record(side) for side in (found.record.leader, found.record.follower)]
        for name in next((side for side in records if side), {}):
            yield f"record {found.record.offset}: {name}", *(side.get(name, _NONE) for side in records)


def _batch(side: BatchFacts | None) -> dict[str, str]:
    if side is None:
        return {}
    producer = "none" if side.producer_id < 0 else f"{side.producer_id} epoch {side.producer_epoch}, sequence {side.base_sequence}"
    return {
        "offsets": f"{side.first_offset}..{side.last_offset}",
        "leader epoch": epoch(side.leader_epoch).removeprefix("epoch "),
        "CRC": f"{side.crc:08x}",
        "producer": producer,
        "records": _NONE if side.record_count is None else str(side.record_count),
        "newest (UTC)": moment(side.max_timestamp_ms) if side.max_timestamp_ms >= 0 else "none",
        "bytes": str(side.size_bytes),
        "codec": side.codec,
        "file": side.path,
        "at byte": _NONE if side.byte_offset is None else str(side.byte_offset),
    }


def _record(side: RecordSizes | None) -> dict[str, str]:
    if side is None:
        return {}
    return {
        "time (UTC)": moment(side.timestamp_ms) if side.timestamp_ms >= 0 else "none",
        "key": "none" if side.key_bytes is None else f"{side.key_bytes} bytes",
        "value": "none" if side.value_bytes is None else f"{side.value_bytes} bytes",
    }
