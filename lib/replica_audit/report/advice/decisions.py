"""What somebody has to decide, in plain sentences, worst first: the head of the summary, the page, triage, explain and a plan.

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
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import PartitionKey
from replica_audit.recovery.still_open import StillOpen
from replica_audit.report.facts.due_facts import NAMED, STOPPED, UNKNOWN, DueElection, DueFacts, DuePartitions, KnownSum


class Urgency(IntEnum):
    """Worst first."""

    MISSING = 0
    OFFLINE = 1
    LOST = 2
    DO_NOT_START = 3
    STILL_OPEN = 4
    STUCK = 5
    GROUPS = 6
    TRANSACTIONS = 7
    UNKNOWN = 8
    CAN_WAIT = 9


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
        _not_to_be_started,
        _set_aside,
        _bad_ends,
        _still_open,
        _stuck,
        _groups,
        _transactions,
        _unknown,
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


def _records(found: DuePartitions) -> str:
    """How many; at least, where the batches of some could not be read."""
    return f"{_number(KnownSum(found.records, found.records_unknown))} records"


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
        yield DueDecision(urgency=Urgency.OFFLINE, text=_elected(one, facts), partitions=one.partitions.first)
    if len({one.broker_id for one in facts.elections if one.broker_id is not None}) > 1:
        text = (
            "Do not start all brokers at once: a member of the ISR leads as soon as it starts. The order is in the plan (command `plan`)."
        )
        yield DueDecision(urgency=Urgency.OFFLINE, text=text, partitions=facts.leaderless.first)


def _elected(one: DueElection, facts: DueFacts) -> str:
    found = one.partitions
    said = f"{_count(found)} ha{'ve' if found.count > 1 else 's'} no leader ({_names(found)})"
    costs = "nothing is lost" if not found.records else f"{found.records} records are lost, with {found.committed} committed offsets"
    if one.how == STOPPED:
        start = "Start it; nothing is lost" if not facts.bad_ends else f"Start it, but not {_brokers(tuple(facts.bad_ends))} as it is"
        return f"{said}: the whole cluster was stopped cleanly. {start}."
    if one.how == UNKNOWN:
        return f"{said}, and nobody knows what an election loses: collect from the missing brokers before you elect a leader."
    if one.how == ElectionType.CLEAN:
        if one.broker_id in facts.to_be_cut:  # elsewhere it truncates as soon as it runs: not two commands that contradict each other
            return f"{said}: copy the directories of broker {one.broker_id}, then start it; it is elected cleanly; {costs}."
        return f"{said}: start broker {one.broker_id}, which is then elected cleanly; {costs}."
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


def _not_to_be_started(facts: DueFacts) -> Iterator[DueDecision]:
    for broker, found in facts.to_be_cut.items():
        proven = f" ({found.committed} committed offsets)" if found.committed else ""
        yield DueDecision(
            urgency=Urgency.DO_NOT_START,
            text=f"Do not start broker {broker} until its directories are copied: it truncates {_records(found)}{proven} that the "
            f"leaders of {_count(found)} do not hold ({_names(found)}).",
            partitions=found.first,
        )


def _set_aside(facts: DueFacts) -> Iterator[DueDecision]:
    for broker, found in facts.set_aside.items():
        yield DueDecision(
            urgency=Urgency.DO_NOT_START,
            text=f"Do not start broker {broker}, nor restart it if it runs: it would set logs of {_count(found)} aside ({_names(found)}) "
            "and go on without them. Copy its directories first; the findings say what the logs lack.",
            partitions=found.first,
        )


def _bad_ends(facts: DueFacts) -> Iterator[DueDecision]:
    for broker, found in facts.bad_ends.items():
        several = found.count > 1
        yield DueDecision(
            urgency=Urgency.DO_NOT_START,
            text=f"Do not start broker {broker} as it is: {found.count} of its logs end{'' if several else 's'} in what no broker reads, "
            f"or short of what {'they' if several else 'it'} held ({_names(found)}). Copy {'them' if several else 'it'}, "
            "then see the findings.",
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


_STUCK: tuple[tuple[Verdict, str, str], ...] = (  # what one replica does, and what several do
    (
        Verdict.LOG_MATCHING_VIOLATION,
        "stays diverged and Kafka does not notice: do not let it lead; correct its leader-epoch-checkpoint or its leader's, or "
        "rebuild it from its leader; the plan says which (command `plan`)",
        "stay diverged and Kafka does not notice: do not let them lead; correct their leader-epoch-checkpoints or their leaders', or "
        "rebuild them from their leaders; the plan says which (command `plan`)",
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
        "cannot be read, and may hold what its leader does not: keep its directory, and copy it again; if that does not help, the plan "
        "says whether to correct a file or to rebuild it from its leader (command `plan`)",
        "cannot be read, and may hold what their leaders do not: keep their directories, and copy them again; if that does not help, the "
        "plan says whether to correct a file or to rebuild them from their leaders (command `plan`)",
    ),
)


def _stuck(facts: DueFacts) -> Iterator[DueDecision]:
    for verdict, one_does, several_do in _STUCK:
        found = facts.stuck.get(verdict)
        if found is not None:
            what = one_does if found.rows == 1 else several_do
            text = f"{_replicas(found.rows)} of {_count(found)} ({_names(found)}) {what}."
            yield DueDecision(urgency=Urgency.STUCK, text=text, partitions=found.first)


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def _groups(facts: DueFacts) -> Iterator[DueDecision]:
    found = facts.groups
    if found.count:
        named = ", ".join(map(visible, found.names)) + _more(found.count)
        yield DueDecision(
            urgency=Urgency.GROUPS,
            text=f"{found.count} consumer group{'s' if found.count > 1 else ''} consumed {_number(found.gone)} records that a truncation "
            f"removes ({named}). If nothing is done, {_up_to(found.reread, ' records')} are read again and {_up_to(found.missed)} are "
            "skipped.",
            partitions=found.partitions.first,
        )


def _number(amount: KnownSum) -> str:
    if not amount.unknown:
        return str(amount.known)
    return f"at least {amount.known}" if amount.known else "an unknown number of"


def _up_to(amount: KnownSum, noun: str = "") -> str:
    if not amount.unknown:
        return f"up to {amount.known}{noun}"
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


def _unknown(facts: DueFacts) -> Iterator[DueDecision]:
    if facts.inconclusive:
        yield DueDecision(
            urgency=Urgency.UNKNOWN,
            text=f"Unknown: {_replicas(facts.inconclusive)} could not be compared. "
            + (
                "If its broker does not run, copy its directory before you start it."
                if facts.inconclusive == 1
                else "Where the broker of one does not run, copy its directory before you start it."
            ),
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
