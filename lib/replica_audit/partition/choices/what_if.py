"""What would be had another replica led, or another rule been in force, as rows of `what_if_leaders` and `truncation_points`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

from replica_audit.model import PartitionMetadata
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.partition.pairs.content import ChangedBatchesError, only_in_follower
from replica_audit.partition.pairs.pair import Measured, Pair, lost, measure, removed
from replica_audit.partition.pairs.sides import Side, removed_committed
from replica_audit.protocol.cluster.cluster_history import with_preference
from replica_audit.protocol.cluster.topic_ids import TopicIdsInDoubt
from replica_audit.protocol.comparison.candidates import (
    Candidate,
    Cost,
    Loss,
    never_begins,
    next_epoch,
    ranked,
    survivors,
    taken,
    with_new_epoch,
)
from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.copied_earlier import as_truncated, has_truncated
from replica_audit.protocol.comparison.pair import Comparison, catches_up, removal_start
from replica_audit.protocol.epochs.lineage import Span, without
from replica_audit.protocol.exchange.alternatives import what_if
from replica_audit.protocol.exchange.cuts import measure_loss
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.partition_findings import election_type
from replica_audit.protocol.verdict.verdict import Verdict, judge
from replica_audit.rows.codes import RuleKind
from replica_audit.rows.pairs import TruncationPoint
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader

_RUNS = {"up": True, "paused": True, "down": False, "stopped": False}


def begin_row(
    broker: int,
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
) -> Callable[..., WhatIfLeader]:
    """A row of `what_if_leaders` with how a broker could be made the leader, but for what that would lose.

    Args:
        broker: its id.
        metadata: what is known last of the partition.
        replicas: those with a log, by broker.
        stopped_cleanly: whether the copy of each replica has the marker of a clean shutdown.
        cluster: whether its brokers run.
    """
    replica = replicas.get(broker)
    runs = replica.alive if replica is not None and replica.alive is not None else _RUNS.get(cluster.broker_states.get(broker, ""))
    if runs is None and cluster.fenced.get(broker):
        runs = False
    crashed = not runs and stopped_cleanly.get(broker) is False
    election = election_type(metadata, broker, crashed=crashed)
    return partial(
        WhatIfLeader,
        topic=metadata.topic,
        partition=metadata.partition,
        candidate_id=broker,
        in_elr=broker in metadata.elr,
        election=None if election is None else str(election),
        broker_up=runs,
        stopped_cleanly=stopped_cleanly.get(broker),
    )


def without_set_aside(rows: Iterable[WhatIfLeader], aside: Collection[int]) -> list[WhatIfLeader]:
    """The rows of candidates without those whose brokers set their logs aside at the start, ranked anew."""
    left = [row for row in rows if row.candidate_id not in aside]
    ranks = count(1)
    return [replace(row, rank=None if row.rank is None else next(ranks)) for row in left]


def without_log(
    shown: Collection[int],
    metadata: PartitionMetadata,
    replicas: Mapping[int, Replica],
    stopped_cleanly: Mapping[int, bool],
    cluster: ClusterFacts,
    aside: Collection[int],
) -> Iterator[WhatIfLeader]:
    """If nobody leads, a row for each replica of which there is no log: what electing it loses is not known.

    `shown` are the brokers that have a row already, `aside` those that set their log aside when they start; the rest as of `begin_row`.
    """
    for broker in [broker for broker in metadata.replicas if metadata.no_leader and broker not in shown]:
        missing = "its log is not in the input" if broker not in stopped_cleanly else "it has no log of this topic that can be read"
        missing = "its broker sets its log aside when it starts" if broker in aside else missing
        row = begin_row(broker, metadata, replicas, stopped_cleanly, cluster)
        yield row(
            rank=None,
            is_leader=False,
            in_isr=broker in metadata.isr,
            last_epoch=None,
            log_end_offset=None,
            lost_offsets=None,
            lost_records=None,
            lost_bytes=None,
            lost_below_high_watermark=None,
            lost_committed=None,
            lost_committed_offsets=None,
            followers_cut=None,
            followers_restarted=None,
            followers_failing=None,
            followers_diverged=None,
            already_lost_offsets=None,
            reason=f"what its election would lose is unknown: {missing}",
            unread_replicas=None,
        )


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


MakePair = Callable[[Side, Side], Pair]


class Cut(NamedTuple):
    """Where a broker has truncated its replica since it was copied: its log ends at `offset`, its files at `physical_offset`."""

    offset: int
    physical_offset: int


def cuts_since(measured: Measured) -> dict[int, Cut]:
    """Where a follower's broker has truncated since it was copied, according to its server.log; empty if it has not."""
    comparison, seen = measured.comparison, measured.observed
    truncation, physical, follower = comparison.effect.truncation, comparison.effect.physical_offset, comparison.follower
    if seen is None or measured.since is None:
        return {}
    if has_truncated(seen, truncation, measured.since):
        if truncation.restart_offset is not None:
            return {follower.broker_id: Cut(truncation.restart_offset, follower.log.log_start_offset)}
        if truncation.truncation_offset is not None:
            return {follower.broker_id: Cut(truncation.truncation_offset, truncation.truncation_offset if physical is None else physical)}
    if comparison.did_otherwise is not None and seen.last_cut is not None and measured.since.covers(seen.last_cut):
        return {follower.broker_id: Cut(seen.last_cut.offset, seen.last_cut.offset)}
    return {}


def leader_rows(
    metadata: PartitionMetadata,
    sides: Sequence[Side],
    leader_id: int,
    make_pair: MakePair,
    cuts: Mapping[int, Cut] = MappingProxyType({}),
    *,
    begin_row: Callable[[int], Callable[..., WhatIfLeader]],
    ids_in_doubt: TopicIdsInDoubt | None = None,
) -> Iterator[WhatIfLeader]:
    """Every replica as the leader of all others, ranked by what that loses.

    Args:
        metadata: what is known last of the partition.
        sides: the replicas that have a log, of one topic id unless that is in doubt; unreadable ones are given no rank.
        leader_id: who leads now, -1 for nobody.
        make_pair: makes a pair of two replicas, the first one leading.
        cuts: what brokers have truncated since, by broker: that is gone whichever leads, and its copy is not a replica to elect.
        begin_row: begins the row of a broker with how it could be elected.
        ids_in_doubt: that nobody can tell which topic id is right. Whoever leads has one of them, and all that others hold under another
            one counts as lost: equal epochs and offsets of two topics are no equal records.
    """
    begins = next((side.replica.log.log_start_offset for side in sides if side.replica.broker_id == leader_id), 0)
    gone = _gone(sides, cuts, begins)
    sides = [_as_it_is(side, cuts) for side in sides]
    # an elected leader enters a new epoch at its log end offset; the one that leads has done so
    new_epoch = next_epoch((side.replica for side in sides), metadata.leader_epoch)
    missing = len(set(metadata.replicas) - {side.replica.broker_id for side in sides})
    tried = [_candidate(side, sides, new_epoch, make_pair, leads=side.replica.broker_id == leader_id, missing=missing) for side in sides]
    cuts_of = {candidate.broker_id: follower_cuts(measured) for candidate, measured in tried if candidate.eligible and metadata.no_leader}
    for place, candidate in ranked([candidate for candidate, _measured in tried], metadata.elr if metadata.no_leader else ()):
        cost = candidate.cost
        known = candidate.eligible  # what a replica that cannot be read would lose is not known
        yield begin_row(candidate.broker_id)(
            rank=place,
            is_leader=candidate.is_leader,
            in_isr=candidate.in_isr,
            last_epoch=candidate.last_epoch,
            log_end_offset=candidate.log_end_offset,
            lost_offsets=cost.offsets if known else None,
            lost_records=cost.records if known else None,
            lost_bytes=cost.size_bytes if known else None,
            lost_below_high_watermark=cost.below_high_watermark if known else None,
            lost_committed=cost.committed_offsets if known else None,
            lost_committed_offsets={str(evidence): count for evidence, count in cost.committed.items()} if known else None,
            followers_cut=cost.cut if known else None,
            followers_restarted=cost.restarted if known else None,
            followers_failing=cost.failing if known else None,
            followers_diverged=cost.diverged if known else None,
            already_lost_offsets=sum(span.end_offset - span.first_offset for spans in gone.values() for span in spans),
            reason="; ".join([candidate.reason, *_said(gone), *_doubted(ids_in_doubt)]),
            unread_replicas=candidate.unread,
            follower_cuts=cuts_of.get(candidate.broker_id),
        )


def _as_it_is(side: Side, cuts: Mapping[int, Cut]) -> Side:
    cut = cuts.get(side.replica.broker_id)
    return side if cut is None else replace(side, replica=as_truncated(side.replica, *cut))


def _gone(sides: Sequence[Side], cuts: Mapping[int, Cut], begins: int) -> dict[int, list[Span]]:
    """What brokers have truncated and no other one holds, by broker; what two of them cut counts once.

    What lies below `begins`, the leader's log start, retention took.
    """
    kept = [span for side in sides for span in _as_it_is(side, cuts).replica.history if span.leader_epoch >= 0]
    found: dict[int, list[Span]] = {}
    for side in sides:
        cut = cuts.get(side.replica.broker_id)
        if cut is not None:
            first = max(cut.physical_offset, begins)
            above = [span._replace(first_offset=max(span.first_offset, first)) for span in side.replica.history]
            counted = [span for spans in found.values() for span in spans]
            own = without([span for span in above if span.first_offset < span.end_offset], [*kept, *counted])
            if own:
                found[side.replica.broker_id] = own
    return found


def _said(gone: Mapping[int, Sequence[Span]]) -> Iterator[str]:
    for broker, spans in gone.items():
        total = sum(span.end_offset - span.first_offset for span in spans)
        yield f"broker {broker} has already truncated {total} offsets, which only its audited copy holds"


def _doubted(ids_in_doubt: TopicIdsInDoubt | None) -> Iterator[str]:
    if ids_in_doubt is not None and len(ids_in_doubt.by_id) > 1:
        yield f"what other replicas hold under another topic id counts as lost: {ids_in_doubt.sentence}"


def _candidate(
    side: Side, sides: Sequence[Side], new_epoch: int, make_pair: MakePair, *, leads: bool, missing: int
) -> tuple[Candidate, list[tuple[Side, Measured]]]:
    """The candidate, and each follower that can be read with what was measured of it."""
    led = side if leads else replace(side, replica=with_new_epoch(side.replica, new_epoch))
    others = [other for other in sides if other is not side]
    followers = [] if side.replica.unreadable else [other for other in others if not other.replica.unreadable]
    unread = missing + sum(bool(other.replica.unreadable) for other in others)
    measured = [measure(pair := make_pair(led, other), (pair.applies,)) for other in followers]
    # by a follower that diverges and is not cut; without epochs equal offsets are no equal records
    topics = [_other_topic(side, follower) for follower in followers]
    own = [found for found, topic in zip(measured, topics, strict=True) if topic is None]
    kept = [span for found in own for span in survivors(found.comparison) if span.leader_epoch >= 0]
    losses: list[Loss] = []
    counted: dict[str | None, list[Span]] = {None: list(kept)}  # of the candidate's topic, and of each other one
    committed: dict[Evidence, list[Span]] = {evidence: [] for evidence in Evidence}
    for found, follower, topic in zip(measured, followers, topics, strict=True):
        if judge(found.comparison).verdict is not Verdict.INCONCLUSIVE:
            for one in found.comparison.committed:
                committed[one.bound.evidence] += one.spans
        is_unread = found.unread is not None
        try:
            held = _taken(found.comparison, side, follower) if topic is None else follower.replica.history
            spans = without(held, counted.setdefault(topic, []))
            losses.append(_loss(follower, spans))
            counted[topic] += spans
        except (ChangedBatchesError, UnreadBatchesError):  # gone since it was scanned
            is_unread = True
        unread += is_unread
    effects = [(found.comparison.effect, found.comparison.still_diverged) for found in measured]
    refused = sum(not catches_up(led.replica, effect) and not never_begins(effect) for effect, _ in effects)
    cost = Cost.of(losses, _counted(committed, kept), effects, refused)
    return Candidate.of(side.replica, cost, is_leader=leads, unread=unread), list(zip(followers, measured, strict=True))


def _other_topic(leader: Side, follower: Side) -> str | None:
    """The topic id of a follower that has another one than its leader; None if the two are of one topic, as far as is known."""
    topic_id = follower.replica.topic_id
    return topic_id if leader.replica.topic_id and topic_id != leader.replica.topic_id else None


def _counted(committed: dict[Evidence, list[Span]], kept: Sequence[Span]) -> dict[Evidence, int]:
    """How many offsets that nobody keeps each evidence proves, those of each epoch once, under their strongest evidence."""
    taken, counts = list(kept), {}
    for evidence in Evidence:
        spans = without(committed[evidence], taken)
        taken += spans
        if spans:
            counts[evidence] = sum(span.end_offset - span.first_offset for span in spans)
    return counts


def _taken(comparison: Comparison, leader: Side, follower: Side) -> list[Span]:
    """What the follower's cut takes and the leader, as it is on disk, does not hold; without epochs the batches themselves tell."""
    start = removal_start(follower.replica, comparison.effect)
    if start is None or leader.replica.has_epochs or follower.replica.has_epochs:
        return taken(comparison)
    start = max(start, leader.replica.log.log_start_offset)
    return only_in_follower(leader.loaded, follower.loaded, (start, follower.replica.log.log_end_offset))


def _loss(follower: Side, spans: Sequence[Span]) -> Loss:
    """What spans of a follower's history hold."""
    batches = follower.loaded.batches_from(spans[0].first_offset) if spans else ()
    records, size = measure_loss(batches, spans)
    return Loss(spans=tuple(spans), records=records, size_bytes=size)


def rejected_rows(pair: Pair, measured: Measured, metadata: PartitionMetadata) -> Iterator[TruncationPoint]:
    """The rejected alternatives beside the protocols; nothing for a pair that is not cut and does not differ."""
    comparison = measured.comparison
    if comparison.cut is None and comparison.difference is None and comparison.effect.truncation.restart_offset is None:
        return
    for outcome in what_if(pair.leader.replica.as_leader(), pair.follower.replica.as_follower(), with_preference(metadata)):
        yield TruncationPoint(
            topic=pair.keys.topic,
            partition=pair.keys.partition,
            leader_id=pair.keys.leader_id,
            follower_id=pair.keys.follower_id,
            leader_source=pair.leadership.source,
            kind=RuleKind.REJECTED,
            protocol=str(outcome.alternative),
            applies=False,
            truncation_offset=outcome.truncation_offset,
            epoch_requests=outcome.round_trips,
            request_bytes=outcome.request_bytes,
            response_bytes=outcome.response_bytes,
            falls_back_to_high_watermark=outcome.falls_back_to_high_watermark,
            reason=outcome.reason,
        )
