"""Replicas to be fetched again: taken out of the assignment, so that the broker deletes them, and put back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.recovery_facts import RecoveryFacts, ReplicaKey
from replica_audit.report.plan.kafka_files import SERVER, reassignment_json
from replica_audit.report.plan.names import partition_shown, shown
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanRefusal, PlanStep, Presumption, Safety
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.words import count

_INFERRED = "inferred"
THROTTLE = 10_000_000  # bytes a second: what a small disk bears beside its clients
REBUILT = {Verdict.LOG_MATCHING_VIOLATION, Verdict.UNREADABLE}
STAYS_DIVERGED = (
    "replayed with a corrected leader-epoch-checkpoint it keeps batches that are not the leader's: see in `explain` which replica is right"
)
_UNDECIDED = {
    Verdict.CONTENT_MISMATCH: "both hold the same epochs and offsets but other bytes: the files do not show which one is right",
    Verdict.COMPACTION_DIFFERS: "compaction left other keys on the two: see in `explain` which replica is wrong before you delete one",
    Verdict.STALE_TOPIC_ID: "the directory is of an earlier topic of this name: the broker sets it aside by itself when it starts",
}


def rebuilds(facts: RecoveryFacts) -> PlanPart:
    """Two steps for the replicas that will not come right by themselves; what would leave too few in sync is refused."""
    diverged = {(log.topic, log.partition, log.broker_id) for log in facts.logs if log.stays_diverged}
    before, after = {}, {}
    refusals, presumptions, reasons = [], [], []
    for verdict in facts.verdicts:
        replica, kind = (*verdict.key, verdict.follower_id), Verdict(verdict.verdict)
        if replica in facts.corrected or verdict.key in facts.leaderless:
            continue
        if kind is Verdict.LOG_MATCHING_VIOLATION and replica in facts.healed_by_leader:
            continue  # it would only be one with the leader's wrong file
        where = (f"{partition_shown(*verdict.key)} on broker {verdict.follower_id}",)
        if kind in _UNDECIDED:
            refusals.append(PlanRefusal(what="rebuild", where=where, why=_UNDECIDED[kind]))
        if kind not in REBUILT:
            continue
        roles = facts.replicas.get(verdict.key, [])
        rest = [role.broker_id for role in roles if role.broker_id != verdict.follower_id]
        why = (
            (_kept(facts, replica) if kind is Verdict.UNREADABLE else None)
            or (STAYS_DIVERGED if replica in diverged else None)
            or _damaged_leader(facts, verdict)
            or _refused(verdict, roles, facts.gone)
            or ("another replica of it is rebuilt in this plan: audit again after that" if verdict.key in before else None)
        )
        if why is not None:
            refusals.append(PlanRefusal(what="rebuild", where=where, why=why))
            continue
        before[verdict.key], after[verdict.key] = rest, [role.broker_id for role in roles]
        reasons.append(
            f"{partition_shown(*verdict.key)}: broker {verdict.follower_id}, {verdict.verdict}; {count(len(rest), 'other replica')}."
        )
        presumptions.append(_min_isr(verdict, roles))
    return PlanPart(
        steps=tuple(_steps(before, after, reasons)) if before else (),
        refusals=tuple(refusals),
        presumptions=tuple(dict.fromkeys(presumptions)),
    )


def _kept(facts: RecoveryFacts, replica: ReplicaKey) -> str | None:
    """Why a replica that is unreadable is not to be deleted: nobody has seen what is in it."""
    if replica in facts.had_a_tail:
        return "an earlier run found records in it that its leader does not hold: save its directory, and audit again once it can be read"
    if replica in facts.not_read:
        return (
            "a file of it could not be read, which the broker perhaps can: let the audit's user read it, or copy it again; then audit again"
        )
    return None


def _damaged_leader(facts: RecoveryFacts, verdict: ReplicaVerdict) -> str | None:
    """Why nothing is fetched again from a leader that cannot be read, either: it may have the same damage."""
    log = facts.log_of(*verdict.key, verdict.leader_id)
    if log is None or log.unreadable_reason is None:
        return None
    why = f"the log of leader {verdict.leader_id} cannot be read, either ({log.unreadable_reason})"
    return f"{why}: keep every replica; `explain` says which copy is good"


def _healthy(verdict: ReplicaVerdict, roles: Sequence[ReplicaRole]) -> list[int]:
    return [role.broker_id for role in roles if role.in_isr and role.broker_id != verdict.follower_id]


def _refused(verdict: ReplicaVerdict, roles: Sequence[ReplicaRole], gone: Collection[int]) -> str | None:
    if verdict.leader_source == _INFERRED:
        return "the leader is only inferred: add cluster-metadata.json or the metadata log and audit again"
    if any(role.position is None for role in roles) or not roles:
        return "the order of its replicas is not known: add cluster-metadata.json or the metadata log and audit again"
    healthy = _healthy(verdict, roles)
    if verdict.leader_id not in healthy:
        return f"leader {verdict.leader_id} is not in the ISR according to the metadata: nothing is rebuilt from it"
    minimum = roles[0].min_insync_replicas
    if any(role.broker_id in gone for role in roles):
        return "a replica of it on a broker that is gone is rebuilt in this plan: audit again after that"
    if minimum is not None and len(healthy) < minimum:
        return f"only {len(healthy)} would stay in sync, and min.insync.replicas is {minimum}: add a replica on another broker first"
    if minimum is None and len(healthy) < 2:
        return "only the leader would stay in sync, and min.insync.replicas is not in the input: add a replica on another broker first"
    return None


def _min_isr(verdict: ReplicaVerdict, roles: Sequence[ReplicaRole]) -> Presumption:
    known, healthy = roles[0].min_insync_replicas, len(_healthy(verdict, roles))
    how = f"kafka-configs.sh {SERVER} --describe --all --entity-type topics --entity-name TOPIC"
    return Presumption(
        what=f"min.insync.replicas of {shown(verdict.topic)} is at most {healthy}",
        holds=None if known is None else known <= healthy,
        how_to_check=how,
    )


def _steps(before: dict[tuple[str, int], list[int]], after: dict[tuple[str, int], list[int]], reasons: Sequence[str]) -> Iterator[PlanStep]:
    """Out, and in again. The second waits for the first: a replica that never left is not fetched again."""
    names = ("reassign-1-take-out.json", "reassign-2-put-back.json", "reassign-undo.json")
    tool = f"kafka-reassign-partitions.sh {SERVER} --reassignment-json-file"
    yield PlanStep(
        safety=Safety.REBUILD,
        title=f"Take {count(len(before), 'replica')} out of the assignment",
        reasons=(
            "Their logs do not recover by themselves. This step makes their brokers delete them: copy the directories first if in doubt.",
            *reasons,
        ),
        commands=(f"{tool} {names[0]} --execute",),
        check=(f"{tool} {names[0]} --verify   # is complete for each partition",),
        undo=f"`{tool} {names[2]} --execute`: the same assignment as before; a replica that was already deleted is fetched again.",
        files=(PlanFile(name=names[0], content=reassignment_json(before)), PlanFile(name=names[2], content=reassignment_json(after))),
    )
    yield PlanStep(
        safety=Safety.REBUILD,
        title=f"Put {count(len(after), 'replica')} back: they fetch the whole log from the leader",
        reasons=(
            f"Only when the step before is complete. The throttle, {THROTTLE} bytes per second, protects clients; raise it if there is "
            "room.",
        ),
        commands=(f"{tool} {names[1]} --throttle {THROTTLE} --execute",),
        check=(f"{tool} {names[1]} --verify   # is complete for each partition; this also removes the throttle", "# audit again"),
        undo=f"`{tool} {names[0]} --execute`: without these replicas, as after the step before.",
        files=(PlanFile(name=names[1], content=reassignment_json(after)),),
    )
