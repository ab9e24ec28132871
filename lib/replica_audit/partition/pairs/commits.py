"""What was committed of what a follower's cut removes, for columns of `replica_verdicts`."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.protocol.comparison.commitment import Committed
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pairs import CommittedSpan


def removed_committed(comparison: Comparison, judgement: Judgement) -> Sequence[Committed]:
    """Return what of a pair was committed; nothing where the comparison proves nothing: then no loss may be summed up."""
    return () if judgement.verdict is Verdict.INCONCLUSIVE else comparison.committed


def committed_spans(found: Sequence[Committed]) -> tuple[CommittedSpan, ...]:
    """Return the offsets, each with what proves that they were committed."""
    return tuple(
        CommittedSpan(
            evidence=str(one.bound.evidence),
            leader_epoch=span.leader_epoch,
            first_offset=span.first_offset,
            end_offset=span.end_offset,
            broker_id=one.bound.broker_id,
            metadata_offset=one.bound.metadata_offset,
            not_ruled_out=tuple(sorted(str(doubt) for doubt in one.bound.doubts)),
        )
        for one in found
        for span in one.spans
    )
