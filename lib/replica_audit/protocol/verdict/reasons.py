"""What a verdict rests on, in words: for the reasons of `verdict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.protocol.comparison.commitment import Committed, Doubt, Evidence
from replica_audit.protocol.comparison.compaction import CompactionCause, DifferingKeys, RecordComparison, TouchedBy
from replica_audit.protocol.comparison.content import ContentDifference, LocatedDifference, MismatchKind
from replica_audit.protocol.comparison.pair import Comparison, removal_start
from replica_audit.protocol.epochs.epoch_table import epoch_for_offset
from replica_audit.protocol.epochs.lineage import Piece, covered
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.exchange.rejoin import CannotRejoin
from replica_audit.protocol.exchange.replica import LaterBound
from replica_audit.rows.pairs import MissingOffsets, WrongCheckpointLine, WrongTableEpoch
from replica_audit.words import count

_DOUBTS: dict[Doubt, str] = {
    Doubt.MIN_ISR: "min.insync.replicas is not in the metadata log",
    Doubt.WAITED_FOR: "another replica may have been about to join the ISR",
    Doubt.NOT_LEARNED: "the leader may have died before it learned of it",
    Doubt.METADATA_OLDER: "the metadata log may have been copied before the replicas",
}


_TOUCHED: dict[TouchedBy, str] = {
    TouchedBy.UNCLEAN_ELECTION: "unclean election",
    TouchedBy.TRUNCATION: "earlier truncation",
    TouchedBy.EMPTIED_SEGMENT: "emptied segment",
}


def wrong_epoch(role: str, wrong: WrongTableEpoch, log: LoadedLog) -> str:
    """What the table says, and what the batches hold; the file is named where it has the entry itself."""
    in_file = log.table_in_file is None or epoch_for_offset(log.table_in_file, wrong.offset) == wrong.table_epoch
    table = "leader-epoch-checkpoint" if in_file else "table, as the broker makes it of its file and its batches when it starts,"
    says = "no epoch" if wrong.table_epoch is None else f"epoch {wrong.table_epoch}"
    held = f"epoch {wrong.batch_epoch}" if wrong.batch_epoch >= 0 else "none"
    return f"{role} {wrong.broker_id}'s {table} gives {says} at offset {wrong.offset}, its batches {held}"


def proofs(found: Sequence[Committed]) -> Iterator[str]:
    """One clause for each proof, those of one kind and broker together."""
    by_bound: dict[tuple[Evidence, int, int | None, frozenset[Doubt]], int] = {}
    for one in found:
        key = (one.bound.evidence, one.bound.broker_id, one.bound.metadata_offset, one.bound.doubts)
        by_bound[key] = by_bound.get(key, 0) + one.offsets
    for (evidence, broker, metadata_offset, doubts), offsets in by_bound.items():
        at = f"metadata offset {metadata_offset}"
        match evidence:
            case Evidence.CHECKPOINT:
                how = f"below the checkpointed high watermark of broker {broker}"
            case Evidence.SOLE:
                how = f"broker {broker} led alone in the ISR{'' if metadata_offset is None else f' ({at})'}"
            case Evidence.ALL:
                how = f"held by every in-sync replica of leader {broker} ({at})"
        much = f"{offsets} " if len(by_bound) > 1 else ""
        likely = f", very likely: {' and '.join(_DOUBTS[doubt] for doubt in sorted(doubts))}" if doubts else ""
        yield f"{much}{how}{likely}"


def difference(c: Comparison, piece: Piece) -> str:
    """Who holds what where the two first differ, or who misses it."""
    if c.hole:
        return _hole(c, c.hole, piece)
    leader, follower = ("missing" if e is None else f"epoch {e}" if e >= 0 else "no epoch" for e in (piece.left_epoch, piece.right_epoch))
    return f"at {piece.first_offset}..{piece.end_offset - 1} leader {leader}, follower {follower}"


def _hole(c: Comparison, hole: MissingOffsets, piece: Piece) -> str:
    """Whose log misses what, and why."""
    missing = f"offsets {hole.first_offset}..{hole.end_offset - 1}"
    if hole.is_cut:
        with_it = "are truncated with the batch that holds the truncation offset"
        return f"{missing} of follower {hole.broker_id} {with_it}, and never fetched again: a hole remains"
    is_leader = hole.broker_id == c.leader.broker_id
    held = piece.right_epoch if is_leader else piece.left_epoch
    of_epoch = f" in epoch {held}" if held is not None and held >= 0 else ""
    role, other = ("leader", f"follower {c.follower.broker_id}") if is_leader else ("follower", f"leader {c.leader.broker_id}")
    where = "a hole in its log"
    if hole.segment_before is not None:
        where = f"a hole between its segments {hole.segment_before:020d}.log and {hole.segment_after:020d}.log"
    return f"{missing} are missing from {role} {hole.broker_id}, {where}; {other} holds {piece.first_offset}{of_epoch}"


def other_batches(found: ContentDifference) -> str:
    """Which batches are not the leader's."""
    where = f"{found.first_offset}..{found.end_offset - 1}"
    record = found.located.record if found.located else None
    if found.leader_crc is None and found.follower_crc is None and record is not None:
        return f"the record at offset {record.offset} is not the leader's: another {' and '.join(record.parts)}, in another message format"
    if found.leader_crc is None and found.follower_crc is None:
        return f"among offsets {where} are batches that are not the leader's; which, could not be read"
    leader, follower = ("no batch" if crc is None else f"CRC {crc:08x}" for crc in (found.leader_crc, found.follower_crc))
    return f"offsets {where} differ from the leader's batch: leader {leader}, follower {follower}"


def unproven(parts: Sequence[tuple[int, int]]) -> str:
    """Where nothing tells whether two logs hold the same."""
    where = f"{parts[0][0]}..{parts[0][1] - 1}" + (f" and {count(len(parts) - 1, 'more range')}" if len(parts) > 1 else "")
    return f"at offsets {where} a log has a format before v2, without epochs, and the records there could not be compared"


def goes_back(offset: int) -> str:
    """What is wrong with a log whose offsets go back."""
    return (
        f"its offsets go back to {offset} at a batch that matches its CRC: no follower can fetch beyond it, and log recovery keeps all of "
        "it or empties the segment"
    )


def recovery_cuts_batches(log: LoadedLog, first: int, end: int) -> str:
    """What log recovery takes away that nobody else holds."""
    return (
        f"log recovery truncates it at {log.recovery_cut}, because of a damaged batch, as soon as its broker starts, and takes "
        f"{'what is behind, which could not be read' if log.cut_hides else f'offsets {first}..{end - 1}'}: copy its directory first"
    )


def rebatched(found: LocatedDifference, first_offset: int) -> str:
    """That two logs hold the same records, and what is not the same."""
    how = "in other batches" if found.kind is MismatchKind.OTHER_BATCHING else "in the same batches, compressed differently"
    return f"the same records as the leader's, {how} from offset {first_offset} on"


def same_over_all(*, batches: bool) -> str:
    """That two logs are the same, by their batches or by their epochs alone."""
    return f"same {'batches' if batches else 'epochs'} over the same offsets"


def clean_prefix(behind: int) -> str:
    """That a log is the beginning of its leader's, and how much it lacks."""
    return f"a clean prefix of the leader, {behind} offsets behind"


def written_since(c: Comparison) -> str:
    """How far a follower agrees whose leader was copied before it, and what lies beyond."""
    seen, end = c.follower.seen, c.leader.log.log_end_offset
    compared = (
        f"agrees with the leader up to offset {end}, where the leader's copy ends; {c.written_since} offsets beyond were not compared"
    )
    if seen is None or seen.bound is LaterBound.CURRENT_EPOCH:
        shown = (
            f"up to offset {seen.shown_until} the leader's log had them later, in the same epochs; "
            if seen and seen.shown_until > end
            else ""
        )
        written = f"of epoch {c.context.leader_epoch}, in which the leader wrote them after it was copied"
        return f"{compared}: {shown}the rest are {written}" if shown else f"{compared}: they are {written}"
    if seen.bound is LaterBound.SECOND_LOOK:
        return f"{compared}: the leader's log held them, in the same epochs, when collect looked at its end again"
    return f"{compared}: the leader's epoch table, copied after its log, reaches offset {seen.shown_until}, and has them in the same epochs"


def keys_not_compared(c: Comparison) -> str:
    """That a compacted log agrees by its offsets and epochs, and what that leaves open."""
    behind = c.leader.log.log_end_offset - c.follower.log.log_end_offset
    found = "same epochs over the same offsets" + (f", {behind} offsets behind" if behind > 0 else "")
    found += "; keys not compared: the topic is compacted (`--compare records` compares them)"
    return found if c.context.touched is None else f"{found}, and an {_TOUCHED[c.context.touched]} may have left replicas with other keys"


def besides_agreement(c: Comparison) -> Iterator[str]:
    """What else is to be known of a follower that agrees: what was not compared, or was record by record."""
    if c.content is not None and not c.content.whole and c.keys_may_differ is None:
        yield "not all batches could be compared"
    if c.leader.begins_remotely is not None and (local := c.effect.truncation.restart_offset) is not None:
        yield f"it empties its local log and starts again at {local}, for by its epochs the leader has what lies below in remote storage"
    if c.records is not None:
        yield f"its records were not compared: {c.records.unread}" if c.records.unread else equal_records(c.records)
    for role, replica in (("leader", c.leader), ("follower", c.follower)):
        if replica.deleted_until is not None:
            yield f"{role} {replica.broker_id} deleted segments below offset {replica.deleted_until} while they were copied"


def cut_besides(c: Comparison) -> str:
    """What a follower loses whose verdict speaks of something else."""
    lost = c.lost
    committed = f"{lost} of them were committed, and the leader does not hold them" if lost else "none is known to have been committed"
    return f"it truncates to {c.cut}: offsets {removed(c)} are removed, {committed}"


def sent_again(c: Comparison) -> str | None:
    """What of the removed offsets the leader holds, and sends again; None where it holds nothing of them, or never sends it."""
    held = covered((span.first_offset, span.end_offset) for span in c.held_by_the_leader)
    if not held or c.effect.fetcher_fails or c.cannot_rejoin is not None:
        return None
    alike = "epochs" if c.leader.has_epochs else "batches"
    if c.fetches_all_again:
        again = f"fetches offsets {removed(c)} again from leader {c.leader.broker_id}"
        return f"it truncates to {c.cut} and {again}, which holds them in the same {alike}: nothing is lost"
    if c.leader.begins_remotely is not None:
        return f"of the removed offsets the leader holds {held} in the same {alike}, in its local log or in remote storage"
    sends = "below its log start, which it does not send" if c.effect.truncation.restart_offset is not None else "and sends them again"
    return f"of the removed offsets the leader holds {held} in the same {alike}, {sends}"


def removed(c: Comparison) -> str:
    """The offsets that the follower's files lose, both ends inclusive."""
    return f"{removal_start(c.follower, c.effect)}..{c.follower.log.log_end_offset - 1}"


def why_it_cannot_rejoin(c: Comparison, found: CannotRejoin) -> str:
    """Which line is wrong, and the fetch that is refused for it."""
    refused = found.refusal
    carries = "" if refused.requested_epoch is None else f" with last epoch {refused.requested_epoch}"
    if refused.answered_end_offset is None:
        answer = "gets OFFSET_OUT_OF_RANGE, again and again"
    else:
        answer = (
            f"is answered that epoch {refused.answered_epoch} ends at {refused.answered_end_offset}: it truncates to "
            f"{refused.back_to_offset} and fetches the same again, forever"
        )
    loop = f"the follower's fetch from {refused.fetch_offset}{carries} {answer}"
    if not found.lines:
        return f"{loop}; the leader knows no epoch from {refused.requested_epoch} on"
    role = "leader" if found.broker_id == c.leader.broker_id else "follower"
    return f"{role} {found.broker_id}'s leader-epoch-checkpoint {', '.join(map(_line, found.lines[:3]))}: {loop}"


def _line(line: WrongCheckpointLine) -> str:
    if line.found_offset is None:
        return f"lacks the line `{line.epoch} {line.start_offset}` of its own batches"
    right = "no such epoch" if line.start_offset is None else f"`{line.epoch} {line.start_offset}`"
    return f"has the line `{line.epoch} {line.found_offset}` where its batches have {right}"


_DIFFERS: dict[CompactionCause | None, tuple[str, str]] = {
    CompactionCause.KEY_MISSING: ("live key is missing", "live keys are missing"),
    CompactionCause.KEY_MISSING_OR_DELETED: (
        "key is missing, lost or deleted while the other replica was away for long,",
        "keys are missing, lost or deleted while the other replica was away for long,",
    ),
    CompactionCause.KEY_RESURRECTED: ("deleted key is live again", "deleted keys are live again"),
    CompactionCause.OTHER_VALUE: ("key has another newest value", "keys have another newest value"),
    CompactionCause.TOMBSTONE_GONE: ("tombstone was removed too early", "tombstones were removed too early"),
    CompactionCause.MARKER_GONE: ("transaction marker was removed too early", "transaction markers were removed too early"),
    None: ("key differs", "keys differ"),
}


def differing_keys(c: Comparison, found: RecordComparison) -> str:
    """How many keys differ in which way, and where the first of each is."""
    return "; ".join(_of_one_cause(c, keys) for keys in found.found if keys.cause is not None)


def _of_one_cause(c: Comparison, keys: DifferingKeys) -> str:
    role = "leader" if keys.broker_id == c.leader.broker_id else "follower"
    at = f" (first: offset {keys.worst[0].offset})" if keys.worst else ""
    return f"{count(keys.number, *_DIFFERS[keys.cause])} on {role} {keys.broker_id}{at}"


def kept_until(c: Comparison) -> int:
    """The smaller end of both logs, the follower's after its cut."""
    cut = removal_start(c.follower, c.effect)
    return c.end if cut is None else min(cut, c.end)


def records_after_the_cut(c: Comparison, found: RecordComparison) -> str:
    """What a follower's records are that it keeps."""
    if found.unread:
        return f"the records that it keeps could not be compared: {found.unread}"
    if found.found:
        return f"of the records that it keeps, permanently: {differing_keys(c, found)}"
    return equal_records(found)


def equal_records(found: RecordComparison) -> str:
    """That no key differs."""
    apart = f"; {count(found.unproven, 'key differs', 'keys differ')} as copies of different times may" if found.unproven else ""
    return f"compared record by record, no key differs in a way that compaction does not allow{apart}"
