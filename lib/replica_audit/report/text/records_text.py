"""The records of a partition that is not compacted of which two logs do not hold the same: how many, and the first ones, one a line."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.comparison.record_cursor import RecordPart
from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import moment, paragraph
from replica_audit.rows.pair_structs import DifferingRecordCounted
from replica_audit.rows.record_differences import ComparedRecord, RecordDifference
from replica_audit.words import count

_SHOWN = 20
_MEANINGS = {
    RecordPart.PRESENCE: "missing",
    RecordPart.KEY: "with another key",
    RecordPart.VALUE: "with another value",
    RecordPart.HEADERS: "with the same key and value, and other headers",
    RecordPart.TIMESTAMP: "with another timestamp only",
    RecordPart.PRODUCER: "by another producer, or with another sequence number, and otherwise the same",
}


def record_lines(explanation: Explanation) -> Iterator[str]:
    """Which records differ; nothing where they were not compared, or none do."""
    counted = explanation.verdict.differing_records
    if not counted:
        return
    yield "Records that differ"
    for one in counted:
        yield from paragraph(_counted(one), first="- ")
    if explanation.verdict.records_unread is not None:
        yield from paragraph(f"Not all records could be compared: {explanation.verdict.records_unread}.")
    for record in explanation.records[:_SHOWN]:
        yield from paragraph(_line(record), indent=4, first="- ")
    left_out = sum(one.records for one in counted) - len(explanation.records[:_SHOWN])
    if left_out > 0:
        yield from paragraph(f"and {left_out} more {whole_in('the table record_differences', explanation.warehouse)}", indent=4)


def _counted(one: DifferingRecordCounted) -> str:
    meaning = _MEANINGS.get(RecordPart(one.part), one.part)
    where = "" if one.lacking_id is None else f" on broker {one.lacking_id}"
    return f"{count(one.records, 'record')} {meaning}{where}"


def _line(record: RecordDifference) -> str:
    held = "; ".join(f"{role} {_held(side)}" for role, side in (("leader", record.leader), ("follower", record.follower)))
    return f"offset {record.offset}, not the same: {', '.join(record.parts)}; {held}"


def _held(side: ComparedRecord | None) -> str:
    if side is None:
        return "none"
    name = "no key" if side.key_bytes is None else f"key {side.key if side.key is not None else side.key_hash[:16]}"
    value = "no value" if side.value_bytes is None else f"a value of {side.value_bytes} bytes"
    return f"{name}, {value}, {moment(side.timestamp_ms) if side.timestamp_ms >= 0 else 'no time'}"
