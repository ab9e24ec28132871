"""The verdict on one follower: the first rule of the table that holds.

The rules are the product's own, each resting on what Kafka does: KIP-101 and KIP-279 (what a cut leaves), KAFKA-6361 (silent divergence),
high watermarks and ISRs as proof of commitment. A verdict never rests on offsets below the cleaner checkpoints, nor on what retention took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from replica_audit.protocol.comparison.pair import Comparison, removal_start
from replica_audit.protocol.epochs.replica_log import begins_as_retention_leaves_it, contradiction, moved_start
from replica_audit.protocol.exchange.replica import lost_to_recovery
from replica_audit.protocol.verdict import reasons
from replica_audit.rows.codes import Cause, Severity
from replica_audit.rows.pairs import WrongTableEpoch


class Verdict(StrEnum):
    """What is true of a follower, in the order in which they are listed."""

    UNREADABLE = "unreadable"
    STALE_TOPIC_ID = "stale_topic_id"
    LOG_MATCHING_VIOLATION = "log_matching_violation"
    COMMITTED_LOSS = "committed_loss"
    CANNOT_REJOIN = "cannot_rejoin"
    TRUNCATED_OTHERWISE = "truncated_otherwise"
    STALE_TAIL = "stale_tail"
    CONTENT_MISMATCH = "content_mismatch"
    COMPACTION_DIFFERS = "compaction_differs"
    INCONCLUSIVE = "inconclusive"
    REBATCHED = "rebatched"
    EPOCH_TABLE_ONLY = "epoch_table_only"
    CONSISTENT = "consistent"
    LAGGING = "lagging"
    IDENTICAL = "identical"


SEVERITIES: dict[Verdict, Severity] = {
    Verdict.COMMITTED_LOSS: Severity.CRITICAL,
    Verdict.LOG_MATCHING_VIOLATION: Severity.CRITICAL,
    Verdict.CONTENT_MISMATCH: Severity.CRITICAL,
    Verdict.CANNOT_REJOIN: Severity.ERROR,
    Verdict.TRUNCATED_OTHERWISE: Severity.ERROR,
    Verdict.STALE_TAIL: Severity.ERROR,
    Verdict.UNREADABLE: Severity.ERROR,
    Verdict.STALE_TOPIC_ID: Severity.ERROR,
    Verdict.EPOCH_TABLE_ONLY: Severity.WARNING,
    Verdict.REBATCHED: Severity.WARNING,
    Verdict.COMPACTION_DIFFERS: Severity.ERROR,
    Verdict.INCONCLUSIVE: Severity.WARNING,
    Verdict.IDENTICAL: Severity.NONE,
    Verdict.LAGGING: Severity.NONE,
    Verdict.CONSISTENT: Severity.NONE,
}
_CUT = (Verdict.LOG_MATCHING_VIOLATION, Verdict.COMMITTED_LOSS, Verdict.CANNOT_REJOIN, Verdict.CONTENT_MISMATCH, Verdict.STALE_TAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and the sentence that explains it.

    `cause` is there where the verdict is inconclusive, `wrong_epoch` where it is that an epoch table alone is wrong.
    """

    verdict: Verdict
    reason: str
    cause: Cause | None = None
    wrong_epoch: WrongTableEpoch | None = None

    def __post_init__(self) -> None:
        """Hold that nothing is inconclusive without a cause."""
        if (self.verdict is Verdict.INCONCLUSIVE) != (self.cause is not None):
            raise ValueError(f"{self.verdict} with cause {self.cause}")

    @property
    def severity(self) -> Severity:
        """The verdict's severity."""
        return SEVERITIES[self.verdict]


def inconclusive(cause: Cause, why: str) -> Judgement:
    """The judgement that nothing can be said."""
    return Judgement(verdict=Verdict.INCONCLUSIVE, cause=cause, reason=f"{cause}: {why}")


def judge(comparison: Comparison) -> Judgement:
    """The first rule that holds; the last one always does. What is true besides stands behind the reason."""
    for rule in _RULES:
        judgement = rule(comparison)
        if judgement is not None:
            besides = list(_besides(comparison, judgement.verdict))
            return replace(judgement, reason="; ".join([judgement.reason, *besides])) if besides else judgement
    raise AssertionError("the last rule always holds")


def _besides(c: Comparison, verdict: Verdict) -> Iterator[str]:
    """What a cut brings with it that no verdict of its own tells."""
    if verdict is Verdict.INCONCLUSIVE or c.cut is None:
        pass
    elif (again := reasons.sent_again(c)) is not None:
        yield again
    if verdict not in _CUT:
        return
    if verdict in (Verdict.LOG_MATCHING_VIOLATION, Verdict.CANNOT_REJOIN, Verdict.CONTENT_MISMATCH) and c.cut is not None:
        yield reasons.cut_besides(c)
    if verdict in (Verdict.COMMITTED_LOSS, Verdict.CANNOT_REJOIN) and (kept := _content_mismatch(c)) is not None:
        yield f"of what it keeps, {kept.reason}"
    if c.did_otherwise is not None:
        yield c.did_otherwise.sentence
    if c.cleaned_beyond_the_cut and (c.records is None or c.records.unread):
        yield (
            f"its cleaner had gone on to {c.follower.cleaner_offset}, beyond the cut: keys compacted away in favour of records that it "
            "truncates now are permanently missing from this replica"
        )
    if c.records is not None:
        yield reasons.records_after_the_cut(c, c.records)


def _unreadable(c: Comparison) -> Judgement | None:
    return Judgement(verdict=Verdict.UNREADABLE, reason=c.follower.unreadable) if c.follower.unreadable else None


def _stale_topic_id(c: Comparison) -> Judgement | None:
    theirs, own = c.leader.topic_id, c.follower.topic_id
    if not theirs or not own or theirs == own:
        return None
    return stale_topic(own, theirs, "the leader's")


def stale_topic(own: str, theirs: str, whose: str) -> Judgement:
    """The judgement on a replica whose topic id is not that of the one that it would follow."""
    reason = f"topic id {own} is not {whose} {theirs}: a log of an earlier topic of this name"
    return Judgement(verdict=Verdict.STALE_TOPIC_ID, reason=reason)


def _incomparable(c: Comparison) -> Judgement | None:
    if c.leader.unreadable:
        return inconclusive(Cause.LEADER_UNKNOWN, c.leader.unreadable)
    if c.leader.lost_end is not None and c.difference is None and not c.context.leads_by_choice:
        why = f"its copy ends at {c.leader.log.log_end_offset}, and had reached {c.leader.lost_end} by its own checkpoints: it is short"
        return inconclusive(Cause.LEADER_UNKNOWN, why)
    if c.no_common_range and c.leader.log.deleted_end is not None and c.leader.alive:
        starts, ends = c.leader.log.log_start_offset, c.leader.log.deleted_end
        why = f"its log start is {starts}, and its segments end at {ends}: they were copied earlier"
        return inconclusive(Cause.LEADER_COPIED_EARLIER, why)
    if c.no_common_range:
        ends, starts = c.follower.log.log_end_offset, c.leader.log.log_start_offset
        return inconclusive(Cause.NO_COMMON_RANGE, f"the log ends at {ends}, the leader's starts at {starts}")
    if c.leader_copied_earlier and c.written_since is None:
        ahead = f"{c.leader.log.log_end_offset}..{c.follower.log.log_end_offset - 1}"
        why = f"offsets {ahead} are of its current epoch, and the copies were not taken at one instant"
        if c.leader_copied_before_its_election:
            why = f"its copy does not know its epoch {c.context.leader_epoch}, and may be older than that epoch"
        return inconclusive(Cause.LEADER_COPIED_EARLIER, why)
    if c.rests_on_unknown_high_watermark:
        why = "the follower truncates to its high watermark, and its replication-offset-checkpoint is not in the input"
        return inconclusive(Cause.NOT_COLLECTED, why)
    if c.metadata_is_older:
        why = "the follower was written in an epoch that neither the metadata nor the leader's copy knows"
        return inconclusive(Cause.LEADER_COPIED_EARLIER, why)
    if c.untold_end is not None:
        epoch, at = c.untold_end.leader_epoch, c.untold_end.end_offset - 1
        why = f"its leader-epoch-checkpoint is not in the input, and its cleaner left nothing that shows epoch {epoch} at offset {at}"
        return inconclusive(Cause.LEADER_UNKNOWN, f"{why}: whether the follower truncates is unknown")
    return None


def _log_matching_violation(c: Comparison) -> Judgement | None:
    surviving = c.surviving_difference
    if surviving is not None:
        kept = "" if c.hole else f"batches from offset {surviving.first_offset} on differ from the leader's and survive: "
        return Judgement(verdict=Verdict.LOG_MATCHING_VIOLATION, reason=kept + reasons.difference(c, surviving))
    high_watermark = c.leader.committed_until
    if c.isr_is_newer_than_the_follower:
        high_watermark = min(high_watermark, c.follower.committed_until)
    if c.follower.in_isr and c.difference and c.difference.first_offset < high_watermark and not c.was_cut_before_it_joined:
        reason = f"in the ISR, yet differs below the high watermark {high_watermark}: {reasons.difference(c, c.difference)}"
        return Judgement(verdict=Verdict.LOG_MATCHING_VIOLATION, reason=reason)
    return None


def _committed_loss(c: Comparison) -> Judgement | None:
    found = c.committed
    if not found:
        return None
    lost, rest = sum(one.offsets for one in found), c.lacked_by_the_leader - sum(one.offsets for one in found)
    certainly = "were very likely" if all(one.bound.doubts for one in found) else "were"
    reason = f"{lost} of the removed offsets {certainly} committed ({'; '.join(reasons.proofs(found))}), and the leader does not hold them"
    others = f"; whether {rest} more that it does not hold were committed is unknown" if rest > 0 else ""
    return Judgement(verdict=Verdict.COMMITTED_LOSS, reason=reason + others)


def _cannot_rejoin(c: Comparison) -> Judgement | None:
    if c.cannot_rejoin is None:
        return None
    return Judgement(verdict=Verdict.CANNOT_REJOIN, reason=reasons.why_it_cannot_rejoin(c, c.cannot_rejoin))


def _truncated_otherwise(c: Comparison) -> Judgement | None:
    if c.did_otherwise is None:
        return None
    return Judgement(verdict=Verdict.TRUNCATED_OTHERWISE, reason=f"server.log contradicts the rule: {c.did_otherwise.sentence}")


def _stale_tail(c: Comparison) -> Judgement | None:
    if c.cut is None:
        return None
    if c.follower_copied_earlier:
        return inconclusive(Cause.FOLLOWER_COPIED_EARLIER, "its broker runs, so it truncated when it first fetched from this leader")
    if c.fetches_all_again:
        return None
    reason = f"truncates to {c.cut}: whether offsets {reasons.removed(c)} were committed is unknown"
    if c.follower.empty:
        end = c.follower.log.log_end_offset
        reason = f"truncates to {c.cut}: its log begins and ends at {end}; whether it held what the leader lacks is unknown"
    return Judgement(verdict=Verdict.STALE_TAIL, reason=reason)


def _content_mismatch(c: Comparison) -> Judgement | None:
    found, cut = c.content.difference if c.content else None, removal_start(c.follower, c.effect)
    if found is None or (cut is not None and cut <= found.first_offset):
        return None  # what goes does not stay different
    if found.located is not None and found.located.has_equal_records:
        rebatched = Judgement(verdict=Verdict.REBATCHED, reason=reasons.rebatched(found.located, found.first_offset))
        return rebatched if cut is None else None  # what the cut takes is worse
    return Judgement(verdict=Verdict.CONTENT_MISMATCH, reason=reasons.other_batches(found))


def _goes_back(c: Comparison) -> Judgement | None:
    """Offsets that go back in a log which stays as it is: nothing can be fetched beyond them."""
    if c.cut is not None:
        return None  # what it loses is worse
    own, theirs = c.follower.log.went_back, c.leader.log.went_back
    if own is not None:
        return Judgement(verdict=Verdict.UNREADABLE, reason=reasons.goes_back(own))
    return None if theirs is None else inconclusive(Cause.LEADER_UNKNOWN, reasons.goes_back(theirs))


def _recovery_cuts_more(c: Comparison) -> Judgement | None:
    """What log recovery takes away and the leader does not hold."""
    if c.cut is not None:
        return None
    lost, end = lost_to_recovery(c.follower, [c.leader]), c.leader.log.log_end_offset
    if c.leader.alive and not c.context.simultaneous:  # it may have written them since it was copied
        lost = [span for span in lost if span.leader_epoch < c.context.leader_epoch or span.first_offset < end]
    if not lost:
        return None
    lacks = f"the leader ends at {end}" if lost[0].first_offset >= end else "the leader has other records there"
    reason = reasons.recovery_cuts_batches(c.follower.log, lost[0].first_offset, lost[-1].end_offset)
    return Judgement(verdict=Verdict.UNREADABLE, reason=f"{reason}, and {lacks}")


def _compaction_differs(c: Comparison) -> Judgement | None:
    if c.records is None or not c.records.found:
        return None
    reason = f"compared record by record up to offset {reasons.kept_until(c)}: {reasons.differing_keys(c, c.records)}"
    return Judgement(verdict=Verdict.COMPACTION_DIFFERS, reason=reason)


def _no_epochs(c: Comparison) -> Judgement | None:
    has_epochs = c.leader.has_epochs or c.follower.has_epochs
    if not has_epochs and c.leader.history and c.follower.history and not c.proven_equal:
        why = "neither log has leader epochs (format before v2), and not all batches could be compared: equal offsets prove nothing"
        return inconclusive(Cause.NO_EPOCHS, why)
    if has_epochs and c.unproven:
        return inconclusive(Cause.NO_EPOCHS, reasons.unproven(c.unproven))
    return None


def _epoch_table_only(c: Comparison) -> Judgement | None:
    sides = (("follower", c.follower, c.follower.log.epochs_in_log), ("leader", c.leader, c.leader.log.epochs))
    # a log start moves on the leader first, or by the follower's own retention: else a table that begins too late is wrong
    has_moved = c.leader.alive is not False and moved_start(c.leader.log.epochs, c.leader.log) is not None
    for role, replica, epochs in sides:
        if not replica.checkpoint_known:
            continue
        copied_apart = bool(replica.alive or replica.may_have_run) and not c.context.simultaneous
        is_moved = has_moved or (copied_apart and begins_as_retention_leaves_it(replica.log.epochs, replica.log))
        start = moved_start(replica.log.epochs, replica.log) if is_moved else None
        floor = max(replica.log.log_start_offset, replica.cleaner_offset or 0, start or 0)
        if copied_apart and replica is c.follower and c.leader.alive:
            floor = max(floor, c.start)
        found = contradiction(epochs, replica.log.runs, floor, copied_apart=copied_apart)
        if found:
            run, offset, said = found
            wrong = WrongTableEpoch(broker_id=replica.broker_id, offset=offset, table_epoch=said, batch_epoch=run.leader_epoch)
            return Judgement(verdict=Verdict.EPOCH_TABLE_ONLY, reason=reasons.wrong_epoch(role, wrong, replica.log), wrong_epoch=wrong)
    return None


def _clean(c: Comparison) -> Judgement:
    leader_end, committed = c.leader.log.log_end_offset, c.leader.high_watermark or 0
    if committed > leader_end and not c.context.leads_by_choice:
        why = (
            f"its copy ends at {leader_end}, and its own high watermark, copied later, is {committed}: copy it again, or run collect there"
        )
        return inconclusive(Cause.LEADER_COPIED_EARLIER, why)
    if c.records is not None and c.records.unread and c.records.is_held:
        return inconclusive(Cause.RECORDS_NOT_COMPARED, f"{c.records.unread}; the epochs agree")
    is_whole = c.content is not None and c.content.whole
    behind = c.leader.log.log_end_offset - c.follower.log.log_end_offset
    if c.written_since is not None:
        verdict, found = Verdict.CONSISTENT, reasons.written_since(c)
    elif c.keys_may_differ is not None:
        verdict, found = Verdict.CONSISTENT, reasons.keys_not_compared(c)
    elif behind > 0:
        verdict, found = Verdict.LAGGING, reasons.clean_prefix(behind)
    else:
        verdict, found = Verdict.IDENTICAL, reasons.same_over_all(batches=is_whole)
    return Judgement(verdict=verdict, reason="; ".join([found, *reasons.besides_agreement(c)]))


_RULES: tuple[Callable[[Comparison], Judgement | None], ...] = (
    _unreadable,
    _stale_topic_id,
    _incomparable,
    _log_matching_violation,
    _committed_loss,
    _cannot_rejoin,
    _truncated_otherwise,
    _goes_back,
    _content_mismatch,
    _stale_tail,
    _recovery_cuts_more,
    _compaction_differs,
    _no_epochs,
    _epoch_table_only,
    _clean,
)
