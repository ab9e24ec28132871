"""Steps of a recovery played to the end: who leads, who is cut, what is lost, which order loses least."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.comparison.commitment import Context, Evidence
from replica_audit.protocol.epochs.epoch_table import table
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.protocol.simulation import (
    NOBODY,
    Action,
    Elect,
    LoseDisk,
    NotDone,
    ReplaceCheckpoint,
    RestoreCopy,
    Simulation,
    Situation,
    StartBroker,
    StopBroker,
    orders,
    simulate,
)
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import BROKERS, Partition, held, partitions
from tests.protocol.logs import replica

FETCHES = Protocol.TRUNCATE_ON_FETCH
# broker 1 led alone in epoch 2 and had committed up to 27, broker 2 had led epoch 1, broker 3 fell behind in epoch 0
LOGS = {1: [(0, 0, 9), (1, 10, 19), (2, 20, 29)], 2: [(0, 0, 9), (1, 10, 22)], 3: [(0, 0, 6)]}
WATERMARKS = {1: 27, 2: 18, 3: 5}


def _down(logs: dict[int, list[tuple[int, int, int]]], isr: set[int], **fields: Any) -> Situation:
    replicas = {broker: replica(broker, own, high_watermark=WATERMARKS.get(broker, 0), alive=False) for broker, own in logs.items()}
    given: dict[str, Any] = {"running": frozenset(), "isr": frozenset(isr), "assigned": tuple(sorted(logs)), "leader_epoch": 2} | fields
    return Situation(replicas=replicas, **given)


def _play(situation: Situation, *actions: Action) -> Simulation:
    return simulate(situation, actions, protocol=FETCHES)


def test_the_last_of_the_isr_leads_as_soon_as_it_runs_and_only_what_it_never_held_is_lost() -> None:
    done = _play(_down(LOGS, {1}), StartBroker(2), StartBroker(1), StartBroker(3))
    waiting, leads, follows = done.outcomes
    assert (waiting.situation.leader_id, waiting.lost_offsets, dict(waiting.followed)) == (NOBODY, 0, {})
    assert (leads.situation.leader_id, leads.situation.leader_epoch) == (1, 3)
    assert (leads.followed[2].truncation_offset, leads.lost) == (20, (Span(1, 20, 23),))
    assert leads.committed == {}
    assert follows.followed[3].truncation_offset is None
    assert follows.lost_offsets == 0
    assert done.after.isr == {1, 2, 3}
    assert {held_.log.log_end_offset for held_ in done.after.replicas.values()} == {30}


def test_an_unclean_election_and_what_is_still_at_stake() -> None:
    done = _play(_down(LOGS, {1}), StartBroker(2), Elect(2), Elect(2, unclean=True), StartBroker(3))
    assert [one.not_done for one in done.outcomes] == [None, NotDone.NOT_IN_ISR, None, None]
    assert not done.is_possible
    assert done.lost == [], "broker 1 is stopped and holds its records"
    assert done.at_stake == [Span(2, 20, 30)]
    whole = _play(_down(LOGS, {1}), StartBroker(2), Elect(2, unclean=True), StartBroker(1))
    assert whole.outcomes[-1].followed[1].truncation_offset == 20
    assert whole.lost == [Span(2, 20, 30)]
    assert whole.committed == {Evidence.CHECKPOINT: 7}
    assert whole.at_stake == []


def test_a_disk_that_is_lost_takes_what_only_it_held_and_costs_what_its_truncation_would() -> None:
    gone = _play(_down(LOGS, {1}), LoseDisk(1), StartBroker(1), StartBroker(2), Elect(2, unclean=True), StartBroker(3))
    assert [one.not_done for one in gone.outcomes] == [None, NotDone.NO_REPLICA, None, None, None]
    assert gone.outcomes[0].lost == (Span(2, 20, 30),)
    assert gone.committed == {Evidence.CHECKPOINT: 7}, "below the high watermark of the disk"
    comes_back = _play(_down(LOGS, {1}), StartBroker(2), Elect(2, unclean=True), StartBroker(3), StartBroker(1))
    assert (gone.lost, gone.committed) == (comes_back.lost, comes_back.committed)
    restored = _play(_down(LOGS, {1}), LoseDisk(1), RestoreCopy(1, 1), StartBroker(1), StartBroker(2))
    assert [span for span in restored.lost if span.leader_epoch == 2] == [], "its copy brought them back"
    leads = _play(_play(_down(LOGS, {1}), StartBroker(1), StartBroker(2)).after, LoseDisk(1))
    assert (leads.after.leader_id, leads.lost_offsets) == (2, 0), "in sync: nothing was only on it"
    assert _play(_down(LOGS, {1}), LoseDisk(9)).outcomes[0].not_done is NotDone.NO_REPLICA


def test_orders_are_compared_by_what_they_lose() -> None:
    found = orders(_down(LOGS, {1}), protocol=FETCHES)
    assert [(one.leader_id, one.is_clean, one.simulation.lost_offsets) for one in found] == [(1, True, 3), (2, False, 10), (3, False, 26)]
    assert [one.price[0] for one in found] == [0, 7, 27 - 7]
    assert orders(_play(_down(LOGS, {1}), StartBroker(1)).after, protocol=FETCHES) == [], "somebody leads"


def test_a_broker_that_stops_hands_over_within_the_isr() -> None:
    running = _play(_down(LOGS, {1}), StartBroker(1), StartBroker(2)).after
    moved = _play(running, StopBroker(1), StartBroker(1), StopBroker(1), StopBroker(2))
    assert [one.situation.leader_id for one in moved.outcomes] == [2, 2, 2, NOBODY]
    assert moved.after.isr == {2}
    assert moved.lost_offsets == 0
    assert _play(running, Elect(2)).after.leader_id == 2


def test_steps_that_cannot_be_done_change_nothing() -> None:
    situation = _down(LOGS, {1}, running=frozenset({2}))
    refused: dict[Action, NotDone] = {
        StartBroker(2): NotDone.RUNS_ALREADY,
        StartBroker(9): NotDone.NO_REPLICA,
        StopBroker(1): NotDone.DOES_NOT_RUN,
        Elect(1): NotDone.DOES_NOT_RUN,
        Elect(2): NotDone.NOT_IN_ISR,
        ReplaceCheckpoint(2, table([(0, 0)])): NotDone.MUST_BE_STOPPED,
        RestoreCopy(2, 1): NotDone.MUST_BE_STOPPED,
        RestoreCopy(1, 9): NotDone.NO_REPLICA,
    }
    for action, why in refused.items():
        (outcome,) = _play(situation, action).outcomes
        assert (outcome.not_done, outcome.situation) == (why, situation)
    online = _play(situation, StartBroker(1), StartBroker(3)).after
    assert _play(online, Elect(1)).outcomes[0].not_done is NotDone.LEADS_ALREADY
    shrunk = Situation(**{name: getattr(online, name) for name in Situation.__slots__} | {"isr": frozenset({1})})
    assert _play(shrunk, Elect(3, unclean=True)).outcomes[0].not_done is NotDone.LEADER_RUNS


def test_a_checkpoint_is_replaced_and_the_follower_comes_back() -> None:
    """The production case: the file of the leader lacks the last epoch of its own log."""
    lacking = replica(1, [(6, 0, 1799), (7, 1800, 1849)], epochs=[(6, 0)], alive=False)
    behind = replica(2, [(6, 0, 1699)], alive=False)
    situation = Situation(replicas={1: lacking, 2: behind}, assigned=(1, 2), running=frozenset(), isr=frozenset({1}), leader_epoch=8)
    stuck = _play(situation, StartBroker(1), StartBroker(2))
    assert stuck.not_caught_up == [2]
    assert stuck.after.isr == {1}
    right = table([(6, 0), (7, 1800)])
    healed = _play(situation, ReplaceCheckpoint(1, right), StartBroker(1), StartBroker(2))
    assert healed.not_caught_up == []
    assert healed.after.replicas[2].log.epochs == table([(6, 0), (7, 1800)])
    assert healed.after.isr == {1, 2}


def test_a_copy_brings_back_what_a_step_lost() -> None:
    """The audited copy of broker 1, put back while the cluster is down, leads again; what was lost for it is there again."""
    lost = (StartBroker(2), Elect(2, unclean=True), StartBroker(1), StopBroker(1), StopBroker(2))
    done = _play(_down(LOGS, {1}), *lost, RestoreCopy(1, 1), RestoreCopy(2, 1))
    assert [one.lost_offsets for one in done.outcomes] == [0, 0, 10, 0, 0, 0, 3]
    assert done.lost == [Span(1, 20, 23)]


def test_what_retention_took_from_the_leader_is_not_lost() -> None:
    logs = {1: [(1, 50, 69)], 2: [(0, 0, 49), (1, 50, 59)]}
    situation = _down(logs, {1})
    found = _play(situation, StartBroker(1), StartBroker(2))
    assert found.lost_offsets == 0
    assert not found.at_stake


# --- any history that elections, writes and fetches lead to ------------------------------------------------------------------------------


def _of(partition: Partition, isr: set[int] | None = None) -> Situation:
    """Every broker down."""
    return Situation(
        replicas={broker: partition.replicas[broker].replica(broker) for broker in BROKERS},
        assigned=BROKERS,
        running=frozenset(),
        isr=frozenset(partition.isr if isr is None else isr),
        leader_epoch=partition.epoch,
    )


def _records(found: Replica) -> set[tuple[int, int]]:
    return {(offset, epoch) for offset, epoch in held(found).items() if offset >= found.log.log_start_offset}


@given(partitions(retention=True), st.sampled_from(list(Protocol)))
def test_what_is_lost_is_what_nobody_holds_any_more(partition: Partition, protocol: Protocol) -> None:
    """Counted record by record, without a rule: what some replica held and none holds in the end, from the leader's log start on."""
    situation = _of(partition)
    before = set().union(*(_records(one) for one in situation.replicas.values()))
    for order in orders(situation, protocol=protocol):
        done = order.simulation
        assert all(outcome.lost_offsets >= 0 for outcome in done.outcomes)
        assert all(count >= 0 for count in done.committed.values())
        start = done.after.replicas[order.leader_id].log.log_start_offset
        after = set().union(*(set(held(one).items()) for one in done.after.replicas.values()))
        gone = {(offset, epoch) for offset, epoch in before - after if offset >= start}
        lost = {(offset, span.leader_epoch) for span in done.lost for offset in range(span.first_offset, span.end_offset)}
        assert lost == gone
        assert done.at_stake == []


@given(partitions(retention=True))
def test_in_the_end_every_log_is_the_leaders(partition: Partition) -> None:
    for order in orders(_of(partition), protocol=FETCHES):
        after = order.simulation.after
        assert order.simulation.not_caught_up == []
        assert after.isr == set(BROKERS)
        leader = after.replicas[order.leader_id]
        for follower in after.replicas.values():
            start = max(leader.log.log_start_offset, follower.log.log_start_offset)
            assert follower.log.log_end_offset == leader.log.log_end_offset
            assert {one for one in _records(follower) if one[0] >= start} == {one for one in _records(leader) if one[0] >= start}


@given(partitions(retention=True), st.sampled_from(BROKERS))
def test_in_which_order_followers_start_does_not_matter(partition: Partition, leader: int) -> None:
    situation = _of(partition)
    elect: tuple[Action, ...] = () if leader in situation.isr else (Elect(leader, unclean=True),)
    others = [broker for broker in BROKERS if broker != leader]
    ends = [_play(situation, StartBroker(leader), *elect, *map(StartBroker, order)) for order in permutations(others)]
    assert {one.lost_offsets for one in ends} == {ends[0].lost_offsets}
    assert {tuple(one.committed.items()) for one in ends} == {tuple(ends[0].committed.items())}
    assert all(one.after.replicas[broker].log == ends[0].after.replicas[broker].log for one in ends for broker in BROKERS)


@given(partitions(elections="elect_cleanly"))
def test_who_leads_from_the_isr_loses_nothing_that_was_committed(partition: Partition) -> None:
    for order in orders(_of(partition), protocol=FETCHES):
        if order.is_clean:
            assert order.simulation.committed.get(Evidence.CHECKPOINT, 0) == 0
            assert order.price[0] == 0


@pytest.mark.parametrize("compacted", [False, True])
def test_what_compaction_took_is_not_lost(compacted: bool) -> None:
    """The leader's cleaner removed offsets 3 to 6: a follower that is fetched anew does not lose them."""
    leader = replica(1, [(0, 0, 2), (0, 7, 9), (2, 10, 12)], cleaner_offset=9, alive=False)
    follower = replica(2, [(0, 0, 9), (1, 10, 10)], alive=False)
    situation = Situation(replicas={1: leader, 2: follower}, assigned=(1, 2), running=frozenset(), isr=frozenset({1}), leader_epoch=2)
    done = simulate(situation, [StartBroker(1), StartBroker(2)], protocol=FETCHES, context=Context(leader_epoch=2, compacted=compacted))
    assert done.lost == [Span(1, 10, 11)]
