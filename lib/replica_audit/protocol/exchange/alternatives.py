"""The alternatives that KIP-279 rejected, as what-if rules: what each would have cut, and what its questions would have cost.

None was ever built. Each is the KIP's description applied to Kafka's tables, then continued as every generation goes on: it fetches until
records flow. Whether what survives still conflicts is for `comparison.still_diverged` to tell.

What is counted is what the KIP counts: the fields of one partition in each OffsetsForLeaderEpoch request and answer. INT16: error code.
INT32: partition, leader epoch. INT64: end offset. Headers, topic names, throttle time and array lengths are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epochs.epoch_table import (
    EpochEntry,
    end_offset_for,
    epoch_for_offset,
    kip101_end_offset_for,
    knows,
    latest_epoch,
)
from replica_audit.protocol.exchange.replay import Replay, Truncation, follower_step, kip_101
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.codes import EpochRequest, Protocol

_ERROR_CODE, _PARTITION, _EPOCH, _OFFSET = 2, 4, 4, 8
_REQUEST = _PARTITION + _EPOCH
_RESPONSE_V0 = _ERROR_CODE + _PARTITION + _OFFSET
_RESPONSE_V1 = _RESPONSE_V0 + _EPOCH  # KIP-279's 32 bits more


class Alternative(StrEnum):
    """The rejected alternatives, in the order of the KIP; the last two address clean elections only."""

    UNKNOWN_OFFSET_ROUNDS = "unknown-offset-rounds"
    EPOCH_SEQUENCE_EXCHANGE = "epoch-sequence-exchange"
    HIGH_WATERMARK_EPOCH = "high-watermark-epoch"
    LEAVE_ISR_ON_PREFERRED_ELECTION = "leave-isr-on-preferred-election"


class Traffic(NamedTuple):
    """Requests of one follower that ask for epochs, with the bytes of its partition in them and in their answers."""

    requests: int
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeOutcome:
    """What an alternative would have done with one follower.

    `truncation_offset` means what it means in `Truncation`: the last offset to which the log is really cut, None if it is not.
    `round_trips` counts OffsetsForLeaderEpoch requests, the bytes are those of the partition in all of them. `election_is_clean` is told
    by the alternative that changes elections alone: whether this leader could have been elected without an unclean election.
    """

    alternative: Alternative
    truncation_offset: int | None
    round_trips: int
    request_bytes: int
    response_bytes: int
    falls_back_to_high_watermark: bool
    reason: str
    election_is_clean: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElection:
    """One election of a partition's leader.

    `leader_id` is -1 where nobody could lead. `preferred`: by preferred replica election, so that the leader before it stayed in the ISR.
    `isr`: who could be elected cleanly: the in-sync replicas before the election, and since KIP-966 the ELR; so never an unclean leader.
    `caught_up`: who reached this leader's log end offset while it led; None if unknown.
    """

    leader_epoch: int
    leader_id: int
    preferred: bool
    isr: tuple[int, ...]
    caught_up: tuple[int, ...] | None = None


def traffic(truncation: Truncation) -> Traffic:
    """What an accepted protocol's questions cost, counted as those of the alternatives.

    KIP-101's request and answer are version 0 of the API, KIP-279's version 1 (2.1 added four bytes to each request, KIP-320). By the high
    watermark nothing is asked. Of truncation on fetch the fetches count that are answered with an epoch, and of those what Fetch 12 added:
    lastFetchedEpoch, and the epoch and end offset of the answer. All else in a fetch is sent anyway.
    """
    asked = sum(step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH for step in truncation.steps)
    if truncation.protocol is Protocol.TRUNCATE_ON_FETCH:
        asked = sum(step.request is EpochRequest.FETCH and step.answered_epoch is not None for step in truncation.steps)
        return Traffic(asked, asked * _EPOCH, asked * (_EPOCH + _OFFSET))
    return Traffic(asked, asked * _REQUEST, asked * (_RESPONSE_V1 if truncation.protocol is Protocol.KIP_279 else _RESPONSE_V0))


def unknown_offset_rounds(leader: ReplicaState, follower: ReplicaState) -> AlternativeOutcome:
    """Alternative 1: ask for the own epochs, newest first, until the leader knows one.

    An epoch that the leader does not know is answered UNKNOWN_OFFSET_FOR_LEADER_EPOCH. The follower falls back to its high watermark when
    no own epoch is left to ask for, and at once where the leader has none at all: that is undefined, as in KIP-101.
    """
    replay = _replay(leader, follower)
    for epoch, _start in follower.epochs[::-1] if leader.epochs else follower.epochs[-1:]:
        if knows(leader.epochs, epoch):
            answer = end_offset_for(leader.epochs, epoch, leader.log_end_offset)
            _truncate(replay, answer)
            reason = f"epoch {epoch} is the newest that both know, it ends at {answer.start_offset} on the leader"
            break
        replay.ask(epoch, None, UNDEFINED_EPOCH_OFFSET, complete=False)
    else:
        replay.fall_back(follower.high_watermark)
        reason = _no_common_epoch(follower)
    asked = sum(step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH for step in replay.steps)
    cost = Traffic(asked, asked * _REQUEST, asked * _RESPONSE_V0)
    return _outcome(Alternative.UNKNOWN_OFFSET_ROUNDS, replay, cost, reason)


def epoch_sequence_exchange(leader: ReplicaState, follower: ReplicaState, *, sequence_start: int | None = None) -> AlternativeOutcome:
    """Alternative 2: send (epoch, end offset) of several own epochs at once; the leader answers the smaller end of the newest it knows.

    Args:
        leader: whose table is asked.
        follower: who asks.
        sequence_start: the first sequence holds the epochs that end at or above this offset; the high watermark unless given. The KIP
            leaves the length to tuning. The second sequence, sent if the leader knows none of the first, holds every epoch here.
    """
    replay = _replay(leader, follower)
    every = [EpochEntry(epoch, _own_end(follower, epoch)) for epoch, _start in follower.epochs]
    start = min(follower.high_watermark if sequence_start is None else sequence_start, follower.log_end_offset)
    first = [entry for entry in every if entry.start_offset >= start]
    sequences = [sequence for sequence in (first, every) if sequence]
    if not leader.epochs or first == every:
        del sequences[1:]
    pairs, reason = 0, _no_common_epoch(follower)
    for sequence in sequences:
        pairs += len(sequence)
        match = next((entry for entry in reversed(sequence) if knows(leader.epochs, entry.epoch)), None)
        if match:
            end = end_offset_for(leader.epochs, match.epoch, leader.log_end_offset).start_offset
            _truncate(replay, EpochEntry(match.epoch, min(end, match.start_offset)))
            reason = f"epoch {match.epoch} is the newest that both know, it ends at {end} on the leader and at {match.start_offset} here"
            break
        replay.ask(sequence[-1].epoch, None, UNDEFINED_EPOCH_OFFSET, complete=False)
    else:
        replay.fall_back(follower.high_watermark)
    asked = sum(step.request is EpochRequest.OFFSET_FOR_LEADER_EPOCH for step in replay.steps)
    cost = Traffic(asked, asked * _PARTITION + pairs * (_EPOCH + _OFFSET), asked * _RESPONSE_V0)
    return _outcome(Alternative.EPOCH_SEQUENCE_EXCHANGE, replay, cost, reason)


def high_watermark_epoch(leader: ReplicaState, follower: ReplicaState) -> AlternativeOutcome:
    """Clean elections only, approach 1: ask, as KIP-101 does, for the epoch at the own high watermark instead of the latest.

    That is the epoch of the last committed record; the first own epoch if none is known to be committed. Everything of later epochs goes.
    It is right only where the leader knows that epoch, and costs nothing only where every leader change persists the high watermark first,
    which no broker does.
    """
    replay = _replay(leader, follower)
    if not follower.epochs:
        replay.fall_back(follower.high_watermark)
        return _outcome(Alternative.HIGH_WATERMARK_EPOCH, replay, Traffic(0, 0, 0), _no_common_epoch(follower))
    said = epoch_for_offset(follower.epochs, follower.high_watermark - 1)
    epoch = follower.epochs[0].epoch if said is None else said
    end = kip101_end_offset_for(leader.epochs, epoch, leader.log_end_offset)
    reason = f"the high watermark {follower.high_watermark} is in epoch {epoch}"
    if end == UNDEFINED_EPOCH_OFFSET:
        replay.ask(epoch, None, end)
        replay.fall_back(follower.high_watermark)
        reason += ", whose end the leader does not know"
    else:
        _truncate(replay, EpochEntry(epoch, end))
        known = knows(leader.epochs, epoch)
        reason += (
            f", which ends at {end} on the leader" if known else f", which the leader does not know: {end} is where a later one begins"
        )
    return _outcome(Alternative.HIGH_WATERMARK_EPOCH, replay, Traffic(1, _REQUEST, _RESPONSE_V0), reason)


def leave_isr_on_preferred_election(
    leader: ReplicaState, follower: ReplicaState, elections: Sequence[PreferredElection]
) -> AlternativeOutcome:
    """Clean elections only, approach 2: KIP-101's exchange as it is, but a preferred election puts the leader before it out of the ISR.

    Args:
        leader: who was elected by the last of `elections`.
        follower: who asks. Its table may prove that the leader never followed in an epoch.
        elections: every election of the partition from some epoch on, ascending.

    Returns:
        KIP-101's cut, and whether the leader's election would still have been clean: None where the elections do not tell.
    """
    clean, reason = None, "the elections are unknown, and so is what this would have changed"
    if elections and elections[-1].leader_epoch >= latest_epoch(leader.epochs):
        untold = None, "the known elections do not show whether this would have removed the leader from the ISR"
        clean, reason = _still_clean(elections, lambda epoch: _never_followed(leader, follower, epoch)) or untold
    truncation = kip_101(leader, follower)
    cost = traffic(truncation)
    return AlternativeOutcome(
        alternative=Alternative.LEAVE_ISR_ON_PREFERRED_ELECTION,
        truncation_offset=truncation.truncation_offset,
        round_trips=cost.requests,
        request_bytes=cost.request_bytes,
        response_bytes=cost.response_bytes,
        falls_back_to_high_watermark=truncation.falls_back_to_high_watermark,
        reason=reason,
        election_is_clean=clean,
    )


RULES: dict[Alternative, Callable[[ReplicaState, ReplicaState], AlternativeOutcome]] = {
    Alternative.UNKNOWN_OFFSET_ROUNDS: unknown_offset_rounds,
    Alternative.EPOCH_SEQUENCE_EXCHANGE: epoch_sequence_exchange,
    Alternative.HIGH_WATERMARK_EPOCH: high_watermark_epoch,
}


def what_if(leader: ReplicaState, follower: ReplicaState, elections: Sequence[PreferredElection] = ()) -> list[AlternativeOutcome]:
    """Every alternative's outcome, in the order of `Alternative`."""
    return [*(rule(leader, follower) for rule in RULES.values()), leave_isr_on_preferred_election(leader, follower, elections)]


def _still_clean(elections: Sequence[PreferredElection], never_followed: Callable[[int], bool]) -> tuple[bool, str] | None:
    """Whether the last election would have been clean had preferred elections put the leader before them out of the ISR, and why."""
    *before, last = elections
    if last.leader_id < 0:
        return None
    elected = f"broker {last.leader_id} in epoch {last.leader_epoch}"
    if last.leader_id not in last.isr:
        return False, f"the election of {elected} was unclean, which this does not address"
    led = max((i for i, election in enumerate(before) if election.leader_id == last.leader_id), default=-1)
    since = before[led + 1 :]
    if led < 0 and elections[0].leader_epoch > 0:
        return None  # it may have led, and been put out, before the first election that is known
    if led < 0 or not since or not since[0].preferred:
        return True, f"no preferred election would have put {elected} out of the ISR before"
    pushed = f"broker {last.leader_id} would have left the ISR in epoch {since[0].leader_epoch}"
    again = next((election for election in since if last.leader_id in (election.caught_up or ())), None)
    if again:
        return True, f"{pushed} and come back in epoch {again.leader_epoch}: its election in epoch {last.leader_epoch} stays clean"
    if any(election.caught_up is None and not never_followed(election.leader_epoch) for election in since):
        return None
    return False, f"{pushed} and not caught up: its election in epoch {last.leader_epoch} would have been unclean"


def _never_followed(leader: ReplicaState, follower: ReplicaState, epoch: int) -> bool:
    """Whether the leader provably did not follow in an epoch that the follower knows: it kept what every follower then had to cut."""
    start = next((entry.start_offset for entry in follower.epochs if entry.epoch == epoch), None)
    kept_until = end_offset_for(leader.epochs, epoch, leader.log_end_offset).start_offset
    return start is not None and not knows(leader.epochs, epoch) and kept_until > start


def _replay(leader: ReplicaState, follower: ReplicaState) -> Replay:
    # the label goes nowhere: an outcome names its alternative
    return Replay(Protocol.KIP_101, leader, follower)


def _truncate(replay: Replay, answer: EpochEntry) -> None:
    """Apply an answer for an epoch that the follower knows, as KIP-279's follower does: to the smaller of both ends."""
    own = replay.follower
    own_lookup = EpochEntry(answer.epoch, _own_end(own, answer.epoch))
    replay.ask(
        answer.epoch, None, answer.start_offset, follower_step(answer, own_lookup, own.log_end_offset, own.high_watermark), own_lookup
    )


def _own_end(replica: ReplicaState, epoch: int) -> int:
    return end_offset_for(replica.epochs, epoch, replica.log_end_offset).start_offset


def _no_common_epoch(follower: ReplicaState) -> str:
    return f"no epoch that both know: the high watermark {follower.high_watermark} decides"


def _outcome(alternative: Alternative, replay: Replay, cost: Traffic, reason: str) -> AlternativeOutcome:
    truncation = replay.fetch_until_records(sends_epoch=False)
    return AlternativeOutcome(
        alternative=alternative,
        truncation_offset=truncation.truncation_offset,
        round_trips=cost.requests,
        request_bytes=cost.request_bytes,
        response_bytes=cost.response_bytes,
        falls_back_to_high_watermark=truncation.falls_back_to_high_watermark,
        reason=reason,
    )
