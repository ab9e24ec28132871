"""Fencing by the leader epoch (KIP-320): the order of the leader's checks, and whose broker stands in an epoch that ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.cluster.fencing import Belief, FencingError, Standing, fetch_error, standings

FENCED, UNKNOWN, NOT_LEADER = FencingError.FENCED_LEADER_EPOCH, FencingError.UNKNOWN_LEADER_EPOCH, FencingError.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("request_epoch", "own_epoch", "leads", "answered"),
    [
        pytest.param(5, 5, True, None, id="the same epoch"),
        pytest.param(4, 5, True, FENCED, id="an epoch that ended"),
        pytest.param(6, 5, True, UNKNOWN, id="an epoch that the leader has not heard of"),
        pytest.param(5, 5, False, NOT_LEADER, id="the same epoch, not the leader"),
        pytest.param(4, 5, False, FENCED, id="the epoch is checked before the role: older"),
        pytest.param(6, 5, False, UNKNOWN, id="the epoch is checked before the role: newer"),
        pytest.param(-1, 5, True, None, id="-1 is not checked"),
        pytest.param(None, 5, True, None, id="none is not checked"),
        pytest.param(-2, 5, True, None, id="nor is any other negative in a fetch"),
        pytest.param(-1, 5, False, NOT_LEADER, id="-1: the role still is"),
        pytest.param(None, 0, False, NOT_LEADER, id="none: the role still is"),
        pytest.param(0, 0, True, None, id="epoch 0 is real: the same"),
        pytest.param(0, 1, True, FENCED, id="epoch 0 is real: it ended"),
        pytest.param(1, 0, True, UNKNOWN, id="epoch 0 is real: the leader is still in it"),
    ],
)
def test_the_leader_checks_epoch_then_role(request_epoch: int | None, own_epoch: int, leads: bool, answered: FencingError | None) -> None:
    assert fetch_error(request_epoch, own_epoch, leads) is answered


def test_errors_have_kafkas_names() -> None:
    assert [str(error) for error in FencingError] == ["FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"]


def _of(belief: tuple[int, int | None, int | None], epoch: int | None = 5, leader: int | None = 1, *others: Belief) -> Standing:
    """The standing of one replica (broker, epoch it knows, leader it knows) of a partition that broker 1 leads in epoch 5."""
    broker, knows, names = belief
    mine = Belief(broker_id=broker, leader_epoch=knows, leader_id=names)
    found = standings([*others, mine], epoch, leader)
    assert [one.broker_id for one in found] == [*(other.broker_id for other in others), broker]
    return found[-1].standing


@pytest.mark.parametrize(
    ("belief", "expected"),
    [
        pytest.param((1, 5, 1), Standing.LEADER, id="leads in the latest epoch"),
        pytest.param((1, 5, None), Standing.LEADER, id="leads, and knows the epoch but not who leads it"),
        pytest.param((2, 5, 1), Standing.FOLLOWER, id="follows in the latest epoch"),
        pytest.param((2, 5, None), Standing.FOLLOWER, id="knows the latest epoch, not who leads it"),
        pytest.param((2, 5, -1), Standing.FOLLOWER, id="-1 is nobody"),
        pytest.param((2, 4, 2), Standing.ZOMBIE_LEADER, id="believes to lead in an epoch that ended"),
        pytest.param((1, 4, 1), Standing.ZOMBIE_LEADER, id="leads again, and has not heard of its new epoch"),
        pytest.param((2, 4, 3), Standing.ZOMBIE_FOLLOWER, id="follows in an epoch that ended"),
        pytest.param((2, 4, 1), Standing.ZOMBIE_FOLLOWER, id="follows who leads again, in an epoch that ended"),
        pytest.param((1, 4, 2), Standing.ZOMBIE_FOLLOWER, id="leads, and has not heard of it"),
        pytest.param((2, 4, None), Standing.ZOMBIE_FOLLOWER, id="an epoch that ended, of whomever"),
        pytest.param((2, 0, 2), Standing.ZOMBIE_LEADER, id="epoch 0 is real"),
        pytest.param((2, 6, 3), Standing.AHEAD, id="an epoch later than the cluster's latest"),
        pytest.param((2, None, 1), Standing.UNKNOWN, id="no epoch"),
        pytest.param((2, -1, 1), Standing.UNKNOWN, id="-1 is no epoch"),
        pytest.param((2, 5, 2), Standing.UNKNOWN, id="another leader of the latest epoch: itself"),
        pytest.param((2, 5, 3), Standing.UNKNOWN, id="another leader of the latest epoch: a third"),
        pytest.param((1, 6, 2), Standing.UNKNOWN, id="the leader knows a later epoch: the latest is not the latest"),
    ],
)
def test_standing(belief: tuple[int, int | None, int | None], expected: Standing) -> None:
    assert _of(belief) is expected


@pytest.mark.parametrize("epoch", [None, -1])
def test_without_a_latest_epoch_nobody_stands_anywhere(epoch: int | None) -> None:
    assert _of((1, 5, 1), epoch) is Standing.UNKNOWN
    assert _of((2, 5, 1), epoch) is Standing.UNKNOWN


@pytest.mark.parametrize("nobody", [None, -1])
def test_a_partition_that_nobody_leads_has_followers_and_zombies(nobody: int | None) -> None:
    assert _of((2, 5, None), 5, nobody) is Standing.FOLLOWER
    assert _of((2, 5, -1), 5, nobody) is Standing.FOLLOWER
    assert _of((2, 4, 2), 5, nobody) is Standing.ZOMBIE_LEADER
    assert _of((2, 5, 2), 5, nobody) is Standing.UNKNOWN


def test_ahead_is_held_against_the_epoch_that_the_leaders_broker_knows() -> None:
    late = Belief(broker_id=1, leader_epoch=4, leader_id=2)
    assert _of((3, 5, 1), 5, 1, late) is Standing.AHEAD
    assert fetch_error(5, 4, False) is UNKNOWN
    assert _of((3, 5, 1), 5, 1, Belief(broker_id=1, leader_epoch=5, leader_id=1)) is Standing.FOLLOWER, "it has learned it"
    assert _of((3, 5, 1), 5, 1, Belief(broker_id=1, leader_epoch=None, leader_id=None)) is Standing.FOLLOWER, "what it knows is unknown"
    assert _of((3, 5, 1), 5, 1, Belief(broker_id=2, leader_epoch=4, leader_id=2)) is Standing.FOLLOWER, "who does not lead bounds nothing"


BELIEFS = st.lists(
    st.builds(
        lambda broker, epoch, leader: Belief(broker_id=broker, leader_epoch=epoch, leader_id=leader),
        st.integers(0, 3),
        st.sampled_from([None, -1, 0, 1, 2, 3]),
        st.sampled_from([None, -1, 0, 1, 2, 3]),
    ),
    unique_by=lambda belief: belief.broker_id,
)


@given(BELIEFS, st.integers(0, 3), st.sampled_from([None, -1, 0, 1, 2, 3]))
def test_whatever_brokers_believe_one_leads_and_zombies_are_fenced(beliefs: list[Belief], epoch: int, leader: int | None) -> None:
    found = standings(beliefs, epoch, leader)
    assert [one.broker_id for one in found] == [belief.broker_id for belief in beliefs]
    assert sum(one.standing is Standing.LEADER for one in found) <= 1
    for belief, (_broker, standing) in zip(beliefs, found, strict=True):
        answered = fetch_error(belief.leader_epoch, epoch, True)
        if standing in (Standing.ZOMBIE_FOLLOWER, Standing.ZOMBIE_LEADER):
            assert answered is FENCED
            assert (standing is Standing.ZOMBIE_LEADER) == (belief.leader_id == belief.broker_id)
        elif standing in (Standing.FOLLOWER, Standing.LEADER):
            assert answered is None
            assert belief.leader_epoch == epoch
        elif standing is Standing.AHEAD:
            leaders = next((other.leader_epoch for other in beliefs if other.broker_id == leader), None)
            known = epoch if leaders is None or leaders < 0 else leaders
            assert fetch_error(belief.leader_epoch, known, True) is UNKNOWN
