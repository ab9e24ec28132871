"""The keys of a compacted partition whose records differ, one a line."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.rows.compaction import CompactionDifference, SurvivingRecord

_SHOWN = 20


def key_lines(explanation: Explanation) -> Iterator[str]:
    """What is different, key by key; nothing where nothing is."""
    counted = explanation.verdict.differing_keys
    if not counted:
        return
    yield f"Keys whose newest records differ{'' if any(one.key is not None for one in explanation.keys) else ' (by their hashes)'}"
    for one in explanation.keys[:_SHOWN]:
        yield from paragraph(_line(one), first="- ")
    left_out = sum(one.keys for one in counted) - len(explanation.keys[:_SHOWN])
    if left_out > 0:
        yield from paragraph(f"and {left_out} more {whole_in('the table compaction_differences', explanation.warehouse)}")


def _line(key: CompactionDifference) -> str:
    held = ", ".join(f"{role} {_held(record)}" for role, record in (("leader", key.leader), ("follower", key.follower)))
    name = key.key_hash if key.key is None else f"{key.key} ({key.key_hash})"
    return f"{name}: {key.cause} on broker {key.broker_id}; {held}"


def _held(record: SurvivingRecord | None) -> str:
    if record is None:
        return "none"
    return f"{'a tombstone' if record.is_tombstone else 'a value'} at {record.offset}"
