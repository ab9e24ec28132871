"""What it costs if a replica leads: the sums, what several followers lose together, the ranking, and the epoch that an election begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.candidates import Candidate, Cost, LostEpoch, lost_epochs, ranked, with_new_epoch
from replica_audit.protocol.comparison import Effect
from replica_audit.protocol.epoch_table import end_offset_for
from replica_audit.protocol.exchange import Protocol
from replica_audit.protocol.lineage import Span
from replica_audit.protocol.truncation import RULES
from tests.protocol.lineages import Partition, partitions
from tests.protocol.logs import compare, replica


def _lost(epoch: int, *ranges: tuple[int, int], records: int | None = None) -> LostEpoch:
    spans = tuple(Span(epoch, first, end) for first, end in ranges)
    count = sum(end - first for first, end in ranges) if records is None else records
    return LostEpoch(epoch=epoch, spans=spans, records=count, size_bytes=10 * count)


def _effect(leader: Sequence[tuple[int, int, int]], follower: Sequence[tuple[int, int, int]], **of_leader: Any) -> Effect:
    return compare(replica(1, leader, **of_leader), replica(2, follower), leader_batches=leader, follower_batches=follower).effect


# --- losses -------------------------------------------------------------------------------------------------------------------------------


def test_what_two_followers_lose_together_counts_once() -> None:
    """Both fetched epoch 2 from its leader; one got farther."""
    shorter, longer = _lost(2, (10, 16)), _lost(2, (10, 21))
    assert lost_epochs([shorter, longer]) == lost_epochs([longer, shorter]) == [longer]
    assert lost_epochs([longer, longer]) == [longer]


def test_what_was_written_in_different_epochs_counts_twice() -> None:
    """The same offsets, other records."""
    assert lost_epochs([_lost(4, (10, 16)), _lost(2, (10, 21))]) == [_lost(2, (10, 21)), _lost(4, (10, 16))]


def test_nothing_lost_is_nothing() -> None:
    assert lost_epochs([]) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), max_size=6))
def test_prefixes_of_epochs_by_every_record(losses: list[tuple[int, int]]) -> None:
    """Followers hold prefixes of what the leader of an epoch wrote: each lost record counts once, whoever holds it."""
    found = lost_epochs(_lost(epoch, (10 * epoch, 10 * epoch + length)) for epoch, length in losses)
    records = {(epoch, 10 * epoch + i) for epoch, length in losses for i in range(length)}
    cost = Cost.of(found, 0, [])
    assert (cost.offsets, cost.records, cost.size_bytes) == (len(records), len(records), 10 * len(records))


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([_lost(2, (10, 25)), _lost(2, (20, 30))], id="one begins later: its log start moved"),
        pytest.param([_lost(2, (10, 14), (18, 20)), _lost(2, (10, 12), (16, 20))], id="compaction took other records of each"),
    ],
)
def test_offsets_count_once_where_no_loss_holds_the_others(losses: list[LostEpoch]) -> None:
    """`lost_offsets`: each version counted once."""
    every = {offset for one in losses for span in one.spans for offset in range(span.first_offset, span.end_offset)}
    assert Cost.of(lost_epochs(losses), 0, []).offsets == len(every)


# --- cost ---------------------------------------------------------------------------------------------------------------------------------


def test_a_cost_sums_up_epochs() -> None:
    cost = Cost.of([_lost(2, (10, 14), (16, 18), records=5), _lost(4, (10, 13))], 4, [])
    assert (cost.offsets, cost.records, cost.size_bytes, cost.below_high_watermark) == (6 + 3, 5 + 3, 50 + 30, 4)
    assert (cost.cut, cost.restarted, cost.failing, cost.diverged) == (0, 0, 0, 0)


def test_a_cost_counts_followers_by_what_happens_to_them() -> None:
    unharmed = _effect([(1, 0, 9), (1, 10, 19)], [(1, 0, 9)])
    cut = _effect([(1, 0, 9), (3, 10, 19)], [(1, 0, 14)])
    restarted = _effect([(5, 50, 59)], [(1, 0, 9)])
    # the cut at 12 lies inside the leader's batch 10..19
    failing = _effect([(1, 0, 9), (3, 10, 19)], [(1, 0, 9), (2, 10, 11), (2, 12, 14)], epochs=[(1, 0), (2, 9), (3, 12)])
    assert (cut.truncation.truncation_offset, restarted.truncation.restart_offset, failing.fetcher_fails) == (10, 50, True)
    effects = [(unharmed, False), (cut, False), (cut, True), (restarted, False), (failing, False)]
    cost = Cost.of([], 0, effects)
    assert (cost.cut, cost.restarted, cost.failing, cost.diverged) == (3, 1, 1, 1)


# --- ranking ------------------------------------------------------------------------------------------------------------------------------

NOTHING = Cost.of([], 0, [])


def _candidate(broker_id: int, cost: Cost = NOTHING, **fields: Any) -> Candidate:
    ordinary: dict[str, Any] = {"is_leader": False, "in_isr": False, "last_epoch": 1, "log_end_offset": 10, "eligible": True, "reason": ""}
    return Candidate(broker_id=broker_id, cost=cost, **(ordinary | fields))


def _order(*candidates: Candidate) -> list[tuple[int | None, int]]:
    return [(place, candidate.broker_id) for place, candidate in ranked(candidates)]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param({"below_high_watermark": 1, "records": 9}, {"below_high_watermark": 2, "records": 3}, id="committed offsets first"),
        pytest.param({"records": 3, "diverged": 2}, {"records": 4}, id="then records"),
        pytest.param({"records": 3, "offsets": 3}, {"records": 3, "offsets": 4}, id="then offsets"),
        pytest.param({"failing": 5}, {"diverged": 1}, id="a silent divergence is worse than failing fetchers"),
        pytest.param({}, {"failing": 1}, id="then failing fetchers"),
    ],
)
def test_the_smaller_loss_ranks_first(better: dict[str, int], worse: dict[str, int]) -> None:
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
    lossy = _candidate(1, replace(NOTHING, below_high_watermark=100))
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
    cost = replace(NOTHING, offsets=5, records=4, below_high_watermark=3, diverged=2, failing=1)
    reason = Candidate.of(replica(1, [(0, 0, 9)]), cost, is_leader=False, unread=1).reason
    for part in ("4 records", "3 of their offsets", "2 follower(s) stay diverged", "1 follower(s) fail", "1 replica(s) could not be read"):
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
