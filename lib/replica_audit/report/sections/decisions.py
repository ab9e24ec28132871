"""What somebody has to decide, in plain sentences, worst first: the summary, the page, triage, explain and a plan.

What the start of a broker does is said of the broker (`broker_starts`), and of its replicas (`replica_starts`), not here.
From typed facts alone; how they are shown is the renderers' business. A sentence names at most a few partitions, and counts the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from shlex import join

from replica_audit.errors import visible
from replica_audit.program import option
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.facts import PartitionKey
from replica_audit.recovery.still_open import StillOpen
from replica_audit.report.facts.due_facts import NAMED, STOPPED, UNKNOWN, DueElection, DueFacts, DuePartitions, KnownSum


class Urgency(IntEnum):
    """Worst first."""

    MISSING = 0
    OFFLINE = 1
    LOST = 2
    STILL_OPEN = 3
    GROUPS = 4
    TRANSACTIONS = 5
    CAN_WAIT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDecision:
    """One sentence; `partitions` are the first of those that it is about, where `explain --partition` has the evidence."""

    urgency: Urgency
    text: str
    partitions: tuple[PartitionKey, ...] = ()


def decisions(facts: DueFacts) -> list[DueDecision]:
    """What to decide about a cluster; empty where there is nothing."""
    makers: tuple[Callable[[DueFacts], Iterator[DueDecision]], ...]
    makers = (
        _missing,
        _gone,
        _offline,
        _lost,
        _still_open,
        _groups,
        _transactions,
        _can_wait,
    )
    return sorted((one for made in makers for one in made(facts)), key=lambda one: one.urgency)


def _names(found: DuePartitions | StillOpen) -> str:
    said = ", ".join(visible(f"{topic}-{partition}") for topic, partition in found.first)
    return said + _more(found.count)


def _more(count: int) -> str:
    return f" and {count - NAMED} more" if count > NAMED else ""


def _brokers(brokers: tuple[int, ...]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


def _count(found: DuePartitions) -> str:
    return f"{found.count} partition{'s' if found.count != 1 else ''}"


def _missing(facts: DueFacts) -> Iterator[DueDecision]:
    part = facts.missing
    if part is None:
        return
    if part.broker_ids is None:
        what, acknowledged = f"Cluster {visible(part.cluster_id)}", "verdict: cluster_missing"
    else:
        what = _brokers(part.broker_ids).capitalize()
        acknowledged = f"verdict: broker_missing, replica: [{', '.join(map(str, part.broker_ids))}]"
    one = part.broker_ids is None or len(part.broker_ids) == 1
    last = f"run {visible(part.last_seen_run_id)}" if part.last_seen_run_id else "an earlier run"
    yield DueDecision(
        urgency=Urgency.MISSING,
        text=f"{what} {'is' if one else 'are'} missing from the input, and {last} read {'it' if one else 'them'}: nothing is known of "
        f"{'it' if one else 'them'} now. Copy {'its' if one else 'their'} folder{'' if one else 's'} and audit again; if "
        f"{'it is' if one else 'they are'} gone for good, acknowledge that ({acknowledged}).",
    )


def _gone(facts: DueFacts) -> Iterator[DueDecision]:
    for broker, found in facts.gone.items():
        named = f" ({_names(found)})" if found.count else ""
        one_is = "a replica" if found.count == 1 else "replicas"
        yield DueDecision(
            urgency=Urgency.OFFLINE,
            text=f"Broker {broker} is gone for good (--gone): {_count(found)} had {one_is} on it{named}. "
            "Do not start an empty broker in its place until these have leaders.",
            partitions=found.first,
        )


def _offline(facts: DueFacts) -> Iterator[DueDecision]:
    for one in facts.elections:
        yield DueDecision(urgency=Urgency.OFFLINE, text=_elected(one), partitions=one.partitions.first)
    if len({one.broker_id for one in facts.elections if one.broker_id is not None}) > 1:
        text = (
            "Do not start all brokers at once: a member of the ISR leads as soon as it starts. The order is in the plan (command `plan`)."
        )
        yield DueDecision(urgency=Urgency.OFFLINE, text=text, partitions=facts.leaderless.first)


def _elected(one: DueElection) -> str:
    found = one.partitions
    said = f"{_count(found)} ha{'ve' if found.count > 1 else 's'} no leader ({_names(found)})"
    costs = "nothing is lost" if not found.records else f"{found.records} records are lost, with {found.committed} committed offsets"
    if one.how == STOPPED:
        return f"{said}: the whole cluster was stopped cleanly. Start every broker that is safe to start: a leader is elected cleanly."
    if one.how == UNKNOWN:
        return f"{said}, and nobody knows what an election loses: collect from the missing brokers before you elect a leader."
    if one.how == ElectionType.CLEAN:
        return f"{said}: start broker {one.broker_id} first, once it is safe to start; it is then elected cleanly; {costs}."
    return f"{said}: an unclean election of broker {one.broker_id} is the best choice; {costs}."


def _lost(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.truncated
    if found.count:
        yield DueDecision(
            urgency=Urgency.LOST,
            text=f"Committed records of {_count(found)} are already truncated ({_names(found)}): the audited copies of "
            f"{_brokers(facts.truncated_on)} still hold them; do not delete these copies.",
            partitions=found.first,
        )


def _still_open(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.still_open
    if found.worst is None:
        return
    one = found.rows == 1
    said = f"{found.rows} error{' is' if one else 's are'} still open from earlier runs ({_names(found)}): this run could not check "
    said += f"{'it' if one else 'them'}, or found something else there."
    if found.seen_by is not None:
        words = [*option("--run-id", found.seen_by), *option("--partition", f"{found.worst[0]}-{found.worst[1]}")]
        said += f" `explain {visible(join(words))}` shows what that run saw there."
    yield DueDecision(
        urgency=Urgency.STILL_OPEN, text=f"{said} Audit again with every broker's files before you act there.", partitions=found.first
    )


def _groups(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.groups
    if found.count:
        named = ", ".join(map(visible, found.names)) + _more(found.count)
        several = found.count > 1
        then = (
            f"Unless reset, {'they read' if several else 'it reads'} {_up_to(found.reread, ' records')} again and "
            f"{'skip' if several else 'skips'} {_up_to(found.missed)}."
        )
        if found.reread == found.missed == KnownSum(0):
            then = "Consumers of Kafka 2.3 and later go on where the leader's log leaves what they read; reset the group for older ones."
        yield DueDecision(
            urgency=Urgency.GROUPS,
            text=f"{found.count} consumer group{'s' if several else ''} ({named}) consumed records that are lost. {then}",
            partitions=found.partitions.first,
        )


def _up_to(amount: KnownSum, noun: str = "") -> str:
    if not amount.unknown:
        return f"up to {amount.known}{noun}" if amount.known else f"no{noun}" if noun else "none"
    return f"{amount.known}{noun} or more" if amount.known else f"an unknown number{' of' if noun else ''}{noun}"


def _transactions(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.transactions
    if found.count:
        yield DueDecision(
            urgency=Urgency.TRANSACTIONS,
            text=f"{found.rows} transaction{'s hang' if found.rows > 1 else ' hangs'} in {_count(found)} ({_names(found)}): read_committed "
            "consumers wait there forever.",
            partitions=found.first,
        )


def _can_wait(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.wrong_tables
    if found.count:
        yield DueDecision(
            urgency=Urgency.CAN_WAIT,
            text=f"This can wait: in {_count(found)} ({_names(found)}) a leader-epoch-checkpoint contradicts the batches beside it; the "
            "records agree.",
            partitions=found.first,
        )
