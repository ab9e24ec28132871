"""Comparisons and verdicts by brute force over offsets, on any two replicas and on real lineages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.pair import Comparison, removal_start
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict, judge
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import Partition, comparisons, held, partitions
from tests.protocol.logs import compare, replica


def _differ(one: int, other: int) -> bool:
    return one != other and min(one, other) >= 0


@given(comparisons())
def test_the_first_difference_by_every_offset(c: Comparison) -> None:
    ours, theirs = held(c.leader), held(c.follower)
    expected = next(
        (
            offset
            for offset in range(max(c.start, c.cleaned), c.end)
            if (offset in ours and offset in theirs and _differ(ours[offset], theirs[offset]))
            or ((offset in ours) != (offset in theirs) and not c.context.compacted)
        ),
        None,
    )
    assert (c.difference and c.difference.first_offset) == expected


@given(comparisons())
def test_the_divergence_offset_lies_inside_the_follower(c: Comparison) -> None:
    parts = c.divergence_offset
    if parts is None:
        assert c.difference is None or c.no_common_range or c.metadata_is_older
        assert (
            c.leader_copied_earlier
            or c.metadata_is_older
            or c.no_common_range
            or c.follower.log.log_end_offset <= c.leader.log.log_end_offset
        )
        return
    assert 0 <= parts < c.follower.log.log_end_offset
    if c.cut is None or c.cut >= max(c.start, c.cleaned):
        first = c.difference.first_offset if c.difference else c.leader.log.log_end_offset
        assert parts == first


@given(comparisons())
def test_lost_by_every_offset(c: Comparison) -> None:
    first = removal_start(c.follower, c.effect)
    ours, theirs = held(c.follower), held(c.leader)

    def committed(offset: int) -> bool:
        if offset < (c.follower.high_watermark or 0):
            return True
        holders = (w for w in c.witnesses if offset < (w.high_watermark or 0))
        return ours[offset] >= 0 and any(held(witness).get(offset) == ours[offset] for witness in holders)

    def never_held(offset: int) -> bool:
        """The leader misses it, and goes on in an older epoch."""
        behind = [theirs[later] for later in sorted(theirs) if later > offset]
        return offset not in theirs and bool(behind) and 0 <= behind[0] < ours[offset]

    expected = [
        offset
        for offset in ours
        if first is not None
        and offset >= max(first, c.leader.log.log_start_offset)
        and committed(offset)
        and (offset >= c.leader.log.log_end_offset or _differ(theirs.get(offset, ours[offset]), ours[offset]) or never_held(offset))
    ]
    assert c.lost == len(expected)


@given(comparisons())
def test_what_still_diverges_by_every_offset(c: Comparison) -> None:
    truncation = c.effect.truncation
    if truncation.restart_offset is not None:
        assert not c.still_diverged
        return
    physical = truncation.fetch_offset if c.effect.physical_offset is None else c.effect.physical_offset
    survivors = {offset: epoch for offset, epoch in held(c.follower).items() if offset < min(physical, truncation.fetch_offset)}
    ours = held(c.leader)
    until = min(truncation.fetch_offset, physical) if c.effect.fetcher_fails else truncation.fetch_offset
    conflicts = [
        offset
        for offset in range(max(c.start, c.cleaned), min(until, c.leader.log.log_end_offset))
        if (offset in ours and offset in survivors and _differ(ours[offset], survivors[offset]))
        or ((offset in ours) != (offset in survivors) and not c.context.compacted)
    ]
    assert c.still_diverged == bool(conflicts)


@given(partitions())
def test_what_is_called_lost_was_committed(partition: Partition) -> None:
    """However unclean the elections: every lost offset is a record that was committed and that the leader does not hold."""
    replicas = {broker: log.replica(broker) for broker, log in partition.replicas.items()}
    kept = {(epoch, offset) for offset, epoch in partition.replicas[partition.leader].records.items()}
    for follower in partition.followers:
        witnesses = [replicas[broker] for broker in partition.followers if broker != follower]
        found = compare(replicas[partition.leader], replicas[follower], *witnesses)
        removed = {(e, o) for o, e in partition.replicas[follower].records.items() if o >= found.effect.truncation.fetch_offset}
        assert found.lost <= len((removed & partition.committed) - kept)


# --- verdicts -----------------------------------------------------------------------------------------------------------------------------


@given(partitions(retention=True), st.data())
def test_a_prefix_of_the_leader_is_clean_whatever_else_is_said(partition: Partition, data: st.DataObject) -> None:
    """High watermarks, cleaner checkpoints, log starts, ISR, life and copies may say anything.

    Only below a leader that ends short of its own high watermark nothing is clean. A cleaner that took no record changes nothing.
    """
    log = partition.replicas[partition.leader]
    kept = data.draw(st.integers(0, len(log.batches)))
    batches = log.batches[data.draw(st.integers(0, kept)) : kept]
    end = log.batches[kept - 1][2] + 1 if kept else log.start
    start = data.draw(st.integers(batches[0][1], end)) if batches else end
    entries = {epoch: max(first, start) for epoch, first in log.table.items() if first < end}
    covering = [epoch for epoch, first in log.table.items() if first <= start][:-1]
    epochs = [entry for entry in entries.items() if entry[0] not in covering] if batches else []
    trivial = [(partition.epoch + 1, end)] if data.draw(st.booleans()) and epochs else []

    def anything(own_start: int) -> dict[str, Any]:
        offsets = st.one_of(st.none(), st.integers(0, 60))
        return {
            "high_watermark": data.draw(offsets),
            "cleaner_offset": data.draw(offsets),
            "alive": data.draw(st.sampled_from([None, True, False])),
            "in_isr": data.draw(st.booleans()),
            "first_segment_base": data.draw(st.integers(0, own_start)),
        }

    leader = log.replica(1, **anything(log.start))
    follower = replica(2, batches, epochs=[*epochs, *trivial], start=start, end=end, **anything(start))
    for protocol in (Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH):
        found = compare(
            leader,
            follower,
            protocol=protocol,
            leader_epoch=data.draw(st.sampled_from([-1, partition.epoch])),
            compacted=data.draw(st.booleans()),
            simultaneous=data.draw(st.booleans()),
        )
        assert found.cut is None
        clean = Verdict.LAGGING if end < log.end else Verdict.IDENTICAL
        assert judge(found).verdict is (Verdict.INCONCLUSIVE if _is_short(leader) else clean)


@given(partitions(), st.sampled_from([Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH]))
def test_real_lineages_are_clean_stale_or_lose_what_was_committed(partition: Partition, protocol: Protocol) -> None:
    replicas = {broker: log.replica(broker) for broker, log in partition.replicas.items()}
    leader = replicas[partition.leader]
    for follower in partition.followers:
        witnesses = [replicas[broker] for broker in partition.followers if broker != follower]
        found = compare(leader, replicas[follower], *witnesses, protocol=protocol, leader_epoch=partition.epoch)
        own, theirs = held(replicas[follower]), held(leader)
        if own.items() <= theirs.items():
            expected = {Verdict.LAGGING if own != theirs else Verdict.IDENTICAL}
        else:
            expected = {Verdict.COMMITTED_LOSS if found.lost else Verdict.STALE_TAIL}
        assert {judge(found).verdict} == expected


@given(partitions(elections="elect_cleanly"))
def test_clean_elections_never_lose_what_was_committed(partition: Partition) -> None:
    replicas = {broker: log.replica(broker) for broker, log in partition.replicas.items()}
    for follower in partition.followers:
        witnesses = [replicas[broker] for broker in partition.followers if broker != follower]
        found = compare(replicas[partition.leader], replicas[follower], *witnesses, leader_epoch=partition.epoch)
        assert judge(found).verdict in (Verdict.IDENTICAL, Verdict.LAGGING, Verdict.STALE_TAIL)


# --- whatever is compared -----------------------------------------------------------------------------------------------------------------


def _is_short(leader: Replica) -> bool:
    return (leader.high_watermark or 0) > leader.log.log_end_offset


def _lacks_records(replica: Replica) -> bool:
    """Whether a log misses an offset between its start and its end: of a compacted one, a cleaner may have taken it."""
    return not held(replica).keys() >= set(range(replica.log.log_start_offset, replica.log.log_end_offset))


_NOT_EMITTED = {Verdict.CONTENT_MISMATCH, Verdict.COMPACTION_DIFFERS}  # batches are not compared here


def _first_rule(c: Comparison) -> set[Verdict]:
    """The verdicts that the first rule which holds may give, by the table."""
    is_short = _is_short(c.leader) and c.difference is None
    if is_short or c.no_common_range or c.leader_copied_earlier or c.metadata_is_older:
        return {Verdict.INCONCLUSIVE}
    if c.still_diverged:
        return {Verdict.LOG_MATCHING_VIOLATION}
    if c.cut is not None and not (c.fetches_all_again and not c.follower_copied_earlier):
        copied = Verdict.INCONCLUSIVE if c.follower_copied_earlier else Verdict.STALE_TAIL
        uncommitted = Verdict.CANNOT_REJOIN if c.cannot_rejoin else copied
        loses = Verdict.COMMITTED_LOSS if c.lost else uncommitted
        watermarks = [c.leader.high_watermark or 0]
        if c.follower.alive and not c.context.simultaneous:
            watermarks.append(c.follower.high_watermark or 0)
        below = c.difference is not None and c.difference.first_offset < min(watermarks)
        return {Verdict.LOG_MATCHING_VIOLATION if c.follower.in_isr and below else loses}
    if c.lost:
        return {Verdict.COMMITTED_LOSS}
    if c.cannot_rejoin:
        return {Verdict.CANNOT_REJOIN, Verdict.LOG_MATCHING_VIOLATION if c.follower.in_isr and c.difference else Verdict.CANNOT_REJOIN}
    if c.context.compacted and c.start < c.end and (_lacks_records(c.leader) or _lacks_records(c.follower)):
        return {Verdict.INCONCLUSIVE, Verdict.EPOCH_TABLE_ONLY, Verdict.CONSISTENT}
    behind = c.follower.log.log_end_offset < c.leader.log.log_end_offset
    return {Verdict.INCONCLUSIVE, Verdict.EPOCH_TABLE_ONLY, Verdict.LAGGING if behind else Verdict.IDENTICAL}


@given(comparisons())
def test_whatever_is_compared_gets_the_verdict_of_the_first_rule_that_holds(c: Comparison) -> None:
    found = judge(c)
    assert found.verdict in _first_rule(c) - _NOT_EMITTED
    assert found.reason
    assert found.severity is SEVERITIES[found.verdict]


@given(comparisons(), st.sampled_from(["bit rot", None]), st.sampled_from(["a", "b", None]), st.sampled_from(["a", "b", None]))
def test_nothing_is_compared_with_what_cannot_be_read(c: Comparison, reason: str | None, theirs: str | None, own: str | None) -> None:
    leader, follower = replace(c.leader, topic_id=theirs), replace(c.follower, topic_id=own, unreadable=reason)
    found = judge(replace(c, leader=leader, follower=follower)).verdict
    assert (found is Verdict.UNREADABLE) == (reason is not None)
    assert (found is Verdict.STALE_TOPIC_ID) == (reason is None and None not in (theirs, own) and theirs != own)
