"""One replica as the rules see it, and as either side of the exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from replica_audit.frozen import made_quickly
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import EMPTY, EpochTable, latest_epoch, truncate_from_end
from replica_audit.protocol.epochs.replica_log import LoadedLog


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One side of the exchange, with offsets as Kafka holds them in memory.

    `log_end_offset` is exclusive, `high_watermark` lies within [start, end].
    `high_watermark_in_memory`: its broker runs, and truncated by the one in memory already, so that it is the log end here.
    `first_segment_base` is the base offset of the oldest segment: a truncation below it restarts the log. `begins_remotely`: of a log with
    remote storage (KIP-405) its log start offset; `log_start_offset` is then where the local log begins.
    """

    log_start_offset: int
    log_end_offset: int
    epochs: EpochTable
    high_watermark: int
    first_segment_base: int
    begins_remotely: int | None = None
    high_watermark_in_memory: bool = False


def truncated(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateTo(offset)` on offsets and table; at or above the log end only table entries without data go (KAFKA-10706)."""
    if offset >= replica.log_end_offset:
        epochs = truncate_from_end(replica.epochs, replica.log_end_offset)
        return replica if epochs is replica.epochs else replace(replica, epochs=epochs)
    if offset < replica.first_segment_base:
        return restarted(replica, offset)
    return replace(
        replica,
        log_start_offset=min(replica.log_start_offset, offset),
        log_end_offset=offset,
        epochs=truncate_from_end(replica.epochs, offset),
        high_watermark=min(replica.high_watermark, offset),
    )


def restarted(replica: ReplicaState, offset: int) -> ReplicaState:
    """`UnifiedLog.truncateFullyAndStartAt(offset)`: an empty log and table that begin at the offset."""
    return replace(replica, log_start_offset=offset, log_end_offset=offset, epochs=EMPTY, high_watermark=offset, first_segment_base=offset)


# What is known of a running leader's log from a time after it was copied, and what that proves of a follower that was copied later.


class Look(NamedTuple):
    """A log at a later time, when it still began as its copy does: it reached `log_end_offset` at least, in the epochs of the table."""

    epochs: EpochTable
    log_end_offset: int


class LaterBound(StrEnum):
    """What proves that a follower holds nothing beyond its leader's copy but what the leader's log held soon after, too.

    CURRENT_EPOCH: it is of the epoch that the leader leads in, in which nobody else writes. SECOND_LOOK: `collect` looked at the leader's
    log again, and it reached as far, in the same epochs. LATER_TABLE: so says the leader's epoch table, which was copied after its log.
    """

    CURRENT_EPOCH = "current-epoch"
    SECOND_LOOK = "second-look"
    LATER_TABLE = "later-table"


class Seen(NamedTuple):
    """A follower as far as its leader's copy reaches, exclusive, what bounds the rest, and up to where a later look shows its epochs.

    `held_until`: up to where the follower's log reached then, at least. It is less than `until` where a cleaner has left nothing before.
    """

    until: int
    bound: LaterBound
    shown_until: int
    held_until: int


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica as the rules see it.

    `high_watermark`, `recovery_point` and `cleaner_offset` are the persisted values, None if there are none; `high_watermark_known` is
    False where their file was not collected. `checkpoint_known` is False where no checkpoint was collected (a dump text, or a copy that
    lacks it). `unreadable` says why the replica cannot be used. `alive`: its broker's process ran when it was copied, so nothing was
    loaded from disk; None if unknown. `may_have_run`: it did, or may have where `alive` does not tell. `frozen`: it runs, but does nothing.
    `of_one_time`: its files were copied at one instant. `stopped_cleanly`: the copy has the marker of a clean shutdown, so it is
    complete, and of a time when the broker did not run. `second_look`: how its log had gone on when `collect` looked again; None: not
    known. `seen`: as a follower it is taken for what it was when its leader was copied, with a log that ended there or before; None: as it
    was copied itself. `deleted_until`: below it segments were deleted while they were copied, and what the copy has of them is left out;
    None: nothing is. `checkpoints_first`: its checkpoints were copied before its log. `begins_remotely`: its log start offset where remote
    storage has what lies below its local log, and `history` by the table; None: it has no remote storage. `is_partly_read`: a segment of it
    could not be read, so it is `unreadable`, and offsets that `history` lacks may be held; `is_end_unknown`: that is the newest one, and
    `log` ends where it begins.
    """

    broker_id: int
    log: LoadedLog
    history: lineage.History
    high_watermark: int | None = None
    high_watermark_known: bool = True
    recovery_point: int | None = None
    checkpoints_first: bool = False
    cleaner_offset: int | None = None
    topic_id: str | None = None
    checkpoint_known: bool = True
    unreadable: str | None = None
    alive: bool | None = None
    may_have_run: bool = False
    in_isr: bool = False
    frozen: bool = False
    of_one_time: bool = True
    stopped_cleanly: bool = False
    second_look: Look | None = None
    seen: Seen | None = None
    deleted_until: int | None = None
    is_partly_read: bool = False
    is_end_unknown: bool = False
    begins_remotely: int | None = None
    _leads: ReplicaState = field(init=False, repr=False, compare=False)
    _follows: ReplicaState = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make both sides of the exchange, for which every rule asks."""
        log_end_offset = self.log.log_end_offset
        leads, epochs = self._state(self.log.epochs, log_end_offset), self.log.epochs_in_log
        follows = leads if epochs is self.log.epochs else self._state(epochs, log_end_offset)
        if self.seen is not None:
            follows = self._state(truncate_from_end(epochs, self.seen.held_until), self.seen.held_until)
        object.__setattr__(self, "_leads", leads)
        object.__setattr__(self, "_follows", follows)

    @property
    def committed_until(self) -> int:
        """Up to where its high watermark proves that what its log holds was committed, exclusive; 0 if it proves nothing.

        It never lies beyond the log end. Where a broker went on while its files were copied, one that does was written after the log had
        been copied: in between the log may have been truncated, and gone on with other records.
        """
        high_watermark = self.high_watermark or 0
        went_on = bool(self.alive) and not self.frozen and not self.of_one_time
        return 0 if went_on and high_watermark > self.log.log_end_offset else high_watermark

    @property
    def is_at_rest(self) -> bool:
        """Whether its files and checkpoints are certainly of one state: its broker did nothing while they were copied."""
        return self.alive is False or self.frozen or self.of_one_time

    @property
    def lost_end(self) -> int | None:
        """Up to where the log reached by its own checkpoints, exclusive, where it ends below: its end, or that of its copy, is gone.

        None if it reaches there, or where a broker that went on may have written the checkpoint after its log was copied, as in copies of
        files; `collect` copies the checkpoints first. Sources:
        UnifiedLog.maybeIncrementHighWatermark, never beyond the log end; LogManager.shutdown, which flushes, and then writes the recovery
        point and the marker of a clean shutdown.
        """
        reached = max(self.high_watermark or 0, (self.recovery_point or 0) if self.stopped_cleanly else 0)
        went_on = bool(self.alive) and not self.is_at_rest and not self.checkpoints_first
        return reached if reached > self.log.log_end_offset and not went_on and not self.unreadable else None

    @property
    def known_end(self) -> int | None:
        """The log end offset; None if it is not known."""
        return None if self.is_end_unknown else self.log.log_end_offset

    def as_leader(self) -> ReplicaState:
        """The leader's side of the exchange: its table as found, for an entry at the log end is its current epoch."""
        return self._leads

    def as_follower(self) -> ReplicaState:
        """The follower's side: its table without what lies at or above the log end."""
        return self._follows

    def _state(self, epochs: EpochTable, log_end_offset: int) -> ReplicaState:
        log = self.log
        clamped = min(max(self.high_watermark or 0, log.log_start_offset), log_end_offset)
        return ReplicaState(
            log_start_offset=log.log_start_offset,
            log_end_offset=log_end_offset,
            epochs=epochs,
            high_watermark=log_end_offset if self.has_used_its_high_watermark else clamped,
            first_segment_base=log.first_segment_base,
            begins_remotely=self.begins_remotely,
            high_watermark_in_memory=self.has_used_its_high_watermark,
        )

    @property
    def has_used_its_high_watermark(self) -> bool:
        """Whether nothing is left to be cut by it: a running broker truncated by the one in memory when it became a follower.

        One that is frozen and out of the ISR has yet to learn whom it follows; of its high watermark the file knows best.
        """
        return bool(self.alive) and (self.in_isr or not self.frozen)

    @property
    def begins(self) -> int:
        """The log start offset; of a log with remote storage that of the whole, wherever its local log begins."""
        return self.log.log_start_offset if self.begins_remotely is None else self.begins_remotely

    @property
    def empty(self) -> bool:
        """Whether the log holds no offset."""
        return self.log.log_end_offset <= self.log.log_start_offset

    @property
    def has_epochs(self) -> bool:
        """Whether anything of the replica tells an epoch."""
        return bool(self.log.epochs) or any(span.leader_epoch >= 0 for span in self.history)


def held_by_table(replica: Replica, first: int, end: int) -> list[lineage.Span]:
    """What a replica held of [first, end) by its epoch table, as it was before the log was loaded."""
    found = lineage.history_of_table(replica.log.epochs_before, first, max(first, end))
    return [span for span in found if span.leader_epoch >= 0]


def not_held(spans: Iterable[lineage.Span], others: Sequence[Replica]) -> list[lineage.Span]:
    """The part of spans that no other replica holds in the same epoch, ascending and disjoint.

    Where the log start of another one, or its cleaner, has passed, a batch that is missing is no evidence.
    """
    passed = max((max(one.log.log_start_offset, one.cleaner_offset or 0) for one in others), default=0)
    left = lineage.without(spans, (span for one in others for span in one.history))
    return [span._replace(first_offset=max(span.first_offset, passed)) for span in left if span.end_offset > passed]


def lost_to_recovery(replica: Replica, others: Sequence[Replica]) -> list[lineage.Span]:
    """What log recovery takes of a replica and none of some others holds in the same epoch, ascending and disjoint.

    That is the whole batches behind the damaged one, and what the damage hides below the replica's own high watermark, or where an epoch
    of its table begins: that is more than a batch that a crash left half written. Where bytes behind the damage could not be read, it is
    at least the first offset, unless another one goes on in the same epoch and knows no later one: a later leader may have begun below the
    end of that epoch. Sources: LogSegment.recover, LogLoader.recoverLog.
    """
    log, cut = replica.log, replica.log.recovery_cut
    if cut is None:
        return []
    reached = max(replica.high_watermark or 0, *(entry.start_offset for entry in log.epochs_before[-1:]), 0)
    lost = not_held([*lineage.history_of_runs(log.cut_runs), *held_by_table(replica, cut, reached)], others)
    epoch = log.runs[-1].leader_epoch if log.runs else latest_epoch(log.epochs_before)
    goes_on = (one for one in others if {span.leader_epoch for span in one.history if span.end_offset > cut} == {epoch})
    if not log.cut_hides or any(latest_epoch(one.log.epochs) <= epoch for one in goes_on):
        return lost
    return lost or [lineage.Span(epoch, cut, cut + 1)]
