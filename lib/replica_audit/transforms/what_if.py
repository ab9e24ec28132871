"""What would be had another replica led, or another rule been in force, as rows of `what_if_leaders` and `what_if_rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from replica_audit.errors import DumpLogError
from replica_audit.formats.replica_reader import batches_from
from replica_audit.model import PartitionMetadata
from replica_audit.protocol.alternatives import Election, traffic, what_if
from replica_audit.protocol.candidates import Candidate, Cost, LostEpoch, lost_epochs, ranked, versions, with_new_epoch
from replica_audit.protocol.cuts import records_in
from replica_audit.protocol.exchange import Truncation
from replica_audit.protocol.lineage import Span, only_in
from replica_audit.protocol.metadata_image import ElectionKind
from replica_audit.protocol.verdict import Verdict, judge
from replica_audit.transforms.pairs import Measured, Pair, Side, measure
from replica_audit.transforms.rows import Row

MakePair = Callable[[Side, Side], Pair]


def leader_rows(topic: str, partition: int, sides: Sequence[Side], leader_id: int, make_pair: MakePair) -> Iterator[Row]:
    """Every replica as the leader of all others, ranked by what that loses.

    Args:
        topic: of the partition.
        partition: its number.
        sides: the replicas that have a log, of one topic id; unreadable ones are given no rank.
        leader_id: who leads now, -1 for nobody.
        make_pair: makes a pair of two replicas, the first one leading.
    """
    candidates = [_candidate(side, sides, leader_id, make_pair) for side in sides]
    for place, candidate in ranked(candidates):
        cost = candidate.cost
        known = candidate.eligible  # what a replica that cannot be read would lose is not known
        yield {
            "topic": topic,
            "partition": partition,
            "candidate_id": candidate.broker_id,
            "rank": place,
            "is_leader": candidate.is_leader,
            "in_isr": candidate.in_isr,
            "last_epoch": candidate.last_epoch,
            "log_end_offset": candidate.log_end_offset,
            "lost_offsets": cost.offsets if known else None,
            "lost_records": cost.records if known else None,
            "lost_bytes": cost.size_bytes if known else None,
            "lost_below_high_watermark": cost.below_high_watermark if known else None,
            "followers_cut": cost.cut if known else None,
            "followers_restarted": cost.restarted if known else None,
            "followers_failing": cost.failing if known else None,
            "followers_diverged": cost.diverged if known else None,
            "reason": candidate.reason,
        }


def _candidate(side: Side, sides: Sequence[Side], leader_id: int, make_pair: MakePair) -> Candidate:
    leads = side.replica.broker_id == leader_id
    others = [other for other in sides if other is not side]
    # an elected leader enters a new epoch at its log end offset; the one that leads has done so
    newest = max((entry.epoch for one in sides for entry in one.replica.log.epochs), default=-1)
    led = side if leads else replace(side, replica=with_new_epoch(side.replica, newest + 1))
    epochs: list[LostEpoch] = []
    committed: list[Span] = []
    measured = []
    unread = sum(bool(other.replica.unreadable) for other in others)
    for other in others if not side.replica.unreadable else ():
        if other.replica.unreadable:
            continue
        pair = make_pair(led, other)
        found = measure(pair, (pair.applies,))
        measured.append(found)
        if judge(found.comparison).verdict is not Verdict.INCONCLUSIVE:
            committed += found.comparison.lost_spans
        try:
            epochs += list(_lost(found, other))
        except (OSError, DumpLogError):  # gone since it was scanned
            unread += 1
        unread += found.unread is not None
    effects = [(found.comparison.effect, found.comparison.still_diverged) for found in measured]
    cost = Cost.of(lost_epochs(epochs), versions(committed), effects)
    return Candidate.of(side.replica, cost, is_leader=leads, unread=unread)


def _lost(found: Measured, follower: Side) -> Iterator[LostEpoch]:
    """What the follower is cut by and the candidate does not hold, for each epoch."""
    if found.removal is None:
        return
    comparison = found.comparison
    start = max(found.removal.physical_offset, comparison.leader.log.log_start_offset)  # what retention took is not lost
    gone = only_in(comparison.follower.history, comparison.leader.history, start, comparison.follower.log.log_end_offset)
    if not gone:
        return
    records: dict[int, list[int]] = {}
    for batch in batches_from(follower.loaded.files_in_log, gone[0].first_offset):
        lost = sum(max(0, min(span.end_offset, batch.last_offset + 1) - max(span.first_offset, batch.base_offset)) for span in gone)
        if lost:  # of a batch that is lost in part, as many records as offsets
            counted = records.setdefault(batch.leader_epoch, [0, 0])
            counted[0] += min(records_in(batch), lost)
            counted[1] += batch.size_bytes
    for epoch in {span.leader_epoch for span in gone}:
        spans = tuple(Span(*span) for span in gone if span.leader_epoch == epoch)
        count, size = records.get(epoch, (0, 0))
        yield LostEpoch(epoch=epoch, spans=spans, records=count, size_bytes=size)


def rule_rows(pair: Pair, measured: Measured, metadata: PartitionMetadata) -> Iterator[Row]:
    """The protocols and the rejected alternatives side by side; nothing for a pair that is not cut and does not differ."""
    comparison = measured.comparison
    if comparison.cut is None and comparison.difference is None and comparison.effect.truncation.restart_offset is None:
        return
    for effect in measured.effects:
        truncation = effect.truncation
        cost = traffic(truncation)
        yield {
            **pair.keys,
            "rule": str(truncation.protocol),
            "accepted": True,
            "truncation_offset": truncation.truncation_offset,
            "falls_back_to_high_watermark": truncation.falls_back_to_high_watermark,
            "round_trips": cost.requests,
            "request_bytes": cost.request_bytes,
            "response_bytes": cost.response_bytes,
            "reason": _outcome(truncation),
        }
    for outcome in what_if(pair.leader.replica.as_leader(), pair.follower.replica.as_follower(), _elections(metadata)):
        yield {
            **pair.keys,
            "rule": str(outcome.alternative),
            "accepted": False,
            "truncation_offset": outcome.truncation_offset,
            "falls_back_to_high_watermark": outcome.falls_back_to_high_watermark,
            "round_trips": outcome.round_trips,
            "request_bytes": outcome.request_bytes,
            "response_bytes": outcome.response_bytes,
            "reason": outcome.reason,
        }


def _outcome(truncation: Truncation) -> str:
    if truncation.restart_offset is not None:
        return f"empties its log and starts at {truncation.restart_offset}"
    cut = truncation.truncation_offset
    return f"fetches from {truncation.fetch_offset}" if cut is None else f"truncates to {cut}, fetches from {truncation.fetch_offset}"


def _elections(metadata: PartitionMetadata) -> list[Election]:
    """The metadata log's elections. One is preferred if it is clean and makes the first replica the leader, its predecessor in the ISR."""
    found = []
    before = -1
    for election in metadata.elections:
        preferred = election.kind == ElectionKind.CLEAN and before in election.electable and (election.leader_id,) == metadata.replicas[:1]
        found.append(
            Election(leader_epoch=election.leader_epoch, leader_id=election.leader_id, preferred=preferred, isr=election.electable)
        )
        before = election.leader_id
    return found
