"""What it costs if a replica leads: the sums, what several followers lose together, the ranking, and the epoch that an election begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.candidates import Candidate, Cost, Loss, next_epoch, ranked, survivors, taken, with_new_epoch
from replica_audit.protocol.comparison.commitment import Evidence
from replica_audit.protocol.comparison.pair import Effect
from replica_audit.protocol.epochs.epoch_table import end_offset_for
from replica_audit.protocol.epochs.lineage import Span, without
from replica_audit.protocol.exchange.replay import RULES
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.verdict.verdict import Verdict, judge
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import Partition, partitions
from tests.protocol.logs import compare, replica


def _loss(epoch: int, *ranges: tuple[int, int], records: int | None = None) -> Loss:
    spans = tuple(Span(epoch, first, end) for first, end in ranges)
    count = sum(end - first for first, end in ranges) if records is None else records
    return Loss(spans=spans, records=count, size_bytes=10 * count)


def _effect(leader: Sequence[tuple[int, int, int]], follower: Sequence[tuple[int, int, int]], **of_leader: Any) -> Effect:
    return compare(replica(1, leader, **of_leader), replica(2, follower), leader_batches=leader, follower_batches=follower).effect


# --- losses -------------------------------------------------------------------------------------------------------------------------------


def _taken(leader: Replica, follower: Replica, **fields: Any) -> list[tuple[int, int, int]]:
    elected = with_new_epoch(leader, next_epoch([leader, follower]))
    return [(one.leader_epoch, one.first_offset, one.end_offset) for one in without(taken(compare(elected, follower, **fields)), [])]


LEADER = [(1, 0, 9), (3, 10, 19)]


def test_what_goes_and_the_leader_does_not_hold_is_taken() -> None:
    assert _taken(replica(1, LEADER), replica(2, [(1, 0, 14)])) == [(1, 10, 15)]
    assert _taken(replica(1, LEADER), replica(2, [(1, 0, 9), (2, 10, 24)])) == [(2, 10, 25)]


def test_of_a_lagging_follower_nothing_is_taken() -> None:
    assert _taken(replica(1, LEADER), replica(2, [(1, 0, 9)])) == []


def test_what_lies_below_the_leaders_log_start_is_not_lost() -> None:
    assert _taken(replica(1, [(1, 5, 9), (3, 10, 19)], start=12), replica(2, [(1, 0, 14)])) == [(1, 12, 15)]


def test_what_only_compaction_can_have_taken_is_not_lost() -> None:
    """The leader went on in epoch 2 behind the hole: the cleaner may have taken 12..14 of it. What follows in epoch 3 is another branch."""
    hole = replica(1, [(1, 0, 9), (2, 10, 11), (2, 15, 16), (3, 17, 19)], cleaner_offset=17)
    # its table lost an entry, so it is cut too low
    follower = replica(2, [(1, 0, 9), (2, 10, 16), (4, 17, 19)], epochs=[(1, 0), (4, 10)])
    assert _taken(hole, follower, compacted=True) == [(4, 17, 20)]
    assert _taken(replace(hole, cleaner_offset=None), follower) == [(2, 12, 15), (4, 17, 20)]


def test_a_hole_that_an_older_epoch_follows_is_no_work_of_the_cleaner() -> None:
    """Epochs only grow along a log: one that holds epoch 2 at 18 never held epoch 4 at 12."""
    leader = with_new_epoch(replica(1, [(1, 0, 9), (2, 18, 19)], cleaner_offset=19), 5)
    follower = replica(2, [(1, 0, 9), (4, 10, 16)], high_watermark=17)
    assert _taken(leader, follower, compacted=True) == [(4, 10, 17)]
    found = compare(leader, follower, compacted=True)
    assert found.lost == 7
    assert judge(found).verdict is Verdict.COMMITTED_LOSS


def test_survivors() -> None:
    cut = compare(replica(1, LEADER), replica(2, [(1, 0, 14)]))
    assert [tuple(span) for span in survivors(cut)] == [(1, 0, 10)]
    assert survivors(compare(replica(1, LEADER), replica(2, [(1, 0, 9)]))) == [Span(1, 0, 10)]
    assert survivors(compare(replica(1, [(5, 50, 59)]), replica(2, [(1, 0, 9)]))) == []


SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 6)), max_size=6)


@given(SPANS, SPANS)
def test_without_offset_by_offset(some: list[tuple[int, int, int]], others: list[tuple[int, int, int]]) -> None:
    def spans(found: list[tuple[int, int, int]]) -> list[Span]:
        return [Span(epoch, first, first + length) for epoch, first, length in found]

    def every(found: list[Span]) -> list[tuple[int, int]]:
        return [(span.leader_epoch, offset) for span in found for offset in range(span.first_offset, span.end_offset)]

    left = without(spans(some), spans(others))
    assert len(every(left)) == len(set(every(left))), "each offset of an epoch once"
    assert set(every(left)) == set(every(spans(some))) - set(every(spans(others)))
    assert [span.first_offset for span in left] == sorted(span.first_offset for span in left)


# --- cost ---------------------------------------------------------------------------------------------------------------------------------


def test_a_cost_sums_up_epochs() -> None:
    cost = Cost.of([_loss(2, (10, 14), (16, 18), records=5), _loss(4, (10, 13))], {Evidence.CHECKPOINT: 4, Evidence.SOLE: 2}, [])
    assert (cost.offsets, cost.records, cost.size_bytes, cost.below_high_watermark) == (6 + 3, 5 + 3, 50 + 30, 4)
    assert cost.committed_offsets == 4 + 2
    assert (cost.cut, cost.restarted, cost.failing, cost.diverged) == (0, 0, 0, 0)


def test_a_cost_counts_followers_by_what_happens_to_them() -> None:
    unharmed = _effect([(1, 0, 9), (1, 10, 19)], [(1, 0, 9)])
    cut = _effect([(1, 0, 9), (3, 10, 19)], [(1, 0, 14)])
    restarted = _effect([(5, 50, 59)], [(1, 0, 9)])
    # the cut at 12 lies inside the leader's batch 10..19
    failing = _effect([(1, 0, 9), (3, 10, 19)], [(1, 0, 9), (2, 10, 11), (2, 12, 14)], epochs=[(1, 0), (2, 9), (3, 12)])
    assert (cut.truncation.truncation_offset, restarted.truncation.restart_offset, failing.fetcher_fails) == (10, 50, True)
    effects = [(unharmed, False), (cut, False), (cut, True), (restarted, False), (failing, False)]
    cost = Cost.of([], {}, effects)
    assert (cost.cut, cost.restarted, cost.failing, cost.diverged) == (3, 1, 1, 1)


# --- ranking ------------------------------------------------------------------------------------------------------------------------------

NOTHING = Cost.of([], {}, [])


def _candidate(broker_id: int, cost: Cost = NOTHING, **fields: Any) -> Candidate:
    ordinary: dict[str, Any] = {"is_leader": False, "in_isr": False, "last_epoch": 1, "log_end_offset": 10, "eligible": True, "reason": ""}
    return Candidate(broker_id=broker_id, cost=cost, **(ordinary | fields))


def _order(*candidates: Candidate) -> list[tuple[int | None, int]]:
    return [(place, candidate.broker_id) for place, candidate in ranked(candidates)]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            {"committed": {Evidence.SOLE: 1}, "records": 9}, {"committed": {Evidence.SOLE: 2}, "records": 3}, id="committed first"
        ),
        pytest.param(
            {"committed": {Evidence.ALL: 9}, "records": 9},
            {"committed": {Evidence.CHECKPOINT: 1}, "records": 1},
            id="what a high watermark had passed before what only all in-sync replicas held",
        ),
        pytest.param({"records": 9}, {"committed": {Evidence.ALL: 1}, "records": 1}, id="that before what is not known to be committed"),
        pytest.param({"records": 3, "diverged": 2}, {"records": 4}, id="then records"),
        pytest.param({"records": 3, "offsets": 3}, {"records": 3, "offsets": 4}, id="then offsets"),
        pytest.param({"failing": 5}, {"diverged": 1}, id="a silent divergence is worse than failing fetchers"),
        pytest.param({}, {"failing": 1}, id="then failing fetchers"),
    ],
)
def test_the_smaller_loss_ranks_first(better: dict[str, Any], worse: dict[str, Any]) -> None:
    costs = replace(NOTHING, **better), replace(NOTHING, **worse)
    assert _order(_candidate(2, costs[0]), _candidate(1, costs[1], is_leader=True, in_isr=True)) == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param({"is_leader": True}, {"in_isr": True, "log_end_offset": 99}, id="the one that leads: no election is needed"),
        pytest.param({"in_isr": True}, {"log_end_offset": 99}, id="a member of the ISR: the election is clean"),
        pytest.param({"log_end_offset": 11}, {"last_epoch": 5}, id="the longer log"),
    ],
)
def test_ties(better: dict[str, Any], worse: dict[str, Any]) -> None:
    assert _order(_candidate(1, **worse), _candidate(2, **better)) == [(1, 2), (2, 1)]


def test_of_equals_the_lowest_id_ranks_first_and_ranks_are_dense() -> None:
    assert _order(_candidate(3), _candidate(1), _candidate(2)) == [(1, 1), (2, 2), (3, 3)]


def test_a_candidate_that_cannot_lead_has_no_rank() -> None:
    lossy = _candidate(1, replace(NOTHING, committed={Evidence.SOLE: 100}))
    assert _order(_candidate(3, eligible=False), lossy, _candidate(2, eligible=False, is_leader=True)) == [(1, 1), (None, 3), (None, 2)]
    assert _order() == []


# --- candidates ---------------------------------------------------------------------------------------------------------------------------


def test_a_candidate_of_a_replica() -> None:
    found = Candidate.of(
        replica(2, [(0, 0, 9), (3, 10, 14)], epochs=[(0, 0), (3, 10), (7, 15)], in_isr=True), NOTHING, is_leader=True, unread=0
    )
    assert (found.broker_id, found.last_epoch, found.log_end_offset) == (2, 3, 15), "the last epoch is that of the last batch"
    assert (found.is_leader, found.in_isr, found.eligible, found.reason) == (True, True, True, "nothing is lost")
    assert Candidate.of(replica(1), NOTHING, is_leader=False, unread=0).last_epoch == -1


def test_a_reason_tells_what_it_costs_and_what_is_not_known() -> None:
    cost = replace(NOTHING, offsets=5, records=4, committed={Evidence.CHECKPOINT: 2, Evidence.SOLE: 1}, diverged=2, failing=1)
    reason = Candidate.of(replica(1, [(0, 0, 9)]), cost, is_leader=False, unread=1).reason
    for part in (
        "4 records",
        "3 of their offsets",
        "2 followers would stay diverged",
        "1 follower would fail",
        "1 replica could not",
    ):
        assert part in reason
    assert "nothing is lost" not in reason


def test_an_unreadable_replica_cannot_lead() -> None:
    found = Candidate.of(replica(1, [(0, 0, 9)], unreadable="its checkpoint is garbled"), NOTHING, is_leader=True, unread=0)
    assert not found.eligible
    assert "garbled" in found.reason
    assert "nothing is lost" not in found.reason


# --- the epoch that an election begins ----------------------------------------------------------------------------------------------------


def test_an_elected_leader_enters_its_epoch_at_its_log_end() -> None:
    found = with_new_epoch(replica(1, [(0, 0, 9), (2, 10, 14)]), 5)
    assert found.log.epochs == ((0, 0), (2, 10), (5, 15))
    assert (found.log.log_end_offset, found.log.runs) == (15, replica(1, [(0, 0, 9), (2, 10, 14)]).log.runs)


def test_an_epoch_without_records_gives_way_to_the_new_one() -> None:
    assert with_new_epoch(replica(1, [(0, 0, 9)], epochs=[(0, 0), (3, 10)]), 5).log.epochs == ((0, 0), (5, 10))


def test_the_next_epoch_is_above_all_that_is_known() -> None:
    replicas = [replica(1, [(0, 0, 9)], epochs=[(0, 0), (3, 10)]), replica(2, [(0, 0, 9)])]
    assert next_epoch(replicas) == 4
    assert next_epoch(replicas, 7, -1) == 8
    assert next_epoch([]) == 0


def test_an_empty_log_enters_it_too() -> None:
    assert with_new_epoch(replica(1, start=40), 5).log.epochs == ((5, 40),)


@given(partitions(retention=True), st.integers(0, 2), st.integers(1, 3))
def test_a_new_leader_has_an_answer_for_every_epoch(found: Partition, candidate: int, bump: int) -> None:
    """Without the new epoch a leader may answer 'undefined' to a follower that was written in a later one."""
    broker = sorted(found.replicas)[candidate]
    newest = max([found.epoch, *(epoch for log in found.replicas.values() for epoch in log.table)])
    leader = with_new_epoch(found.replicas[broker].replica(broker), newest + bump).as_leader()
    for log in found.replicas.values():
        for epoch in log.table:
            assert end_offset_for(leader.epochs, epoch, leader.log_end_offset).start_offset >= 0


@given(partitions(), st.integers(0, 2), st.sampled_from([Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH]))
def test_followers_of_a_new_leader_keep_what_they_share_with_it_and_nothing_else(
    found: Partition, candidate: int, protocol: Protocol
) -> None:
    broker = sorted(found.replicas)[candidate]
    log = found.replicas[broker]
    newest = max([found.epoch, *(epoch for one in found.replicas.values() for epoch in one.table)])
    leader = with_new_epoch(log.replica(broker), newest + 1)
    for other, theirs in found.replicas.items():
        if other == broker:
            continue
        shared = next((offset for offset in range(theirs.end) if theirs.records[offset] != log.records.get(offset)), theirs.end)
        truncation = RULES[protocol](leader.as_leader(), theirs.replica(other).as_follower())
        assert truncation.restart_offset is None
        assert truncation.truncation_offset == (shared if shared < theirs.end else None)
