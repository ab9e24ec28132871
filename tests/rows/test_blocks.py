"""Rows kept as columns are the same rows, and what a table refuses in them is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replica_audit.rows import SEGMENT_EPOCHS, AuditedPartition
from replica_audit.rows.arrow import array_of, list_array_of, rows_of
from replica_audit.rows.blocks import RowBlock
from replica_audit.rows.encoding import RowMismatchError, as_dict
from replica_audit.rows.pairs import EpochEndOffset
from replica_audit.rows.replicas import SegmentEpoch
from replica_audit.stages.valid_rows import encoded, sifted
from tests.rows.values import full_row

ROW: SegmentEpoch = replace(full_row(SegmentEpoch), leader_epoch=1, first_offset=5, last_offset=9)
ROWS = [ROW, replace(ROW, leader_epoch=2, first_offset=10, last_offset=12)]
KIND = pa.list_(rows_of(SEGMENT_EPOCHS))


def block(*rows: SegmentEpoch) -> RowBlock[SegmentEpoch]:
    made = RowBlock(SegmentEpoch)
    for row in rows:
        values = as_dict(row)
        made.add(1, values, {"leader_epoch": [values["leader_epoch"]]})
    return made


def test_the_rows_are_the_same() -> None:
    made = block(*ROWS)
    rows: Sequence[SegmentEpoch] = made
    assert rows == ROWS
    assert rows != ROWS[:1]
    assert (list(made), made[1], len(made), bool(block())) == (ROWS, ROWS[1], 2, False)
    assert made == block(*ROWS)


def test_they_become_the_same_columns_among_lists_of_rows() -> None:
    lists: list[Any] = [block(*ROWS), [], ROWS, block(), None]
    assert list_array_of(SegmentEpoch, lists, KIND).to_pylist() == [
        *([as_dict(row) for row in of_one or ()] if of_one is not None else None for of_one in lists)
    ]
    assert list_array_of(SegmentEpoch, [block(*ROWS)], KIND).values.equals(array_of(SegmentEpoch, ROWS, KIND.value_type))


@pytest.mark.parametrize("other", [RowBlock(EpochEndOffset), [full_row(EpochEndOffset)]])
def test_rows_of_another_class_are_refused(other: Any) -> None:
    with pytest.raises(RowMismatchError):
        list_array_of(SegmentEpoch, [block(*ROWS), other], KIND)


@pytest.mark.parametrize("bad", [{"last_offset": 4}, {"batch_count": None}])
def test_one_that_its_table_refuses_is_left_out_and_reported(bad: dict[str, Any]) -> None:
    made = sifted(AuditedPartition(cluster_id="c", segment_epochs=block(*ROWS, replace(ROW, **bad))))
    assert list(made.segment_epochs) == ROWS
    assert [one.code for one in made.input_errors] == ["unusable-value"]
    fine = AuditedPartition(cluster_id="c", segment_epochs=block(*ROWS))
    assert sifted(fine) is fine


def test_they_go_into_files_with_their_cluster() -> None:
    kept = encoded([AuditedPartition(cluster_id=name, segment_epochs=block(*ROWS)) for name in "ab"])
    found = kept[SEGMENT_EPOCHS.name].to_pylist()
    assert found == [{"cluster_id": name} | as_dict(row) for name in "ab" for row in ROWS]


def test_a_number_that_fits_no_column_is_left_out_and_reported() -> None:
    made = AuditedPartition(cluster_id="c", segment_epochs=block(*ROWS, replace(ROW, size_bytes=1 << 63)))
    kept = encoded([made])
    assert kept["input_errors"]["code"].to_pylist() == ["unusable-value"]
    assert kept[SEGMENT_EPOCHS.name].num_rows == len(ROWS)
