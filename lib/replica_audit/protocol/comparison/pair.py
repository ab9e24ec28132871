"""One leader and one of its followers: where their logs diverge, what survives the cut, what was committed and is lost.

Nothing below the larger cleaner checkpoint is evidence (compaction runs on every replica by itself), nothing below the larger log start
(retention does), and no offset beyond what both sides can hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.protocol.comparison.commitment import Committed, Context, copied_before_its_election, lost_commits
from replica_audit.protocol.comparison.compaction import RecordComparison, holds_every_record
from replica_audit.protocol.comparison.content import ContentComparison, Offsets
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import EpochEntry, latest_epoch
from replica_audit.protocol.epochs.lineage import UNSTAMPED, Span, without
from replica_audit.protocol.exchange.rejoin import CannotRejoin, cannot_rejoin, elected, refusal
from replica_audit.protocol.exchange.replay import RULES, Truncation
from replica_audit.protocol.exchange.replica import Replica, ReplicaState
from replica_audit.rows.codes import Protocol
from replica_audit.rows.pairs import ContradictingLine, MissingOffsets


def hole_at(replica: Replica, offset: int) -> MissingOffsets:
    """The whole hole around an offset that the replica misses; it ends with the log at the latest."""
    history, log = replica.history, replica.log
    place = bisect_right(history, offset, key=attrgetter("end_offset"))
    first = history[place - 1].end_offset if place else log.log_start_offset
    end = history[place].first_offset if place < len(history) else log.log_end_offset
    is_between = any(missing_first <= offset <= last for missing_first, last in log.missing)
    before = bisect_right(log.segment_bases, offset) - 1
    is_between = is_between and before + 1 < len(log.segment_bases)
    return MissingOffsets(
        broker_id=replica.broker_id,
        first_offset=first,
        end_offset=end,
        segment_before=log.segment_bases[before] if is_between else None,
        segment_after=log.segment_bases[before + 1] if is_between else None,
        is_cut=False,
    )


def inside_a_segment(replica: Replica, first: int, end: int, *, is_cut: bool = False) -> MissingOffsets:
    """A hole inside a segment, or in one that is not there yet; `is_cut`: the cut makes it, because it falls inside a batch."""
    return MissingOffsets(
        broker_id=replica.broker_id, first_offset=first, end_offset=end, segment_before=None, segment_after=None, is_cut=is_cut
    )


def missing_everywhere(replica: Replica, others: Iterable[Replica]) -> list[MissingOffsets]:
    """The holes in a log that is not compacted and can be read, as far as no other replica holds these offsets either.

    The rule is the product's own. A leader gives offsets without a gap, and retention takes whole segments from the front: what lies below
    the cleaner checkpoint, or beside batches of a format before v2, which may have been converted without control batches
    (RecordsUtil.downConvert), proves nothing.
    """
    log, history = replica.log, replica.history
    if not history:
        return []
    begin = max(log.log_start_offset, replica.cleaner_offset or 0)
    edges = [Span(UNSTAMPED, begin, begin), *history, Span(UNSTAMPED, log.log_end_offset, log.log_end_offset)]
    gaps = [
        (max(left.end_offset, begin), right.first_offset) for left, right in pairwise(edges) if UNDEFINED_EPOCH not in (left[0], right[0])
    ]
    found = [Span(UNSTAMPED, first, end) for first, end in gaps if first < end]
    held = [span._replace(leader_epoch=UNSTAMPED) for other in others for span in other.history]
    return [inside_a_segment(replica, span.first_offset, span.end_offset) for span in without(found, held)]


# What two logs can never show, whenever they were copied: a difference below an offset that both hold in the same epoch.
# Two logs that hold an offset in one epoch hold the same below it (KIP-101, KIP-279): no truncation makes or mends such a difference.


def agree_again(leader: Replica, follower: Replica, difference: lineage.Piece) -> bool:
    """Whether both logs hold a later offset in the same epoch, in the segments in which they differ.

    Of two segments that were copied one after the other the first may be of before a truncation, and the second of after it.

    Args:
        leader: of a partition.
        follower: of the same.
        difference: the first one. Where one of the two logs holds nothing there, it proves nothing.
    """
    if None in (difference.left_epoch, difference.right_epoch):
        return False
    end = min(one.log.segment_end(difference.first_offset) for one in (leader, follower))
    later = lineage.pieces(leader.history, follower.history, difference.end_offset, end)
    return any(piece.left_epoch is not None and 0 <= piece.left_epoch == piece.right_epoch for piece in later)


_LEADER_EPOCH = attrgetter("leader_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One truncation with what the batches tell of it: where the file is really cut and whether the fetcher then fails."""

    truncation: Truncation
    physical_offset: int | None
    fetcher_fails: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One leader and one of its followers, with the truncation that the cluster's protocol performs.

    `witnesses` are the partition's other readable replicas: their high watermarks may prove that what is cut was committed.
    `did_otherwise` is what the follower's broker logged that it did and that the rule does not say.
    `content` is what comparing the batches gave, None where they were not compared; `records` the same of the records. `found_again`: of
    what the follower's files lose, the part whose batches were compared with the leader's and are not other ones; None: not compared.
    """

    leader: Replica
    follower: Replica
    context: Context
    effect: Effect
    witnesses: Sequence[Replica] = ()
    did_otherwise: ContradictingLine | None = None
    content: ContentComparison | None = None
    records: RecordComparison | None = None
    found_again: tuple[lineage.Span, ...] | None = None
    difference: lineage.Piece | None = field(init=False)
    cannot_rejoin: CannotRejoin | None = field(init=False)

    def __post_init__(self) -> None:
        """Find the first difference that is evidence, which most rules ask for, and what the leader refuses for good."""
        object.__setattr__(self, "difference", difference(self.leader, self.follower, self.context, self.end))
        object.__setattr__(self, "cannot_rejoin", None if self.effect.fetcher_fails else self._replayed())

    def _replayed(self) -> CannotRejoin | None:
        context, truncation = self.context, self.effect.truncation
        if self.leader.unreadable or self.follower.unreadable:
            return None
        return cannot_rejoin(self.leader, self.follower, truncation, leader_epoch=context.leader_epoch, simultaneous=context.simultaneous)

    @property
    def start(self) -> int:
        """Where the range that can be compared begins, inclusive."""
        return max(self.leader.log.log_start_offset, self.follower.log.log_start_offset)

    @property
    def end(self) -> int:
        """Where it ends, exclusive."""
        return min(self.leader.log.log_end_offset, self.follower.log.log_end_offset)

    @property
    def cleaned(self) -> int:
        """The larger cleaner checkpoint."""
        return cleaned_until(self.leader, self.follower)

    @property
    def cut(self) -> int | None:
        """The offset to which the follower truncates."""
        return self.effect.truncation.truncation_offset

    @property
    def cleaned_beyond_the_cut(self) -> bool:
        """Whether the follower's cleaner removed records for newer ones that the cut takes (KIP-279: impact of topic compaction)."""
        return self.cut is not None and (self.follower.cleaner_offset or 0) > self.cut

    @property
    def leader_copied_earlier(self) -> bool:
        """Whether the follower may be ahead only because the leader was copied before it: nothing but its current epoch lies beyond."""
        leader, follower = self.leader, self.follower
        end = leader.log.log_end_offset
        differs = self.difference is not None or follower.log.log_end_offset > end
        if differs and self.leader_copied_before_its_election and not self.differs_for_good:
            return True
        if self.context.simultaneous or not leader.alive or self.difference is not None or follower.log.log_end_offset <= end:
            return False
        log_before_table = bool(leader.log.epochs) and leader.log.epochs[-1].start_offset > end
        if log_before_table:
            return True
        current = max(self.context.leader_epoch, latest_epoch(leader.log.epochs))
        return current >= 0 and all(span.leader_epoch >= current for span in follower.history if span.end_offset > end)

    @property
    def written_since(self) -> int | None:
        """How many offsets the follower holds that its leader's log got after it was copied; None if that is not why it is ahead."""
        return None if self.follower.seen is None else self.follower.log.log_end_offset - self.follower.seen.until

    @property
    def leader_copied_before_its_election(self) -> bool:
        """Whether the leader's copy proves nothing of the log that it leads with (`copied_before_its_election`)."""
        return copied_before_its_election(self.leader, self.context)

    @property
    def differs_for_good(self) -> bool:
        """Whether the logs differ though the leader may have been cut since it was copied, and no cut of the follower changes that.

        No cut explains a difference below what both hold. And what lies below a high watermark is only cut after an unclean election.
        """
        if self.difference is None or not self.still_diverged:
            return False
        elections = range(latest_epoch(self.leader.log.epochs) + 1, self.context.leader_epoch + 1)
        was_committed = self.difference.first_offset < self.leader.committed_until
        is_kept = was_committed and self.context.clean_elections.issuperset(elections)
        return is_kept or agree_again(self.leader, self.follower, self.difference)

    @property
    def metadata_is_older(self) -> bool:
        """Whether the follower was written in an epoch that neither the metadata nor the leader knows: they are of before its election."""
        if self.context.simultaneous or self.context.leader_epoch < 0:
            return False
        in_batches = max(map(_LEADER_EPOCH, self.leader.history), default=-1)  # above its table where epochs began again
        known = max(self.context.leader_epoch, latest_epoch(self.leader.log.epochs), in_batches)
        written = max(map(_LEADER_EPOCH, self.follower.history), default=-1)
        return written > known and any(entry.epoch == written for entry in self.follower.log.epochs)

    @property
    def rests_on_unknown_high_watermark(self) -> bool:
        """Whether the follower would be cut to a high watermark that was not collected, and is 0 only for want of it."""
        return self.effect.truncation.high_watermark_cut is not None and not self.follower.high_watermark_known

    @property
    def follower_copied_earlier(self) -> bool:
        """Whether the follower's broker runs and it would be cut: it was when it first fetched in this epoch, its copy is older."""
        return not self.context.simultaneous and bool(self.follower.alive) and not self.follower.frozen and self.cut is not None

    @property
    def was_cut_before_it_joined(self) -> bool:
        """Whether a follower in the ISR has lost its difference since it was copied: as it was copied it cannot have joined.

        It is cut at its first fetch where fetches truncate (KIP-595); and a member of an ISR reaches the high watermark.
        """
        if not self.follower_copied_earlier or self.difference is None:
            return False
        first = removal_start(self.follower, self.effect)
        is_behind = self.follower.log.log_end_offset < self.leader.committed_until
        is_by_fetch = self.effect.truncation.protocol is Protocol.TRUNCATE_ON_FETCH
        return first is not None and first <= self.difference.first_offset and (is_behind or is_by_fetch)

    @property
    def isr_is_newer_than_the_follower(self) -> bool:
        """Whether the ISR and the leader's high watermark may be of minutes after the follower was copied.

        A broker that stops in order leaves the ISR: if its copy is of a stopped one, and it is in the ISR of a leader that runs, the ISR is
        of another time.
        """
        has_rejoined = self.follower.stopped_cleanly and bool(self.leader.alive)
        return not self.context.simultaneous and (self.follower.alive is not False or has_rejoined)

    @property
    def no_common_range(self) -> bool:
        """Whether the follower ends below the leader's log start while holding anything."""
        return not self.follower.empty and self.follower.log.log_end_offset < self.leader.begins

    @property
    def divergence_offset(self) -> int | None:
        """The first offset at which the logs diverge: the follower's first that is not the leader's; None if they do not."""
        was_ahead = self.leader_copied_earlier and self.written_since is None
        if self.no_common_range or was_ahead or self.metadata_is_older or self.fetches_all_again:
            return None
        if self.cut is not None and self.cut < self.cleaned:
            return self.cut
        if self.effect.truncation.effective_cuts and self.effect.truncation.effective_cuts[-1] < self.start:
            return self.cut  # the leader's table still knows the epochs that its log no longer holds
        if self.content and self.content.difference:
            return self.content.difference.first_offset
        if self.difference:
            return self.difference.first_offset
        ahead = self.written_since is None and self.follower.log.log_end_offset > self.leader.log.log_end_offset
        return self.leader.log.log_end_offset if ahead else None

    @property
    def content_end(self) -> int:
        """Up to where nothing but the batches can tell the logs apart, exclusive; the start of what both hold where there is no such part.

        That is what the follower keeps, where all that the rules go by agrees. Nothing of a log from which a cleaner took records, or
        that conflicts anyway. Without epochs nothing but the batches tells where the logs diverge, be there a cut or not.
        """
        restarts = self.effect.truncation.restart_offset is not None
        conflicts = self.difference is not None and (self.cut is None or self.still_diverged)
        if self.leader.unreadable or self.follower.unreadable or restarts or conflicts:
            return self.start
        if self.context.compacted and not self.holds_every_record:
            return self.start
        has_epochs, kept = self.leader.has_epochs or self.follower.has_epochs, removal_start(self.follower, self.effect)
        return min(self.end, kept) if has_epochs and kept is not None else self.end

    @property
    def holds_every_record(self) -> bool:
        """Whether both logs have a record for each offset: a cleaner, if there was one, took nothing."""
        logs = self.leader.log, self.follower.log
        return all(holds_every_record(log.runs, log.log_start_offset, log.log_end_offset) for log in logs)

    @property
    def keys_may_differ(self) -> bool | None:
        """Of a compacted pair with equal offsets and epochs of which no more is known: whether something may have left it with other keys.

        None where records or batches were compared, where epochs alone are and a cleaner took nothing, or where none are in common.
        """
        is_compared = self.content is not None and self.content.whole and self.content.difference is None
        is_compared = is_compared or (self.records is not None and not self.records.unread)
        is_compared = is_compared or (self.content is None and self.holds_every_record)
        if not self.context.compacted or is_compared or self.start >= self.end:
            return None
        return self.context.touched is not None

    @property
    def untold_end(self) -> lineage.Span | None:
        """The follower's last batches, where nothing tells whether the leader's log went on in their epoch: then a cut is unknown.

        A cleaner leaves gaps between epochs, and only the leader's table tells where one of them ended: text has none.
        """
        if not self.context.compacted or self.leader.checkpoint_known or self.difference is not None or not self.leader.history:
            return None
        held = [span for span in self.follower.history if span.first_offset < self.leader.log.log_end_offset]
        if not held:
            return None
        last = min(held[-1].end_offset, self.leader.log.log_end_offset) - 1
        own = [span for span in self.leader.history if span.leader_epoch == held[-1].leader_epoch]
        goes_on = any(span.first_offset <= last for span in own) and any(span.end_offset > last for span in own)
        return None if goes_on else held[-1]

    @property
    def content_decides(self) -> bool:
        """Whether the batches have to be compared."""
        return self.start < self.content_end

    @property
    def unproven(self) -> tuple[Offsets, ...]:
        """Ranges of what the follower keeps in which a log has no epochs, and its batches and records were not compared."""
        if self.content is not None or (self.records is not None and not self.records.unread):
            return self.content.unproven if self.content is not None else ()
        kept = removal_start(self.follower, self.effect)
        end = self.end if kept is None else min(self.end, kept)
        found = lineage.pieces(self.leader.history, self.follower.history, max(self.start, self.cleaned), end)
        return tuple((one.first_offset, one.end_offset) for one in found if UNDEFINED_EPOCH in (one.left_epoch, one.right_epoch))

    @property
    def proven_equal(self) -> bool:
        """Whether all batches of the follower were found on the leader."""
        ahead = self.follower.log.log_end_offset > self.leader.log.log_end_offset
        return self.content is not None and self.content.whole and self.content.difference is None and not ahead

    @property
    def still_diverged(self) -> bool:
        """Whether batches that survive the cut still conflict with the leader."""
        return self.surviving_difference is not None

    @property
    def surviving_difference(self) -> lineage.Piece | None:
        """The first difference that the follower keeps."""
        return surviving_difference(self.leader, self.follower, self.context, self.effect)

    @property
    def hole(self) -> MissingOffsets | None:
        """The offsets of the first difference that stays, where one of the two misses them; else those of the first difference."""
        piece = self.surviving_difference or self.difference
        if piece is None or self.context.compacted or None not in (piece.left_epoch, piece.right_epoch):
            return None
        physical, fetched = self.effect.physical_offset, self.effect.truncation.fetch_offset
        if piece.right_epoch is None and physical is not None and physical <= piece.first_offset < fetched:
            return inside_a_segment(self.follower, physical, fetched, is_cut=True)
        return hole_at(self.leader if piece.left_epoch is None else self.follower, piece.first_offset)

    @property
    def lost(self) -> int:
        """How many removed offsets were committed, by any evidence, and the leader does not hold them."""
        return sum(one.offsets for one in self.committed)

    @property
    def lacked_by_the_leader(self) -> int:
        """How many of the offsets that the follower's files lose the leader does not hold; not those below its log start."""
        first, end = removal_start(self.follower, self.effect), self.leader.log.log_end_offset
        start = max(first or 0, self.leader.begins)
        gone = lineage.lacking(self.follower.history, self.leader.history, start, self.follower.log.log_end_offset, missing_from=end)
        return 0 if first is None else lineage.covered((span.first_offset, span.end_offset) for span in gone)

    @property
    def held_by_epochs(self) -> list[lineage.Span]:
        """Of the offsets that the follower's files lose, those that the leader's log has in the same epochs, or compacted away itself.

        Of those without an epoch (-1), which may be other records all the same, only the batches tell.
        """
        first, end = removal_start(self.follower, self.effect), self.follower.log.log_end_offset
        if first is None or self.leader.unreadable or self.follower.unreadable:
            return []
        own, theirs = self.follower.history, self.leader.history
        held = [span for span in lineage.shared(own, theirs, first, end) if span.leader_epoch >= UNDEFINED_EPOCH]
        if self.context.compacted:
            start = max(first, self.leader.log.log_start_offset)
            gone = lineage.lacking(own, theirs, start, end, missing_from=self.compacted_until(start))
            away = lineage.without(lineage.only_in_left(own, theirs, start, end), gone)
            told = lineage.history_of_table(self.leader.log.epochs, start, end) if self.leader.checkpoint_known else []
            held += lineage.shared(away, told, start, end)  # its cleaner took only what its table tells that it held
        return held

    def compacted_until(self, start: int) -> int:
        """Below which offset the leader's cleaner may have taken what its log lacks; `start` if none was at work."""
        end = self.leader.log.log_end_offset
        if self.leader.cleaner_offset is not None:
            return min(self.leader.cleaner_offset, end)
        return end if self.context.compacted else start

    @property
    def held_by_the_leader(self) -> Sequence[lineage.Span]:
        """Of what the follower's files lose, what the leader holds in the same epochs: it is fetched again, and not lost.

        Nothing where nobody says who leads, or where the leader's log may have been truncated since it was copied. Whether the leader runs
        does not matter: nobody truncates before it answers. Offsets without an epoch count only where their batches were compared.
        """
        if self.context.leader_is_inferred or self.leader_copied_before_its_election:
            return ()
        if self.found_again is not None:
            return self.found_again
        return [span for span in self.held_by_epochs if span.leader_epoch >= 0]

    @property
    def lost_spans(self) -> list[lineage.Span]:
        """What the follower's files lose and the leader does not hold in the same epoch, as spans of the follower's history."""
        first, end = removal_start(self.follower, self.effect), self.follower.log.log_end_offset
        if first is None:
            return []
        removed = (span._replace(first_offset=max(span.first_offset, first)) for span in self.follower.history if span.end_offset > first)
        return lineage.without((span for span in removed if span.first_offset < end), self.held_by_the_leader)

    @property
    def fetches_all_again(self) -> bool:
        """Whether a cut loses nothing: the leader holds all that it takes, in the same epochs, and the follower catches up."""
        is_sent = catches_up(self.leader, self.effect) and self.cannot_rejoin is None and not self.still_diverged
        return self.cut is not None and is_sent and bool(self.held_by_the_leader) and not self.lost_spans

    @property
    def committed(self) -> list[Committed]:
        """The removed offsets that were committed and lost, the strongest evidence first, no offset twice."""
        first = removal_start(self.follower, self.effect)
        return [] if first is None else lost_commits(self.leader, self.follower, self.witnesses, self.context.commits, first)


def cleaned_until(leader: Replica, follower: Replica) -> int:
    """The larger cleaner checkpoint: below it neither batches nor table entries are evidence."""
    return max(leader.cleaner_offset or 0, follower.cleaner_offset or 0)


def difference(leader: Replica, follower: Replica, context: Context, end: int) -> lineage.Piece | None:
    """The first difference below `end` that is evidence: above both log starts and both cleaner checkpoints."""
    return _difference(leader, follower, follower.history, context, end)


def _difference(leader: Replica, follower: Replica, held: lineage.History, context: Context, end: int) -> lineage.Piece | None:
    start = max(leader.log.log_start_offset, follower.log.log_start_offset, cleaned_until(leader, follower))
    return lineage.first_difference(leader.history, held, start, end, gaps_count=context.gaps_count(leader, follower))


def catches_up(leader: Replica, effect: Effect) -> bool:
    """Whether the follower's fetches go on until it holds all that the leader holds."""
    return not effect.fetcher_fails and refusal(leader.as_leader(), leader.log, effect.truncation) is None


def still_diverged(leader: Replica, follower: Replica, context: Context, effect: Effect) -> bool:
    """Whether what the follower holds once records flow again conflicts with the leader."""
    return surviving_difference(leader, follower, context, effect) is not None


def surviving_difference(leader: Replica, follower: Replica, context: Context, effect: Effect) -> lineage.Piece | None:
    """The first difference between the leader and what the follower holds once records flow again.

    What lies between the physical cut and the fetch offset is never fetched again, so it is missing; unless the fetcher fails there.
    """
    truncation = effect.truncation
    if truncation.restart_offset is not None:
        return None
    survives_to = truncation.fetch_offset if effect.physical_offset is None else min(effect.physical_offset, truncation.fetch_offset)
    all_survives = not follower.history or follower.history[-1].end_offset <= survives_to
    survives = follower.history if all_survives else tuple(lineage.until(follower.history, survives_to))
    compared_to = survives_to if effect.fetcher_fails else truncation.fetch_offset
    return _difference(leader, follower, survives, context, min(compared_to, leader.log.log_end_offset))


def removal_start(follower: Replica, effect: Effect) -> int | None:
    """The first offset that the follower's files lose: the log start on a restart, else the physical cut; None if nothing goes."""
    if effect.truncation.restart_offset is not None:
        return None if follower.empty else follower.log.log_start_offset
    if effect.truncation.truncation_offset is None:
        return None
    return effect.truncation.truncation_offset if effect.physical_offset is None else effect.physical_offset


# What becomes of a follower once its exchange is over: what conflicts, what its table learns, and what ends a failure.
# The rules are the product's own, resting on AbstractFetcherThread (a partition whose fetcher failed is fetched again after a restart),
# Partition.makeLeader (who is elected writes its new epoch to its table) and UnifiedLog.append (a fetched epoch is added to the table).


def differences(c: Comparison) -> Iterator[lineage.Piece]:
    """Where both logs hold other batches at the same offsets, from the offset on at which they diverge (left: leader, right: follower)."""
    if c.divergence_offset is None:
        return
    yield from filter(lineage.differ, lineage.pieces(c.leader.history, c.follower.history, c.divergence_offset, c.end))


def conflicts(c: Comparison) -> Iterator[lineage.Piece]:
    """Where the logs still differ once records flow again (left: leader, right: what the follower then holds)."""
    first = None if c.divergence_offset is None else c.surviving_difference
    if first is None:
        return
    physical, fetched = c.effect.physical_offset, c.effect.truncation.fetch_offset
    kept_to = fetched if physical is None else min(physical, fetched)
    end = min(kept_to if c.effect.fetcher_fails else fetched, c.leader.log.log_end_offset)
    kept = lineage.until(c.follower.history, kept_to)
    gaps_count = c.context.gaps_count(c.leader, c.follower)
    yield from lineage.differences(c.leader.history, kept, first.first_offset, end, gaps_count=gaps_count)


def learnt_epochs(leader: ReplicaState, effect: Effect) -> list[EpochEntry]:
    """The entries that fetched batches add to the follower's table: of the leader's epochs above its last one, where they are fetched."""
    truncation = effect.truncation
    if effect.fetcher_fails or truncation.stuck:
        return []
    begin, last = truncation.fetch_offset, latest_epoch(truncation.follower_after.epochs)
    ends = [*(entry.start_offset for entry in leader.epochs[1:]), leader.log_end_offset]
    return [
        EpochEntry(entry.epoch, max(entry.start_offset, begin))
        for entry, end in zip(leader.epochs, ends, strict=False)
        if entry.epoch > last and end > max(entry.start_offset, begin)
    ]


def restarts_once_failed(leader: Replica, effect: Effect) -> bool:
    """Whether a follower whose fetcher fails comes back by a restart of its broker: its files then end below the leader's log start."""
    physical = effect.physical_offset
    return effect.fetcher_fails and physical is not None and physical < leader.log.log_start_offset


def ends_with_election(leader: Replica, follower: Replica, truncation: Truncation, leader_epoch: int) -> bool:
    """Whether an exchange without end ends once its leader, which does not run, is elected: it leads in a new epoch then."""
    if not truncation.stuck or leader.alive:
        return False
    state = elected(leader.as_leader(), leader, follower, leader_epoch)
    return refusal(state, leader.log, RULES[truncation.protocol](state, follower.as_follower())) is None
