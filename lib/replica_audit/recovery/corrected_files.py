"""What is done to the disk of a broker that is stopped, and by which script: files written, directories moved away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote

from replica_audit.formats.log_dir.names import PARTITION_METADATA
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey
from replica_audit.recovery.names import file_name, partition_shown, shown
from replica_audit.recovery.steps import Check, NameTopic, PlanFile, PlanRefusal, PlanStep, Shows, Stage
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.words import count

NAME, SCRIPT = "leader-epoch-checkpoint", "put-in-place.sh"
_MOST = 20
_NOT_EXACT = {
    "other_replica": "is from the table of another replica: broker {broker}",
    "first_batch_left": "starts at the first batch that compaction left; the epoch may have started earlier",
    "file": "is kept from the file: no batch contradicts it",
}
STAYS_DIVERGED = (
    "replayed with a corrected leader-epoch-checkpoint it keeps batches that are not the leader's: copy both, and compare their records"
)

_LEADER_ASKED_FOR = "something that decides about its leader is asked for: plan again once that is known"
_NOT_TOUCHED = "this plan neither stops nor starts its broker: plan again once what is asked for, or refused, of that broker is settled"


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
        if (hopeless and not log.is_healed) or log.broker_id in facts.gone:
            continue  # rebuilt with its file, or refused there
        leaders = {(*replica[:2], role.leader_id) for role in facts.replicas.get(replica[:2], ())}
        why = _refused(log)
        if log.corrected_checkpoint is not None and (log.broker_id in blocked or leaders & {*waiting}):
            why = _NOT_TOUCHED if log.broker_id in blocked else _LEADER_ASKED_FOR
        if why is not None:
            refusals.append(PlanRefusal(what=f"correct the {NAME} of", of=(replica,), why=why))
        elif log.corrected_checkpoint is not None:
            found.setdefault(log.broker_id, []).append(log)
            refusals += (one for one in _still_diverged(log) if not {*one.of} & {*rebuilt})
    return found, refusals


def _still_diverged(log: ReplicaLog) -> Iterator[PlanRefusal]:
    """The followers that stay diverged from a leader whose file is corrected."""
    for one in log.rejoins_once_corrected or ():
        if one.still_diverged and one.leader_id == log.broker_id:
            why = f"with the corrected {NAME} of leader {one.leader_id} it keeps batches that are not the leader's: audit again then"
            yield PlanRefusal(what="rebuild", of=((log.topic, log.partition, one.follower_id),), why=why)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWork:
    """What is done to the disk of a broker before it starts.

    The leader-epoch-checkpoints of `corrected` logs take the place of theirs, those that are `named` get a partition.metadata with the
    topic id, and the directories of `moved` ones are moved out of the log directory.
    """

    broker: int
    corrected: tuple[ReplicaLog, ...] = ()
    named: tuple[tuple[ReplicaLog, str], ...] = ()
    moved: tuple[ReplicaLog, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.corrected or self.named or self.moved)

    @property
    def directories(self) -> dict[str, str]:
        """What the script calls each log directory."""
        logs = (*self.corrected, *(log for log, _topic_id in self.named), *self.moved)
        return {log_dir: f"DIR_{number}" for number, log_dir in enumerate(dict.fromkeys(log.log_dir for log in logs), 1)}

    @property
    def line(self) -> str:
        """The line that calls the script, with what a person has to name."""
        named = [f"{name}=LOG_DIR" for name in self.directories.values()] + (["ASIDE=SAFE_PLACE"] if self.moved else [])
        return f"{' '.join(named)} sh checkpoints/broker-{self.broker}/{SCRIPT}"

    @property
    def files(self) -> Iterator[PlanFile]:
        """The files that are put in place, and the script; none where nothing is to do."""
        below, names = f"checkpoints/broker-{self.broker}", self.directories
        placed = [(log, NAME, log.corrected_checkpoint or "", _was(log)) for log in self.corrected]
        placed += [(log, PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}", "missing") for log, topic_id in self.named]
        for log, name, content, _audited in placed:
            yield PlanFile(name=f"{below}/{file_name(log.directory)}/{name}", content=content)
        if not names:
            return
        lines = [f"broker={self.broker}\n"]
        lines += [f': "${{{name}:?name a log directory of the broker: PLAN.md says which one {name} is}}"\n' for name in names.values()]
        lines += [': "${ASIDE:?name a directory outside of the log directories}"\n'] if self.moved else []
        lines += [f'not_used "${name}"\n' for name in names.values()]
        lines += ["each() {\n"]
        for log, name, _content, audited in placed:
            source = quote(f"{file_name(log.directory)}/{name}")
            lines.append(f'  place {source} "${names[log.log_dir]}"/{quote(log.directory)} {name} {audited}\n')
        lines += [f'  aside {names[log.log_dir]} "${names[log.log_dir]}" {quote(log.directory)}\n' for log in self.moved]
        yield PlanFile(name=f"{below}/{SCRIPT}", content=_ON_DISK + "".join(lines) + _EACH, executable=True)


def _was(log: ReplicaLog) -> str:
    """The audited file: its digest, that there was none, or that nobody knows it."""
    return log.checkpoint_sha256 or ("missing" if log.checkpoint_state == "missing" else "unknown")


_ON_DISK = """\
#!/bin/sh
# Written by an audit; read it before you run it: on the host of the broker, while the broker is stopped, as the user that Kafka runs as.
# It checks everything before it changes anything, and stops at the first line that fails. With the argument check it changes nothing, and
# the broker may run: it stops where a file is not the one that was audited. With the argument undo it puts everything back, as long as the
# broker was not started.
set -eu
mode=${1:-put}
here=$(dirname -- "$0")
fail() { printf '%s\\n' "$*" >&2; exit 1; }
digest() { if [ -e "$1" ]; then sha256sum < "$1" | cut -d ' ' -f 1; else echo missing; fi; }
not_used() {
  [ -d "$1" ] || fail "$1: no such directory; which log directories does the broker have?"
  if [ -e "$1/meta.properties" ] && ! grep -Eqx "(broker|node)\\.id=$broker" "$1/meta.properties"; then
    fail "$1 is a log directory of another broker than $broker"
  fi
  if [ "$mode" != check ] && [ -e "$1/.lock" ] && [ -r /proc/locks ]; then
    inode=$(ls -di -- "$1/.lock" | awk '{ print $1 }')
    if grep -Eq ":$inode " /proc/locks; then fail "$1 is locked: broker $broker runs; stop it first"; fi
  fi
  if [ "$mode" = undo ]; then
    [ -e "$here/was-put" ] || fail "nothing was put in place from this folder"
    if [ -n "$(find "$1" -maxdepth 1 -name replication-offset-checkpoint -newer "$here/was-put")" ]; then
      fail "$1 was written since: the broker was started, and this can no longer be undone"
    fi
  fi
}
place() {  # SOURCE DIRECTORY NAME DIGEST
  target=$2/$3
  [ -d "$2" ] || fail "$2: no such directory; which log directories does the broker have?"
  if [ "$mode" = undo ]; then
    if cmp -s -- "$here/$1" "$target"; then
      if [ -e "$target.before" ]; then mv -f -- "$target.before" "$target"; else rm -f -- "$target"; fi
    elif [ -e "$target.before" ]; then
      fail "$target has changed since: the broker was started, and this can no longer be undone"
    fi
    return
  fi
  if cmp -s -- "$here/$1" "$target"; then return; fi
  [ "$4" != unknown ] || fail "$target: nobody knows which file was audited; audit again"
  [ "$(digest "$target")" = "$4" ] || fail "$target is not the file that was audited: copy it again, audit and plan again"
  if [ "$mode" = check ]; then return; fi
  if [ -e "$target" ]; then cp -p -- "$target" "$target.before"; fi
  cp -- "$here/$1" "$target.new"
  mv -f -- "$target.new" "$target"
}
aside() {  # NAME LOG_DIR DIRECTORY; two log directories may each have a directory of that name
  from=$2/$3 place=$ASIDE/moved-from-broker-$broker/$1
  to=$place/$3
  if [ "$mode" = undo ]; then
    if [ -e "$to" ]; then
      [ ! -e "$from" ] || fail "$from was made again: the broker was started, and this can no longer be undone"
      mv -- "$to" "$from"
    fi
    return
  fi
  if [ -d "$to" ] && [ ! -e "$from" ]; then return; fi
  [ -d "$from" ] || fail "$from: no such directory; which log directories does the broker have?"
  [ ! -e "$to" ] || fail "$to is there, and $from is, too: keep the one that is whole, move the other one elsewhere, and run this again"
  [ -d "$ASIDE" ] || fail "$ASIDE: no such directory; make it first"
  case "$(cd -- "$ASIDE" && pwd -P)/" in "$(cd -- "$2" && pwd -P)"/*) fail "$ASIDE lies in the log directory $2" ;; esac
  if [ "$mode" = check ]; then return; fi
  mkdir -p -- "$place"
  mv -- "$from" "$to"
}
"""

_EACH = """\
}
case "$mode" in
put)
  mode=check
  each
  mode=put
  if [ ! -e "$here/was-put" ]; then : > "$here/was-put"; fi
  each
  ;;
check) each ;;
undo)
  each
  rm -f -- "$here/was-put"
  ;;
*) fail "$mode: what is that? The arguments are check and undo" ;;
esac
"""


def named_first(facts: RecoveryFacts) -> Iterator[PlanStep]:
    """A step for each broker on which a replica that nobody leads gets its topic id: only an audit after that can judge its election."""
    found: dict[int, list[tuple[ReplicaLog, str]]] = {}
    for replica, topic_id in facts.topic_ids.items():
        log = facts.log_of(*replica)
        if log is not None and replica[:2] in facts.leaderless and facts.is_stopped(replica[2]):
            found.setdefault(replica[2], []).append((log, topic_id))
    for broker, named in sorted(found.items()):
        work = DiskWork(broker=broker, named=tuple(named))
        yield PlanStep(
            stage=Stage.ASK,
            title=f"Write {count(len(named), f'{PARTITION_METADATA} file')} on broker {broker}, which stays stopped",
            actions=tuple(NameTopic((log.topic, log.partition, broker)) for log, _topic_id in named),
            reasons=tuple(reasons_of(work, {})),
            commands=(f"# on its host, in a copy of this folder: {work.line}",),
            checks=(Check(f"# cat LOG_DIR/DIRECTORY/{PARTITION_METADATA}   # has the topic id", Shows.NAMED),),
            undo=f"`{work.line} undo`, as long as the broker was not started.",
            files=tuple(work.files),
        )


def reasons_of(work: DiskWork, aside: Mapping[ReplicaKey, str]) -> Iterator[str]:
    """What is done to a disk, a sentence for each file and directory; `aside`: why directories are moved away."""
    if not work:
        return
    dirs = "; ".join(f"{name} is the one that was audited as {shown(log_dir)}" for log_dir, name in list(work.directories.items())[:_MOST])
    yield (
        f"Run the script as the user that Kafka runs as, and name the broker's own log directories to it ({dirs}), never a copy: "
        f"`{work.line}`. It stops where the broker runs, where a log directory is another broker's, and where a file is not the one that "
        "was audited; with the argument check it looks at the files only, and the broker may run."
    )
    if work.corrected:
        yield f"The corrected files take the place of the old ones, each of which stays beside it, as {NAME}.before."
    yield from _some(f"{partition_shown(log.topic, log.partition)}: {' '.join(_of_corrected(log))}" for log in work.corrected)
    if work.named:
        yield (
            f"Without {PARTITION_METADATA} the broker sets these logs aside (-stray) whenever it starts, and goes on with empty ones: do "
            "not restart it without the file. Each gets the id of its topic from another replica, which holds the same records. The script "
            "stops where the broker has the file: then copy that, and audit again."
        )
    yield from _some(f"{partition_shown(log.topic, log.partition)}: topic id {shown(topic_id)}." for log, topic_id in work.named)
    if aside:
        yield (
            f"These directories are moved to SAFE_PLACE/moved-from-broker-{work.broker}, outside of the log directories. Started without "
            "them, the broker makes each replica again, empty, and fetches all of it from its leader: what it held is not served. "
            "Keep what was moved."
        )
    yield from _some(f"{partition_shown(topic, partition)}: {why}." for (topic, partition, _broker), why in aside.items())


def _some(sentences: Iterable[str]) -> Iterator[str]:
    told = list(sentences)
    yield from told[:_MOST]
    if len(told) > _MOST:
        yield f"and {len(told) - _MOST} more."


def _of_corrected(log: ReplicaLog) -> Iterator[str]:
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
