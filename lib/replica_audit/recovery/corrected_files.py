"""Corrected leader-epoch-checkpoints: which are put in place, by which script, and what their lines are from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from shlex import quote

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey
from replica_audit.recovery.names import file_name, partition_shown
from replica_audit.recovery.steps import PlanFile, PlanRefusal
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.words import count

NAME, SCRIPT = "leader-epoch-checkpoint", "put-in-place.sh"
_NOT_EXACT = {
    "other_replica": "is from the table of another replica: broker {broker}",
    "first_batch_left": "starts at the first batch that compaction left; the epoch may have started earlier",
    "file": "is kept from the file: no batch contradicts it",
}
STAYS_DIVERGED = (
    "replayed with a corrected leader-epoch-checkpoint it keeps batches that are not the leader's: see in `explain` which replica is right"
)


def corrections(
    facts: RecoveryFacts, waiting: Collection[ReplicaKey], rebuilt: Collection[ReplicaKey]
) -> tuple[dict[int, list[ReplicaLog]], list[PlanRefusal]]:
    """The logs whose file is corrected, by broker; what cannot be corrected, or does not heal, is refused."""
    found: dict[int, list[ReplicaLog]] = {}
    refusals = []
    blocked = {broker for *_key, broker in waiting} | facts.held
    for log in (one for one in facts.logs if one.state == "current"):
        replica = (log.topic, log.partition, log.broker_id)
        verdict = facts.verdict_of.get(replica)
        hopeless = replica in rebuilt or (
            verdict is not None and Verdict(verdict.verdict) in (Verdict.LOG_MATCHING_VIOLATION, Verdict.UNREADABLE)
        )
        if (hopeless and not log.is_healed) or log.broker_id in blocked or log.broker_id in facts.gone:
            continue  # rebuilt with its file, refused there, or asked for
        why = _refused(log)
        if why is not None:
            where = (f"{partition_shown(log.topic, log.partition)} on broker {log.broker_id}",)
            refusals.append(PlanRefusal(what=f"correct the {NAME} of", where=where, why=why))
        elif log.corrected_checkpoint is not None:
            found.setdefault(log.broker_id, []).append(log)
    return found, refusals


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


def directories(logs: Sequence[ReplicaLog]) -> dict[str, str]:
    """What the script calls each log directory, in the order of the logs."""
    return {log_dir: f"DIR_{number}" for number, log_dir in enumerate(dict.fromkeys(log.log_dir for log in logs), 1)}


def checkpoint_files(below: str, logs: Sequence[ReplicaLog]) -> Iterator[PlanFile]:
    """The corrected files below a folder of the plan, and the script that puts them in place; none without logs."""
    if logs:
        for log in logs:
            yield PlanFile(name=f"{below}/{file_name(log.directory)}/{NAME}", content=log.corrected_checkpoint or "")
        names = directories(logs)
        lines = [f': "${{{name}:?name a log directory of the broker: PLAN.md says which one {name} is}}"\n' for name in names.values()]
        lines += [f'place {quote(file_name(log.directory))} "${names[log.log_dir]}"/{quote(log.directory)} {_state(log)}\n' for log in logs]
        yield PlanFile(name=f"{below}/{SCRIPT}", content=_PLACING + "".join(lines), executable=True)


def _state(log: ReplicaLog) -> str:
    return "malformed" if log.checkpoint_state == "unreadable" else "readable"


_PLACING = f"""\
#!/bin/sh
# Written by an audit; read it before you run it: on the host of the broker, while the broker is stopped, as the user that Kafka runs as.
# It stops at the first line that fails. With the argument undo it restores the old files.
set -eu
mode=${{1:-put}}
here=$(dirname -- "$0")
well_formed() {{
  awk 'NR == 1 && $0 != "0" {{ bad = 1 }} NR == 2 {{ lines = $0 }} NR > 2 && NF != 2 {{ bad = 1 }}
    END {{ exit (bad || NR < 2 || NR != lines + 2) }}' "$1"
}}
place() {{
  target=$2/{NAME}
  [ -d "$2" ] || {{ printf '%s: no such directory; which log directories does the broker have?\\n' "$2" >&2; exit 1; }}
  if [ "$mode" = undo ]; then
    if [ -e "$target.before" ]; then cp -p -- "$target.before" "$target"; fi
    return
  fi
  if [ "$3" = malformed ] && [ -e "$target" ] && [ ! -e "$target.before" ] && well_formed "$target"; then
    printf '%s is well formed: only the copy that was audited is damaged; copy it again\\n' "$target" >&2; exit 1
  fi
  if [ -e "$target" ] && [ ! -e "$target.before" ]; then cp -p -- "$target" "$target.before"; fi
  cp -- "$here/$1/{NAME}" "$target"
}}
"""


def reasons_of(log: ReplicaLog) -> Iterator[str]:
    """What the lines of a corrected file are from, and what followers do with it, a sentence each."""
    lines = count(len(log.corrected_entries or ()), "line")
    yield f"corrected file, {lines}."
    for line in log.corrected_entries or ():
        if line.source in _NOT_EXACT:
            yield f"Line `{line.epoch} {line.start_offset}` {_NOT_EXACT[line.source].format(broker=line.from_broker_id)}."
    for one in log.rejoins_once_corrected or ():
        does = "truncates nothing" if one.truncation_offset is None else f"truncates to {one.truncation_offset}"
        if one.restart_offset is not None:
            does = f"empties its log and starts at {one.restart_offset}"
        but = ", but keeps batches that are not the leader's: do not let it lead" if one.still_diverged else ""
        yield f"In a replay with it, follower {one.follower_id} of leader {one.leader_id} {does} and catches up{but}."
