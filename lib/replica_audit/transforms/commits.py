"""What was committed of what a follower's cut removes, as columns of `replica_verdicts`."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.commitment import Evidence
from replica_audit.protocol.committed import Committed, by_evidence
from replica_audit.protocol.comparison import Comparison
from replica_audit.protocol.verdict import Judgement, Verdict
from replica_audit.transforms.rows import Row

COMMIT_COLUMNS = ("removed_below_high_watermark", "commit_evidence", "removed_committed", "removed_committed_offsets", "removed_commits")


def commit_columns(comparison: Comparison, judgement: Judgement) -> Row:
    """The columns COMMIT_COLUMNS of a pair; where the comparison proves nothing, no loss may be summed up."""
    found = [] if judgement.verdict is Verdict.INCONCLUSIVE else comparison.committed
    counts = by_evidence(found)
    return {
        "removed_below_high_watermark": counts.get(Evidence.CHECKPOINT, 0),
        "commit_evidence": next((str(evidence) for evidence in counts), None),
        "removed_committed": sum(counts.values()),
        "removed_committed_offsets": {str(evidence): count for evidence, count in counts.items()},
        "removed_commits": [row for one in found for row in _commit_rows(one)],
    }


def _commit_rows(committed: Committed) -> Iterator[Row]:
    """Rows of the shape COMMIT."""
    bound = committed.bound
    for span in committed.spans:
        yield {
            "evidence": str(bound.evidence),
            **span._asdict(),
            "broker_id": bound.broker_id,
            "metadata_offset": bound.metadata_offset,
            "not_ruled_out": sorted(str(doubt) for doubt in bound.doubts),
        }
