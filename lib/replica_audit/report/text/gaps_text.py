"""Where sequences of a producer are missing in the leader's log, and whether the records must have been lost."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.transactions.lost_sequences import GapDoubt
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.rows.sequence_gaps import MissingSequences
from replica_audit.words import count

TITLE = "Records missing from producers' sequences"
HEAD = ("records", "producer", "epoch", "sequence\nbefore", "sequence\nbehind", "offset\nbefore", "offset\nbehind", "written (UTC)", "lost")
_MOST = 12
_WHY_NOT: dict[str, str] = {
    GapDoubt.FIRST_IN_LOG: "not certain: the producer has no earlier batch here, and its first ones may have been refused",
    GapDoubt.DAMAGED_BATCHES: "not certain: they may be in batches that do not match their CRC",
    GapDoubt.LOG_START_MOVED: "not certain: the log start has moved over what is before them",
    GapDoubt.STATE_EXPIRED: "not certain: the leader may have forgotten the producer (producer.id.expiration.ms)",
    GapDoubt.TIME_UNKNOWN: "not certain: when the next batch was appended is not known, and the leader may have forgotten the producer",
}
_AGAIN = (
    "Records that are certainly missing had been in the leader's log. Look for them in copies of that time, in what consumers have "
    "processed, and at the producer."
)


def gap_lines(facts: PartitionFacts) -> Iterator[str]:
    """One item for each gap, those that are certain first."""
    if not facts.gaps:
        return
    yield TITLE
    for gap in facts.gaps[:_MOST]:
        yield from paragraph(f"{_place(gap)}: {_certainty(gap)}.", first="- ")
    left_out = len(facts.gaps) - _MOST
    if left_out > 0:
        yield from paragraph(f"{count(left_out, 'more gap')} {whole_in('the table sequence_gaps', facts.warehouse)}")
    if any(gap.is_certain for gap in facts.gaps):
        yield from paragraph(_AGAIN)


def gap_row(gap: MissingSequences) -> tuple[str, ...]:
    """The cells below HEAD."""
    numbers = (gap.missing_records, gap.producer_id, gap.producer_epoch, gap.sequence_before, gap.sequence_after)
    places = (gap.last_offset_before, gap.first_offset_after)
    return (
        *("-" if number is None else str(number) for number in (*numbers, *places)),
        _written(gap, "{} to {}") or "-",
        _certainty(gap),
    )


def _place(gap: MissingSequences) -> str:
    before = f"{gap.sequence_before} at offset {gap.last_offset_before}" if gap.sequence_before is not None else "none in this epoch"
    when = _written(gap, ", written between {} and {} UTC")
    return (
        f"{count(gap.missing_records, 'record')} of producer {gap.producer_id} (epoch {gap.producer_epoch}): last sequence {before}, next "
        f"{gap.sequence_after} at offset {gap.first_offset_after}{when}"
    )


def _written(gap: MissingSequences, form: str) -> str:
    """When the records were written; empty if that is not known."""
    if gap.written_after is None or gap.written_before is None:
        return ""
    return form.format(*(f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (gap.written_after, gap.written_before)))


def _certainty(gap: MissingSequences) -> str:
    if gap.held_by:
        return f"broker {', '.join(map(str, gap.held_by))} still has them, at least the first"
    return "certain, and no replica has them" if gap.doubt is None else _WHY_NOT.get(gap.doubt, gap.doubt)
