"""Whom it concerns: the consumer groups that resume in this partition, the worst hit first."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import listed, paragraph
from replica_audit.rows.history import ConsumerImpact
from replica_audit.words import count

_MOST = 8
HEAD = ("group", "offset", "epoch", "result", "resumes\nat", "gone", "reread", "missed", "nearest")
_UNKNOWN = "unknown"


def group_lines(facts: PartitionFacts) -> Iterator[str]:
    """How many groups are affected, a row for each of the worst, and why."""
    if not facts.impacts:
        return
    hit = [impact for impact in facts.impacts if impact.affected]
    untold = [impact for impact in facts.impacts if impact.affected is None]
    spared = len(facts.impacts) - len(hit) - len(untold)
    counts = ((len(hit), "affected"), (len(untold), "unknown"), (spared, "not affected"))
    yield "Consumer groups"
    said = ", ".join(f"{number} {what}" for number, what in counts if number)
    yield from paragraph(f"{count(len(facts.impacts), 'group')} with a committed offset: {said}.")
    shown = [*hit, *untold][:_MOST]
    if not shown:
        return
    yield from fitted(HEAD, [group_row(impact) for impact in shown])
    left_out = len(hit) + len(untold) - len(shown)
    if left_out:
        yield from paragraph(f"and {left_out} more {whole_in('the table consumer_impacts', facts.warehouse)}")
    yield from paragraph(
        "Offset, epoch: as committed. Gone: consumed offsets whose records no longer exist. Reread, missed: offsets of the leader's log "
        "that the group reads again, never reads. Policy: auto.offset.reset decides; reread is then with earliest, missed with latest. "
        "Nearest: where seekToNearest of KIP-320's draft would have moved it; same: to the same place."
    )
    reasons: dict[str, list[str]] = {}
    for impact in shown:
        reasons.setdefault(impact.reason, []).append(impact.group_id)
    for reason, groups in reasons.items():
        yield from paragraph(f"{listed(groups)}: {reason}", first="- ")


def group_row(impact: ConsumerImpact) -> tuple[str, ...]:
    """The cells below HEAD."""
    is_unknown = impact.validation_result == _UNKNOWN
    resumes = "?" if is_unknown else "policy" if impact.reset_offset is None else str(impact.reset_offset)
    counts = (impact.records_gone, impact.records_reread, impact.records_missed)
    return (
        impact.group_id,
        str(impact.committed_offset),
        "none" if impact.committed_leader_epoch < 0 else str(impact.committed_leader_epoch),
        f"{impact.validation_result}{', rewritten' if impact.history_rewritten else ''}",
        resumes,
        *("?" if number is None else str(number) for number in counts),
        "-" if impact.nearest_offset is None else "same" if impact.nearest_offset == impact.reset_offset else str(impact.nearest_offset),
    )
