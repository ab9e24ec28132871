"""What becomes of a follower once its exchange is over: what conflicts, what its table learns, and what ends a failure.

The rules are the product's own, resting on AbstractFetcherThread (a partition whose fetcher failed is fetched again after a restart),
Partition.makeLeader (who is elected writes its new epoch to its table) and UnifiedLog.append (a fetched epoch is added to the table).
"""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.comparison.pair import Comparison, Effect
from replica_audit.protocol.epochs import lineage
from replica_audit.protocol.epochs.epoch_table import EpochEntry, latest_epoch
from replica_audit.protocol.exchange.catch_up import refusal
from replica_audit.protocol.exchange.rejoin import elected
from replica_audit.protocol.exchange.replay import Truncation
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.exchange.replica_state import ReplicaState
from replica_audit.protocol.exchange.truncation import RULES


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
