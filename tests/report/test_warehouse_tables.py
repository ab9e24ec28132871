"""Reading a warehouse's tables without Spark: no more than is asked for, and every failure a sentence."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from replica_audit.errors import UsageError
from replica_audit.rows.columns import Bigint
from replica_audit.storage.warehouse import arrow_tables
from replica_audit.storage.warehouse.reader import WarehouseTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    first: Bigint
    second: Bigint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    name: str
    size: Bigint | None
    parts: tuple[Part, ...]
    later: str | None


ROWS: list[dict[str, Any]] = [
    {"run_id": "a", "topic": "t", "partition": 0, "name": "x", "size": 1, "parts": [{"first": 1, "second": None}]},
    {"run_id": "a", "topic": "t", "partition": 1, "name": "y", "size": None, "parts": []},
    {"run_id": "b", "topic": "it's", "partition": 0, "name": "z", "size": 3, "parts": []},
]
PART = pa.struct([pa.field("first", pa.int64()), pa.field("second", pa.int64())])
FIELDS: list[pa.Field[Any]] = [
    pa.field("run_id", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("name", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("parts", pa.list_(PART)),
]
SCHEMA = pa.schema(FIELDS)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    for row in ROWS:
        write_deltalake(str(tmp_path / "things"), pa.Table.from_pylist([row], schema=SCHEMA), mode="append")
    return tmp_path


def names(rows: tuple[Thing, ...]) -> list[str]:
    return sorted(row.name for row in rows)


def test_rows_are_typed_and_what_a_table_lacks_is_null(warehouse: Path) -> None:
    assert WarehouseTables(str(warehouse)).rows("things", Thing, run_id="a", partition=0) == (
        Thing(name="x", size=1, parts=(Part(first=1, second=None),), later=None),
    )


def test_rows_equal_what_is_asked_for(warehouse: Path) -> None:
    tables = WarehouseTables(str(warehouse))
    assert names(tables.rows("things", Thing)) == ["x", "y", "z"]
    assert names(tables.rows("things", Thing, run_id="a")) == ["x", "y"]
    assert names(tables.rows("things", Thing, topic="it's")) == ["z"]
    assert names(tables.rows("things", Thing, size=None)) == ["y"]
    assert names(tables.rows("things", Thing, run_id="c")) == []
    assert tables.cut_short == []


def test_files_that_cannot_hold_a_wanted_row_are_not_opened(warehouse: Path) -> None:
    for path in DeltaTable(str(warehouse / "things")).file_uris(file_pruning_predicate=[("run_id", "=", "b")]):
        Path(path).unlink()
    tables = WarehouseTables(str(warehouse))
    assert names(tables.rows("things", Thing, run_id="a")) == ["x", "y"]
    with pytest.raises(UsageError, match="table things cannot be read"):
        tables.rows("things", Thing, run_id="b")


def test_a_table_that_is_not_there_has_no_rows(warehouse: Path) -> None:
    tables = WarehouseTables(str(warehouse))
    assert (tables.has("things"), tables.has("other")) == (True, False)
    assert tables.rows("other", Thing) == tables.distinct("other", Thing) == ()


def test_no_more_rows_are_read_than_there_is_room_for(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_tables, "MOST_ROWS", 2)
    tables = WarehouseTables(str(warehouse))
    assert len(tables.rows("things", Thing)) == 2
    assert tables.cut_short == ["things"]


def test_values_once(warehouse: Path) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Topic:
        topic: str

    found = WarehouseTables(str(warehouse)).distinct("things", Topic)
    assert sorted(one.topic for one in found) == ["it's", "t"]


def test_a_file_uri_is_a_directory(warehouse: Path) -> None:
    assert WarehouseTables(warehouse.as_uri()).has("things")


def test_what_is_no_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    for location, said in [("missing", "no such directory"), ("file", "is a file"), ("catalog.schema", "cannot be read without Spark")]:
        with pytest.raises(UsageError, match=f"--warehouse {location}: .*{said}"):
            WarehouseTables(location)


def broken_log(table: Path) -> None:
    for file in (table / "_delta_log").glob("*.json"):
        file.write_bytes(b"\x00\xff{garbage")


def cut_log(table: Path) -> None:
    for file in (table / "_delta_log").glob("*.json"):
        file.write_bytes(file.read_bytes()[:-40])


def no_log(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")


def newer_protocol(table: Path) -> None:
    for file in (table / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('"minReaderVersion":1', '"minReaderVersion":99'))


def broken_data(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])


def a_file(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("x")


def other_columns(table: Path) -> None:
    shutil.rmtree(table)
    write_deltalake(str(table), pa.table({"run_id": ["a"], "name": [None], "size": ["large"]}, schema=None))


@pytest.mark.parametrize("damage", [broken_log, cut_log, no_log, newer_protocol, broken_data, a_file, other_columns])
def test_a_table_that_cannot_be_read_is_one_sentence(warehouse: Path, damage: Any) -> None:
    damage(warehouse / "things")
    with pytest.raises(UsageError) as raised:
        WarehouseTables(str(warehouse)).rows("things", Thing)
    said = str(raised.value)
    assert said.startswith(f"warehouse {warehouse}: table things cannot be read: ")
    assert said.endswith("audit again into a new warehouse")
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said
    assert "unknown>" not in said
