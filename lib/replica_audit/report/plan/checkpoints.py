"""Corrected leader-epoch-checkpoint files, and the place they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.recovery_facts import ActedLog, RecoveryFacts
from replica_audit.report.plan.kafka_files import SERVER
from replica_audit.report.plan.names import file_name, partition_shown, shown
from replica_audit.report.plan.rebuilds import REBUILT
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Safety

_NAME = "leader-epoch-checkpoint"
_NOT_EXACT = {
    "other_replica": "is from the table of another replica: broker {broker}",
    "first_batch_left": "begins at the first batch that compaction left; the epoch may have begun earlier",
    "file": "is kept as the file has it: no batch contradicts it",
}


def checkpoints(facts: RecoveryFacts) -> PlanPart:
    """A step for each file that is wrong; what cannot be corrected, or does not heal, is refused."""
    steps, refusals = [], []
    rebuilt = {(*one.key, one.follower_id) for one in facts.verdicts if Verdict(one.verdict) in REBUILT}  # with its file, or refused there
    for log in (one for one in facts.logs if one.state == "current" and (one.topic, one.partition, one.broker_id) not in rebuilt):
        why = _refused(log)
        if why is not None:
            refusals.append(PlanRefusal(what=f"correct the {_NAME} of", where=(_where(log),), why=why))
        elif log.corrected_checkpoint is not None:
            steps.append(_step(log, log.corrected_checkpoint))
    return PlanPart(steps=tuple(steps), refusals=tuple(refusals))


def _refused(log: ActedLog) -> str | None:
    if log.not_corrected_because is not None:
        return f"the batches of the log determine no table ({log.not_corrected_because}): rebuild the replica from a healthy leader"
    stuck = [one.follower_id for one in log.rejoins_once_corrected or () if not one.catches_up]
    if log.corrected_checkpoint is not None and stuck:
        return f"replayed with the corrected lines, follower(s) {', '.join(map(str, stuck))} still do not catch up"
    return None


def _where(log: ActedLog) -> str:
    return f"{partition_shown(log.topic, log.partition)} on broker {log.broker_id}"


def _step(log: ActedLog, content: str) -> PlanStep:
    name = f"checkpoints/broker-{log.broker_id}/{file_name(log.directory)}/{_NAME}"
    place = f"{log.log_dir.rstrip('/')}/{log.directory}/{_NAME}"
    return PlanStep(
        safety=Safety.CHECKPOINT,
        title=f"Correct the {_NAME} of {_where(log)}",
        reasons=(
            f"PLACE below is {shown(place)}, as it was audited; of a copy, the same below the broker's own `log.dirs`.",
            *_reasons(log),
            _ALONE,
        ),
        commands=(
            f"# stop broker {log.broker_id}: it overwrites the file while it runs",
            "# on its host, with PLACE as above: cp -p PLACE PLACE.before   # if the file is there",
            f"# cp {name} PLACE",
            f"# start broker {log.broker_id}",
        ),
        check=(f"kafka-topics.sh {SERVER} --describe --under-replicated-partitions   # prints nothing of this partition, after a while",),
        undo="Stop the broker, `cp -p PLACE.before PLACE`, start it. Never delete or rename the file: a broker does not make it again.",
        files=(PlanFile(name=name, content=content),),
    )


_ALONE = (
    "Where the broker is the only member of the ISR its partitions have no leader while it is stopped. With "
    "unclean.leader.election.enable=true another replica would be elected, and what only this broker holds be lost: set it to false first."
)


def _reasons(log: ActedLog) -> Iterator[str]:
    count = len(log.corrected_entries or ())
    yield f"The file contradicts the batches beside it, or keeps followers out. The corrected one has {count} entries."
    for line in log.corrected_entries or ():
        if line.source in _NOT_EXACT:
            yield f"Line `{line.epoch} {line.start_offset}` {_NOT_EXACT[line.source].format(broker=line.from_broker_id)}."
    for one in log.rejoins_once_corrected or ():
        does = "truncates nothing"
        if one.restart_offset is not None:
            does = f"empties its log and starts at {one.restart_offset}"
        elif one.truncation_offset is not None:
            does = f"truncates to {one.truncation_offset}"
        yield f"Replayed with it: follower {one.follower_id} of leader {one.leader_id} {does} and catches up."
