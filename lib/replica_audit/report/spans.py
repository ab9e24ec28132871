"""Batches as the stretches of one epoch that an explanation draws and compares."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.protocol import lineage
from replica_audit.report.exchange_steps import LogState
from replica_audit.report.explained_rows import SegmentEpoch


def history_of_batches(rows: Iterable[SegmentEpoch], state: LogState) -> list[lineage.Span]:
    """The batches' epochs inside the log, neighbours of one epoch joined."""
    spans: list[lineage.Span] = []
    reached = state.log_start_offset
    for row in sorted(rows, key=lambda row: (row.first_offset, row.last_offset)):
        first, end = max(row.first_offset, reached), min(row.last_offset + 1, state.log_end_offset)
        if first >= end:
            continue
        spans.append(lineage.Span(row.leader_epoch, first, end))
        reached = end
    return joined(spans)


def joined(history: Iterable[lineage.Span]) -> list[lineage.Span]:
    """Neighbours of one epoch joined."""
    spans: list[lineage.Span] = []
    for span in history:
        if spans and spans[-1].leader_epoch == span.leader_epoch and spans[-1].end_offset == span.first_offset:
            spans[-1] = spans[-1]._replace(end_offset=span.end_offset)
        else:
            spans.append(span)
    return spans
