"""Which of the records that a cut removes are for a replay: those that nobody has, was told of, or has replaced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OnLeader(StrEnum):
    """What the leader's log has of a removed record."""

    SAME = "same"  # the same record at its offset: the follower fetches it again
    RESENT = "resent"  # the producer's retry of it: same producer id, epoch and sequence
    OTHER = "other"  # another record at its offset
    MISSING = "missing"  # nothing at its offset
    BELOW_LOG_START = "below-log-start"  # its log starts above: retention has passed, or somebody deleted records
    UNKNOWN = "unknown"  # its records cannot be read


class TransactionOutcome(StrEnum):
    """How the transaction of a record ended, by the markers in the log that holds it."""

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"  # by a marker that cannot be read


class KeptBack(StrEnum):
    """Why a saved record is not in the replay file."""

    ON_LEADER = "on-leader"
    ABORTED = "aborted"
    OPEN = "open"
    BELOW_LOG_START = "below-log-start"
    LEADER_UNKNOWN = "leader-unknown"
    NEWER_ON_LEADER = "newer-on-leader"


# a record that the leader has would only be there twice
ON_REQUEST = tuple(reason for reason in KeptBack if reason is not KeptBack.ON_LEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersKey:
    """The newest record of a key in the part of the leader's log that differs. An epoch or timestamp of -1: the format has none."""

    offset: int
    leader_epoch: int
    timestamp_ms: int


def is_newer(key: LeadersKey, leader_epoch: int, timestamp_ms: int) -> bool:
    """Whether the leader's record of a key was written after a removed one.

    A leader of a higher epoch wrote later, whatever clocks say. Within one epoch, or without epochs, timestamps tell; where there are none,
    the leader's counts as newer: a replay must not roll a value back.

    Args:
        key: the leader's newest record.
        leader_epoch: of the removed record; -1: none.
        timestamp_ms: of the removed record; -1: none.
    """
    if leader_epoch >= 0 and key.leader_epoch >= 0 and leader_epoch != key.leader_epoch:
        return key.leader_epoch > leader_epoch
    return timestamp_ms < 0 or key.timestamp_ms < 0 or key.timestamp_ms >= timestamp_ms


def kept_back(on_leader: OnLeader, transaction: TransactionOutcome, *, has_newer_key: bool) -> KeptBack | None:
    """Why a record is not for the replay file; None if it is.

    Args:
        on_leader: what the leader has of it.
        transaction: how its transaction ended.
        has_newer_key: the leader holds a newer record of its key.
    """
    if on_leader in (OnLeader.SAME, OnLeader.RESENT):
        return KeptBack.ON_LEADER
    if transaction is TransactionOutcome.ABORTED:
        return KeptBack.ABORTED
    if transaction in (TransactionOutcome.OPEN, TransactionOutcome.UNKNOWN):
        return KeptBack.OPEN
    if on_leader is OnLeader.BELOW_LOG_START:
        return KeptBack.BELOW_LOG_START
    if on_leader is OnLeader.UNKNOWN:
        return KeptBack.LEADER_UNKNOWN
    return KeptBack.NEWER_ON_LEADER if has_newer_key else None
