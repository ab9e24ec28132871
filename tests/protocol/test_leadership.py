"""Who leads: metadata, else what the logs tell."""

from __future__ import annotations

import pytest

from replica_audit.protocol.comparison import Replica
from replica_audit.protocol.leadership import leadership
from tests.protocol.logs import replica


def test_metadata_decides_even_for_a_leader_that_was_not_collected() -> None:
    assert leadership(2, [replica(1, [(9, 0, 9)]), replica(2, [(1, 0, 1)])]) == (2, "cluster-metadata")
    assert leadership(7, [replica(1, [(9, 0, 9)])]) == (7, "cluster-metadata")
    assert leadership(0, [replica(1, [(9, 0, 9)])]) == (0, "cluster-metadata"), "0 is a broker id"


@pytest.mark.parametrize(
    ("replicas", "leader"),
    [
        pytest.param([replica(1, [(1, 0, 50)]), replica(2, [(1, 0, 10), (3, 11, 20)])], 2, id="the highest epoch before the longest log"),
        pytest.param([replica(1, [(3, 0, 19)]), replica(2, [(3, 0, 29)])], 2, id="then the longest log"),
        pytest.param([replica(3, [(3, 0, 9)]), replica(2, [(3, 0, 9)])], 2, id="then the lowest id"),
        pytest.param(
            [replica(1, [(1, 0, 29)]), replica(2, [(1, 0, 19)], epochs=[(1, 0), (5, 20)])],
            2,
            id="an epoch without a record is an election won",
        ),
        pytest.param([replica(1, [(1, 0, 9)], epochs=[]), replica(2, [(1, 0, 4)])], 2, id="a lost table tells nothing"),
        pytest.param([replica(1), replica(2)], 1, id="nothing written yet"),
        pytest.param([replica(1, [(9, 0, 9)], unreadable="bit rot"), replica(2, [(1, 0, 4)])], 2, id="an unreadable one never leads"),
    ],
)
def test_without_metadata_the_logs_tell(replicas: list[Replica], leader: int) -> None:
    assert leadership(-1, replicas) == (leader, "inferred")
    assert leadership(-1, replicas[::-1]) == (leader, "inferred")


@pytest.mark.parametrize("replicas", [[], [replica(1, [(1, 0, 9)], unreadable="no log")]])
def test_nobody_can_lead(replicas: list[Replica]) -> None:
    assert leadership(-1, replicas) == (-1, "inferred")
