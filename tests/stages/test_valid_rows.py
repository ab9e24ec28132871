"""One hostile value costs one row: what no column can hold is told, and every other row goes on."""

from __future__ import annotations

import gc
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.formats.values import INVENTORY, SEGMENTS
from replica_audit.rows import TABLES, AuditedPartition
from replica_audit.rows.columns import all_pass, checker, in_python
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.stages.mapping import map_rows
from replica_audit.stages.valid_rows import CODE, encoded_audits, refuse_scan, refuse_with_problem, sifted
from tests.support.rows import sparse

Row = dict[str, Any]
KEYS: Row = {"cluster_id": "c", "broker_id": 1, "is_audited": True}
EVENT: Row = {"kind": "loaded", "time": "", "line": 3, "byte_offset": 0, "text": "", "path": "/in/broker-1/server.log"}
LOG = sparse(
    ReplicaLog,
    topic="orders",
    partition=0,
    broker_id=1,
    log_dir="/in/broker-1/data",
    directory="orders-0",
    state="current",
    log_start_offset=0,
    log_end_offset=9,
    batch_count=1,
    record_count=9,
    size_bytes=90,
    checkpoint_state="ok",
)


def through(rows: list[Row], schema: pa.Schema, refused: Any) -> list[Row]:
    """Rows as a task would hand them on."""

    def made(_row: Row) -> Iterator[Row]:
        yield from rows

    batches = map_rows(made, schema, refused)(iter([pa.RecordBatch.from_pylist([{"x": 1}])]))
    return [row for batch in batches for row in batch.to_pylist()]


def event(**values: Any) -> Row:
    return {**KEYS, "topic": "orders", "partition": 0, "event": {**EVENT, **values}}


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ({"leader_epoch": 2**31}, "event.leader_epoch"),
        ({"answered_epoch": -(2**40)}, "event.answered_epoch"),
        ({"offset": 10**5000}, "event.offset"),
        ({"log_dir": "/data/\ud800"}, "event.log_dir"),
        ({"text": 7}, "event.text"),
        ({"complete": "yes"}, "event.complete"),
    ],
)
def test_a_value_that_no_column_holds_is_told(values: Row, column: str):
    healthy = [
        event(leader_epoch=epoch, offset=2**63 - 1, text="\u043f\u0440\u0438\u0432\u0435\u0442 \U0001f600") for epoch in (-1, 2**31 - 1)
    ]
    found = through([healthy[0], event(**values), healthy[1]], INVENTORY, refuse_with_problem)
    assert [row["event"]["leader_epoch"] for row in found if row["event"]] == [-1, 2**31 - 1]
    (problem,) = [row["problem"] for row in found if row["problem"]]
    assert (problem["path"], problem["code"]) == (EVENT["path"], CODE)
    assert problem["detail"].startswith(f"{column}: ")
    assert problem["remedy"]


def test_a_path_that_is_no_text_is_told_in_escapes():
    bad = {**KEYS, "problem": {"path": "/in/\udcff", "kind": "file", "code": "cannot-read", "detail": "d", "remedy": "r"}}
    (row,) = through([bad], INVENTORY, refuse_with_problem)
    assert row["problem"]["path"] == "/in/\\udcff"


def test_a_scan_that_does_not_fit_is_a_segment_that_could_not_be_read():
    file = {"path": "/in/x.log", "source": "raw", "base_offset": 0, "size_bytes": 1}
    segment = {"log_dir": "/in", "directory": "x-0", "file": file, "runs": [{"leader_epoch": 2**31}], "failed": False, "problems": []}
    (row,) = through([{**KEYS, "segment": segment}], SEGMENTS, refuse_scan)
    assert row["segment"]["failed"] is True
    assert row["segment"]["runs"] == []
    assert [problem["code"] for problem in row["segment"]["problems"]] == [CODE]
    assert row["segment"]["file"]["path"] == "/in/x.log"


def test_a_row_that_its_columns_cannot_hold_is_left_out_of_its_table_alone():
    row = AuditedPartition(cluster_id="c", replica_logs=[LOG, replace(LOG, last_epoch=2**31), replace(LOG, broker_id=2)])
    (found,) = encoded_audits([row]).to_pylist()
    assert [one["broker_id"] for one in found["replica_logs"]] == [1, 2]
    (problem,) = found["input_errors"]
    assert (problem["path"], problem["code"]) == ("/in/broker-1/data", CODE)
    assert problem["detail"] == "replica_logs.last_epoch: a number of 32 bits does not fit in int32; the row is left out"


@pytest.mark.parametrize(
    "values", [{"partition": -5}, {"log_end_offset": -1}, {"log_end_offset": 3, "log_start_offset": None}, {"topic": None}]
)
def test_a_row_that_its_table_would_refuse_is_left_out(values: Row):
    """Delta ends the whole write for one such row."""
    found = sifted(AuditedPartition(cluster_id="c", replica_logs=[LOG, replace(LOG, **values)]))
    assert found.replica_logs == [LOG]
    assert [problem.code for problem in found.input_errors] == [CODE]


def test_healthy_rows_pass_unchanged():
    row = AuditedPartition(cluster_id="c", replica_logs=[LOG, replace(LOG, log_end_offset=None, log_start_offset=None)])
    assert sifted(row) is row


CONSTRAINTS = sorted({(name, check) for table in TABLES for name, check in table.constraints.items()})


@pytest.mark.parametrize(("name", "check"), CONSTRAINTS, ids=[name for name, _check in CONSTRAINTS])
@given(data=st.data())
def test_a_check_is_read_as_a_database_reads_it(name: str, check: str, data: st.DataObject):
    """Null is a violation, as it is for Delta; a column that may not be null has a check of its own."""
    texts = re.findall(r"'([^']*)'", check)
    names = sorted(set(re.findall(r"\b[a-z][a-z_]*\b", re.sub(r"'[^']*'", "", check))))
    table = next(table for table in TABLES if table.constraints.get(name) == check)
    nullable = {column.name for column in table.columns if column.nullable}
    values = st.sampled_from([*texts, "other"]) if texts else st.integers(-3, 3)
    row = {column: data.draw(st.none() | values if column in nullable else values, label=column) for column in names}
    with sqlite3.connect(":memory:") as database:
        columns = ", ".join(f":{column} AS {column}" for column in names)
        (expected,) = database.execute(f"SELECT {check} FROM (SELECT {columns})", row).fetchone()  # noqa: S608
    alone = type(table)(name=f"{name}-alone", grain="", columns=(), constraints={name: check})
    assert (checker(alone)(SimpleNamespace(**row)) is None) == bool(expected), in_python(check)
    assert all_pass(alone)([SimpleNamespace(**row)] * 2) == bool(expected) and all_pass(alone)([])


def test_cycles_are_looked_for_between_batches_and_not_while_one_is_made():
    seen = []

    def made(row: Row) -> Iterator[Row]:
        seen.append(gc.isenabled())
        yield {"x": row["x"]}

    schema = pa.schema([("x", pa.int64())])
    given = (pa.RecordBatch.from_pylist([{"x": one}] * 300) for one in range(2))
    assert [(batch.num_rows, gc.isenabled()) for batch in map_rows(made, schema)(given)] == [(256, True), (256, True), (88, True)]
    assert not any(seen)

    def broken(_row: Row) -> Iterator[Row]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(map_rows(broken, schema)(iter([pa.RecordBatch.from_pylist([{"x": 1}])])))
    assert gc.isenabled()
