"""What a live leader answers to OffsetForLeaderEpoch, compared with the table that an audit read from its disk some time ago.

The answers that the table gives are those of `epoch_table.end_offset_for` (LeaderEpochFileCache.endOffsetFor, 2.0). What may have happened
since, in a cluster where nothing is wrong: records were appended, retention moved the log start (`truncateFromStart`), other brokers became
leaders and began epochs; and a replica that fetched a compacted range again has other entries below the cleaner's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.protocol.epochs.epoch_table import UNDEFINED, EpochEntry, EpochTable, end_offset_for, latest_epoch


class AnswerCause(StrEnum):
    """Why an answer is another one than the table's. UNDECIDED lacks an answer that could excuse it; all others but DIFFERS are healthy."""

    SAME = "same"
    GREW = "log-grew"
    RETENTION = "retention"
    NEW_EPOCH = "leader-changed"
    COMPACTION = "compaction"
    UNDECIDED = "undecided"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderThen:
    """The leader's replica in the run. `entries` is its table in effect, `log_end_offset` exclusive."""

    leader_id: int
    entries: EpochTable
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderNow:
    """The leader that answered. `log_start_offset`, asked for later, and `compacted`, by cleanup.policy, are None where unknown."""

    leader_id: int
    leader_epoch: int
    log_start_offset: int | None = None
    compacted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDifference:
    """An answer that is not the table's. End offsets are exclusive, -1 is undefined; None where it is the partition that differs."""

    topic: str
    partition: int
    cause: AnswerCause
    why: str
    leader_then: int
    leader_now: int | None = None
    requested_epoch: int | None = None
    table_epoch: int | None = None
    table_end_offset: int | None = None
    answered_epoch: int | None = None
    answered_end_offset: int | None = None


def expected(then: LeaderThen, requested_epoch: int) -> EpochEntry:
    """The answer that the run's table gives."""
    return end_offset_for(then.entries, requested_epoch, then.log_end_offset)


def judge(then: LeaderThen, now: LeaderNow, requested_epoch: int, answer: EpochEntry) -> tuple[AnswerCause, str]:
    """Why the answer differs from the table's, and that in a sentence; both are empty of blame where time alone explains it."""
    before = expected(then, requested_epoch)
    if answer == before:
        return AnswerCause.SAME, ""
    if _is_retention(before, now.log_start_offset, requested_epoch, answer):
        return AnswerCause.RETENTION, f"retention has moved the log start to {now.log_start_offset}"
    # an epoch without a record is known to the broker that led it, to no other
    entries = then.entries[:-1] if then.entries and then.entries[-1].start_offset >= then.log_end_offset else then.entries
    latest = latest_epoch(entries)
    if requested_epoch >= latest and _goes_on(answer, latest, requested_epoch, then.log_end_offset):
        if now.leader_epoch > max(latest, latest_epoch(then.entries)):
            return AnswerCause.NEW_EPOCH, f"broker {now.leader_id} has since become the leader, in epoch {now.leader_epoch}"
        return AnswerCause.GREW, f"the log has grown in epoch {answer.epoch}"
    if now.compacted and now.leader_id != then.leader_id:
        return (
            AnswerCause.COMPACTION,
            f"broker {now.leader_id} leads now; the topic is compacted, and replicas may know other epochs of what was compacted away",
        )
    if now.log_start_offset is None and _is_retention(before, answer.start_offset, requested_epoch, answer):
        return AnswerCause.UNDECIDED, "retention would explain the difference, but the leader did not say where its log starts"
    if now.compacted is None and now.leader_id != then.leader_id:
        return (
            AnswerCause.UNDECIDED,
            "another broker leads and answers differently; compaction would explain it, but cleanup.policy is unknown",
        )
    return AnswerCause.DIFFERS, _difference(then, now, before, answer)


def _is_retention(before: EpochEntry, start: int | None, requested_epoch: int, answer: EpochEntry) -> bool:
    """The requested epoch is below all that is left of a log from `start` on: it is echoed, with where the first one left begins."""
    return (
        start is not None and before != UNDEFINED and answer.epoch == requested_epoch and before.start_offset < answer.start_offset <= start
    )


def _goes_on(answer: EpochEntry, latest: int, requested_epoch: int, log_end_offset: int) -> bool:
    """Whether the answer is one of a log that continues the table: nothing of it is gone, and what is new begins behind its end."""
    if answer == UNDEFINED:
        return requested_epoch > latest
    return latest <= answer.epoch <= requested_epoch and answer.start_offset >= log_end_offset


def _difference(then: LeaderThen, now: LeaderNow, before: EpochEntry, answer: EpochEntry) -> str:
    who = f"broker {now.leader_id}" + (f", leader in epoch {now.leader_epoch}," if now.leader_id != then.leader_id else "")
    if answer.epoch == UNDEFINED_EPOCH:
        return f"{who} knows no epoch that high"
    if before == UNDEFINED:
        return f"{who} has epochs that high, but they end below {then.log_end_offset}, the table's log end"
    if answer.epoch == before.epoch and answer.start_offset < before.start_offset:
        gone = f"offsets {answer.start_offset} to {before.start_offset - 1}"
        return f"{who} ends the epoch earlier: {gone} of it are not in its log, or are of another epoch there"
    if answer.epoch < before.epoch:
        return f"{who} has no epoch {before.epoch}: the highest one below it is {answer.epoch}"
    return f"{who} holds another history than the table"
