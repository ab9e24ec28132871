"""What was committed of what a follower's cut removes, for columns of `replica_verdicts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.committed import Committed, by_evidence
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pair_structs import CommittedSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCommits:
    """The columns of the same names."""

    removed_below_high_watermark: int
    commit_evidence: str | None
    removed_committed: int
    removed_committed_offsets: Mapping[str, int]
    removed_commits: tuple[CommittedSpan, ...]


def removed_commits(comparison: Comparison, judgement: Judgement) -> RemovedCommits:
    """What of a pair was committed; where the comparison proves nothing, no loss may be summed up."""
    found = [] if judgement.verdict is Verdict.INCONCLUSIVE else comparison.committed
    counts = by_evidence(found)
    return RemovedCommits(
        removed_below_high_watermark=counts.get(Evidence.CHECKPOINT, 0),
        commit_evidence=next((str(evidence) for evidence in counts), None),
        removed_committed=sum(counts.values()),
        removed_committed_offsets={str(evidence): count for evidence, count in counts.items()},
        removed_commits=tuple(row for one in found for row in _spans(one)),
    )


def _spans(committed: Committed) -> Iterator[CommittedSpan]:
    bound = committed.bound
    for span in committed.spans:
        yield CommittedSpan(
            evidence=str(bound.evidence),
            leader_epoch=span.leader_epoch,
            first_offset=span.first_offset,
            end_offset=span.end_offset,
            broker_id=bound.broker_id,
            metadata_offset=bound.metadata_offset,
            not_ruled_out=tuple(sorted(str(doubt) for doubt in bound.doubts)),
        )
