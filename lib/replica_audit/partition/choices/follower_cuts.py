"""What each replica does when it follows a candidate for leadership: the column `follower_cuts` of `what_if_leaders`."""

from __future__ import annotations

from collections.abc import Sequence

from replica_audit.partition.pairs.commits import removed_committed
from replica_audit.partition.pairs.pair import Measured, lost, removed
from replica_audit.partition.pairs.sides import Side
from replica_audit.protocol.comparison.candidates import never_begins
from replica_audit.protocol.comparison.pair import catches_up
from replica_audit.protocol.verdict.verdict import judge
from replica_audit.rows.what_if import FollowerCut


def follower_cuts(followers: Sequence[tuple[Side, Measured]]) -> tuple[FollowerCut, ...]:
    """One value for each follower that was measured, by broker."""
    return tuple(sorted((_cut(*one) for one in followers), key=lambda one: one.broker_id))


def _cut(follower: Side, measured: Measured) -> FollowerCut:
    comparison = measured.comparison
    effect = comparison.effect
    offsets, records, size = removed(measured)
    gone = lost(follower, measured)
    return FollowerCut(
        broker_id=comparison.follower.broker_id,
        truncation_offset=effect.truncation.truncation_offset,
        restart_offset=effect.truncation.restart_offset,
        divergence_offset=comparison.divergence_offset,
        removed_offsets=offsets,
        removed_records=records,
        removed_bytes=size,
        removed_committed=sum(one.offsets for one in removed_committed(comparison, judge(comparison))),
        catches_up=not never_begins(effect) and catches_up(comparison.leader, effect),
        still_diverged=comparison.still_diverged and not never_begins(effect),
        lost_offsets=gone.offsets,
        lost_records=gone.records,
        lost_by_transaction=gone.by_transaction,
    )
