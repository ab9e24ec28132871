"""Corrected leader-epoch-checkpoint files, and the place they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.recovery_facts import RecoveryFacts
from replica_audit.report.layout.rejoin_words import once_corrected
from replica_audit.report.plan.followers import cut_when_started, cuts_shown
from replica_audit.report.plan.kafka_files import joined
from replica_audit.report.plan.names import file_name, partition_shown, shown
from replica_audit.report.plan.rebuilds import REBUILT, STAYS_DIVERGED
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Safety
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.words import count

_NAME = "leader-epoch-checkpoint"
_SCRIPT = "put-in-place.sh"
_MOST = 20
_NOT_EXACT = {
    "other_replica": "is from the table of another replica: broker {broker}",
    "first_batch_left": "starts at the first batch that compaction left; the epoch may have started earlier",
    "file": "is kept from the file: no batch contradicts it",
}


def checkpoints(facts: RecoveryFacts) -> PlanPart:
    """A step for each broker with files that are wrong; what cannot be corrected, or does not heal, is refused."""
    found: dict[int, list[ReplicaLog]] = {}
    refusals = []
    rebuilt = {(*one.key, one.follower_id) for one in facts.verdicts if Verdict(one.verdict) in REBUILT}
    for log in (one for one in facts.logs if one.state == "current"):
        if (log.topic, log.partition, log.broker_id) in rebuilt and not log.is_healed:
            continue  # rebuilt with its file, or refused there
        why = _refused(log)
        if why is not None:
            refusals.append(PlanRefusal(what=f"correct the {_NAME} of", where=(_where(log),), why=why))
        elif log.corrected_checkpoint is not None:
            found.setdefault(log.broker_id, []).append(log)
    later = {broker for *_key, broker in facts.healed_by_leader}  # their leaders have the right file when they start
    order = sorted(found, key=lambda broker: (broker in later, _follows(found[broker]), broker))
    return PlanPart(steps=tuple(_step(facts, broker, found[broker]) for broker in order), refusals=tuple(refusals))


def _follows(logs: Sequence[ReplicaLog]) -> int:
    """In how many more of these partitions a broker follows than leads: leaders get their files first."""
    led = [log.broker_id == log.rejoins_once_corrected[0].leader_id for log in logs if log.rejoins_once_corrected]
    return len(led) - 2 * sum(led)


def _refused(log: ReplicaLog) -> str | None:
    if log.corrected_checkpoint is not None and "/" in log.directory:
        return "its directory name cannot be written into a command file"
    if log.not_corrected_because is not None:
        return f"the batches of the log do not determine a table ({log.not_corrected_because}): rebuild the replica from a healthy leader"
    stuck = [one.follower_id for one in log.rejoins_once_corrected or () if not one.catches_up]
    if log.corrected_checkpoint is not None and stuck:
        return f"replayed with the corrected lines these followers still do not catch up: {', '.join(map(str, stuck))}"
    if log.corrected_checkpoint is not None and log.stays_diverged:
        return STAYS_DIVERGED
    return None


def _where(log: ReplicaLog) -> str:
    return f"{partition_shown(log.topic, log.partition)} on broker {log.broker_id}"


def _step(facts: RecoveryFacts, broker: int, logs: Sequence[ReplicaLog]) -> PlanStep:
    below = f"checkpoints/broker-{broker}"
    directories = list(dict.fromkeys(log.log_dir for log in logs))
    names = {log_dir: f"DIR_{number}" for number, log_dir in enumerate(directories, 1)}
    run = f"sh {below}/{_SCRIPT}"
    said = "; ".join(f"{name} is {shown(log_dir)}" for log_dir, name in list(names.items())[:_MOST])
    return PlanStep(
        safety=Safety.CHECKPOINT,
        title=f"Correct {count(len(logs), _NAME)} on broker {broker}, in one restart",
        reasons=(
            f"The script keeps each old file beside the new one, as {_NAME}.before. It expects the log directories where they were "
            f"audited: {said}. If the audit read copies, or if they are elsewhere on the host, name them: "
            f"`DIR_1=/var/lib/kafka/data {run}`. Run it as the user that Kafka runs as.",
            *(f"{partition_shown(log.topic, log.partition)}: {' '.join(_reasons(log))}" for log in logs[:_MOST]),
            *([f"and {len(logs) - _MOST} more files."] if len(logs) > _MOST else []),
            *_started(facts, broker),
            _ALONE,
        ),
        commands=(
            f"# stop broker {broker}: it overwrites the files while it runs",
            f"# on its host, in a copy of this folder: {run}",
            f"# start broker {broker}",
        ),
        check=(joined({broker}),),
        undo=f"Stop the broker, `{run} undo`, start it. Never delete or rename such a file: a broker does not rebuild it. "
        "What was truncated since then is only in the copies.",
        files=(
            *(PlanFile(name=f"{below}/{file_name(log.directory)}/{_NAME}", content=log.corrected_checkpoint or "") for log in logs),
            PlanFile(name=f"{below}/{_SCRIPT}", content=_script(logs, names), executable=True),
        ),
    )


def _started(facts: RecoveryFacts, broker: int) -> Iterator[str]:
    """What the broker truncates besides, when it is started again."""
    found = [one for one in cut_when_started(facts) if one.follower_id == broker]
    if found:
        yield "Only after the copies are made. When it starts it also truncates these, whose files need no correction:"
        yield from cuts_shown(found)


def _script(logs: Sequence[ReplicaLog], names: Mapping[str, str]) -> str:
    """A shell script that puts each file into its replica's directory."""
    lines = [f"{name}=${{{name}:-{quote(log_dir)}}}\n" for log_dir, name in names.items()]
    lines += [f'place {quote(file_name(log.directory))} "${names[log.log_dir]}"/{quote(log.directory)}\n' for log in logs]
    return _PLACING + "".join(lines)


_PLACING = f"""\
#!/bin/sh
# Written by an audit; read it before you run it: on the host of the broker, while the broker is stopped, as the user that Kafka runs as.
# The log directories are those that were audited; if they are elsewhere, name them: DIR_1=/var/lib/kafka/data sh {_SCRIPT}
# It stops at the first line that fails. With the argument undo it restores the old files.
set -eu
mode=${{1:-put}}
here=$(dirname -- "$0")
place() {{
  target=$2/{_NAME}
  [ -d "$2" ] || {{ printf '%s: no such directory; which log directories does the broker have?\\n' "$2" >&2; exit 1; }}
  if [ "$mode" = undo ]; then
    if [ -e "$target.before" ]; then cp -p -- "$target.before" "$target"; fi
    return
  fi
  if [ -e "$target" ] && [ ! -e "$target.before" ]; then cp -p -- "$target" "$target.before"; fi
  cp -- "$here/$1/{_NAME}" "$target"
}}
"""
_ALONE = (
    "If the broker is the only member of the ISR, its partitions have no leader while it is stopped. With "
    "unclean.leader.election.enable=true another replica would be elected, and what only this broker holds would be lost: set it to false "
    "first."
)


def _reasons(log: ReplicaLog) -> Iterator[str]:
    lines = count(len(log.corrected_entries or ()), "entry", "entries")
    yield f"the file contradicts the batches beside it or keeps followers out; the corrected one has {lines}."
    for line in log.corrected_entries or ():
        if line.source in _NOT_EXACT:
            yield f"Line `{line.epoch} {line.start_offset}` {_NOT_EXACT[line.source].format(broker=line.from_broker_id)}."
    for one in log.rejoins_once_corrected or ():
        but = ", but keeps batches that are not the leader's: do not let it lead" if one.still_diverged else ""
        yield f"In a replay with it, follower {one.follower_id} of leader {one.leader_id} {once_corrected(one)} and catches up{but}."
