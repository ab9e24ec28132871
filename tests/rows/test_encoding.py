"""Rows become Arrow columns, or are refused: an unknown column, a missing one, another class, a wrong type, a number too large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replica_audit.rows import INPUT_ERRORS, AuditedPartition
from replica_audit.rows.arrow import AUDITED, array_of, batch_of, list_array_of, struct_of
from replica_audit.rows.columns import Table
from replica_audit.rows.encoding import RowMismatchError, as_dict, row_of, with_columns_of
from replica_audit.rows.findings import CheckedPartition, RunFinding
from replica_audit.rows.pairs import (
    EPOCH_END_OFFSETS,
    TRUNCATION_POINTS,
    EpochEndOffset,
    EvidenceFact,
    ExchangeRound,
    ReplicaVerdict,
    TruncationPoint,
)
from replica_audit.stages.valid_rows import CODE, encoded
from tests.rows.values import full_row

POINT = full_row(TruncationPoint)
VERDICT = full_row(ReplicaVerdict)


def own(table: Table) -> pa.StructType:
    return AUDITED[table.name]


def listed(array: Any) -> list[Any]:
    """The values of an array that Arrow itself finds in order."""
    array.validate(full=True)
    values: list[Any] = array.to_pylist()
    return values


def test_an_unknown_column_is_refused() -> None:
    values: dict[str, Any] = as_dict(POINT) | {"truncation_ofset": 3}
    with pytest.raises(TypeError, match="truncation_ofset"):
        TruncationPoint(**values)
    with pytest.raises(RowMismatchError, match=r"unknown columns \['truncation_ofset'\]"):
        row_of(TruncationPoint, values)
    # that mypy refuses them, too, is what the comments hold: one that is not needed is an error
    with pytest.raises(TypeError):
        replace(POINT, truncation_ofset=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        POINT.truncation_ofset  # type: ignore[attr-defined]  # noqa: B018


def test_a_missing_column_is_refused() -> None:
    values = as_dict(POINT)
    del values["applies"]
    with pytest.raises(TypeError, match="applies"):
        TruncationPoint(**values)
    with pytest.raises(RowMismatchError, match=r"missing columns \['applies'\]"):
        row_of(TruncationPoint, values)
    with pytest.raises(TypeError, match="text"):
        EvidenceFact(path="p", broker_id=1, offset=None, leader_epoch=None)  # type: ignore[call-arg]


def test_a_row_of_the_driver_has_the_columns_of_its_table() -> None:
    keys = {"run_id": "r", "cluster_id": "c", "path": "p", "kind": "k", "code": "c", "detail": "d", "remedy": "r"}
    assert with_columns_of(INPUT_ERRORS, keys) == dict.fromkeys(INPUT_ERRORS.names) | keys
    with pytest.raises(RowMismatchError, match=r"unknown columns \['broker'\]"):
        with_columns_of(INPUT_ERRORS, keys | {"broker": 1})
    with pytest.raises(RowMismatchError, match=r"missing columns \['code'\]"):
        with_columns_of(INPUT_ERRORS, {name: value for name, value in keys.items() if name != "code"})


@pytest.mark.parametrize("row", [as_dict(POINT), VERDICT, ()], ids=["dictionary", "another class", "tuple"])
def test_what_is_no_row_of_the_class_is_refused(row: Any) -> None:
    with pytest.raises(RowMismatchError, match="a row of TruncationPoint is wanted"):
        array_of(TruncationPoint, [POINT, row], own(TRUNCATION_POINTS))
    with pytest.raises(RowMismatchError):
        encoded([AuditedPartition(cluster_id="c", truncation_points=[row])])


def test_columns_of_another_table_are_refused() -> None:
    with pytest.raises(RowMismatchError, match="the columns of EpochEndOffset"):
        array_of(EpochEndOffset, [full_row(EpochEndOffset)], own(TRUNCATION_POINTS))


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({"truncation_offset": "3"}, "truncation_points.truncation_offset"),
        ({"truncation_offset": True}, "truncation_points.truncation_offset"),
        ({"truncation_offset": 2**63}, "truncation_points.truncation_offset"),
        ({"round_trips": 2**31}, "truncation_points.round_trips"),
        ({"round_trips": -(2**31) - 1}, "truncation_points.round_trips"),
        ({"applies": 1}, "truncation_points.applies"),
        ({"protocol": 4}, "truncation_points.protocol"),
        ({"topic": "\ud800"}, "truncation_points.topic"),
        ({"rounds": (replace((POINT.rounds or ())[0], truncate_to=2**63),)}, "truncation_points.rounds.truncate_to"),
    ],
    ids=str,
)
def test_a_value_of_a_wrong_type_or_size_costs_its_row_alone(changed: dict[str, Any], column: str) -> None:
    bad = replace(POINT, **changed)
    with pytest.raises((pa.ArrowException, OverflowError, TypeError, ValueError)):
        array_of(TruncationPoint, [POINT, bad], own(TRUNCATION_POINTS))
    found = encoded([AuditedPartition(cluster_id="c", truncation_points=[POINT, bad, POINT])])
    assert found["truncation_points"].to_pylist() == [{"cluster_id": "c", **as_dict(POINT)}] * 2
    (problem,) = found["input_errors"].to_pylist()
    assert (problem["code"], problem["detail"].split(": ")[0]) == (CODE, column)


def test_the_largest_and_the_smallest_numbers_fit() -> None:
    least = replace(POINT, round_trips=-(2**31), truncation_offset=-(2**63))
    assert listed(array_of(TruncationPoint, [POINT, least], own(TRUNCATION_POINTS))) == [as_dict(POINT), as_dict(least)]


def test_null_is_null_at_every_depth() -> None:
    nothing = replace(VERDICT, stuck=None, hole=None, wrong_lines=None, removed_commits=(), removed_committed_offsets=None)
    bare = replace(VERDICT, stuck=replace(VERDICT.stuck, answered_epoch=None) if VERDICT.stuck else None)
    made = array_of(ReplicaVerdict, [nothing, VERDICT, bare], struct_of(ReplicaVerdict))
    rows = [row_of(ReplicaVerdict, row) for row in listed(made)]
    assert rows == [nothing, VERDICT, bare]
    assert listed(array_of(ReplicaVerdict, [None, VERDICT], struct_of(ReplicaVerdict)))[0] is None


def test_lists_of_rows_keep_their_bounds() -> None:
    rounds = POINT.rounds or ()
    lists = [(), rounds, None, rounds[:1]]
    kind = pa.list_(struct_of(ExchangeRound))
    made = list_array_of(ExchangeRound, lists, kind)
    assert listed(made) == [None if one is None else [as_dict(row) for row in one] for one in lists]


def test_no_rows_are_no_rows() -> None:
    assert listed(array_of(EpochEndOffset, [], own(EPOCH_END_OFFSETS))) == []
    assert encoded([]) == encoded([AuditedPartition(cluster_id="c")]) == {}


def test_a_batch_keeps_its_schema() -> None:
    schema = pa.schema(list(struct_of(RunFinding)))
    batch = batch_of(RunFinding, [full_row(RunFinding)], schema)
    assert batch.schema == schema
    assert [row_of(RunFinding, row) for row in batch.to_pylist()] == [full_row(RunFinding)]


def test_what_another_version_wrote_is_read() -> None:
    values = as_dict(full_row(RunFinding)) | {"of_a_later_version": 1}
    del values["commit_evidence"]
    values["candidates"] = [{"candidate_id": 1, "reason": "r"}]
    found = row_of(RunFinding, values, of_any_version=True)
    assert found.commit_evidence is None
    assert found.candidates is not None
    assert [(one.candidate_id, one.rank) for one in found.candidates] == [(1, None)]
    with pytest.raises(RowMismatchError):
        row_of(CheckedPartition, {"topic": "t"})
