"""What it costs if a replica leads: the question before an unclean election.

A leader's log is the truth (KIP-101): what another replica holds and the leader does not is cut away, and lost if no one else holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.pair import Comparison, Effect, removal_start
from replica_audit.protocol.epochs.epoch_table import assign
from replica_audit.protocol.epochs.lineage import Span, lacking, until
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.words import count


class Loss(NamedTuple):
    """What one follower loses and nobody counted before: spans of its history, the records in them, and the bytes of their batches."""

    spans: tuple[Span, ...]
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What is lost, and how many followers are cut, start again, fail to fetch, or stay diverged without noticing.

    `committed`: how many of the offsets are proven to have been committed, by their strongest evidence.
    """

    offsets: int
    records: int
    size_bytes: int
    committed: Mapping[Evidence, int]
    cut: int
    restarted: int
    failing: int
    diverged: int

    @classmethod
    def of(
        cls, losses: Sequence[Loss], committed: Mapping[Evidence, int], effects: Sequence[tuple[Effect, bool]], refused: int = 0
    ) -> Cost:
        """Sum up.

        Args:
            losses: of each follower.
            committed: lost offsets that were committed, by their strongest evidence.
            effects: of each follower, and whether it stays diverged.
            refused: followers that get records, and then are sent back for good.
        """
        return cls(
            offsets=sum(span.end_offset - span.first_offset for one in losses for span in one.spans),
            records=sum(one.records for one in losses),
            size_bytes=sum(one.size_bytes for one in losses),
            committed=committed,
            cut=sum(effect.truncation.truncation_offset is not None for effect, _ in effects),
            restarted=sum(effect.truncation.restart_offset is not None for effect, _ in effects),
            failing=sum(never_begins(effect) for effect, _ in effects) + refused,
            diverged=sum(diverged and not never_begins(effect) for effect, diverged in effects),
        )

    @property
    def committed_offsets(self) -> int:
        """How many were committed, by any evidence."""
        return sum(self.committed.values())

    @property
    def below_high_watermark(self) -> int:
        """How many of them lie below a checkpointed high watermark of a replica that holds them."""
        return self.committed.get(Evidence.CHECKPOINT, 0)

    @property
    def passed(self) -> int:
        """How many a leader's high watermark had passed: producers were told, consumers may have read them."""
        return self.committed_offsets - self.committed.get(Evidence.ALL, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One replica as the leader. `eligible` is False where its log cannot be read: its cost is then unknown.

    `unread` other replicas could not be looked at, and may hold more. `log_end_offset` is None where nobody knows it.
    """

    broker_id: int
    is_leader: bool
    in_isr: bool
    last_epoch: int
    log_end_offset: int | None
    eligible: bool
    cost: Cost
    unread: int = 0
    reason: str

    @classmethod
    def of(cls, replica: Replica, cost: Cost, *, is_leader: bool, unread: int) -> Candidate:
        """A candidate with its cost; `unread` other replicas could not be looked at."""
        last = replica.history[-1].leader_epoch if replica.history else -1
        return cls(
            broker_id=replica.broker_id,
            is_leader=is_leader,
            in_isr=replica.in_isr,
            last_epoch=last,
            log_end_offset=replica.known_end,
            eligible=not replica.unreadable,
            cost=cost,
            unread=unread,
            reason=f"cannot lead: {replica.unreadable}" if replica.unreadable else _sentence(cost, unread),
        )


def never_begins(effect: Effect) -> bool:
    """Whether the follower never gets records: what it fetches cannot be appended, or the exchange has no end."""
    return effect.fetcher_fails or effect.truncation.stuck


def _sentence(cost: Cost, unread: int) -> str:
    proven = cost.committed_offsets
    committed = f"{proven} of their offsets were committed" if proven else "whether any was committed is unknown"
    parts = [f"{cost.records} records are lost, {committed}" if cost.offsets else "nothing is lost"]
    if cost.diverged:
        parts.append(f"{count(cost.diverged, 'follower')} would stay diverged, unnoticed")
    if cost.failing:
        parts.append(f"{count(cost.failing, 'follower')} would fail to fetch")
    if unread:
        parts.append(f"{count(unread, 'replica')} could not be read and may hold more")
    return "; ".join(parts)


def next_epoch(replicas: Iterable[Replica], *known: int) -> int:
    """The leader epoch that the next election begins: above every one that a table or anything else tells (`known`, -1: nothing)."""
    return 1 + max([UNDEFINED_EPOCH, *known, *(entry.epoch for replica in replicas for entry in replica.log.epochs)])


def with_new_epoch(replica: Replica, epoch: int) -> Replica:
    """The replica as it enters a leader epoch: the table gets an entry at the log end offset (UnifiedLog.assignEpochStartOffset)."""
    log = replica.log
    return replace(replica, log=replace(log, epochs=assign(log.epochs, epoch, log.log_end_offset)))


def survivors(comparison: Comparison) -> Sequence[Span]:
    """What stays of a follower's log when it has been cut, before it fetches: nothing of one that starts again."""
    first = removal_start(comparison.follower, comparison.effect)
    return comparison.follower.history if first is None else until(comparison.follower.history, first)


def taken(comparison: Comparison) -> list[Span]:
    """What a follower's cut takes and its leader does not hold, as spans of the follower's history.

    What lies below the leader's log start is not lost: retention, or DeleteRecords, took it from the leader. Nor is what only compaction
    can have taken from it.
    """
    leader, follower = comparison.leader, comparison.follower
    first = removal_start(follower, comparison.effect)
    if first is None:
        return []
    start, end = max(first, leader.begins), follower.log.log_end_offset
    return list(lacking(follower.history, leader.history, start, end, missing_from=comparison.compacted_until(start)))


def ranked(candidates: Sequence[Candidate], electable: Collection[int] = ()) -> Iterator[tuple[int | None, Candidate]]:
    """Candidates with their rank from 1, the least loss first; those that cannot lead come last, without a rank.

    Compared are lost offsets that a leader's high watermark had passed, those that only every in-sync replica held, records, then silent
    divergence and failing fetchers; of equals the one that leads, then an ISR member or one of `electable`, the longer log, the lower id.
    """

    def order(candidate: Candidate) -> tuple[int | bool, ...]:
        cost = candidate.cost
        worse = (cost.passed, cost.committed_offsets, cost.records, cost.offsets, cost.diverged, cost.failing)
        is_electable = candidate.in_isr or candidate.broker_id in electable
        return (*worse, not candidate.is_leader, not is_electable, -(candidate.log_end_offset or 0), candidate.broker_id)

    able = sorted((candidate for candidate in candidates if candidate.eligible), key=order)
    yield from enumerate(able, 1)
    yield from ((None, candidate) for candidate in candidates if not candidate.eligible)
