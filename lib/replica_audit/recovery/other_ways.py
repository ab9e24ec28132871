"""What it costs to elect a follower that would truncate, beside what it costs not to: where somebody leads, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from shlex import join

from replica_audit.errors import visible
from replica_audit.program import option
from replica_audit.recovery.commands import Tools
from replica_audit.recovery.elections import records_lost
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, will_be_cut
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.names import partition_shown
from replica_audit.recovery.start_order import before_in_assignment
from replica_audit.recovery.start_text import of_transactions
from replica_audit.recovery.steps import OtherWay
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.starts import StartOutcome
from replica_audit.rows.what_if import WhatIfLeader

_MOST = 20


def other_ways(facts: RecoveryFacts, waiting: Collection[ReplicaKey], tools: Tools) -> Iterator[OtherWay]:
    """One for each follower that truncates what its leader lacks, the worst first; with commands where electing it costs nothing."""
    cut = [one for one in facts.verdicts if will_be_cut(one) and one.key not in facts.leaderless]
    cut = [one for one in cut if not {(*one.key, one.follower_id), (*one.key, one.leader_id)} & set(waiting)]
    worst = sorted(cut, key=lambda one: (-(one.removed_committed or 0), -(one.loses_records or 0), one.key))
    rows = {(row.topic, row.partition, row.candidate_id): row for row in facts.candidates}
    shown: set[PartitionKey] = set()
    for one in worst[:_MOST]:
        row = rows.get((*one.key, one.follower_id))
        lost = "an unknown number of records"
        if one.loses_records is not None:
            lost = of_transactions(one) or records_lost(one.loses_records, one.removed_committed or 0)
        is_free = row is not None and tools.elects and _costs_nothing(row) and _is_alone(facts, waiting, one)
        yield OtherWay(
            text=(
                f"{partition_shown(*one.key)}: under broker {one.leader_id}, the leader by the metadata, broker {one.follower_id} "
                f"truncates {lost}; {_price_of_follower(facts, one, row)}."
            ),
            commands=tuple(_election(facts, one, tools)) if is_free and one.key not in shown else (),
        )
        shown |= {one.key} if is_free else set()
    if len(worst) > _MOST:
        yield OtherWay(text=f"and {len(worst) - _MOST} more replicas.")


def _costs_nothing(row: WhatIfLeader) -> bool:
    """Whether every other replica follows the candidate, and none loses by it what was copied."""
    is_followed = not (row.unread_replicas or row.followers_failing or row.followers_diverged)
    return row.rank is not None and row.lost_offsets == 0 and is_followed


def _is_alone(facts: RecoveryFacts, waiting: Collection[ReplicaKey], one: ReplicaVerdict) -> bool:
    """Whether to stop the brokers in the way and to start the follower touches nothing else that is known to be at stake."""
    brokers = {one.follower_id, *_in_the_way(facts, one)}
    elsewhere = {
        (start.topic, start.partition) for start in facts.starts if start.broker_id in brokers and start.outcome != StartOutcome.SAFE
    }
    is_held = bool(brokers & ({broker for *_key, broker in waiting} | facts.held_stopped - {one.leader_id}))
    may_be_elected = bool(brokers & facts.lead_where_anybody_may)
    return elsewhere <= {one.key} and not is_held and not may_be_elected and not facts.offline


def _in_the_way(facts: RecoveryFacts, one: ReplicaVerdict) -> set[int]:
    """The leader, and whoever stands before the follower in the assignment: they must not run while it is elected."""
    return (before_in_assignment(facts.replicas.get(one.key, ()), one.follower_id) | {one.leader_id}) - {one.follower_id, *facts.gone}


def _election(facts: RecoveryFacts, one: ReplicaVerdict, tools: Tools) -> Iterator[str]:
    """The lines that make a follower the leader, in place of the steps."""
    name, stopped = visible(f"{one.topic}-{one.partition}"), _in_the_way(facts, one)
    brokers = {role.broker_id for role in facts.replicas.get(one.key, ())} - facts.gone
    copied = {broker for broker in brokers if facts.log_of(*one.key, broker) is not None}
    leading = [broker for broker in sorted(stopped) if facts.is_stopped(broker) is not True]
    yield f"# copy {name} of {brokers_shown(copied)} first, as in step 1"
    if leading:
        yield f"# unclean.leader.election.enable must be false for all that {brokers_shown(leading)} leads: else others are elected there"
    yield f"# {brokers_shown(stopped)} must not run until the election is over: stop {'it' if len(stopped) == 1 else 'them'}"
    yield f"# start broker {one.follower_id} on its host, unless it runs"
    yield f"{tools.elect_one()} {join(option('--topic', one.topic))} --partition {one.partition}"
    yield f"{tools.topics()}   # {name} has `Leader: {one.follower_id}`: else stop here"
    yield f"# start {brokers_shown(stopped)}; then audit and plan again: take none of the steps below"


def _price_of_follower(facts: RecoveryFacts, one: ReplicaVerdict, row: WhatIfLeader | None) -> str:
    follower, leader = one.follower_id, one.leader_id
    how = f"to elect broker {follower} instead loses"
    if row is not None and row.rank is not None:
        if row.lost_offsets and row.lost_records is None:
            return f"{how} an unknown number of records"
        apart = " and leaves a follower diverged, or unable to follow" if row.followers_diverged or row.followers_failing else ""
        lost = records_lost(row.lost_records or 0, row.lost_committed or 0) if row.lost_offsets else "nothing that was copied"
        return f"{how} {lost}{apart}"
    if one.divergence_offset is None:
        return f"{how} what an audit with `--what-if-leaders` says"
    others = {role.broker_id for role in facts.replicas.get(one.key, ())} - {leader, follower}
    rest = ", and of the other replicas what an audit with `--what-if-leaders` says" if others else ""
    if one.leader_diverged_end_offset is None or one.leader_diverged_end_offset <= one.divergence_offset:
        return f"{how} nothing of broker {leader}{rest}"
    return f"{how} offsets {one.divergence_offset}..{one.leader_diverged_end_offset - 1} of broker {leader}{rest}"
