"""Transactions that nobody will end: the lines that abort them."""

from __future__ import annotations

from replica_audit.report.facts.recovery_facts import RecoveryFacts
from replica_audit.report.plan.kafka_files import SERVER, script
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Safety

_SCRIPT = "abort-transactions.sh"
_INFERRED, _COMMITTED = "inferred", "CompleteCommit"


def hanging(facts: RecoveryFacts) -> PlanPart:
    """One step with all that can be aborted without taking what a producer holds for committed."""
    lines, reasons, refusals = [], [], []
    for one in facts.transactions:
        where = f"{partition_shown(one.topic, one.partition)}, from offset {one.first_offset} (producer {one.producer_id})"
        if one.coordinator_state == _COMMITTED:
            why = "its coordinator says CompleteCommit: its producer takes the records for committed, save them before they are aborted"
        elif one.leader_source == _INFERRED or (one.topic, one.partition) in facts.leaderless:
            why = "who leads is not known: audit again once the partition is online"
        else:
            waiting = f"; waiting: {len(one.waiting_groups)} group(s)" if one.waiting_groups else ""
            reasons.append(f"{where}: {one.hangs_because}; read_committed consumers stop at {one.last_stable_offset}{waiting}.")
            place = (f"--topic={one.topic}", f"--partition={one.partition}", f"--start-offset={one.first_offset}")
            lines.append(("kafka-transactions.sh", "abort", *place))
            continue
        refusals.append(PlanRefusal(what=f"abort the transaction of {where}", why=why))
    if not lines:
        return PlanPart(refusals=tuple(refusals))
    step = PlanStep(
        safety=Safety.ABORT,
        title=f"Abort {len(lines)} transaction(s) that nobody will end",
        reasons=tuple(reasons),
        commands=(f"sh {_SCRIPT}",),
        check=(f"kafka-transactions.sh {SERVER} find-hanging --broker-id LEADER   # prints none of these",),
        undo="None: an aborted transaction stays aborted. The records stay in the log; read_uncommitted consumers see them.",
        files=(PlanFile(name=_SCRIPT, content=script(lines), executable=True),),
    )
    return PlanPart(steps=(step,), refusals=tuple(refusals))
