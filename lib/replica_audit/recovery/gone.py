"""Brokers that do not come back: their replicas lead nothing, are not started, and what only they held is lost.

What the audited copy of such a broker holds is known, and may be salvaged; of one that was never collected nothing is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from replica_audit.errors import UsageError
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, will_be_cut
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.rows.what_if import FollowerCut
from replica_audit.words import count


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByGone:
    """What a broker that is gone held and a leader does not: `records` by its audited copy, None where that does not tell."""

    broker_id: int
    is_collected: bool
    records: int | None
    committed: int


def without_gone(facts: RecoveryFacts, gone: Collection[int]) -> RecoveryFacts:
    """The facts as they are once these brokers never come back. The assignment and the ISR still name them, and cuts of their copies stay.

    Raises:
        UsageError: there is no such broker, or the run saw it run.
    """
    if not gone:
        return facts
    _check(facts, frozenset(gone))
    verdicts = [one for one in facts.verdicts if one.follower_id not in gone]
    return replace(
        facts,
        gone=frozenset(gone),
        offline=tuple(_without(facts, one, gone) for one in facts.offline),
        verdicts=tuple(verdicts),
        starts=tuple(one for one in facts.starts if one.broker_id not in gone),
        cut_copies=tuple(one for one in facts.verdicts if one.follower_id in gone and (will_be_cut(one) or one.already_truncated)),
        logs=tuple(
            replace(log, corrected_checkpoint=None, not_corrected_because=None) if log.broker_id in gone else log for log in facts.logs
        ),
    )


def _check(facts: RecoveryFacts, gone: frozenset[int]) -> None:
    unknown = sorted(gone - facts.brokers)
    if unknown:
        known = ", ".join(map(str, sorted(facts.brokers))) or "none"
        raise UsageError(f"--gone {unknown[0]}: cluster {facts.cluster_id} of run {facts.run_id} has no such broker; it has: {known}")
    for broker in sorted(gone):
        seen = facts.seen_running.get(broker)
        if seen is not None:
            raise UsageError(
                f"--gone {broker}: run {facts.run_id} saw broker {broker} running ({seen}); if it has been lost since, audit again: "
                "what was true while it ran does not justify an election without it"
            )


def _without(facts: RecoveryFacts, one: RunFinding, gone: Collection[int]) -> RunFinding:
    """Candidates without those that are gone; what these alone held is in the price of each, as far as their copies tell."""
    choices = one.candidates or ()
    lost = [choice for choice in choices if choice.candidate_id in gone]
    if not lost:
        return one
    unread = sum(choice.rank is None for choice in lost)
    left = sorted(
        (choice for choice in choices if choice.candidate_id not in gone), key=lambda choice: (choice.rank is None, choice.rank or 0)
    )
    made = []
    for place, choice in enumerate(left, 1):
        own = _cuts_of_gone(facts, (one.topic, one.partition), choice.candidate_id, gone)
        made.append(
            replace(
                choice,
                rank=None if choice.rank is None else place,
                unread_replicas=None if choice.unread_replicas is None else max(0, choice.unread_replicas - unread),
                followers_diverged=_less(choice.followers_diverged, sum(cut.still_diverged for cut in own)),
                followers_failing=_less(choice.followers_failing, sum(not cut.catches_up for cut in own)),
            )
        )
    return replace(one, candidates=tuple(made), cluster_stopped=False)  # started in an order, and not all of it


def _less(count: int | None, by: int) -> int | None:
    return None if count is None else max(0, count - by)


def _cuts_of_gone(facts: RecoveryFacts, key: PartitionKey, leader: int, gone: Collection[int]) -> list[FollowerCut]:
    return [cut for cut in facts.cuts_under(*key, leader) if cut.broker_id in gone]


def gone_replicas(facts: RecoveryFacts) -> dict[PartitionKey, list[ReplicaRole]]:
    """The partitions that have a replica on a broker that is gone, with those replicas; of what is assigned, where that is known."""
    if not facts.gone:
        return {}
    found = {key: [role for role in roles if role.broker_id in facts.gone] for key, roles in facts.replicas.items()}
    return {key: roles for key, roles in found.items() if roles}


def held_by_gone(facts: RecoveryFacts, key: PartitionKey, leader: int) -> Iterator[HeldByGone]:
    """What each broker that is gone held of a partition without a leader and this leader lacks; none that held nothing besides."""
    cuts = {cut.broker_id: cut for cut in _cuts_of_gone(facts, key, leader, facts.gone)}
    for role in facts.replicas.get(key, ()):
        if role.broker_id not in facts.gone:
            continue
        cut, is_collected = cuts.get(role.broker_id), facts.log_of(*key, role.broker_id) is not None
        if cut is None:
            yield HeldByGone(broker_id=role.broker_id, is_collected=is_collected, records=None, committed=0)
        elif cut.removed_offsets != 0 and (cut.truncation_offset is not None or cut.restart_offset is not None):
            committed = cut.removed_committed or 0
            yield HeldByGone(broker_id=role.broker_id, is_collected=is_collected, records=cut.removed_records, committed=committed)


def said_of_gone(facts: RecoveryFacts, key: PartitionKey, leader: int) -> Iterator[str]:
    """The same in words: parts of a sentence."""
    one = facts.leaderless.get(key)
    for held in held_by_gone(facts, key, leader):
        if held.records is not None:
            proven = f", {held.committed} of them committed," if held.committed else ""
            were = count(held.records, f"record{proven} was", f"records{proven} were")
            yield f"of these, {were} on broker {held.broker_id}: its audited copy holds them"
            continue
        why = "its copy cannot be compared" if held.is_collected else "it was never collected"
        last = one is not None and held.broker_id in {*(one.isr or ()), *(one.elr or ())}
        was_last = ", and it was the last in-sync replica: this includes what it wrote after the others fell behind" if last else ""
        yield f"what only broker {held.broker_id} held is lost too, and how much is unknown: {why}{was_last}"


def unknown_of_gone(facts: RecoveryFacts, key: PartitionKey, leader: int) -> list[int]:
    """The brokers that are gone of which nobody knows what only they held of a partition."""
    return sorted(held.broker_id for held in held_by_gone(facts, key, leader) if held.records is None)


def brokers_shown(brokers: Collection[int]) -> str:
    """As in `broker 3`, `brokers 3, 4`."""
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, sorted(brokers)))}"
