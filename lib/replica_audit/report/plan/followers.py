"""Followers of leaders that run, which truncate as soon as they are started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.recovery_facts import RecoveryFacts, ReplicaKey, will_be_cut
from replica_audit.report.plan.gone import brokers_shown, is_stopped
from replica_audit.report.plan.kafka_files import joined
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.steps import PlanPart, PlanRefusal, PlanStep, Safety
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.replicas import FollowerOnceCorrected
from replica_audit.words import count

_MOST = 20
_TRUNCATES = {Verdict.STALE_TAIL, Verdict.COMMITTED_LOSS}
_NOT_KNOWN = "what it truncates is not known: it or its leader could not be read, or was not in the input. Audit again with these files"
_NOT_COMPARED = {Verdict.UNREADABLE, Verdict.INCONCLUSIVE}


def followers(facts: RecoveryFacts) -> PlanPart:
    """Followers that will be cut by a leader that runs: started last, once what they hold is copied."""
    restarted = {broker for *_key, broker in facts.corrected}  # with corrected files: said there
    found = [one for one in cut_when_started(facts) if one.follower_id not in restarted]
    brokers = sorted({one.follower_id for one in found})
    refusals = [
        PlanRefusal(
            what=f"start broker {one.follower_id} for",
            where=(partition_shown(*one.key),),
            why="the leader is only inferred: add cluster-metadata.json or the metadata log and audit again",
        )
        for one in found
        if one.leader_source == "inferred"
    ]
    unknown = sorted(unknown_tails(facts))
    refusals += [
        PlanRefusal(
            what=f"start broker {broker} for",
            where=(partition_shown(topic, partition),),
            why=_NOT_KNOWN,
        )
        for topic, partition, broker in unknown
    ]
    refused = {one.follower_id for one in found if one.leader_source == "inferred"} | {broker for *_key, broker in unknown}
    started = [broker for broker in brokers if broker not in refused]
    if not started:
        return PlanPart(refusals=tuple(refusals))
    step = PlanStep(
        safety=Safety.START,
        title=f"Only after the copies are made: start {brokers_shown(started)}",
        reasons=tuple(cuts_shown([one for one in found if one.follower_id in started])),
        commands=tuple(f"# start broker {broker} on its host, if it does not run" for broker in started),
        check=(joined(started),),
        undo="None: only the copies still hold what is truncated.",
    )
    return PlanPart(steps=(step,), refusals=tuple(refusals))


def cut_when_started(facts: RecoveryFacts) -> list[ReplicaVerdict]:
    """The followers that truncate as soon as they run, except those whose own epochs are corrected first.

    Those whose leader's are truncate where they do by the corrected ones; how much that removes is known only if it is the same.
    """
    found = []
    for one in facts.verdicts:
        replica = (*one.key, one.follower_id)
        then = facts.healed_by_leader.get(replica)
        if replica in facts.corrected or one.key in facts.leaderless:
            continue
        if then is not None and replica in facts.cut_once_corrected:
            found.append(_once_corrected(one, then))
        elif then is None and replica not in facts.cut_once_corrected and will_be_cut(one) and Verdict(one.verdict) in _TRUNCATES:
            found.append(one)
    return found


def unknown_tails(facts: RecoveryFacts) -> frozenset[ReplicaKey]:
    """Replicas of brokers that do not run, of which nobody knows what they hold beyond their leaders: they are copied, and not started.

    So are those that held something by an earlier run which this one could not confirm. Of brokers of which nothing shows whether they run
    only those count that the plan would start.
    """
    known = facts.corrected | facts.healed_by_leader.keys() | facts.cut_once_corrected.keys()
    started = {one.follower_id for one in cut_when_started(facts)} | {broker for *_key, broker in facts.corrected}
    not_compared = {
        (*one.key, one.follower_id) for one in facts.verdicts if Verdict(one.verdict) in _NOT_COMPARED and not one.already_truncated
    }
    found = (not_compared | facts.had_a_tail) - known
    stopped = {broker: is_stopped(facts, broker) for broker in {broker for *_key, broker in found}}  # asks every role
    return frozenset(
        (topic, partition, broker)
        for topic, partition, broker in found
        if (topic, partition) not in facts.leaderless and broker not in facts.gone
        if stopped[broker] or (stopped[broker] is None and broker in started)
    )


def _once_corrected(verdict: ReplicaVerdict, then: FollowerOnceCorrected) -> ReplicaVerdict:
    if (verdict.truncation_offset, verdict.restart_offset) == (then.truncation_offset, then.restart_offset):
        return verdict
    return replace(
        verdict,
        truncation_offset=then.truncation_offset,
        restart_offset=then.restart_offset,
        removed_records=None,
        removed_committed=None,
        removed_offsets=None,
        lost_records=None,
        lost_offsets=None,
    )


def cuts_shown(found: list[ReplicaVerdict]) -> Iterator[str]:
    """A sentence for each partition, the worst first."""
    worst = sorted(found, key=lambda one: (-(one.removed_committed or 0), -(one.removed_records or 0), one.key))
    for one in worst[:_MOST]:
        does = (
            f"truncates to {one.truncation_offset}" if one.restart_offset is None else f"empties its log and starts at {one.restart_offset}"
        )
        proven = f", {one.removed_committed} of them committed" if one.removed_committed else ""
        removed = "an unknown number of records" if one.removed_records is None else count(one.removed_records, "record")
        if one.lost_records is not None and one.lost_records != one.removed_records:
            removed = f"{removed}, {one.lost_records} of which the leader does not hold"
        yield f"{partition_shown(*one.key)}: broker {one.follower_id} {does}, which removes {removed}{proven}."
    if len(found) > _MOST:
        yield f"and {len(found) - _MOST} more replicas."
