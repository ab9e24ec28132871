"""Transactions that nobody will end: the lines that abort them."""

from __future__ import annotations

from shlex import split

from replica_audit.report.advice.transaction_remedies import abort_command
from replica_audit.report.facts.recovery_facts import RecoveryFacts
from replica_audit.report.plan.kafka_files import SERVER, script
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Safety
from replica_audit.words import count

_SCRIPT = "abort-transactions.sh"
_INFERRED, _COMMITTED, _BY_PRODUCER = "inferred", "CompleteCommit", "producer-id"


def hanging(facts: RecoveryFacts) -> PlanPart:
    """One step with all that can be aborted without taking what a producer holds for committed."""
    lines, reasons, refusals = [], [], []
    leaders: set[int] = set()
    for one in facts.transactions:
        where = f"{partition_shown(one.topic, one.partition)}, from offset {one.first_offset} (producer {one.producer_id})"
        if one.may_be_committed or (one.may_be_committed is None and one.coordinator_state == _COMMITTED):
            why = "its coordinator says CompleteCommit: its producer considers the records committed; save them before you abort"
        elif one.leader_source == _INFERRED or (one.topic, one.partition) in facts.leaderless:
            why = "the leader is not known: audit again once the partition is online"
        elif one.abort_form == _BY_PRODUCER and one.marker_coordinator_epoch is None:
            why = "these brokers need the coordinator's epoch, which is not in the input: see `explain`"
        else:
            waiting = f"; waiting: {count(len(one.waiting_groups), 'group')}" if one.waiting_groups else ""
            reasons.append(f"{where}: {one.hangs_because}; read_committed consumers stop at {one.last_stable_offset}{waiting}.")
            leaders.add(one.leader_id)
            lines.append(("kafka-transactions.sh", "abort", *split(abort_command(one, one.topic, one.partition)[1])))
            continue
        refusals.append(PlanRefusal(what="abort the transaction of", where=(where,), why=why))
    if not lines:
        return PlanPart(refusals=tuple(refusals))
    step = PlanStep(
        safety=Safety.ABORT,
        title=f"Abort {count(len(lines), 'transaction')} that nobody will end",
        reasons=tuple(reasons),
        commands=(f"sh {_SCRIPT}",),
        check=tuple(
            f"kafka-transactions.sh {SERVER} find-hanging --broker-id {broker}   # lists none of these" for broker in sorted(leaders)
        ),
        undo="None: an aborted transaction stays aborted. The records stay in the log; read_uncommitted consumers see them.",
        files=(PlanFile(name=_SCRIPT, content=script(lines), executable=True),),
    )
    return PlanPart(steps=(step,), refusals=tuple(refusals))
