"""What an epoch-aware consumer makes of its position (KIP-320)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.protocol.consumers import PositionValidation, Validation, validate_position
from replica_audit.protocol.epochs.epoch_table import EMPTY, table
from tests.protocol.lineages import partitions

LEADER = table([(1, 0), (3, 20), (5, 30)])
VALID = PositionValidation(result=Validation.VALID)
UNDEFINED = PositionValidation(result=Validation.UNDEFINED)
NOT_VALIDATED = PositionValidation(result=Validation.NOT_VALIDATED)


def _truncated(offset: int, epoch: int) -> PositionValidation:
    return PositionValidation(result=Validation.TRUNCATED, reset_offset=offset, reset_epoch=epoch)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        pytest.param(10, 1, VALID, id="inside its epoch"),
        pytest.param(20, 1, VALID, id="exactly at the end of its epoch"),
        pytest.param(21, 1, _truncated(20, 1), id="beyond the end of its epoch"),
        pytest.param(40, 5, VALID, id="at the log end"),
        pytest.param(41, 5, _truncated(40, 5), id="beyond the log end in the latest epoch"),
        pytest.param(25, 2, _truncated(20, 1), id="an epoch that the leader never had"),
        pytest.param(
            15, 2, VALID, id="an epoch that the leader never had, but the answer's offset is high enough: the epoch is not compared"
        ),
        pytest.param(9, 0, _truncated(0, 0), id="an epoch below the first"),
        pytest.param(0, 0, VALID, id="an epoch below the first, at the log start"),
        pytest.param(10, 6, UNDEFINED, id="an epoch above the latest"),
        pytest.param(99, None, NOT_VALIDATED, id="no epoch committed"),
        pytest.param(99, -1, NOT_VALIDATED, id="an undefined epoch committed"),
    ],
)
def test_validation(offset: int, epoch: int | None, expected: PositionValidation) -> None:
    assert validate_position(LEADER, 40, offset, epoch) == expected


def test_a_leader_without_epochs_defines_nothing() -> None:
    assert validate_position(EMPTY, 40, 10, 1) == UNDEFINED


@given(partitions(), st.integers(0, 2), st.data())
def test_a_position_whose_last_record_the_leader_holds_is_valid(partition, follower: int, data: st.DataObject) -> None:
    """And one that was consumed from a record which the leader replaced or lost is sent back, never forward."""
    leader, log = partition.replicas[partition.leader], partition.replicas[sorted(partition.replicas)[follower]]
    if not log.records:
        return
    last = data.draw(st.sampled_from(sorted(log.records)))
    found = validate_position(table(leader.table.items()), leader.end, last + 1, log.records[last])
    if leader.records.get(last) == log.records[last]:
        assert found == VALID
    else:
        assert found.result in (Validation.TRUNCATED, Validation.VALID)
        assert found.reset_offset is None or found.reset_offset <= last
