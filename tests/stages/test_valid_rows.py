"""One hostile value costs one row: what no column can hold is told, and every other row goes on."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.model import BatchRun, PartitionMetadata, Problem, ReplicaFiles, ScannedSegment, Segment, SegmentFile
from replica_audit.protocol.comparison.observed import EventKind, LogEvent
from replica_audit.rows import TABLES, AuditedPartition
from replica_audit.rows.columns import all_pass, checker, in_python
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.stages.fitting import fitting, fitting_scan, misfit
from replica_audit.stages.items import Item
from replica_audit.stages.valid_rows import CODE, encoded, sifted
from tests.support.rows import sparse

EVENT = LogEvent(
    broker_id=1, topic="orders", partition=0, kind=EventKind.LOADED, time="", line=3, byte_offset=0, text="", path="/in/broker-1/server.log"
)
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


@pytest.mark.parametrize(
    ("values", "column", "reason"),
    [
        ({"leader_epoch": 2**31}, "event.leader_epoch", "a number of 32 bits does not fit in int32"),
        ({"answered_epoch": -(2**40)}, "event.answered_epoch", "a number of 41 bits does not fit in int32"),
        ({"offset": 10**5000}, "event.offset", "does not fit in int64"),
        ({"log_dir": "/data/\ud800"}, "event.log_dir", "is not Unicode text"),
    ],
)
def test_a_value_that_no_column_holds_is_told(values: dict[str, Any], column: str, reason: str):
    text = "\u043f\u0440\u0438\u0432\u0435\u0442 \U0001f600"
    healthy = [EVENT._replace(leader_epoch=epoch, offset=2**63 - 1, text=text) for epoch in (-1, 2**31 - 1)]
    items = [Item("c", "orders", 0, 1, one) for one in (healthy[0], EVENT._replace(**values), healthy[1])]
    first, told, last = fitting(items)
    assert [first, last] == [items[0], items[2]]
    assert (told.topic, told.broker_id, told.value.path, told.value.code) == (None, 1, EVENT.path, CODE)
    assert told.value.detail.startswith(f"{column}: ") and reason in told.value.detail
    assert told.value.remedy


def test_a_path_that_is_no_text_is_told_in_escapes():
    bad = Problem(path="/in/\udcff", kind="file", code="cannot-read", detail="d", remedy="r")
    (item,) = fitting([Item("c", None, None, 1, bad)])
    assert item.value.path == "/in/\\udcff"


def test_ids_are_int32_wherever_they_stand_and_offsets_are_not():
    claim = PartitionMetadata(
        topic="orders", partition=0, topic_id=None, compacted=None, leader=1, leader_epoch=0, replicas=(1, 2), isr=(1,), source="file"
    )
    given: dict[str, Any] = dict.fromkeys(("high_watermark", "recovery_point", "log_start_offset", "cleaner_offset"), 2**40)
    given |= {"topic_id": None, "offline_reason": None, "segments": (), "problems": (), "checkpoint": ((3, 1, 2**40),), "partition": 0}
    given |= {"log_dir": "/in", "directory": "orders-0", "topic": "orders", "state": "current", "checkpoint_state": "ok"}
    files = ReplicaFiles(epochs=((1, 2**40),), high_watermarks_collected=True, clean_shutdown=True, **given)
    wide = [replace(claim, replicas=(1, 2**31)), replace(claim, partition=2**31)]
    assert [misfit(one, "x") for one in (claim, files)] == [None, None]
    assert [found and found.column for found in (misfit(one, "x") for one in wide)] == ["x.replicas", "x.partition"]


def test_a_scan_that_does_not_fit_is_a_segment_that_could_not_be_read():
    file = SegmentFile(path="/in/x.log", source="dump", base_offset=0, size_bytes=1)
    run = BatchRun(**dict.fromkeys(BatchRun._fields, cast(Any, 0)))
    segment = Segment(base_offset=0, runs=(run._replace(leader_epoch=2**31),))
    scan = ScannedSegment(log_dir="/in", directory="x-0", file=file, segment=segment, failed=False, problems=())
    found = fitting_scan(scan)
    assert (found.failed, found.segment.runs, found.file) == (True, (), file)
    assert [problem.code for problem in found.problems] == [CODE]
    fine = replace(scan, segment=replace(segment, runs=(run,)))
    assert fitting_scan(fine) is fine


def test_a_row_that_its_columns_cannot_hold_is_left_out_of_its_table_alone():
    row = AuditedPartition(cluster_id="c", replica_logs=[LOG, replace(LOG, last_epoch=2**31), replace(LOG, broker_id=2)])
    found = encoded([row])
    assert found["replica_logs"]["broker_id"].to_pylist() == [1, 2]
    (problem,) = found["input_errors"].to_pylist()
    assert (problem["path"], problem["code"]) == ("/in/broker-1/data", CODE)
    assert problem["detail"] == "replica_logs.last_epoch: a number of 32 bits does not fit in int32; the row is left out"


@pytest.mark.parametrize(
    "values", [{"partition": -5}, {"log_end_offset": -1}, {"log_end_offset": 3, "log_start_offset": None}, {"topic": None}]
)
def test_a_row_that_its_table_would_refuse_is_left_out(values: dict[str, Any]):
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
