"""What it costs if a replica leads: the question before an unclean election.

A leader's log is the truth (KIP-101): what another replica holds and the leader does not is cut away, and lost if no one else holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from replica_audit.protocol.comparison import Effect, Replica
from replica_audit.protocol.epoch_table import assign
from replica_audit.protocol.lineage import Span, covered


class LostEpoch(NamedTuple):
    """What of one leader epoch one follower loses."""

    epoch: int
    spans: tuple[Span, ...]
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What is lost, and how many followers are cut, start again, fail to fetch, or stay diverged without noticing."""

    offsets: int
    records: int
    size_bytes: int
    below_high_watermark: int
    cut: int
    restarted: int
    failing: int
    diverged: int

    @classmethod
    def of(cls, lost: Sequence[LostEpoch], below_high_watermark: int, effects: Sequence[tuple[Effect, bool]]) -> Cost:
        """Sum up; `effects` holds each follower's effect and whether it stays diverged."""
        return cls(
            offsets=sum(covered((span.first_offset, span.end_offset) for span in one.spans) for one in lost),
            records=sum(one.records for one in lost),
            size_bytes=sum(one.size_bytes for one in lost),
            below_high_watermark=below_high_watermark,
            cut=sum(effect.truncation.truncation_offset is not None for effect, _ in effects),
            restarted=sum(effect.truncation.restart_offset is not None for effect, _ in effects),
            failing=sum(effect.fetcher_fails for effect, _ in effects),
            diverged=sum(diverged for _, diverged in effects),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One replica as the leader. `eligible` is False where its log cannot be read: its cost is then unknown."""

    broker_id: int
    is_leader: bool
    in_isr: bool
    last_epoch: int
    log_end_offset: int
    eligible: bool
    cost: Cost
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
            log_end_offset=replica.log.log_end_offset,
            eligible=not replica.unreadable,
            cost=cost,
            reason=f"cannot lead: {replica.unreadable}" if replica.unreadable else _sentence(cost, unread),
        )


def _sentence(cost: Cost, unread: int) -> str:
    below = cost.below_high_watermark
    committed = f"{below} of their offsets were committed" if below else "none known to have been committed"
    parts = [f"{cost.records} records are lost, {committed}" if cost.offsets else "nothing is lost"]
    if cost.diverged:
        parts.append(f"{cost.diverged} follower(s) stay diverged and do not notice")
    if cost.failing:
        parts.append(f"{cost.failing} follower(s) fail to fetch")
    if unread:
        parts.append(f"{unread} replica(s) could not be read and may hold more")
    return "; ".join(parts)


def with_new_epoch(replica: Replica, epoch: int) -> Replica:
    """The replica as it enters a leader epoch: the table gets an entry at the log end offset (UnifiedLog.assignEpochStartOffset)."""
    log = replica.log
    return replace(replica, log=replace(log, epochs=assign(log.epochs, epoch, log.log_end_offset)))


def versions(spans: Iterable[Span]) -> int:
    """How many offsets spans cover, those of each epoch by themselves: two epochs at one offset are two records."""
    by_epoch: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        by_epoch.setdefault(span.leader_epoch, []).append((span.first_offset, span.end_offset))
    return sum(covered(ranges) for ranges in by_epoch.values())


def lost_epochs(found: Iterable[LostEpoch]) -> list[LostEpoch]:
    """Several followers' losses, what they have in common counted once.

    Offsets are told apart exactly. Records and bytes are those of the longest loss of each epoch: replicas hold a prefix of what its leader
    wrote, so it holds the others', but for what retention and compaction took from it.
    """
    of_epoch: dict[int, list[LostEpoch]] = {}
    for one in found:
        of_epoch.setdefault(one.epoch, []).append(one)
    merged = []
    for epoch in sorted(of_epoch):
        longest = max(of_epoch[epoch], key=lambda one: (one.records, _reach(one)))
        merged.append(longest._replace(spans=_union(epoch, (span for one in of_epoch[epoch] for span in one.spans))))
    return merged


def _union(epoch: int, spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first_offset):
        if joined and span.first_offset <= joined[-1].end_offset:
            joined[-1] = joined[-1]._replace(end_offset=max(joined[-1].end_offset, span.end_offset))
        else:
            joined.append(Span(epoch, span.first_offset, span.end_offset))
    return tuple(joined)


def _reach(lost: LostEpoch) -> int:
    return sum(span.end_offset - span.first_offset for span in lost.spans)


def ranked(candidates: Sequence[Candidate]) -> Iterator[tuple[int | None, Candidate]]:
    """Candidates with their rank from 1, the least loss first; those that cannot lead come last, without a rank.

    Compared are offsets lost below a high watermark, records, then silent divergence and failing fetchers; of equals the one that leads,
    then an ISR member, the longer log, the lower id.
    """

    def order(candidate: Candidate) -> tuple[int | bool, ...]:
        cost = candidate.cost
        worse = (cost.below_high_watermark, cost.records, cost.offsets, cost.diverged, cost.failing)
        return (*worse, not candidate.is_leader, not candidate.in_isr, -candidate.log_end_offset, candidate.broker_id)

    able = sorted((candidate for candidate in candidates if candidate.eligible), key=order)
    yield from enumerate(able, 1)
    yield from ((None, candidate) for candidate in candidates if not candidate.eligible)
