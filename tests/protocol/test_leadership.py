"""Who leads: metadata, else what the logs tell."""

from __future__ import annotations

import pytest

from replica_audit.model import PartitionMetadata
from replica_audit.protocol.cluster.leadership import leadership, nothing_known
from replica_audit.protocol.cluster.metadata_image import (
    METADATA_LOG,
)
from replica_audit.protocol.exchange.replica import Replica
from tests.protocol.logs import replica

FILE = "cluster-metadata"


def metadata(leader: int, source: str = FILE, leader_epoch: int = 5) -> PartitionMetadata:
    return PartitionMetadata(
        topic="t",
        partition=0,
        topic_id=None,
        compacted=False,
        leader=leader,
        leader_epoch=leader_epoch,
        replicas=(1, 2, 3),
        isr=(),
        source=source,
    )


@pytest.mark.parametrize("source", [FILE, METADATA_LOG])
def test_metadata_decides_even_for_a_leader_that_was_not_collected(source):
    assert leadership(metadata(2, source), [replica(1, [(9, 0, 9)]), replica(2, [(1, 0, 1)])]) == (2, source)
    assert leadership(metadata(7, source), [replica(1, [(9, 0, 9)])]) == (7, source)
    assert leadership(metadata(7, source), []) == (7, source)
    assert leadership(metadata(0, source), [replica(1, [(9, 0, 9)])]) == (0, source), "0 is a broker id"
    assert leadership(metadata(1, source), [replica(1, unreadable="bit rot"), replica(2)]) == (1, source)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="no metadata"),
        pytest.param(nothing_known("t", 0), id="none of this partition"),
        pytest.param(metadata(-1), id="nobody leads, by the file"),
        pytest.param(metadata(-1, METADATA_LOG), id="nobody leads, by the log"),
    ],
)
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
def test_without_metadata_the_logs_tell(said: PartitionMetadata | None, replicas: list[Replica], leader: int) -> None:
    assert leadership(said, replicas) == (leader, "inferred")
    assert leadership(said, replicas[::-1]) == (leader, "inferred")


@pytest.mark.parametrize("said", [None, metadata(-1, METADATA_LOG)])
@pytest.mark.parametrize("replicas", [[], [replica(1, [(1, 0, 9)], unreadable="no log")]])
def test_nobody_can_lead(said, replicas):
    assert leadership(said, replicas) == (-1, "inferred")
