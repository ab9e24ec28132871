"""What a verdict rests on: the files, each with its offset and epoch, as values and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replica_audit.formats.log_dir.names import EPOCH_CHECKPOINT, HIGH_WATERMARKS
from replica_audit.partition.pairs.sides import Side
from replica_audit.protocol.cluster.leadership import INFERRED, Leadership
from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.protocol.verdict.verdict import Judgement, Verdict
from replica_audit.rows.pairs import EvidenceFact


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceColumns:
    """The columns of the same names."""

    rests_on: tuple[EvidenceFact, ...] | None = None
    evidence: str | None = None


def evidence_columns(leader: Side, follower: Side, leadership: Leadership, comparison: Comparison, judgement: Judgement) -> EvidenceColumns:
    """The columns `rests_on`, fact by fact, and `evidence`, all of it as one text; null where nothing had to be shown."""
    if judgement.verdict in (Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT):
        return EvidenceColumns()
    at = next((v for v in (comparison.divergence_offset, comparison.cut) if v is not None), comparison.follower.log.log_end_offset)
    leads = "compared with" if leadership.source == INFERRED else "leader"  # who is inferred may not lead
    facts = [_at(role, side, at) for role, side in ((leads, leader), ("follower", follower))]
    facts += _of_checkpoints(leader, follower, judgement)
    return EvidenceColumns(rests_on=tuple(facts), evidence="; ".join(fact.text for fact in facts))


def _of_checkpoints(leader: Side, follower: Side, judgement: Judgement) -> Iterator[EvidenceFact]:
    files = follower.loaded.files
    if files.high_watermark is not None:
        path = files.beside(HIGH_WATERMARKS)
        yield _fact(path, follower, f"{path}: {files.high_watermark}", files.high_watermark)
    if judgement.verdict in (Verdict.EPOCH_TABLE_ONLY, Verdict.CANNOT_REJOIN):
        for side in (leader, follower):
            path = side.loaded.files.inside(EPOCH_CHECKPOINT)
            yield _fact(path, side, path)


def _at(role: str, side: Side, offset: int) -> EvidenceFact:
    """What a replica's file has at an offset."""
    path = str(side.loaded.file_at(offset))
    held = next((span for span in side.replica.history if span.first_offset <= offset < span.end_offset), None)
    if held is None:
        text = f"{role} {side.replica.broker_id}: {path} ends at {side.replica.log.log_end_offset}, nothing at {offset}"
        return _fact(path, side, text, offset)
    name = f"epoch {held.leader_epoch}" if held.leader_epoch >= 0 else "no epoch"
    return _fact(path, side, f"{role} {side.replica.broker_id}: {path} has {name} at {offset}", offset, held.leader_epoch)


def _fact(path: str, side: Side, text: str, offset: int | None = None, leader_epoch: int | None = None) -> EvidenceFact:
    return EvidenceFact(path=path, broker_id=side.replica.broker_id, offset=offset, leader_epoch=leader_epoch, text=text)
