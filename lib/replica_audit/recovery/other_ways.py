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
from replica_audit.recovery.start_text import of_transactions
from replica_audit.recovery.steps import OtherWay
from replica_audit.rows.pairs import ReplicaVerdict
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
        is_free = row is not None and row.rank is not None and row.lost_offsets == 0 and not row.unread_replicas
        yield OtherWay(
            text=(
                f"{partition_shown(*one.key)}: under broker {one.leader_id}, which leads now, broker {one.follower_id} truncates {lost}; "
                f"{_price_of_follower(facts, one, row)}."
            ),
            commands=tuple(_election(facts, one, tools)) if is_free and one.key not in shown and tools.elects else (),
        )
        shown |= {one.key} if is_free else set()
    if len(worst) > _MOST:
        yield OtherWay(text=f"and {len(worst) - _MOST} more replicas.")


def _election(facts: RecoveryFacts, one: ReplicaVerdict, tools: Tools) -> Iterator[str]:
    """The lines that make a follower the leader: whoever stands before it in the assignment must not run meanwhile."""
    roles = facts.replicas.get(one.key, ())
    own = next((role.position for role in roles if role.broker_id == one.follower_id), None)
    before = {role.broker_id for role in roles if own is None or role.position is None or role.position < own} | {one.leader_id}
    before -= {one.follower_id, *facts.gone}
    others = sorted({role.broker_id for role in roles} - {one.follower_id, *facts.gone})
    name = visible(f"{one.topic}-{one.partition}")
    yield f"# copy {name} of {brokers_shown({one.leader_id, one.follower_id, *others})} first, as in step 1"
    yield f"# {brokers_shown(before)} must not run until the election is over: stop {'it' if len(before) == 1 else 'them'}"
    yield f"# start broker {one.follower_id} on its host, unless it runs"
    yield f"{tools.elect_one()} {join(option('--topic', one.topic))} --partition {one.partition}"
    yield f"{tools.topics()}   # {name} has `Leader: {one.follower_id}`; then start {brokers_shown(others)}"


def _price_of_follower(facts: RecoveryFacts, one: ReplicaVerdict, row: WhatIfLeader | None) -> str:
    follower, leader = one.follower_id, one.leader_id
    how = f"to elect broker {follower} instead loses"
    if row is not None and row.rank is not None:
        if row.lost_offsets and row.lost_records is None:
            return f"{how} an unknown number of records"
        return f"{how} {records_lost(row.lost_records or 0, row.lost_committed or 0) if row.lost_offsets else 'nothing that was copied'}"
    if one.divergence_offset is None:
        return f"{how} what an audit with `--what-if-leaders` says"
    others = {role.broker_id for role in facts.replicas.get(one.key, ())} - {leader, follower}
    rest = ", and of the other replicas what an audit with `--what-if-leaders` says" if others else ""
    if one.leader_diverged_end_offset is None or one.leader_diverged_end_offset <= one.divergence_offset:
        return f"{how} nothing of broker {leader}{rest}"
    return f"{how} offsets {one.divergence_offset}..{one.leader_diverged_end_offset - 1} of broker {leader}{rest}"
