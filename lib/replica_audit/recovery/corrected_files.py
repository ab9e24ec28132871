"""What is done to the disk of a broker that is stopped, and by which script: leader-epoch-checkpoints corrected, directories set aside."""

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


def files_of(broker: int, corrected: Sequence[ReplicaLog], aside: Sequence[ReplicaLog]) -> Iterator[PlanFile]:
    """The corrected files of a broker, and the script that does to its disk what is to be done; none where nothing is."""
    below, names = f"checkpoints/broker-{broker}", directories([*corrected, *aside])
    for log in corrected:
        yield PlanFile(name=f"{below}/{file_name(log.directory)}/{NAME}", content=log.corrected_checkpoint or "")
    if names:
        lines = [f"broker={broker}\n"]
        lines += [f': "${{{name}:?name a log directory of the broker: PLAN.md says which one {name} is}}"\n' for name in names.values()]
        lines += [f': "${{{_ASIDE}:?name a directory outside of the log directories}}"\n'] if aside else []
        lines += [f'not_used "${name}"\n' for name in names.values()]
        lines += [
            f'place {quote(file_name(log.directory))} "${names[log.log_dir]}"/{quote(log.directory)} {_was(log)}\n' for log in corrected
        ]
        lines += [f'aside "${names[log.log_dir]}" {quote(log.directory)}\n' for log in aside]
        yield PlanFile(name=f"{below}/{SCRIPT}", content=_ON_DISK + "".join(lines), executable=True)


def script_line(broker: int, corrected: Sequence[ReplicaLog], aside: Sequence[ReplicaLog]) -> str:
    """The line that calls it, with what a person has to name."""
    named = [f"{name}=LOG_DIR" for name in directories([*corrected, *aside]).values()] + ([f"{_ASIDE}=SAFE_PLACE"] if aside else [])
    return f"{' '.join(named)} sh checkpoints/broker-{broker}/{SCRIPT}"


def _was(log: ReplicaLog) -> str:
    """The audited file: its digest, that there was none, or that nobody knows it."""
    return log.checkpoint_sha256 or ("missing" if log.checkpoint_state == "missing" else "unknown")


_ASIDE = "ASIDE"
_ON_DISK = f"""\
#!/bin/sh
# Written by an audit; read it before you run it: on the host of the broker, while the broker is stopped, as the user that Kafka runs as.
# It stops at the first line that fails. With the argument undo it puts everything back, as long as the broker was not started.
set -eu
mode=${{1:-put}}
here=$(dirname -- "$0")
fail() {{ printf '%s\\n' "$*" >&2; exit 1; }}
digest() {{ if [ -e "$1" ]; then sha256sum < "$1" | cut -d ' ' -f 1; else echo missing; fi; }}
not_used() {{
  [ -d "$1" ] || fail "$1: no such directory; which log directories does the broker have?"
  if [ -e "$1/meta.properties" ] && ! grep -Eqx "(broker|node)\\.id=$broker" "$1/meta.properties"; then
    fail "$1 is a log directory of another broker than $broker"
  fi
  if [ -e "$1/.lock" ] && [ -r /proc/locks ]; then
    inode=$(ls -di -- "$1/.lock" | awk '{{ print $1 }}')
    if grep -Eq ":$inode " /proc/locks; then fail "$1 is locked: broker $broker runs; stop it first"; fi
  fi
}}
place() {{
  target=$2/{NAME}
  [ -d "$2" ] || fail "$2: no such directory; which log directories does the broker have?"
  if [ "$mode" = undo ]; then
    if cmp -s -- "$here/$1/{NAME}" "$target"; then
      if [ -e "$target.before" ]; then mv -f -- "$target.before" "$target"; else rm -f -- "$target"; fi
    elif [ -e "$target.before" ]; then
      fail "$target has changed since: the broker was started, and this can no longer be undone"
    fi
    return
  fi
  if cmp -s -- "$here/$1/{NAME}" "$target"; then return; fi
  [ "$3" != unknown ] || fail "$target: nobody knows which file was audited; audit again"
  [ "$(digest "$target")" = "$3" ] || fail "$target is not the file that was audited: copy it again, audit and plan again"
  if [ -e "$target" ]; then cp -p -- "$target" "$target.before"; fi
  cp -- "$here/$1/{NAME}" "$target"
}}
aside() {{
  from=$1/$2 to=$ASIDE/broker-$broker/$2
  if [ "$mode" = undo ]; then
    if [ -e "$to" ]; then
      [ ! -e "$from" ] || fail "$from was made again: the broker was started, and this can no longer be undone"
      mv -- "$to" "$from"
    fi
    return
  fi
  if [ -d "$to" ] && [ ! -e "$from" ]; then return; fi
  [ -d "$from" ] || fail "$from: no such directory; which log directories does the broker have?"
  [ ! -e "$to" ] || fail "$to is there already: name another directory"
  [ -d "$ASIDE" ] || fail "$ASIDE: no such directory; make it first"
  case "$(cd -- "$ASIDE" && pwd -P)/" in "$(cd -- "$1" && pwd -P)"/*) fail "$ASIDE lies in the log directory $1" ;; esac
  mkdir -p -- "$ASIDE/broker-$broker"
  mv -- "$from" "$to"
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
