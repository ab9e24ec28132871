"""A corrected leader-epoch-checkpoint in place of a damaged one: every follower catches up, and none is cut that would not have been."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.epochs.checkpoint_repair import Undetermined, as_table, corrected
from replica_audit.protocol.epochs.epoch_table import EpochTable, table
from replica_audit.protocol.exchange.rejoin import Rejoin, rejoins
from replica_audit.protocol.exchange.replica import Replica
from replica_audit.rows.codes import Protocol
from tests.protocol.lineages import BROKERS, Partition, partitions
from tests.protocol.logs import Pairs, replica

DOWN: dict[str, Any] = {"alive": False}
LOG = [(6, 0, 1799), (7, 1800, 1849)]


def _corrected(one: Replica, written: Pairs) -> EpochTable:
    made = corrected(written, one.log)
    assert not isinstance(made, Undetermined)
    return as_table(made)


def _rejoins(leader: int, replicas: list[Replica], corrections: dict[int, EpochTable], epoch: int = 8) -> list[Rejoin]:
    return rejoins(leader, replicas, corrections, Protocol.TRUNCATE_ON_FETCH, epoch)


def _said(found: list[Rejoin]) -> list[tuple[int, int, int | None, int | None, bool]]:
    """Leader, follower, where it truncates, where it starts again, and whether it catches up."""
    cuts = [(one.truncation.truncation_offset, one.truncation.restart_offset) for one in found]
    return [(one.leader.broker_id, one.follower.broker_id, *cut, one.catches_up) for one, cut in zip(found, cuts, strict=True)]


def test_the_production_case() -> None:
    """A leader whose file lacks the last epoch of its own log: two followers that loop for ever, and an empty one, come back."""
    lacking = [(6, 0), (8, 1850)]
    leader = replica(1, LOG, epochs=lacking, alive=True)
    followers = [replica(2, [(6, 0, 1699)], **DOWN), replica(3, LOG, **DOWN), replica(4, **DOWN)]
    assert {one.catches_up for one in _rejoins(1, [leader, *followers], {})} == {False}
    healed = _corrected(leader, lacking)
    assert healed == table([(6, 0), (7, 1800), (8, 1850)])
    assert _said(_rejoins(1, [leader, *followers], {1: healed})) == [(1, follower, None, None, True) for follower in (2, 3, 4)]


def test_a_follower_whose_own_file_is_wrong() -> None:
    leader = replica(1, LOG, epochs=[(6, 0), (7, 1800), (8, 1850)], alive=True)
    wrong = replace(replica(2, LOG, epochs=[(6, 0), (9, 1800)], **DOWN), unreadable="its checkpoint is malformed")
    assert _rejoins(1, [leader, wrong], {}) == [], "what cannot be read is not replayed"
    assert _said(_rejoins(1, [leader, wrong], {2: _corrected(wrong, [])})) == [(1, 2, None, None, True)]


def test_without_a_leader_nothing_is_replayed() -> None:
    assert _rejoins(-1, [replica(1, LOG, **DOWN), replica(2, LOG, **DOWN)], {1: table([(6, 0), (7, 1800)])}) == []


def test_a_refusal_that_the_file_does_not_cause_stays() -> None:
    """A follower of epoch 9 asks a running leader that knows none above 8: no line of the leader's is wrong."""
    leader = replica(1, [*LOG, (8, 1850, 1899)], alive=True)
    ahead = replica(2, [*LOG, (9, 1850, 1859)], **DOWN)
    found = _rejoins(1, [leader, ahead], {3: table([])})
    assert [one.catches_up for one in found] == [False]


@given(partitions(retention=True), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=8))
def test_whatever_the_leaders_file_held_every_follower_comes_back(partition: Partition, junk: Pairs) -> None:
    """The right table, less its epochs without batches, is what the correction makes; and nobody is cut further than by the right one."""
    right = {broker: partition.replicas[broker].replica(broker) for broker in BROKERS}
    leader = right[partition.leader]
    found = _rejoins(partition.leader, list(right.values()), {partition.leader: _corrected(leader, junk)}, partition.epoch)
    assert len(found) == len(BROKERS) - 1
    assert all(one.catches_up for one in found), found
    expected = _rejoins(partition.leader, list(right.values()), {partition.leader: leader.log.epochs}, partition.epoch)
    assert all(one.catches_up for one in expected)
