"""Copies that were taken at different moments: what a follower holds, or lacks, only because of that.

The rule is the product's own. It rests on two facts. A leader epoch has one leader (the controller raises it with every election, and since
KIP-380 also for a leader that was only restarted), which appends to its log and never truncates it: whatever a follower holds of the
epoch in which that broker leads is, or was a moment later, in the leader's log. And two logs that hold an offset in the same epoch hold
the same records there (KIP-101): what a later look at the leader's log shows in the follower's epochs is the follower's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from replica_audit.model import Election
from replica_audit.protocol.comparison.commitment import Context
from replica_audit.protocol.comparison.observed import ObservedCut, ObservedTruncation, millis_of
from replica_audit.protocol.comparison.pair import difference
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import EpochTable, latest_epoch, truncate_from_end
from replica_audit.protocol.epochs.lineage import until
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import LaterBound, Look, Replica, Seen


def seen_as_far(leader: Replica, follower: Replica, context: Context, others: Sequence[Replica]) -> Seen | None:
    """How far a follower can be compared whose leader was copied before it, where nothing beyond can hide a divergence.

    Args:
        leader: by the metadata, not by inference.
        follower: of the same topic.
        context: of the partition.
        others: its other readable replicas.

    Returns:
        The leader's log end offset, and what bounds the rest: a later look at the leader's log that reaches as far as the follower, in the
        same epochs; or, beyond such a look and the copy, the epoch in which the leader leads. None where the follower reaches no further,
        where the copies are of one instant, where the leader does not run or its table may lack the epoch in which it leads (before
        KAFKA-7415), or where an election may have come between: if metadata, the leader's epoch table and every batch beyond do not agree
        on the epoch, or any replica knows a later one.
    """
    end = leader.log.log_end_offset
    is_of_one_time = context.simultaneous or not context.enters_epoch_at_once or not leader.alive or leader.frozen
    if is_of_one_time or leader.unreadable or follower.unreadable:
        return None
    if not follower.log.log_start_offset <= end < follower.log.log_end_offset:
        return None
    table, shown_until = leader.log.epochs, end
    look, bound = (
        (leader.second_look, LaterBound.SECOND_LOOK) if leader.second_look is not None else (_later_table(leader), LaterBound.LATER_TABLE)
    )
    if look is not None:
        if not _agrees(look, follower, end, min(look.log_end_offset, follower.log.log_end_offset)):
            return None
        if _tells_all(look, follower, end):
            table, shown_until = look
    if follower.log.log_end_offset > shown_until:
        bound = LaterBound.CURRENT_EPOCH
        if not _is_of_current_epoch(table, follower, shown_until, context.leader_epoch, others):
            return None
        if look is not None and latest_epoch(look.epochs) > context.leader_epoch:
            return None
    return None if difference(leader, follower, context, end) is not None else Seen(end, bound, shown_until, _held_until(leader, follower))


def _held_until(leader: Replica, follower: Replica) -> int:
    """Up to where a follower reached at least when its leader's log ended where its copy does.

    A log ends behind a batch, but what lay before the leader's end may be cleaned away since. The epoch of the next batch that is left was
    not entered before that batch, so a log that ended in such a gap would be in an earlier epoch than the leader has there.
    """
    held = lineage.until(follower.history, leader.log.log_end_offset)
    return max(leader.log.log_start_offset, follower.log.log_start_offset, held[-1].end_offset if held else 0)


def _is_of_current_epoch(table: EpochTable, follower: Replica, end: int, epoch: int, others: Sequence[Replica]) -> bool:
    """Whether all that a follower holds from an offset on can only be of the epoch in which its leader leads, by table and metadata."""
    if epoch < 0 or latest_epoch(table) != epoch or table[-1].start_offset > end:
        return False
    beyond = [span.leader_epoch for span in follower.history if span.end_offset > end]
    return all(written == epoch for written in beyond) and all(latest_epoch(one.log.epochs) <= epoch for one in (follower, *others))


def _later_table(leader: Replica) -> Look | None:
    """A leader's epoch table as a look at its log, where it was copied later; None where it tells nothing of what lies beyond the copy.

    An epoch is entered at the log end, or before the batch at its start offset is appended (LeaderEpochFileCache.assign).
    """
    table = leader.log.epochs
    if not leader.checkpoint_known or not table or table[-1].start_offset <= leader.log.log_end_offset:
        return None
    look = Look(table, table[-1].start_offset)
    return look if _agrees(look, leader, leader.log.log_start_offset, leader.log.log_end_offset) else None


def _tells_all(look: Look, follower: Replica, end: int) -> bool:
    """Whether a look tells the epoch of all that a follower holds from the end of the leader's copy on, as far as it reaches."""
    is_of_epochs = all(span.leader_epoch >= 0 for span in follower.history if span.end_offset > end)
    return is_of_epochs and bool(look.epochs) and look.epochs[0].start_offset <= end <= look.log_end_offset


def _agrees(look: Look, replica: Replica, start: int, end: int) -> bool:
    """Whether a replica holds no offset of a range in another epoch than a look has there; it may not tell of the first ones."""
    told = lineage.history_of_table(look.epochs, start, end)
    return lineage.first_difference(told, replica.history, start, end, gaps_count=False) is None


# A follower that has truncated since it was copied, according to its broker's own log: its copy holds what the broker no longer has.

_FARTHEST_AHEAD_MS = 14 * 3_600_000  # of UTC a zone's clock can be
_SOON_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """When a broker must have cut a replica for its copy to hold what is gone from the broker.

    `newest_ms`: the newest timestamp of the batches that the cut takes, None where one has none. `last_epoch`: the newest epoch of them.
    `succeeded_at_ms`: when the first later epoch began, by the metadata log, None if that is not known. `log_end_offset`: of the
    copy, exclusive. `until_ms`: when the audit began, later than any line.
    """

    newest_ms: int | None
    last_epoch: int
    succeeded_at_ms: int | None
    log_end_offset: int
    until_ms: int

    @classmethod
    def of(cls, replica: Replica, offset: int, elections: Iterable[Election], until_ms: int) -> Since:
        """For the cut of a copied replica at an offset, with what the metadata log tells of the partition's epochs."""
        taken = [run for run in replica.log.runs if run.last_offset >= offset]
        last_epoch = max((run.leader_epoch for run in taken), default=-1)
        began = [one.timestamp_ms for one in elections if one.leader_epoch > last_epoch >= 0 and one.timestamp_ms >= 0]
        is_timed = all(run.min_timestamp_ms >= 0 for run in taken)
        return cls(
            newest_ms=max((run.max_timestamp_ms for run in taken), default=None) if is_timed else None,
            last_epoch=last_epoch,
            succeeded_at_ms=min(began, default=None),
            log_end_offset=replica.log.log_end_offset,
            until_ms=until_ms,
        )

    def covers(self, cut: ObservedCut) -> bool:
        """Whether a broker logged a cut after the batches were written that it takes; in doubt it did not.

        The line must be newer than all of them, and than the epoch that came after theirs, and not of a time yet to come. A line whose zone
        is not known counts as UTC. Producers set the timestamps of most topics, so something else must bear it out: that the later epoch is
        known, by the metadata log or by what the broker told before it cut; that its log ended where the copy does; or that the line
        came so soon after the newest batch that no other time can be meant.
        """
        moment = millis_of(cut.event.time) if cut.event.time_ms is None else cut.event.time_ms
        if moment is None or self.newest_ms is None:
            return False
        latest = self.until_ms if cut.event.time_ms is not None else self.until_ms + _FARTHEST_AHEAD_MS
        is_borne_out = (
            self.succeeded_at_ms is not None
            or (cut.leader_epoch is not None and cut.leader_epoch > self.last_epoch)
            or cut.log_end_offset == self.log_end_offset
            or moment - self.newest_ms < _SOON_MS
        )
        return max(self.newest_ms, self.succeeded_at_ms or 0) < moment <= latest and is_borne_out


def has_truncated(observed: ObservedTruncation | None, truncation: Truncation, since: Since | None) -> bool:
    """Whether a broker logged the very cut that the rule gives for the copied files, and after they were written."""
    if observed is None or since is None:
        return False
    if truncation.restart_offset is not None:
        return observed.restart is not None and observed.restart.offset == truncation.restart_offset and since.covers(observed.restart)
    cut = observed.last_cut
    return cut is not None and cut.offset == truncation.truncation_offset and since.covers(cut)


def as_truncated(replica: Replica, offset: int, physical_offset: int) -> Replica:
    """The replica as it is on its broker once it was cut, before it fetches: its log ends at `offset`, its files at `physical_offset`.

    One whose files end where they began is empty, and begins at the offset.
    """
    log = replica.log
    begins = offset if physical_offset <= log.log_start_offset else min(log.log_start_offset, offset)
    cut = replace(
        log,
        log_start_offset=begins,
        log_end_offset=offset,
        epochs=truncate_from_end(log.epochs, offset),
        runs=tuple(
            run._replace(last_offset=min(run.last_offset, physical_offset - 1)) for run in log.runs if run.first_offset < physical_offset
        ),
    )
    high_watermark = None if replica.high_watermark is None else min(replica.high_watermark, offset)
    return replace(replica, log=cut, history=tuple(until(replica.history, physical_offset)), high_watermark=high_watermark)
