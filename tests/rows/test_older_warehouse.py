"""A warehouse that was written before rows had classes is read, told of and written on; what its tables lack is null."""

from __future__ import annotations

import json
import shutil
import tarfile
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.past.run import PastRun
from replica_audit.rows import AUDIT_RUNS, FINDINGS, TABLES, TRUNCATION_POINTS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.columns import hints_of
from replica_audit.rows.encoding import row_of
from replica_audit.rows.records import Difference, DifferenceKind, HeldRecord
from replica_audit.storage.warehouse.reader import WarehouseTables
from tests.support.warehouse import STARTED, write_warehouse

DATA = Path(__file__).resolve().parents[1] / "data"
OLDER = DATA / "older" / "before-row-classes.tar.gz"
LATER = STARTED + timedelta(hours=1)
NEW = {
    "broker_starts",
    "damaged_batches",
    "differences",
    "open_transactions",
    "replica_starts",
    "sequence_gaps",
}  # tables that it does not have
EMPTY = {"future_replicas", "input_errors"}  # nothing of that kind in the clusters that were audited


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The warehouse of an audit of two clusters of the sample and one without leaders, by version 0.1.0."""
    with tarfile.open(OLDER) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "warehouse"


def _is_wider(then: pa.DataType, now: pa.DataType) -> bool:
    """Whether rows in a column have got columns and kept those that they had."""
    if isinstance(then, pa.ListType) and isinstance(now, pa.ListType):
        then, now = then.value_type, now.value_type
    if not isinstance(then, pa.StructType) or not isinstance(now, pa.StructType):
        return False
    return {(field.name, field.type) for field in then} < {(field.name, field.type) for field in now}


@pytest.mark.parametrize("table", [table for table in TABLES if table.name not in NEW], ids=lambda table: table.name)
def test_its_rows_are_rows_of_the_classes(older: Path, table: Table) -> None:
    stored = DeltaTable(str(older / table.name)).to_pyarrow_table()
    assert set(stored.column_names) <= set(table.names), "no column was ever taken away"
    for name in stored.column_names:
        then, now = stored.schema.field(name).type, schema_of(table).field(name).type
        assert then == now or _is_wider(then, now), name
    found = PastRun(WarehouseTables(str(older)), "older").read(table, table.names).to_pylist()
    assert table.row is not None
    own = hints_of(table.row)
    assert all(row[name] is None for row in found for name in row.keys() & {"run_date", "severity_rank"} if table is not AUDIT_RUNS)
    rows = [row_of(table.row, {name: value for name, value in row.items() if name in own}) for row in found]
    assert bool(rows) == (table.name not in EMPTY)


@pytest.mark.parametrize("table", [table for table in TABLES if table.name in NEW], ids=lambda table: table.name)
def test_a_table_that_it_lacks_is_empty(older: Path, table: Table) -> None:
    assert not (older / table.name).exists()
    assert not len(PastRun(WarehouseTables(str(older)), "older").read(table, table.names))


_KEYS = ("cluster_id", "topic", "partition", "leader_id", "follower_id")
_COSTS = ("truncation_offset", "falls_back_to_high_watermark", "request_bytes", "response_bytes")
_PAIR = {"run_id": "first", "cluster_id": "c", "topic": "t", "partition": 0, "leader_id": 1, "follower_id": 2}
_KEY = {"cause": "key-missing", "broker_id": 2, "key_hash": "00ff", "leader": {"offset": 7, "timestamp_ms": 5, "is_tombstone": False}}
_SIZES = {"timestamp_ms": 6, "key_bytes": 1, "key_hash": "aa", "value_bytes": 2, "value_hash": "bb", "headers_hash": "cc", "key": "k"}
_SIZE_TYPES = pa.struct([(name, pa.string() if isinstance(value, str) else pa.int64()) for name, value in _SIZES.items()])
_KEY_TYPES = pa.struct([("offset", pa.int64()), ("timestamp_ms", pa.int64()), ("is_tombstone", pa.bool_())])


def test_what_had_tables_of_its_own_is_read_in_the_table_that_has_it_now(tmp_path: Path) -> None:
    """A run of 0.2.0, beside one of now."""
    warehouse = write_warehouse(tmp_path, DATA / "sample" / "committed-loss", run_id="now", started_at=LATER)
    of_keys = _PAIR | _KEY | {"follower": None, "key": "customer"}
    of_records = _PAIR | {"offset": 9, "parts": ["value"], "leader": _SIZES, "follower": _SIZES | {"value_hash": "dd"}}
    for name, row, kind in (("compaction_differences", of_keys, _KEY_TYPES), ("record_differences", of_records, _SIZE_TYPES)):
        inferred = pa.table({key: [value] for key, value in row.items() if key not in ("leader", "follower")})
        held = pa.table({key: pa.array([row[key]], kind) for key in ("leader", "follower")})
        write_deltalake(
            str(warehouse / name), pa.table(inferred.columns + held.columns, names=[*inferred.column_names, *held.column_names])
        )
    found = WarehouseTables(str(warehouse)).rows("differences", Difference, run_id="first")
    pair = partial(Difference, topic="t", partition=0, leader_id=1, follower_id=2)
    key = pair(
        kind=DifferenceKind.KEY,
        cause="key-missing",
        broker_id=2,
        key_hash="00ff",
        key="customer",
        leader=HeldRecord(offset=7, timestamp_ms=5, is_tombstone=False),
        follower=None,
    )
    sides = [row_of(HeldRecord, _SIZES | {"value_hash": one}, of_any_version=True) for one in ("bb", "dd")]
    record = pair(kind=DifferenceKind.RECORD, offset=9, parts=("value",), leader=sides[0], follower=sides[1])
    assert sorted(found, key=lambda one: one.kind) == [key, record]
    assert WarehouseTables(str(warehouse)).rows("differences", Difference, run_id="first", kind="key") == (key,)
    assert not WarehouseTables(str(warehouse)).rows("differences", Difference, run_id="now")


def test_its_rules_stand_beside_its_protocols(older: Path) -> None:
    rules = DeltaTable(str(older / "what_if_rules")).to_pyarrow_table().to_pylist()
    stored = DeltaTable(str(older / "truncation_points")).to_pyarrow_table().to_pylist()
    found = WarehouseTables(str(older)).of_table(TRUNCATION_POINTS, TRUNCATION_POINTS.names, run_id="older").to_pylist()
    points = {tuple(row[name] for name in (*_KEYS, "protocol")): row for row in found}
    assert len(points) == len(found) == len(stored) + sum(not rule["accepted"] for rule in rules)
    assert {rule["accepted"] for rule in rules} == {True, False}
    for rule in rules:
        point = points[tuple(rule[name] for name in (*_KEYS, "rule"))]
        assert (point["kind"], point["reason"]) == ((None, None) if rule["accepted"] else ("rejected", rule["reason"]))
        assert [point[name] for name in ("epoch_requests", *_COSTS)] == [rule[name] for name in ("round_trips", *_COSTS)]
    for row in stored:
        point = points[tuple(row[name] for name in (*_KEYS, "protocol"))]
        assert [point[name] for name in ("applies", "removed_offsets")] == [row[name] for name in ("applies", "removed_offsets")]


def test_its_report_is_told(older: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--warehouse", str(older), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert ("billing", 0, "committed_loss") in {(row["topic"], row["partition"], row["verdict"]) for row in told["findings"]}
    assert {row["topic"] for row in told["findings"] if row["code"] == "offline_partition"} == {"jb"}


def test_a_run_goes_on_where_it_ended(older: Path) -> None:
    shutil.rmtree(older / "truncation_points")  # an audit would alter it, by Spark
    write_warehouse(older, DATA / "sample" / "committed-loss", run_id="now", started_at=LATER, settings=Settings(what_if_leaders=True))
    found = PastRun(WarehouseTables(str(older)), "now").read(FINDINGS, ["status", "first_seen_run_id", "code"]).to_pylist()
    assert found
    assert {(row["status"], row["first_seen_run_id"]) for row in found} == {("persisting", "older")}


@pytest.mark.parametrize("left", [12, 20])
def test_what_its_findings_lack_is_null(older: Path, left: int) -> None:
    """The first version of the table had twelve columns; later ones nested columns with fewer fields."""
    stored = DeltaTable(str(older / "findings")).to_pyarrow_table()
    shutil.rmtree(older / "findings")
    write_deltalake(str(older / "findings"), pa.table(stored.select(stored.column_names[:left])))
    read = PastRun(WarehouseTables(str(older)), "older").read(FINDINGS, FINDINGS.names)
    lacked = [name for name in FINDINGS.names if name not in stored.column_names[:left]]
    assert all(read[name].null_count == len(read) for name in lacked)
    assert FINDINGS.row is not None
    rows = [row_of(FINDINGS.row, row, of_any_version=True) for row in read.to_pylist()]
    assert rows
