"""What a follower truncates to, one function per protocol generation over one shape.

Sources: KIP-101, KIP-279, KIP-320; ReplicaFetcherThread (1.1.1) and AbstractFetcherThread (2.0.1 to 4.2.0).
"""

from __future__ import annotations

from collections.abc import Callable

from replica_audit.model import UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epochs.epoch_table import end_offset_for, kip101_end_offset_for, latest_epoch
from replica_audit.protocol.epochs.once import once
from replica_audit.protocol.exchange.replay import Decision, Replay, Truncation, follower_step
from replica_audit.protocol.exchange.replica_state import ReplicaState
from replica_audit.rows.codes import Case, FallsBack, Protocol


def high_watermark(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """Up to 0.10.2: cut to the own high watermark, no question asked."""
    replay = Replay(Protocol.HIGH_WATERMARK, leader, follower)
    replay.fall_back(follower.high_watermark, FallsBack.ASKS_NOTHING)
    return replay.fetch_until_records(sends_epoch=False)


def kip_101(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """0.11 to 1.1: one request for the end of the own latest epoch; undefined means the high watermark."""
    replay = Replay(Protocol.KIP_101, leader, follower)
    requested = latest_epoch(follower.epochs)
    offset = kip101_end_offset_for(leader.epochs, requested, leader.log_end_offset)
    if offset == UNDEFINED_EPOCH_OFFSET:
        replay.ask(requested, None, offset)
        replay.fall_back(follower.high_watermark)
    else:
        replay.ask(requested, None, offset, Decision(min(offset, follower.log_end_offset), True, Case.NO_EPOCH))
    return replay.fetch_until_records(sends_epoch=False)


def kip_279(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """2.0 and later: ask for (epoch, end offset) until both sides know the answered epoch."""
    replay = Replay(Protocol.KIP_279, leader, follower)
    fetch_offset = follower.high_watermark
    complete = False
    while not complete:
        own = replay.follower
        if not own.epochs:
            replay.fall_back(fetch_offset, FallsBack.NO_EPOCHS)
            break
        requested = latest_epoch(own.epochs)
        answer = end_offset_for(leader.epochs, requested, leader.log_end_offset)
        own_lookup = end_offset_for(own.epochs, answer.epoch, own.log_end_offset)
        decision = follower_step(answer, own_lookup, own.log_end_offset, fetch_offset)
        fetch_offset, complete = decision.offset, decision.complete
        if decision.case is Case.UNDEFINED:
            replay.ask(requested, answer.epoch, answer.start_offset)
            replay.fall_back(fetch_offset)
        else:
            replay.ask(requested, answer.epoch, answer.start_offset, decision, None if decision.case is Case.LATER_EPOCH else own_lookup)
    return replay.fetch_until_records(sends_epoch=False)


def truncate_on_fetch(leader: ReplicaState, follower: ReplicaState) -> Truncation:
    """2.8 and later (KAFKA-10554): every fetch carries the last fetched epoch, and the leader answers where the logs diverge."""
    replay = Replay(Protocol.TRUNCATE_ON_FETCH, leader, follower)
    if not follower.epochs:
        replay.fall_back(follower.high_watermark, FallsBack.NO_EPOCHS)
    return replay.fetch_until_records(sends_epoch=True)


RULES: dict[Protocol, Callable[[ReplicaState, ReplicaState], Truncation]] = {
    Protocol.HIGH_WATERMARK: once(high_watermark),
    Protocol.KIP_101: once(kip_101),
    Protocol.KIP_279: once(kip_279),
    Protocol.TRUNCATE_ON_FETCH: once(truncate_on_fetch),
}
