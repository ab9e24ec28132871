"""What clients of a repaired partition need: transactions that nobody ends, and consumer groups behind a truncation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from shlex import split

from replica_audit.recovery.commands import SERVER, Tools, abort_arguments, abort_by_producer, rows_csv, script
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.names import file_name, partition_shown, shown
from replica_audit.recovery.steps import (
    Check,
    EndTransaction,
    GroupPolicy,
    PlanFile,
    PlanPart,
    PlanRefusal,
    PlanStep,
    ResetGroup,
    Shows,
    Stage,
)
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.records import OpenTransactionRow, TransactionFacts
from replica_audit.words import count

_ABORT, _ABORT_SAVED = "abort-transactions.sh", "abort-saved-transactions.sh"
_RESET, _PREVIEW = "reset-groups.sh", "reset-groups-preview.sh"
_INFERRED, _COMMITTED, _BY_PRODUCER = "inferred", "CompleteCommit", "producer-id"
_RE_READ = (
    "read again from the offset at which the leader's log differs from what they consumed: they skip nothing, and may process records twice"
)
_SKIP = "stay where they are, or move to the leader's log end: they process nothing twice, and skip what the leader has at those offsets"
_NO_ARGUMENT = (
    "no command line can name the group, whose id is empty or holds a NUL: reset it by a client of your own "
    "(Admin.alterConsumerGroupOffsets)"
)


def transactions(facts: RecoveryFacts, waiting: Collection[ReplicaKey]) -> PlanPart:
    """A step with all that nobody takes for committed, and one with those whose records have to be saved before."""
    ended: dict[bool, list[OpenTransactionRow]] = {False: [], True: []}
    refusals = []
    for one in facts.transactions:
        why = _not_ended(facts, one, waiting)
        if why is None:
            ended[is_taken_for_committed(one)].append(one)
        else:
            why = f"{why} (read_committed consumers of it still wait at {one.last_stable_offset})"
            what = f"abort the transaction of producer {one.producer_id} from offset {one.first_offset} in"
            refusals.append(PlanRefusal(what=what, of=((one.topic, one.partition),), why=why))
    steps = [_aborted(found, is_saved=is_saved) for is_saved, found in ended.items() if found]
    return PlanPart(steps=tuple(steps), refusals=tuple(refusals))


def _not_ended(facts: RecoveryFacts, one: OpenTransactionRow, waiting: Collection[ReplicaKey]) -> str | None:
    if one.leader_source == _INFERRED or (one.topic, one.partition) in facts.leaderless:
        return "the leader is not known: audit again once the partition is online"
    if (one.topic, one.partition, one.leader_id) in waiting:
        return "the leader's log waits for an answer"
    if one.abort_form == _BY_PRODUCER and one.marker_coordinator_epoch is None:
        by = f"kafka-transactions.sh {SERVER} abort {abort_arguments(one, one.topic, one.partition)}"
        return (
            f"these brokers need the coordinator's epoch, which is not in the input: `{by}` of Kafka 3.0 or later ends it, where EPOCH is "
            "the leader epoch of the partition of `__transaction_state` that holds its transactional id"
        )
    if is_taken_for_committed(one) and facts.log_of(one.topic, one.partition, one.leader_id) is None:
        saved = f"save {one.first_offset}..{one.last_offset} before you abort it"
        return f"{committed_by(one)}: its producer considers the records committed, and no log of the leader is in the input; {saved}"
    return None


def _aborted(found: Sequence[OpenTransactionRow], *, is_saved: bool) -> PlanStep:
    script_name = _ABORT_SAVED if is_saved else _ABORT
    reasons = []
    for one in found:
        where = f"{partition_shown(one.topic, one.partition)}, from offset {one.first_offset} (producer {one.producer_id})"
        groups = f"; waiting: {count(len(one.waiting_groups), 'group')}" if one.waiting_groups else ""
        saved = ""
        if is_saved:
            said = committed_by(one)
            saved = (
                f" {said[0].upper()}{said[1:]}: its producer takes {one.first_offset}..{one.last_offset} for committed. They are in "
                f"the copy of broker {one.leader_id}; no consumer with read_committed gets them here once the transaction is aborted."
            )
        reasons.append(f"{where}: {one.hangs_because}; read_committed consumers stop at {one.last_stable_offset}{groups}.{saved}")
    reasons += _of_older_brokers(found)
    save = "# save the records named above from the copies of step 1 (kafka-dump-log.sh --print-data-log), and only then go on"
    lines = [("kafka-transactions.sh", "abort", *split(abort_arguments(one, one.topic, one.partition))) for one in found]
    what = "whose producers take them for committed: their records are sent again" if is_saved else "that nobody will end"
    return PlanStep(
        stage=Stage.ABORT,
        title=f"Abort {count(len(found), 'transaction')} {what}",
        actions=tuple(_ending(one, is_saved=is_saved) for one in found),
        reasons=tuple(reasons),
        commands=(*([save] if is_saved else []), f"sh {script_name}"),
        checks=tuple(
            Check(f"kafka-transactions.sh {SERVER} find-hanging --broker-id {broker}   # lists none of these", Shows.ENDED)
            for broker in sorted({one.leader_id for one in found})
        ),
        undo="Nothing to undo of the logs: the records stay, and read_uncommitted consumers see them.",
        cannot_undo="an aborted transaction stays aborted",
        files=(PlanFile(name=script_name, content=script(lines), executable=True),),
    )


def _of_older_brokers(found: Sequence[OpenTransactionRow]) -> Iterator[str]:
    if any(one.abort_form == _BY_PRODUCER for one in found):
        yield "These brokers are older than the tool, which came with Kafka 3.0: use that of a later release."
    unknown = next((one for one in found if one.abort_form is None), None)
    if unknown is not None:
        by = abort_by_producer(unknown)
        yield f"Brokers before 3.0 need the tool of a later release, with `{by}` and the like in place of --start-offset."


def _ending(one: OpenTransactionRow, *, is_saved: bool) -> EndTransaction:
    saved_from = one.leader_id if is_saved else None
    return EndTransaction((one.topic, one.partition), one.producer_id, one.first_offset, saved_from=saved_from)


def is_taken_for_committed(one: TransactionFacts) -> bool:
    """Whether its producer takes a transaction for committed: no plan ends it, its records have to be saved first."""
    return bool(one.may_be_committed) or (one.may_be_committed is None and one.coordinator_state == _COMMITTED)


def committed_by(one: TransactionFacts) -> str:
    """What says that a transaction was committed."""
    brokers = [other.broker_id for other in one.elsewhere or () if other.outcome == "committed"]
    return f"the marker on {brokers_shown(brokers)} is a COMMIT" if brokers else f"its coordinator says {one.coordinator_state}"


def group_resets(facts: RecoveryFacts, policy: GroupPolicy, tools: Tools, waiting: Collection[ReplicaKey] = ()) -> PlanPart:
    """One step with a file for each group; positions of partitions that nobody leads, or that wait for an answer, are refused."""
    keys = {replica[:2] for replica in waiting}
    places: dict[str, list[tuple[str, int, int]]] = {}
    refusals = []
    for group in facts.groups:
        offset = _offset(facts, group, policy)
        key = (group.topic, group.partition)
        if not group.group_id or "\0" in group.group_id:
            refusals.append(PlanRefusal(what=f"reset group {shown(group.group_id)} on", of=(key,), why=_NO_ARGUMENT))
        elif key in keys:
            why = "a replica of it waits for an answer: plan again once that is given"
            refusals.append(PlanRefusal(what=f"reset group {shown(group.group_id)} on", of=(key,), why=why))
        elif offset is None:
            why = "nobody leads the partition" if key in facts.leaderless else "the leader's log is not known"
            why = f"{why}: audit again once it is online: then the group's position is known"
            refusals.append(PlanRefusal(what=f"reset group {shown(group.group_id)} on", of=(key,), why=why))
        else:
            places.setdefault(group.group_id, []).append((group.topic, group.partition, offset))
    return PlanPart(steps=tuple(_steps(places, policy, tools)), refusals=tuple(refusals))


def _offset(facts: RecoveryFacts, group: ConsumerImpact, policy: GroupPolicy) -> int | None:
    """Where the group goes on; None where that is not known."""
    roles = facts.replicas.get((group.topic, group.partition), [])
    log = facts.log_of(group.topic, group.partition, roles[0].leader_id) if roles else None
    if log is None or log.log_start_offset is None or log.log_end_offset is None or (group.topic, group.partition) in facts.leaderless:
        return None
    wanted = group.committed_offset
    if policy is GroupPolicy.RE_READ:
        reset = log.log_start_offset if group.reset_offset is None else min(group.reset_offset, group.committed_offset)
        wanted = reset if group.records_gone is None else group.committed_offset - group.records_gone
    return max(log.log_start_offset, min(wanted, log.log_end_offset))


def _steps(places: dict[str, list[tuple[str, int, int]]], policy: GroupPolicy, tools: Tools) -> Iterator[PlanStep]:
    if not places:
        return
    files = {group: f"reset-{file_name(group)}.csv" for group in sorted(places)}
    lines = {
        mode: [
            ("kafka-consumer-groups.sh", f"--group={group}", "--reset-offsets", f"--from-file={name}", mode)
            for group, name in files.items()
        ]
        for mode in ("--dry-run", "--execute")
    }
    shows = f"{tools.group_positions()}   # CURRENT-OFFSET is what the preview printed as NEW-OFFSET"
    yield PlanStep(
        stage=Stage.GROUPS,
        title=f"Reset {count(len(places), 'consumer group')}: {policy}",
        actions=tuple(ResetGroup(group, (topic, partition), offset) for group, of in places.items() for topic, partition, offset in of),
        reasons=(
            f"Their committed offsets point at records that were truncated. They {_RE_READ if policy is GroupPolicy.RE_READ else _SKIP}. "
            f"For the other policy: --groups {GroupPolicy.SKIP if policy is GroupPolicy.RE_READ else GroupPolicy.RE_READ}.",
            f"Groups: {', '.join(shown(group) for group in list(files)[:20])}{' and more' if len(files) > 20 else ''}.",
        ),
        commands=(
            "# stop the consumers of these groups: the scripts stop at the first group that has members",
            f"{tools.group_positions()} > positions-before.txt",
            f"sh {_PREVIEW}",
            f"sh {_RESET}",
        ),
        checks=(Check(shows, Shows.RESET), Check("# start one consumer and check the first records that it reads", Shows.RESET)),
        undo="positions-before.txt has CURRENT-OFFSET; to go back, reset to those with a file of the same form (topic,partition,offset).",
        files=(
            *(PlanFile(name=name, content=rows_csv(sorted(places[group]))) for group, name in files.items()),
            PlanFile(name=_PREVIEW, content=script(lines["--dry-run"]), executable=True),
            PlanFile(name=_RESET, content=script(lines["--execute"]), executable=True),
        ),
    )
