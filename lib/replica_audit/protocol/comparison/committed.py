"""What a cut takes that was committed and that the leader does not hold, each offset under its strongest evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica_audit.protocol.comparison.commitment import Bound, CommitHistory, Evidence, bounds
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.exchange.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Removed offsets that were committed and that the leader does not hold; `bound` is the evidence."""

    spans: tuple[lineage.Span, ...]
    bound: Bound

    @property
    def offsets(self) -> int:
        """How many."""
        return lineage.covered((span.first_offset, span.end_offset) for span in self.spans)


def by_evidence(found: Sequence[Committed]) -> dict[Evidence, int]:
    """How many offsets each evidence proves, the strongest first."""
    counts: dict[Evidence, int] = {}
    for one in found:
        counts[one.bound.evidence] = counts.get(one.bound.evidence, 0) + one.offsets
    return counts


def lost_commits(leader: Replica, follower: Replica, witnesses: Sequence[Replica], history: CommitHistory, first: int) -> list[Committed]:
    """What was committed of the offsets that a follower's files lose, the strongest evidence first, no offset twice.

    Args:
        leader: who does not hold them; its own high watermark speaks of its own records, and proves nothing.
        follower: that is cut.
        witnesses: the partition's other readable replicas: one that holds the same records may prove that they were committed.
        history: of the partition.
        first: offset that goes.
    """
    known = {replica.broker_id: replica for replica in (follower, *witnesses)}
    proofs = [(bound, witness) for witness in known.values() for bound in bounds(witness, history, known)]
    found: list[Committed] = []
    taken: list[lineage.Span] = []
    for bound, witness in sorted(proofs, key=lambda proof: proof[0].strength):
        spans = _lost(leader, follower, witness, bound, first)
        for member in bound.members:
            spans = _held_by(known.get(member), spans)
        spans = lineage.without(spans, taken)
        if spans:
            taken += spans
            found.append(Committed(spans=tuple(spans), bound=bound))
    return found


def _lost(leader: Replica, follower: Replica, witness: Replica, bound: Bound, first: int) -> list[lineage.Span]:
    """What the follower shares with the witness below the bound, and the leader does not hold."""
    end, leader_end = min(follower.log.log_end_offset, bound.end_offset), leader.log.log_end_offset
    needs_epoch = witness is not follower or bound.evidence is not Evidence.CHECKPOINT
    lost: list[lineage.Span] = []
    for part in lineage.pieces(follower.history, witness.history, first, end):
        epoch = part.left_epoch
        if epoch is None or epoch != part.right_epoch or (needs_epoch and epoch < 0):
            continue
        # what retention took from the leader is not lost
        start = max(part.first_offset, leader.begins)
        lost += lineage.lacking(follower.history, leader.history, start, part.end_offset, missing_from=leader_end)
    return lost


def _held_by(replica: Replica | None, spans: Sequence[lineage.Span]) -> list[lineage.Span]:
    """The part of spans that a replica holds in the same epochs."""
    if replica is None:
        return []
    return [
        lineage.Span(span.leader_epoch, part.first_offset, part.end_offset)
        for span in spans
        for part in lineage.pieces([span], replica.history, span.first_offset, span.end_offset)
        if part.left_epoch == part.right_epoch
    ]
