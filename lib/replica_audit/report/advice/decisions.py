"""What somebody has to decide, in plain sentences, worst first: the head of the summary, the page, triage, explain and a plan.

From typed facts alone; how they are shown is the renderers' business. A sentence names at most a few partitions, and counts the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from replica_audit.errors import visible
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.recovery_facts import PartitionKey, RecoveryFacts
from replica_audit.report.facts.run_report import Electable, OfflinePartition

_NAMED = 3


class Urgency(IntEnum):
    """Worst first."""

    OFFLINE = 1
    LOST = 2
    DO_NOT_START = 3
    STUCK = 4
    GROUPS = 5
    TRANSACTIONS = 6
    UNKNOWN = 7
    CAN_WAIT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDecision:
    """One sentence; `partitions` are those that it is about, where `explain --partition` has the evidence."""

    urgency: Urgency
    text: str
    partitions: tuple[PartitionKey, ...] = ()


def decisions(facts: RecoveryFacts) -> list[DueDecision]:
    """What to decide about a cluster; empty where there is nothing."""
    makers: tuple[Callable[[RecoveryFacts], Iterator[DueDecision]], ...]
    makers = (_gone, _offline, _lost, _not_to_be_started, _stuck, _groups, _transactions, _unknown, _can_wait)
    return sorted((one for made in makers for one in made(facts)), key=lambda one: one.urgency)


def _names(keys: Sequence[PartitionKey]) -> str:
    said = ", ".join(visible(f"{topic}-{partition}") for topic, partition in keys[:_NAMED])
    return said + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")


def _brokers(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


def _count(keys: Sequence[PartitionKey]) -> str:
    return f"{len(keys)} partition{'s' if len(keys) != 1 else ''}"


def _best(one: OfflinePartition) -> Electable | None:
    return next((choice for choice in one.candidates or () if choice.rank == 1), None)


def _gone(facts: RecoveryFacts) -> Iterator[DueDecision]:
    for broker in sorted(facts.gone):
        keys = sorted(key for key, roles in facts.replicas.items() if any(role.broker_id == broker for role in roles))
        named = f" ({_names(keys)})" if keys else ""
        one_is = "a replica" if len(keys) == 1 else "replicas"
        yield DueDecision(
            urgency=Urgency.OFFLINE,
            text=f"Broker {broker} is gone for good, as you said: {_count(keys)} had {one_is} on it{named}. "
            "Do not start an empty broker in its place before these have leaders.",
            partitions=tuple(keys),
        )


def _offline(facts: RecoveryFacts) -> Iterator[DueDecision]:
    groups: dict[tuple[int | None, str], list[tuple[PartitionKey, Electable | None]]] = {}
    all_stopped = all(one.cluster_stopped for one in facts.offline)  # else it matters who is started first
    for key, one in facts.leaderless.items():
        best = _best(one)
        how = "stopped" if all_stopped else "unknown" if best is None or best.unread_replicas else str(best.election)
        groups.setdefault((best.candidate_id if best and how not in ("stopped", "unknown") else None, how), []).append((key, best))
    for (broker, how), rows in sorted(groups.items(), key=lambda item: (item[0][1], item[0][0] or 0)):
        keys = [key for key, _best_one in rows]
        said = f"{_count(keys)} ha{'ve' if len(keys) > 1 else 's'} no leader ({_names(keys)})"
        lost = sum(best.lost_records or 0 for _key, best in rows if best)
        committed = sum(best.lost_committed or 0 for _key, best in rows if best)
        costs = "nothing is lost" if not lost else f"{lost} records are lost, {committed} offsets of them committed"
        if how == "stopped":
            text = f"{said}: the whole cluster was stopped in order. Start it; nothing is lost."
        elif how == "unknown":
            text = f"{said}, and what an election loses is not known: collect from the brokers that are missing before you elect anyone."
        elif how == ElectionType.CLEAN:
            text = f"{said}: start broker {broker}, which is then elected cleanly; {costs}."
        else:
            text = f"{said}: an unclean election of broker {broker} is the best choice; {costs}."
        yield DueDecision(urgency=Urgency.OFFLINE, text=text, partitions=tuple(keys))
    if len({broker for broker, _how in groups if broker is not None}) > 1:
        text = (
            "Do not start all brokers at once: a member of the ISR leads as soon as it starts. The order is in the plan (command `plan`)."
        )
        yield DueDecision(urgency=Urgency.OFFLINE, text=text, partitions=tuple(facts.leaderless))


def _lost(facts: RecoveryFacts) -> Iterator[DueDecision]:
    found = (*facts.verdicts, *facts.cut_copies)
    gone = [one for one in found if one.already_truncated and one.verdict == Verdict.COMMITTED_LOSS]
    if gone:
        keys = sorted({one.key for one in gone})
        brokers = sorted({one.follower_id for one in gone})
        yield DueDecision(
            urgency=Urgency.LOST,
            text=f"Committed records of {_count(keys)} are already truncated ({_names(keys)}): the audited copies of {_brokers(brokers)} "
            "still hold them; do not delete these copies.",
            partitions=tuple(keys),
        )


def _not_to_be_started(facts: RecoveryFacts) -> Iterator[DueDecision]:
    cut = [one for one in facts.verdicts if one.will_be_cut and one.key not in facts.leaderless]
    for broker in sorted({one.follower_id for one in cut}):
        own = [one for one in cut if one.follower_id == broker]
        keys = [one.key for one in own]
        records, committed = sum(one.removed_records or 0 for one in own), sum(one.removed_committed or 0 for one in own)
        proven = f", {committed} offsets of them committed" if committed else ""
        yield DueDecision(
            urgency=Urgency.DO_NOT_START,
            text=f"Do not start broker {broker} before its directories are copied: it truncates {records} records{proven} that the "
            f"leaders of {_count(keys)} do not hold ({_names(keys)}).",
            partitions=tuple(keys),
        )


_STUCK: tuple[tuple[Verdict, str, str], ...] = (  # what one replica does, and what several do
    (
        Verdict.LOG_MATCHING_VIOLATION,
        "stays diverged and Kafka does not notice: do not let it lead, and rebuild it from its leader",
        "stay diverged and Kafka does not notice: do not let them lead, and rebuild them from their leaders",
    ),
    (
        Verdict.CANNOT_REJOIN,
        "cannot come back into the ISR until a leader-epoch-checkpoint is corrected",
        "cannot come back into the ISR until a leader-epoch-checkpoint is corrected",
    ),
    (
        Verdict.CONTENT_MISMATCH,
        "holds other bytes than its leader at the same offsets: find out which is right",
        "hold other bytes than their leaders at the same offsets: find out which is right",
    ),
    (
        Verdict.COMPACTION_DIFFERS,
        "has other keys than its leader after compaction: find out which is right",
        "have other keys than their leaders after compaction: find out which is right",
    ),
    (
        Verdict.UNREADABLE,
        "cannot be read: copy it again, and if that does not help, rebuild it from its leader",
        "cannot be read: copy them again, and if that does not help, rebuild them from their leaders",
    ),
)


def _stuck(facts: RecoveryFacts) -> Iterator[DueDecision]:
    for verdict, one_does, several_do in _STUCK:
        found = [one for one in facts.verdicts if one.verdict == verdict]
        if found:
            keys = sorted({one.key for one in found})
            what = one_does if len(found) == 1 else several_do
            text = f"{_replicas(len(found))} of {_count(keys)} ({_names(keys)}) {what}."
            yield DueDecision(urgency=Urgency.STUCK, text=text, partitions=tuple(keys))


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def _groups(facts: RecoveryFacts) -> Iterator[DueDecision]:
    groups = sorted({one.group_id for one in facts.groups})
    if groups:
        gone = sum(one.records_gone or 0 for one in facts.groups)
        again, missed = sum(one.records_reread or 0 for one in facts.groups), sum(one.records_missed or 0 for one in facts.groups)
        named = ", ".join(map(visible, groups[:_NAMED])) + (f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else "")
        yield DueDecision(
            urgency=Urgency.GROUPS,
            text=f"{len(groups)} consumer group{'s' if len(groups) > 1 else ''} consumed {gone} records that a truncation removes "
            f"({named}). Left alone, up to {again} records are read again and up to {missed} are missed.",
            partitions=tuple(sorted({(one.topic, one.partition) for one in facts.groups})),
        )


def _transactions(facts: RecoveryFacts) -> Iterator[DueDecision]:
    keys = sorted({(one.topic, one.partition) for one in facts.transactions})
    if keys:
        count = len(facts.transactions)
        yield DueDecision(
            urgency=Urgency.TRANSACTIONS,
            text=f"{count} transaction{'s hang' if count > 1 else ' hangs'} in {_count(keys)} ({_names(keys)}): read_committed "
            "consumers wait there for ever.",
            partitions=tuple(keys),
        )


def _unknown(facts: RecoveryFacts) -> Iterator[DueDecision]:
    if facts.inconclusive:
        yield DueDecision(
            urgency=Urgency.UNKNOWN,
            text=f"{_replicas(facts.inconclusive)} could not be compared: good or bad, nothing is known.",
        )


def _can_wait(facts: RecoveryFacts) -> Iterator[DueDecision]:
    found = [one for one in facts.verdicts if one.verdict == Verdict.EPOCH_TABLE_ONLY]
    if found:
        keys = sorted({one.key for one in found})
        yield DueDecision(
            urgency=Urgency.CAN_WAIT,
            text=f"It can wait: in {_count(keys)} ({_names(keys)}) a leader-epoch-checkpoint contradicts the batches beside it; the "
            "records agree.",
            partitions=tuple(keys),
        )
