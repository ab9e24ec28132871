"""A log as an explanation draws it: its offsets, its table in effect, and its batches as stretches of one epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replica_audit.protocol.epochs.epoch_table import EpochEntry
from replica_audit.protocol.epochs.lineage import History, Span
from replica_audit.rows.replicas import EpochStartOffset, SegmentEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """One side's log: its table in effect, and its offsets."""

    epochs: tuple[EpochEntry, ...]
    log_start_offset: int
    log_end_offset: int


def history_of_batches(rows: Iterable[SegmentEpoch], state: LogState) -> list[Span]:
    """The batches' epochs inside the log, neighbours of one epoch joined."""
    spans: list[Span] = []
    reached = state.log_start_offset
    for row in sorted(rows, key=lambda row: (row.first_offset, row.last_offset)):
        first, end = max(row.first_offset, reached), min(row.last_offset + 1, state.log_end_offset)
        if first >= end:
            continue
        spans.append(Span(row.leader_epoch, first, end))
        reached = end
    return joined(spans)


def history_of_entries(entries: Sequence[EpochStartOffset], state: LogState) -> list[Span]:
    """The epochs of a table inside the log, where its batches are not known; what lies below the first one has none."""
    spans: list[Span] = []
    for entry in entries:
        end = state.log_end_offset if entry.end_offset is None else entry.end_offset
        first, end = max(entry.start_offset, state.log_start_offset), min(end, state.log_end_offset)
        if first < end:
            spans.append(Span(entry.leader_epoch, first, end))
    first = spans[0].first_offset if spans else state.log_end_offset
    return [Span(-1, state.log_start_offset, first), *spans] if state.log_start_offset < first else spans


def clipped(history: History, first_offset: int, end_offset: int) -> list[Span]:
    """What of a history lies in [first, end)."""
    cut = ((span.leader_epoch, max(span.first_offset, first_offset), min(span.end_offset, end_offset)) for span in history)
    return [Span(epoch, first, end) for epoch, first, end in cut if first < end]


def joined(history: Iterable[Span]) -> list[Span]:
    """Neighbours of one epoch joined."""
    spans: list[Span] = []
    for span in history:
        if spans and spans[-1].leader_epoch == span.leader_epoch and spans[-1].end_offset == span.first_offset:
            spans[-1] = spans[-1]._replace(end_offset=span.end_offset)
        else:
            spans.append(span)
    return spans
