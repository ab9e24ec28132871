"""What each generation truncates to: the input cases, KIP-101's and KIP-279's scenarios by name, and real lineages."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given

from replica_audit.protocol.epochs.replica_log import truncate_batches
from replica_audit.protocol.exchange.replay import RULES, Truncation, high_watermark, kip_101, kip_279, truncate_on_fetch
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.codes import EpochRequest, Protocol
from tests.protocol import logs
from tests.protocol.lineages import Partition, partitions
from tests.protocol.logs import state

STUCK = "stuck"


class Restart(NamedTuple):
    """The log is discarded and begins at the leader's log start."""

    offset: int


Outcome = int | str | Restart


def _outcome(found: Truncation) -> Outcome:
    if found.stuck:
        return STUCK
    return found.fetch_offset if found.restart_offset is None else Restart(found.restart_offset)


SCENARIO_1 = state([(1, 0), (3, 21)], 31)
INTERLEAVED = state([(1, 0), (3, 10), (5, 20), (7, 30), (9, 40)], 40), state([(1, 0), (2, 5), (4, 12), (6, 25), (8, 33)], 44)
RETAINED = state([(5, 50), (6, 70)], 80, start=50)

# the leader's table ends with its own epoch; what kip-279 does, what truncate-on-fetch does
CASES = [
    pytest.param(state([(1, 0), (2, 4)], 4), state([(1, 0)], 4), 4, 4, id="in sync"),
    pytest.param(state([(1, 0), (2, 2), (3, 4)], 4), state([(1, 0)], 2), 2, 2, id="behind"),
    pytest.param(state([(1, 0), (2, 2)], 2), state([(1, 0)], 4), 2, 2, id="ahead, same epochs"),
    pytest.param(state([(5, 0)], 8), state([(5, 0)], 12), 8, 8, id="ahead in the leader's current epoch"),
    pytest.param(state([(1, 0), (3, 2), (4, 4)], 4), state([(1, 0), (2, 2)], 4), 2, 2, id="fork"),
    pytest.param(state([(1, 0), (3, 2)], 2), state([(1, 0), (2, 1)], 3), 1, 1, id="fork, leader longer in the common epoch"),
    pytest.param(state([(1, 0), (3, 1)], 1), state([(2, 0)], 2), 0, 0, id="no common epoch"),
    *(
        pytest.param(SCENARIO_1, state([(1, 0), (2, 11)], n + 1, high_watermark=11), 11, 11, id=f"KIP-279 scenario 1, n = {n}")
        for n in (15, 20, 25, 40)
    ),
    pytest.param(state([(1, 0), (3, 1)], 2), state([(0, 0), (2, 1)], 2, high_watermark=2), 0, 0, id="KIP-279 scenario 3"),
    pytest.param(*INTERLEAVED, 5, 5, id="four interleaved epochs"),
    pytest.param(
        SCENARIO_1, state([(1, 0), (3, 21), (9, 31)], 36, high_watermark=11), 11, 31, id="last epoch above the leader's, follower longer"
    ),
    pytest.param(
        state([(1, 0), (3, 12)], 31), state([(1, 0), (9, 10)], 20, high_watermark=10), 10, STUCK, id="last epoch above, leader longer"
    ),
    pytest.param(state([], 31), state([(1, 0)], 20, high_watermark=7), 7, STUCK, id="leader without epochs, longer"),
    pytest.param(
        state([], 10), state([(1, 0)], 20, high_watermark=7), 7, STUCK, id="leader without epochs, shorter: cut to its end, then a loop"
    ),
    pytest.param(state([(2, 0)], 30), state([], 20, high_watermark=12), 12, 12, id="follower without epochs"),
    pytest.param(state([(2, 0), (3, 30)], 30), state([], 0), 0, 0, id="follower empty"),
    pytest.param(RETAINED, state([], 0), Restart(50), Restart(50), id="follower empty, leader starts at 50"),
    pytest.param(
        RETAINED, state([(1, 0), (3, 21)], 36, high_watermark=30), Restart(50), Restart(50), id="follower ends below the leader's start"
    ),
    pytest.param(RETAINED, state([(1, 0)], 50, high_watermark=50), 50, 50, id="follower ends at the leader's start: nothing is cut"),
    pytest.param(
        state([(5, 30), (6, 70)], 80, start=30), state([(1, 10), (3, 21)], 36, start=10), 30, 30, id="divergence below the leader's start"
    ),
    pytest.param(
        state([(1, 0), (7, 8)], 8), state([(1, 20), (3, 25)], 36, start=20), 8, 8, id="target below the own first segment: restart there"
    ),
    pytest.param(
        state([(1, 0), (7, 15)], 15),
        state([(1, 20), (3, 25)], 36, start=20, first_segment_base=10),
        15,
        15,
        id="target below the own start, inside the first segment",
    ),
    pytest.param(
        state([(1, 0), (2, 0)], 5), state([(1, 0), (2, 3)], 5), 5, 5, id="last epochs equal, starts differ: the protocol sees nothing"
    ),
    pytest.param(
        state([(1, 0), (4, 9)], 12), state([(1, 0), (3, 4), (4, 9)], 12), 12, 12, id="a middle epoch missing: the protocol sees nothing"
    ),
    pytest.param(
        state([(9, 20)], 25), state([(1, 0), (3, 8)], 18), 18, 18, id="leader's table lost: every older epoch ends where it began"
    ),
    pytest.param(
        state([(4, 15)], 25), state([(1, 0), (3, 8)], 18), 15, 15, id="leader's table lost, its epoch begins below the follower's end"
    ),
]


@pytest.mark.parametrize(("leader", "follower", "questions", "fetches"), CASES)
def test_input_cases(leader: ReplicaState, follower: ReplicaState, questions: Outcome, fetches: Outcome) -> None:
    assert _outcome(kip_279(leader, follower)) == questions
    assert _outcome(truncate_on_fetch(leader, follower)) == fetches


def test_a_leader_without_epochs_cuts_to_its_end_before_the_loop() -> None:
    found = truncate_on_fetch(state([], 10), state([(1, 0)], 20, high_watermark=7))
    assert (found.stuck, found.truncation_offset, found.fetch_offset) == (True, 10, 10)


def test_truncate_to_a_target_below_the_log_start_restarts_or_lowers_it() -> None:
    below = truncate_on_fetch(state([(1, 0), (7, 8)], 8), state([(1, 20), (3, 25)], 36, start=20))
    assert (below.follower_after.log_start_offset, below.truncation_offset, below.restart_offset) == (8, 8, None)
    inside = truncate_on_fetch(state([(1, 0), (7, 15)], 15), state([(1, 20), (3, 25)], 36, start=20, first_segment_base=10))
    assert (inside.follower_after.log_start_offset, inside.truncation_offset) == (15, 15)


@pytest.mark.parametrize(
    ("leader", "follower", "answer", "target"),
    [
        pytest.param(state([(1, 0)], 20), state([(1, 0)], 31, high_watermark=5), 20, 20, id="same latest epoch, leader shorter"),
        pytest.param(state([(1, 0)], 40), state([(1, 0)], 31, high_watermark=5), 40, 31, id="same latest epoch, leader longer"),
        pytest.param(
            state([(1, 0), (3, 12)], 40), state([(1, 0)], 31, high_watermark=5), 12, 12, id="older, known: start of the next epoch"
        ),
        pytest.param(SCENARIO_1, state([(1, 0), (2, 11)], 26, high_watermark=11), 21, 21, id="unknown, between: start of the next larger"),
        pytest.param(
            state([(1, 0)], 40), state([(1, 0), (2, 11)], 31, high_watermark=5), -1, 5, id="above the leader's latest: high watermark"
        ),
        pytest.param(state([(1, 0)], 20), state([(0, 0)], 10, high_watermark=7), -1, 7, id="below the leader's first: high watermark"),
        pytest.param(state([], 40), state([(1, 0)], 31, high_watermark=5), -1, 5, id="leader without epochs: high watermark"),
        pytest.param(state([(1, 0)], 40), state([], 31, high_watermark=5), -1, 5, id="follower without epochs: high watermark"),
        pytest.param(state([], 40), state([], 31, high_watermark=5), -1, 5, id="neither has epochs: high watermark"),
        pytest.param(
            state([(1, 0)], 40), state([(2, 0)], 31, high_watermark=31), -1, 31, id="high watermark at the log end: nothing is cut"
        ),
    ],
)
def test_kip_101_asks_once(leader: ReplicaState, follower: ReplicaState, answer: int, target: int) -> None:
    found = kip_101(leader, follower)
    assert [(step.answered_epoch, step.answered_end_offset) for step in found.steps[:-1]] == [(None, answer)]
    assert found.fetch_offset == target
    assert found.falls_back_to_high_watermark == (answer == -1)
    assert found.truncation_offset == (target if target < follower.log_end_offset else None)


@pytest.mark.parametrize(
    ("end", "watermark", "target"),
    [
        pytest.param(20, 11, 11, id="cuts to it"),
        pytest.param(20, 20, 20, id="at the log end: nothing"),
        pytest.param(20, 0, 0, id="never persisted: everything"),
        pytest.param(40, 40, 31, id="then the leader's end, where the log is still longer"),
        pytest.param(40, 35, 31, id="both"),
    ],
)
def test_the_high_watermark_rule_asks_nobody(end: int, watermark: int, target: int) -> None:
    found = high_watermark(SCENARIO_1, state([(1, 0), (2, 11)], end, high_watermark=watermark))
    assert found.fetch_offset == target
    assert found.falls_back_to_high_watermark
    assert found.truncation_offset == (target if target < end else None)
    assert all(step.request is not EpochRequest.OFFSET_FOR_LEADER_EPOCH for step in found.steps)


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize(
    ("leader", "end", "outcome"),
    [
        pytest.param(state([(1, 0)], 31), 36, 31, id="leader shorter: cut to its end"),
        pytest.param(state([(1, 50)], 80, start=50), 36, Restart(50), id="leader starts beyond: restart"),
        pytest.param(state([(1, 36)], 80, start=36), 36, 36, id="leader starts at the end: nothing"),
        pytest.param(state([(1, 30)], 80, start=30), 36, 36, id="leader starts below: keep everything"),
        pytest.param(state([(1, 50)], 50, start=50), 36, Restart(50), id="leader empty, further on"),
        pytest.param(state([(1, 20)], 20, start=20), 36, 20, id="leader empty, further back"),
    ],
)
def test_out_of_range_in_every_generation(protocol: Protocol, leader: ReplicaState, end: int, outcome: Outcome) -> None:
    assert _outcome(RULES[protocol](leader, state([(1, 0)], end, high_watermark=end))) == outcome


@pytest.mark.parametrize(
    ("target", "batches", "log_end", "epochs"),
    [
        pytest.param(
            21, [(0, 10)], 21, [(1, 0), (2, 11)], id="inside a batch: it goes whole, the log end is the target, its epoch a phantom"
        ),
        pytest.param(11, [(0, 10)], 11, [(1, 0)], id="at a batch's start"),
        pytest.param(10, [], 10, [(1, 0)], id="at the last offset of a batch: that is inside"),
        pytest.param(26, [(0, 10), (11, 25)], 26, [(1, 0), (2, 11)], id="at the log end"),
        pytest.param(0, [], 0, [], id="everything"),
    ],
)
def test_what_a_target_means_physically(target: int, batches: list[tuple[int, int]], log_end: int, epochs: logs.Pairs) -> None:
    assert truncate_batches([(0, 10), (11, 25)], target) == (batches, log_end)
    found = high_watermark(state([(1, 0), (3, 21)], 31), state([(1, 0), (2, 11)], 26, high_watermark=target))
    assert list(found.follower_after.epochs) == epochs
    assert found.follower_after.log_end_offset == log_end


def test_truncating_batches_of_an_empty_log() -> None:
    assert truncate_batches([], 7) == ([], 7)


@pytest.mark.parametrize("protocol", [Protocol.KIP_101, Protocol.KIP_279, Protocol.TRUNCATE_ON_FETCH])
def test_a_target_below_the_own_high_watermark_is_applied(protocol: Protocol) -> None:
    found = RULES[protocol](state([(1, 0), (5, 10)], 25), state([(1, 0)], 20, high_watermark=18))
    assert (found.truncation_offset, found.follower_after.high_watermark) == (10, 10)
    assert not found.falls_back_to_high_watermark


# --- the KIPs' scenarios by name ----------------------------------------------------------------------------------------------------------


def test_a_follower_without_epochs_asks_nothing_before_its_first_fetch() -> None:
    for rule in (kip_279, truncate_on_fetch):
        found = rule(state([(2, 0)], 30), state([], 20, high_watermark=20))
        assert [step.request for step in found.steps] == [EpochRequest.FETCH]
        assert found.steps[0].requested_epoch is None
        assert found.falls_back_to_high_watermark, "it is told also where it cuts nothing"
        assert found.truncation_offset is None


def test_only_truncate_on_fetch_sends_the_epoch_with_the_fetch() -> None:
    leader, follower = state([(1, 0), (2, 4)], 9), state([(1, 0)], 4)
    assert {str(rule(leader, follower).protocol): rule(leader, follower).steps[-1].requested_epoch for rule in RULES.values()} == {
        "high-watermark": None,
        "kip-101": None,
        "kip-279": None,
        "truncate-on-fetch": 1,
    }


def test_an_out_of_range_cut_after_rounds_is_the_last_cut() -> None:
    """A log that is cut below the leader's start is discarded then; the restart does not replace the cut."""
    leader, follower = state([(4, 50), (6, 70)], 80, start=50), state([(1, 0), (2, 20), (5, 55)], 60)
    found = truncate_on_fetch(leader, follower)
    assert (found.effective_cuts, found.restart_offset) == ((55, 50), None)
    leader, follower = state([(1, 0), (3, 20), (6, 70)], 80, start=50), state([(1, 0), (2, 20)], 60)
    found = truncate_on_fetch(leader, follower)
    assert (found.truncation_offset, found.restart_offset, found.fetch_offset) == (20, 50, 50)


def test_every_generation_has_its_rule() -> None:
    assert list(RULES) == list(Protocol)
    for protocol, rule in RULES.items():
        assert rule(SCENARIO_1, SCENARIO_1).protocol is protocol


# --- real lineages ------------------------------------------------------------------------------------------------------------------------


def _sides(partition: Partition, follower: int) -> tuple[ReplicaState, ReplicaState]:
    leader = partition.replicas[partition.leader].replica(partition.leader)
    return leader.as_leader(), partition.replicas[follower].replica(follower).as_follower()


@given(partitions())
def test_epochs_find_exactly_what_two_lineages_share(partition: Partition) -> None:
    leader = partition.replicas[partition.leader]
    for follower in partition.followers:
        own, theirs = partition.replicas[follower].records, leader.records
        shared = next((o for o in range(max(len(own), len(theirs))) if o not in own or own[o] != theirs.get(o)), len(own))
        for rule in (kip_279, truncate_on_fetch):
            found = rule(*_sides(partition, follower))
            assert not found.stuck
            assert found.fetch_offset == shared
            assert not found.falls_back_to_high_watermark or shared == 0


@given(partitions(retention=True))
def test_no_conflict_survives_below_the_fetch_offset_but_under_a_leaders_start(partition: Partition) -> None:
    """A follower is never cut below its leader's log start; what it keeps there may still conflict with later leaders."""
    leader = partition.replicas[partition.leader]
    for follower in partition.followers:
        log = partition.replicas[follower]
        for rule in (kip_279, truncate_on_fetch):
            found = rule(*_sides(partition, follower))
            assert not found.stuck
            if found.restart_offset is not None:
                assert found.fetch_offset == leader.start
                continue
            surviving = {offset: epoch for offset, epoch in log.records.items() if partition.highest_start <= offset < found.fetch_offset}
            assert surviving.items() <= leader.records.items()


@given(partitions(elections="elect_cleanly"))
def test_clean_elections_never_cost_a_committed_record_where_epochs_are_asked(partition: Partition) -> None:
    for follower in partition.followers:
        for rule in (kip_279, truncate_on_fetch):
            found = rule(*_sides(partition, follower))
            kept = {(epoch, offset) for offset, epoch in partition.replicas[partition.leader].records.items()}
            assert partition.committed <= kept
            removed = {(e, o) for o, e in partition.replicas[follower].records.items() if o >= found.fetch_offset}
            assert not removed & partition.committed


@given(partitions())
def test_lineages_share_batch_bounds_so_every_cut_is_one(partition: Partition) -> None:
    for follower in partition.followers:
        batches = [(base, last) for _epoch, base, last in partition.replicas[follower].batches]
        found = truncate_on_fetch(*_sides(partition, follower))
        kept, _end = truncate_batches(batches, found.fetch_offset)
        assert (kept[-1][1] + 1 if kept else 0) == found.fetch_offset
