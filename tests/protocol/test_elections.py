"""Where epochs began, and what unclean elections gave up, by the tables and batches of several replicas."""

from __future__ import annotations

import pytest

from replica_audit.model import Election
from replica_audit.protocol.cluster.cluster_history import Beginning, beginnings, given_up
from replica_audit.protocol.epochs.lineage import Span
from replica_audit.protocol.exchange.replica import Replica
from tests.protocol.logs import replica


def _unclean(leader_epoch: int, leader: int) -> Election:
    return Election(
        leader_epoch=leader_epoch,
        leader_id=leader,
        kind="unclean",
        isr=(leader,),
        elr=(),
        metadata_offset=0,
        metadata_epoch=1,
        timestamp_ms=1_700_000_000_000,
    )


# --- where epochs began -------------------------------------------------------------------------------------------------------------------


WHOLE = replica(1, [(0, 0, 9), (2, 10, 24)])
TRIMMED = replica(2, [(2, 15, 29)])  # its log start moved the entry of epoch 2


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param([], {}, id="no replica"),
        pytest.param([WHOLE], {0: Beginning(0, True), 2: Beginning(10, True)}, id="by a table from offset 0 on"),
        pytest.param([TRIMMED], {2: Beginning(15, False)}, id="at the log start: it may have moved the entry"),
        pytest.param(
            [TRIMMED, WHOLE], {0: Beginning(0, True), 2: Beginning(10, True)}, id="batches tell a lower start than the first table"
        ),
        pytest.param([WHOLE, TRIMMED], {0: Beginning(0, True), 2: Beginning(10, True)}, id="the first table tells the lowest"),
        pytest.param(
            [replica(2, [(2, 12, 29)], start=15, epochs=[(2, 15)])],
            {2: Beginning(12, False)},
            id="its own first batch begins below the log start, and others of the epoch may have gone",
        ),
        pytest.param(
            [TRIMMED, replica(3, [(2, 10, 24)], start=12, epochs=[(2, 12)])],
            {2: Beginning(10, False)},
            id="another's first batch, before which others of the epoch may have gone",
        ),
        pytest.param(
            [TRIMMED, replica(3, [(2, 0, 24)], epochs=[(2, 0)])], {2: Beginning(0, True)}, id="nothing can have gone from before offset 0"
        ),
        pytest.param(
            [replica(1, [(4, 0, 19), (5, 20, 29)]), replica(2, [(4, 0, 24), (5, 25, 29)])],
            {4: Beginning(0, True), 5: Beginning(20, True)},
            id="of two tables the first",
        ),
        pytest.param([replica(1, [(0, 0, 9), (2, 10, 19)], epochs=[(0, 0)])], {0: Beginning(0, True)}, id="an epoch that no table has"),
    ],
)
def test_beginnings(replicas: list[Replica], expected: dict[int, Beginning]) -> None:
    assert beginnings(replicas) == expected


# --- what was given up --------------------------------------------------------------------------------------------------------------------


ELECTED = replica(2, [(0, 0, 9), (2, 10, 14)])


@pytest.mark.parametrize(
    ("holder", "expected"),
    [
        pytest.param(replica(1, [(0, 0, 29)]), [Span(0, 10, 30)], id="from the start of the epoch on"),
        pytest.param(replica(1, [(0, 0, 29)], start=20), [Span(0, 20, 30)], id="from its log start on, though the batch begins below"),
        pytest.param(replica(1, [(0, 0, 29)], start=5), [Span(0, 10, 30)], id="its log start lies below"),
        pytest.param(replica(1, [(0, 0, 14), (1, 15, 29)], start=15), [Span(1, 15, 30)], id="of one epoch retention left nothing"),
        pytest.param(replica(1, [(0, 0, 29)], start=30), None, id="retention left nothing"),
        pytest.param(replica(1, [(0, 0, 9), (2, 10, 12)]), None, id="it holds what the elected one wrote"),
        pytest.param(replica(1, [(0, 0, 9), (3, 10, 12)]), None, id="a later epoch"),
        pytest.param(replica(1, [(-1, 0, 29)]), None, id="no epoch"),
    ],
)
def test_given_up(holder: Replica, expected: list[Span] | None) -> None:
    assert given_up(_unclean(2, 2), 10, [ELECTED, holder]) == ({} if expected is None else {1: expected})
    assert given_up(_unclean(2, 2), 10, [holder]) == ({} if expected is None else {1: expected}), "the elected one is not in the input"


def test_every_holder_is_told() -> None:
    holders = [replica(3, [(0, 0, 11)]), replica(1, [(0, 0, 29)], start=20)]
    assert given_up(_unclean(2, 2), 10, [ELECTED, *holders]) == {1: [Span(0, 20, 30)], 3: [Span(0, 10, 12)]}
