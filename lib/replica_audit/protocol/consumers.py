"""What a consumer group finds when it resumes at its committed offset: whether records that it consumed are gone, and what it reads next.

Sources: KIP-320; SubscriptionState.maybeCompleteValidation, OffsetFetcherUtils (clients, 4.2.0). What the client cannot see (it does not
compare the answered epoch) is told from the leader's table, and how much is gone from a replica that still holds what the group consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, CommittedOffset, Election
from replica_audit.protocol.comparison.commitment import Context, copied_before_its_election
from replica_audit.protocol.epochs.epoch_table import EpochEntry, EpochTable, end_offset_for, latest_epoch
from replica_audit.protocol.epochs.lineage import epoch_at, first_difference, held
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.columns import utc
from replica_audit.rows.history import ConsumerImpact


class Validation(StrEnum):
    """The outcome of a position's validation."""

    VALID = "valid"
    TRUNCATED = "truncated"
    UNDEFINED = "undefined"
    NOT_VALIDATED = "not-validated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionValidation:
    """What validation finds.

    `reset_offset` and `reset_epoch`: where a truncated consumer that has a reset policy resumes; None in every other case.
    """

    result: Validation
    reset_offset: int | None = None
    reset_epoch: int | None = None


def validate_position(leader_epochs: EpochTable, leader_log_end_offset: int, offset: int, offset_epoch: int | None) -> PositionValidation:
    """Validate a position (next offset to read, epoch of the last record consumed) against the leader's table.

    An unknown epoch (None or -1) is never validated. The answered epoch is not compared, only its end offset (exclusive).
    """
    if offset_epoch is None or offset_epoch == UNDEFINED_EPOCH:
        return PositionValidation(result=Validation.NOT_VALIDATED)
    answer = end_offset_for(leader_epochs, offset_epoch, leader_log_end_offset)
    if answer.epoch == UNDEFINED_EPOCH or answer.start_offset == UNDEFINED_EPOCH_OFFSET:
        return PositionValidation(result=Validation.UNDEFINED)
    if answer.start_offset < offset:
        return PositionValidation(result=Validation.TRUNCATED, reset_offset=answer.start_offset, reset_epoch=answer.epoch)
    return PositionValidation(result=Validation.VALID)


# What a consumer group finds when it resumes at its committed offset: whether records that it consumed are gone, and what it reads next.
# Sources: KIP-320; SubscriptionState.maybeCompleteValidation, OffsetFetcherUtils (clients, 4.2.0). What the client cannot see (it does not
# compare the answered epoch) is told from the leader's table, and how much is gone from a replica that still holds what the group consumed.


class ValidationResult(StrEnum):
    """`Validation`, and what no validation can be made for."""

    VALID = "valid"
    TRUNCATED = "truncated"
    UNDEFINED = "undefined"
    NOT_VALIDATED = "not-validated"
    UNKNOWN = "unknown"


def _impact(commit: CommittedOffset, result: ValidationResult) -> Callable[..., ConsumerImpact]:
    """What the group finds but for `affected` and `reason`; what of the rest is not given is nothing."""
    return partial(
        ConsumerImpact,
        group_id=commit.group_id,
        topic=commit.topic,
        partition=commit.partition,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_at=utc(commit.commit_timestamp_ms),
        validation_result=str(result),
        evidence=f"{commit.path}: offset {commit.record_offset}",
        diverging_epoch=None,
        reset_offset=None,
        nearest_offset=None,
        records_gone=0,
        records_reread=0,
        records_missed=0,
        history_rewritten=False,
    )


def unknown(commit: CommittedOffset, reason: str) -> ConsumerImpact:
    """Nothing can be said; `affected` is None, as wherever it cannot be told."""
    row = _impact(commit, ValidationResult.UNKNOWN)
    return row(affected=None, reason=reason, records_gone=None, records_reread=None, records_missed=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the partition besides its logs.

    `leader_epoch`: the epoch in which the leader's copy leads. `later_than_commit`: the copy is known to be taken after the commit; else a
    position beyond its end proves nothing. `compacted`: batches and epochs may be missing anywhere. `replaced_from`: the offset from which
    an election after the commit replaced the log, None if there was none. `leader_copied_before_its_election`: what its copy lacks, or has
    in place of it, may be of before.
    """

    leader_epoch: int
    later_than_commit: bool
    compacted: bool
    replaced_from: int | None = None
    leader_copied_before_its_election: bool = False


def known(leader: Replica, elections: Sequence[Election], commit: CommittedOffset, context: Context, *, leader_is_down: bool) -> Known:
    """What the metadata tells of the time of a commit; a copy of a log that was written in a later election is later than the commit.

    The clocks are the controller's and the coordinator's; those of producers, in the records, prove nothing.

    Args:
        leader: of the partition.
        elections: by the metadata log.
        commit: of the group.
        context: of the partition.
        leader_is_down: whether nothing was written after the copy.
    """
    # an entry beyond the end is of a table that was copied after its log
    starts = {entry.epoch: entry.start_offset for entry in leader.log.epochs if entry.start_offset <= leader.log.log_end_offset}
    timed = commit.commit_timestamp_ms >= 0
    after = [one for one in elections if timed and one.leader_epoch in starts and one.timestamp_ms > commit.commit_timestamp_ms]
    is_later = max(starts, default=-1) > commit.leader_epoch >= 0 or bool(after)
    latest = max(starts, default=UNDEFINED_EPOCH)
    return Known(
        # up to 2.0 a leader enters its epoch with its first record
        leader_epoch=latest if context.enters_epoch_at_once else max(latest, context.leader_epoch),
        later_than_commit=context.simultaneous or is_later or leader_is_down,
        compacted=context.compacted,
        replaced_from=min((starts[e.leader_epoch] for e in after), default=None),
        leader_copied_before_its_election=copied_before_its_election(leader, context),
    )


def assess(leader: Replica, others: Sequence[Replica], commit: CommittedOffset, known: Known) -> ConsumerImpact:
    """Judge one committed position.

    Args:
        leader: of the partition, as its broker holds it.
        others: further readable replicas of the same topic: they may still hold what the group consumed.
        commit: of the group.
        known: of the partition.
    """
    epochs, end = leader.as_leader().epochs, leader.log.log_end_offset
    beyond = commit.offset > end and commit.leader_epoch in (UNDEFINED_EPOCH, latest_epoch(epochs))
    may_be_newer = beyond or commit.leader_epoch > latest_epoch(epochs)
    assessment = _Assessment(leader, others, commit, known)
    if may_be_newer and not known.later_than_commit and assessment.diverged_at is None:
        return unknown(commit, "the commit points beyond the copy of the leader's log, and may be newer than that copy")
    found = assessment.impact()
    if found.affected and known.leader_copied_before_its_election:
        return unknown(commit, "the leader was copied before its election, so its log may have changed since")
    return found


def _consumed(replica: Replica, commit: CommittedOffset) -> bool:
    """Whether a replica holds the last record that the group can have consumed, in its epoch if that is known."""
    epoch = epoch_at(replica.history, commit.offset - 1)
    return epoch is not None and commit.leader_epoch in (UNDEFINED_EPOCH, epoch)


def _parts(leader: Replica, other: Replica, end: int, leader_epoch: int) -> int | None:
    """Where the other's log stops being the leader's, below an exclusive end; None if it does not, or only because it is ahead."""
    common = min(end, leader.log.log_end_offset, other.log.log_end_offset)
    start = max(leader.begins, other.begins, leader.cleaner_offset or 0, other.cleaner_offset or 0)
    piece = first_difference(leader.history, other.history, start, common, gaps_count=False)
    if piece is not None:
        return piece.first_offset
    leader_end = leader.log.log_end_offset
    tail = epoch_at(other.history, leader_end)
    return leader_end if end > leader_end and tail is not None and 0 <= tail < leader_epoch else None


class _Assessment:
    def __init__(self, leader: Replica, others: Sequence[Replica], commit: CommittedOffset, known: Known) -> None:
        self.leader, self.commit, self.known = leader, commit, known
        self.epochs: EpochTable = leader.as_leader().epochs
        self.start, self.end = leader.begins, leader.log.log_end_offset
        self.answer = end_offset_for(self.epochs, commit.leader_epoch, self.end) if commit.leader_epoch >= 0 else EpochEntry(-1, -1)
        # the consumed offset from which an election after the commit replaced the log
        replaced = known.replaced_from
        self.replaced_from = replaced if replaced is not None and replaced < commit.offset else None
        found = [_parts(leader, other, commit.offset, known.leader_epoch) for other in others if _consumed(other, commit)]
        seen = [offset for offset in (*found, self.replaced_from) if offset is not None]
        # where what was consumed stops being the leader's log; without an epoch an election tells it, a replica only that it may be so
        by_epoch = commit.leader_epoch >= 0 or self.replaced_from is None
        self.diverged_at = min(seen, default=None) if by_epoch else self.replaced_from

    def _found(self, result: ValidationResult, **columns: Any) -> ConsumerImpact:
        return _impact(self.commit, result)(**columns)

    def impact(self) -> ConsumerImpact:
        """The first case that holds."""
        match validate_position(self.epochs, self.end, self.commit.offset, self.commit.leader_epoch).result:
            case Validation.TRUNCATED:
                return self._truncated()
            case Validation.UNDEFINED:
                return self._undefined()
            case Validation.NOT_VALIDATED:
                return self._not_validated()
        return self._valid()

    def _truncated(self) -> ConsumerImpact:
        reset, parts = self.answer.start_offset, self.diverged_at
        if parts is None and any(entry.epoch == self.commit.leader_epoch for entry in self.epochs):
            parts = reset  # both logs have the epoch, and so the same records up to the end of the shorter one
        first = self.epochs[0]
        if parts is None and self.commit.leader_epoch < first.epoch and self.start > 0 and first.start_offset <= self.start:
            return self._of_no_known_epoch(reset)
        by_policy = reset < self.start
        gone = "" if parts is None else f" {min(parts, reset)}..{self.commit.offset - 1}"
        why = f"; {reset} is below the log start {self.start}: the reset policy decides" if by_policy else ""
        parts = None if parts is None else min(parts, reset)
        return self._found(
            ValidationResult.TRUNCATED,
            affected=True,
            diverging_epoch=self.answer.epoch,
            reset_offset=None if by_policy else reset,
            nearest_offset=reset,
            records_gone=None if parts is None else self.commit.offset - parts,
            records_reread=None if parts is None else 0,
            records_missed=self._held(parts, self.end if by_policy else reset),
            reason=f"truncated: the leader's epoch {self.answer.epoch} ends at {reset}, below the committed offset; offsets{gone} that the "
            f"group consumed are gone{why}",
        )

    def _of_no_known_epoch(self, reset: int) -> ConsumerImpact:
        """A commit in an epoch of which retention left nothing: the client takes that for a truncation, and it need not be one."""
        epoch, first = self.commit.leader_epoch, self.epochs[0]
        return self._found(
            ValidationResult.TRUNCATED,
            affected=None,
            diverging_epoch=self.answer.epoch,
            reset_offset=reset,
            nearest_offset=reset,
            records_gone=None,
            records_reread=None,
            records_missed=None,
            reason=f"the commit names epoch {epoch}, and the leader's table begins with epoch {first.epoch} at the log start {self.start}: "
            f"the client goes back to {reset}. Either it reads {reset}..{self.commit.offset - 1} again, because the commit named an epoch "
            "older than that of its records, or these records took the place of others that it had read: nothing in the logs tells which",
        )

    def _held(self, first: int | None, end: int) -> int | None:
        """Offsets of the leader's log in [first, end); None if the first is not known."""
        return None if first is None else held(self.leader.history, first, end)

    def _undefined(self) -> ConsumerImpact:
        why = f"undefined: the leader knows no epoch from {self.commit.leader_epoch} on"
        return self._by_policy(ValidationResult.UNDEFINED, why, nearest=self.end)

    def _not_validated(self) -> ConsumerImpact:
        if self.commit.offset > self.end:
            why = f"out of range: the commit has no epoch, and the log ends at {self.end}"
            return self._by_policy(ValidationResult.NOT_VALIDATED, why, nearest=None)
        if self.commit.offset < self.start:
            return self._retention(ValidationResult.NOT_VALIDATED)
        if self.diverged_at is None:
            return self._intact(ValidationResult.NOT_VALIDATED, "the commit has no epoch and is not validated; nothing contradicts it")
        if self.replaced_from is not None:
            return self._goes_on_unaware(self.replaced_from)
        return self._found(
            ValidationResult.NOT_VALIDATED,
            affected=None,
            reset_offset=self.commit.offset,
            records_gone=None,
            records_missed=held(self.leader.history, self.diverged_at, self.commit.offset),
            reason=f"the commit has no epoch: if the group consumed offsets {self.diverged_at}..{self.commit.offset - 1} before they were "
            "replaced, it never reads what is there now",
        )

    def _goes_on_unaware(self, diverged: int) -> ConsumerImpact:
        return self._found(
            ValidationResult.NOT_VALIDATED,
            affected=True,
            reset_offset=self.commit.offset,
            records_gone=self.commit.offset - diverged,
            records_missed=held(self.leader.history, diverged, self.commit.offset),
            reason="the commit has no epoch and is not validated, but an election after it replaced the log from offset "
            f"{diverged} on: it never reads what is there now",
        )

    def _valid(self) -> ConsumerImpact:
        if self.answer.epoch < self.commit.leader_epoch:
            return self._rewritten()
        if self.commit.offset < self.start:
            return self._retention(ValidationResult.VALID)
        return self._intact(ValidationResult.VALID, "the leader's log holds what the group consumed")

    def _rewritten(self) -> ConsumerImpact:
        parts, epoch = self.diverged_at, self.commit.leader_epoch
        if parts is None and (self.known.compacted or self.commit.offset <= (self.leader.cleaner_offset or 0)):
            # a leader that once fetched a compacted range has no entry for an epoch of which nothing was left
            return self._doubtful(f"the leader's table lacks epoch {epoch}, which compaction can explain")
        if parts is None and self.commit.offset == self.answer.start_offset:
            # a group that starts at the latest offset commits the epoch of a leader that may never have written in it
            why = f"the leader's table lacks epoch {epoch}, in which perhaps nothing was written, or records were replaced"
            return self._doubtful(why)
        what = "perhaps nothing was written in it, or records were replaced" if parts is None else f"offsets from {parts} on were replaced"
        return self._found(
            ValidationResult.VALID,
            affected=None if parts is None else True,
            diverging_epoch=self.answer.epoch,
            reset_offset=self.commit.offset,
            nearest_offset=self.answer.start_offset,
            records_gone=None if parts is None else self.commit.offset - parts,
            records_missed=self._held(parts, self.commit.offset),
            history_rewritten=True,
            reason=f"the client considers the position valid, but the leader has no epoch {epoch} and answers {self.answer.epoch}: {what}",
        )

    def _by_policy(self, result: ValidationResult, why: str, nearest: int | None) -> ConsumerImpact:
        parts = self.diverged_at
        consumed = None if parts is None else min(parts, self.end)
        return self._found(
            result,
            affected=True,
            nearest_offset=nearest,
            records_gone=None if parts is None else self.commit.offset - parts,
            records_reread=None if consumed is None else held(self.leader.history, self.start, consumed),
            records_missed=self._held(consumed, self.end),
            reason=f"{why}; the reset policy decides: earliest reads from {self.start} again, latest continues at {self.end}",
        )

    def _retention(self, result: ValidationResult) -> ConsumerImpact:
        return self._found(
            result,
            affected=False,
            records_missed=self._held(self.start, self.end),
            reason=f"below the log start {self.start}: retention or DeleteRecords removed the next records; the reset policy decides",
        )

    def _doubtful(self, reason: str) -> ConsumerImpact:
        return replace(self._intact(ValidationResult.VALID, reason), affected=None, records_gone=None, records_missed=None)

    def _intact(self, result: ValidationResult, reason: str) -> ConsumerImpact:
        return self._found(result, affected=False, reset_offset=self.commit.offset, reason=reason)
