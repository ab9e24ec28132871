"""The epoch tables of both sides, next to each other: where each epoch starts in effect, and what checkpoint and batches say otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.report.facts.explanation import ExplainedReplica, Explanation
from replica_audit.report.layout.drawing import WIDTH
from replica_audit.report.layout.leader_words import is_inferred
from replica_audit.report.layout.paragraphs import columns, paragraph
from replica_audit.rows.replicas import EpochStartOffset
from replica_audit.words import count

_MOST = 16
_AROUND = 5
_WITHOUT_FILE = ("not-collected", "not-used", "unreadable")
_MEANINGS = {
    "trivial-epoch": "elected at the log end, nothing written yet",
    "legal-lag": "a crash may leave the file behind, or ahead of, the log",
    "log-start": "the log start has moved",
    "compaction": "the cleaner removed the batches, and leaves the table as it is",
    "refetched-compacted-range": "fetched after the leader was cleaned",
    "corrupt": "file and batches contradict each other",
}


def epoch_table_lines(explanation: Explanation) -> Iterator[str]:
    """One line per epoch that either side knows; the middle of long tables is left out, but not what lies around the divergence."""
    sides = (explanation.leader, explanation.follower)
    entries = [{entry.leader_epoch: entry for entry in side.epochs} for side in sides]
    epochs = sorted({*entries[0], *entries[1]})
    if not epochs:
        return
    yield "Epoch tables"
    first = max(len(str(epochs[-1])), len("epoch"))
    half = (WIDTH - 2 - first - 4) // 2
    widths = (first, half, half)
    leads = f"broker {sides[0].broker_id}" if is_inferred(explanation.verdict) else f"leader {sides[0].broker_id}"
    heads = (f"{name}: starts at" for name in (leads, f"follower {sides[1].broker_id}"))
    yield from columns(("epoch".rjust(first), *heads), widths)
    left_out = 0
    shown = _shown(epochs, entries, explanation)
    for epoch in epochs:
        if epoch not in shown:
            left_out += 1
            continue
        if left_out:
            yield from paragraph(f"... {count(left_out, 'epoch')} left out ...")
            left_out = 0
        cells = (_cell(known.get(epoch), side) for known, side in zip(entries, sides, strict=True))
        yield from columns((str(epoch).rjust(first), *cells), widths)
    has_file = [side.log is None or side.log.checkpoint_state not in _WITHOUT_FILE for side in sides]
    told = [known for known, is_there in zip(entries, has_file, strict=True) if is_there]
    used = {entry.difference for known in told for epoch, entry in known.items() if epoch in shown and entry.difference}
    meanings = [f"{name}: {_MEANINGS[name]}" for name in _MEANINGS if name in used]
    if meanings:
        yield from paragraph("; ".join(meanings))


def _cell(entry: EpochStartOffset | None, side: ExplainedReplica) -> str:
    if entry is None:
        return "-"
    if entry.difference is None and entry.in_effect:
        return str(entry.start_offset)
    if side.log is not None and side.log.checkpoint_state in _WITHOUT_FILE:
        return f"{entry.start_offset} (by batches)"
    start = str(entry.start_offset) if entry.in_effect else "not in effect"
    if entry.difference is None:
        # of a replica that cannot be read no entry is in effect
        return str(entry.start_offset) if side.log is not None and side.log.unreadable_reason is not None else start
    checkpoint, batches = ("-" if s is None else str(s) for s in (entry.checkpoint_start_offset, entry.segment_start_offset))
    return f"{start} (checkpoint {checkpoint}, batches {batches}: {entry.difference})"


def _shown(epochs: Sequence[int], entries: Sequence[dict[int, EpochStartOffset]], explanation: Explanation) -> set[int]:
    """The first two epochs, the last two, and those around the first that the sides do not start alike from the divergence on."""
    if len(epochs) <= _MOST:
        return set(epochs)
    parts = explanation.verdict.divergence_offset
    centre = len(epochs) - 1
    if parts is not None:
        starts = (max(known[epoch].start_offset for known in entries if epoch in known) for epoch in epochs)
        centre = next((place for place, start in enumerate(starts) if start >= parts), centre)
    return {*epochs[:2], *epochs[-2:], *epochs[max(centre - _AROUND, 0) : centre + _AROUND + 1]}
