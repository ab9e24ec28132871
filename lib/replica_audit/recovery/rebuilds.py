"""Replicas to be fetched again from their leaders.

Of a broker that is stopped the directory is moved away: the broker makes a replica anew whose directory is not there, in the log directory
that it is assigned to, and fetches all of it (LogManager.getOrCreateLog; with directory ids, too, as long as no log directory is offline).
Of one that runs the replica is taken out of the assignment, so that the broker deletes it, and put back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from replica_audit.protocol.comparison.compaction import CompactionCause
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.commands import Tools, reassignment_json
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, lacks_keys
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.names import partition_shown, shown
from replica_audit.recovery.steps import Check, PlanFile, PlanPart, PlanRefusal, PlanStep, Presumption, PutBack, Shows, Stage, TakeOut
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.words import count

VERIFIED = "is complete for each partition; this also removes the throttle"
THROTTLE = 10_000_000  # bytes a second: what a small disk bears beside its clients
_REBUILT = (Verdict.LOG_MATCHING_VIOLATION, Verdict.UNREADABLE, Verdict.CANNOT_REJOIN, Verdict.COMPACTION_DIFFERS)
_UNDECIDED = {
    Verdict.CONTENT_MISMATCH: (
        "both hold the same epochs and offsets but other bytes: the files do not show which one is right. Consumers read the leader's now; "
        "read both (`kafka-dump-log.sh --print-data-log`) before you delete one"
    ),
    Verdict.STALE_TOPIC_ID: "the directory is of an earlier topic of this name: the broker sets it aside by itself when it starts",
    Verdict.TRUNCATED_OTHERWISE: (
        "it did not do what its rule says: check that its server.log and its log directories are of one broker and one time, and that the "
        "cluster's rule is right (`--protocol`); if both are, keep the copies, and report it"
    ),
}
_SAID = {
    Verdict.LOG_MATCHING_VIOLATION: "it holds other records than its leader, and Kafka does not notice",
    Verdict.UNREADABLE: "its log is damaged",
    Verdict.CANNOT_REJOIN: "it never catches up",
    Verdict.COMPACTION_DIFFERS: "compaction left it other keys than its leader",
}
_ONE_AT_A_TIME = "another replica of it is rebuilt in this plan: audit again after that"
_OTHER_KEYS = (
    "compaction left other keys on the two, which `explain` lists: of those that only one replica has, ask their owner whether they were "
    "deleted; have them written or deleted again, and audit again before you delete a replica"
)
_LEADER_LACKS_KEYS = (
    "it is leader {leader} that lacks keys, or has old values: once broker {follower} is in the ISR, move the leadership there (first "
    "in a reassignment, then a preferred election), audit again, and rebuild broker {leader}; deleting broker {follower} would lose them"
)
_LEADER_MISSES = (
    "it is leader {leader} that misses offsets {first}..{last}, and consumers skip them now: deleting broker {follower} would lose them, "
    "too. If they matter, let broker {follower} lead, and rebuild broker {leader}"
)
_NO_REPLICA_FETCHES = (
    "leader {leader} refuses an empty replica as well, and no wrong line of a leader-epoch-checkpoint is known: let another member of the "
    "ISR lead, or restart the leader, which then leads in a new epoch; then audit again"
)
_NEVER_FETCHES = "its fetcher fails: it cannot append what its leader sends"
_THREAD_ENDS = (
    "Where the check stays in progress restart {}: before Kafka 2.3 (KIP-461) a partition that has failed ended the thread that fetches "
    "all of its leader's, and the broker does not begin another one."
)
_LACKS_MARKER = "it lacks the end of a transaction, and once it leads, read_committed consumers stop there for good"
_COMPACTED = "it is compacted, and equal offsets do not show that the leader has its keys: audit with --compare records"


def rebuilds(facts: RecoveryFacts, waiting: Collection[ReplicaKey]) -> tuple[dict[ReplicaKey, str], list[PlanRefusal]]:
    """The replicas that are rebuilt, each with why, and those of which that is refused; what waits for an answer is in neither."""
    found: dict[ReplicaKey, str] = {}
    refusals = []
    for replica, reason in _ill(facts):
        if replica in waiting or (*replica[:2], _leader(facts, replica)) in waiting or replica[2] in facts.gone:
            continue
        verdict = facts.compared(replica)
        why = _undecided(verdict) or _refused(facts, replica) or _held_up(facts, replica, waiting) or _at_once(facts, replica, found)
        if why is None:
            found[replica] = reason
        else:
            refusals.append(PlanRefusal(what="rebuild", of=(replica,), why=why))
    return found, refusals


def left_as_they_are(facts: RecoveryFacts, rebuilt: Collection[ReplicaKey], waiting: Collection[ReplicaKey]) -> Iterator[ReplicaKey]:
    """The replicas whose rebuild is refused, and where nothing shows which one is right their leaders: nobody may lose one meanwhile."""
    for replica, _reason in _ill(facts):
        if replica not in rebuilt and replica not in waiting and replica[2] not in facts.gone:
            yield replica
            leader = (*replica[:2], _leader(facts, replica))
            if _undecided(facts.compared(replica)) is not None and leader[2] >= 0 and leader not in rebuilt:
                yield leader


def _ill(facts: RecoveryFacts) -> Iterator[tuple[ReplicaKey, str]]:
    """Replicas that do not come right by themselves nor by a corrected file."""
    for verdict in facts.verdicts:
        replica, kind = (*verdict.key, verdict.follower_id), Verdict(verdict.verdict)
        settled = replica in facts.corrected or replica in facts.healed_by_leader or replica in facts.recovering
        is_over = verdict.already_truncated and kind not in _REBUILT  # what stays diverged once it is truncated, stays so
        if kind in (*_REBUILT, *_UNDECIDED) and not settled and verdict.key not in facts.leaderless and not is_over:
            yield replica, _SAID.get(kind, str(kind)) + _perhaps_deleted(verdict)
        elif lacks_keys(verdict) and not settled and verdict.key not in facts.leaderless:
            yield replica, "its cleaner had compacted beyond the offset to which it truncates: it lacks keys then"
    for replica in sorted(facts.never_fetch | facts.lack_markers):
        known = facts.verdict_of.get(replica)
        if replica not in facts.corrected and replica[:2] not in facts.leaderless and (known is None or known.verdict not in _REBUILT):
            yield replica, _NEVER_FETCHES if replica in facts.never_fetch else _LACKS_MARKER


def _perhaps_deleted(verdict: ReplicaVerdict) -> str:
    """What nobody can tell by the files of keys that only the leader has."""
    if any(one.cause == CompactionCause.KEY_MISSING_OR_DELETED for one in verdict.differing_keys or ()):
        return " (`explain` lists them: ask their owner whether they were deleted, for the leader then serves them again)"
    return ""


def _held_up(facts: RecoveryFacts, replica: ReplicaKey, waiting: Collection[ReplicaKey]) -> str | None:
    if facts.is_stopped(replica[2]) is False or replica[2] not in {one[2] for one in waiting} | facts.held:
        return None
    return f"broker {replica[2]} is not started before another replica of it is known or repaired"


def _leader(facts: RecoveryFacts, replica: ReplicaKey) -> int:
    verdict, roles = facts.verdict_of.get(replica), facts.replicas.get(replica[:2])
    return verdict.leader_id if verdict is not None else roles[0].leader_id if roles else -1


def _undecided(verdict: ReplicaVerdict | None) -> str | None:
    if verdict is None:
        return None
    kind, stuck = Verdict(verdict.verdict), verdict.stuck
    misses = next((one for one in verdict.conflicts or () if one.leader_epoch is None), None)
    of = {"leader": verdict.leader_id, "follower": verdict.follower_id}
    if kind is Verdict.LOG_MATCHING_VIOLATION and misses is not None:
        return _LEADER_MISSES.format(**of, first=misses.first_offset, last=misses.end_offset - 1)
    if kind is Verdict.CANNOT_REJOIN and stuck is not None and stuck.fresh_replica_too:
        return _NO_REPLICA_FETCHES.format(**of)
    if kind is Verdict.COMPACTION_DIFFERS or verdict.differing_keys:
        wrong = {one.broker_id for one in verdict.differing_keys or ()}
        if wrong == {verdict.leader_id}:
            return _LEADER_LACKS_KEYS.format(**of)
        return None if wrong == {verdict.follower_id} else _OTHER_KEYS
    return _UNDECIDED.get(kind) or (_COMPACTED if verdict.compacted and verdict.differing_keys is None else None)


def is_set_aside(facts: RecoveryFacts, replica: ReplicaKey) -> bool:
    """Whether a replica that is rebuilt is moved away before its broker is started."""
    return facts.is_stopped(replica[2]) is not False


def _at_once(facts: RecoveryFacts, replica: ReplicaKey, found: Collection[ReplicaKey]) -> str | None:
    """Why a replica is not rebuilt now: by a broker that runs one of a partition only; set aside while nobody elects it, empty."""
    roles = facts.replicas[replica[:2]]
    if not is_set_aside(facts, replica):
        healthy, minimum = _healthy(replica, roles), roles[0].min_insync_replicas
        if minimum is not None and len(healthy) < minimum:
            return f"only {len(healthy)} would stay in sync, and min.insync.replicas is {minimum}: add a replica on another broker first"
        if minimum is None and len(healthy) < 2:
            return "only the leader would stay in sync, and min.insync.replicas is not in the input: add a replica on another broker first"
        return _ONE_AT_A_TIME if any(one[:2] == replica[:2] for one in found) else None
    leader, log = _leader(facts, replica), facts.log_of(*replica)
    if may_lead_empty(roles, replica[2]) and facts.is_stopped(leader) is not False:
        return (
            f"broker {replica[2]} may be elected, and leader {leader} is not seen running: with an empty log it would make the others "
            f"empty theirs; start broker {leader} alone, audit again"
        )
    return "its directory is not in the input: copy it, audit again" if log is None or "/" in log.directory else None


def may_lead_empty(roles: Sequence[ReplicaRole], broker: int) -> bool:
    """Whether the controller may elect a broker once it runs, as long as no other one leads."""
    return any(role.unclean_leader_election or (role.broker_id == broker and (role.in_isr or role.in_elr)) for role in roles)


def _refused(facts: RecoveryFacts, replica: ReplicaKey) -> str | None:
    leader, roles = _leader(facts, replica), facts.replicas.get(replica[:2], [])
    log = facts.log_of(*replica[:2], leader)
    if log is not None and log.unreadable_reason is not None:
        why = f"the log of leader {leader} cannot be read, either ({log.unreadable_reason})"
        return f"{why}: keep every replica; `explain` says which copy is good"
    if any(role.position is None for role in roles) or not roles:
        return "the order of its replicas is not known: add cluster-metadata.json or the metadata log and audit again"
    if any(role.broker_id in facts.gone for role in roles):
        return "a replica of it on a broker that is gone is rebuilt in this plan: audit again after that"
    if leader not in _healthy(replica, roles):
        return f"leader {leader} is not in the ISR according to the metadata: nothing is rebuilt from it"
    return None


def _healthy(replica: ReplicaKey, roles: Sequence[ReplicaRole]) -> list[int]:
    return [role.broker_id for role in roles if role.in_isr and role.broker_id != replica[2]]


def rebuild_steps(facts: RecoveryFacts, found: Mapping[ReplicaKey, str], tools: Tools) -> PlanPart:
    """Out, and in again, of brokers that run. The second waits for the first: a replica that never left is not fetched again."""
    found = {replica: why for replica, why in found.items() if not is_set_aside(facts, replica)}
    if not found:
        return PlanPart()
    names = ("reassign-1-take-out.json", "reassign-2-put-back.json", "reassign-undo.json")
    before: dict[PartitionKey, list[int]] = {}
    after: dict[PartitionKey, list[int]] = {}
    presumptions = []
    for replica in found:
        roles = facts.replicas[replica[:2]]
        before[replica[:2]] = [role.broker_id for role in roles if role.broker_id != replica[2]]
        after[replica[:2]] = [role.broker_id for role in roles]
        known, healthy = roles[0].min_insync_replicas, len(_healthy(replica, roles))
        what = f"min.insync.replicas of {shown(replica[0])} is at most {healthy}"
        presumptions.append(Presumption(what=what, holds=None if known is None else known <= healthy, how_to_check=tools.configs()))
    reasons = [
        f"{partition_shown(topic, partition)}: broker {broker}, {why}; {count(len(before[topic, partition]), 'other replica')}."
        for (topic, partition, broker), why in found.items()
    ]
    out = PlanStep(
        stage=Stage.REBUILD,
        title=f"Take {count(len(before), 'replica')} out of the assignment",
        actions=tuple(map(TakeOut, found)),
        reasons=(
            "This step DELETES these replicas, which do not recover by themselves. Their brokers must run, and step 1 must be done.",
            *reasons,
            *_damaged(facts, found),
        ),
        commands=(tools.reassign(names[0], "--execute"),),
        checks=(Check(f"{tools.reassign(names[0], '--verify')}   # is complete for each partition", Shows.TAKEN_OUT),),
        undo=f"`{tools.reassign(names[2], '--execute')}`: the same assignment as before; what was already deleted is fetched again.",
        cannot_undo="the deletion: only the copies still hold what these logs held",
        files=(PlanFile(name=names[0], content=reassignment_json(before)), PlanFile(name=names[2], content=reassignment_json(after))),
    )
    back = PlanStep(
        stage=Stage.REBUILD,
        title=f"Put {count(len(after), 'replica')} back: they fetch the whole log from the leader",
        actions=tuple(map(PutBack, found)),
        reasons=(
            f"Only when the step before is complete. The throttle, {THROTTLE} bytes per second, protects clients; raise it if there "
            "is room.",
            *([_THREAD_ENDS.format(brokers_shown({one[2] for one in found}))] if tools.version < (2, 3) else []),
        ),
        commands=(tools.reassign(names[1], f"--throttle {THROTTLE} --execute"),),
        checks=(Check(f"{tools.reassign(names[1], '--verify')}   # {VERIFIED}", Shows.IN_SYNC),),
        undo=f"`{tools.reassign(names[0], '--execute')}`: without these replicas, as after the step before.",
        files=(PlanFile(name=names[1], content=reassignment_json(after)),),
    )
    return PlanPart(steps=(out, back), presumptions=tuple(dict.fromkeys(presumptions)))


def _damaged(facts: RecoveryFacts, found: Collection[ReplicaKey]) -> Iterator[str]:
    unreadable = [one for one in found if (verdict := facts.verdict_of.get(one)) is not None and verdict.verdict == Verdict.UNREADABLE]
    if unreadable:
        yield (
            "Of those that are unreadable perhaps only the copy is damaged: `kafka-dump-log.sh --deep-iteration --files SEGMENT` on the "
            "broker shows the same damage, or this step is not done, and the directory is copied again."
        )
