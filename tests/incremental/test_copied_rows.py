"""Which rows of an earlier run are copied, and what becomes of them, without Spark."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replica_audit.rows import PARTITION_FINGERPRINTS, REPLICA_VERDICTS, SEGMENT_EPOCHS, Table
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import ElectionChoice, FoundFinding
from replica_audit.storage.warehouse import copying_tasks
from replica_audit.storage.warehouse.copied_rows import _files
from tests.rows.values import full_row
from tests.support.warehouse import STARTED, write_warehouse

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "clean-in-sync"
RUNS = {"A": "before", "B": "other"}


def rows(table: Table, *keys: tuple[str, str, str, int]) -> pa.Table:
    """Rows of run, cluster, topic and partition."""
    found = []
    for run, cluster, topic, partition in keys:
        row = {name: getattr(full_row(table.row), name, None) for name in table.names}  # type: ignore[arg-type]
        found.append(row | {"run_id": run, "cluster_id": cluster, "topic": topic, "partition": partition})
    plain = [name for name, kind in zip(table.names, schema_of(table).types, strict=True) if not pa.types.is_nested(kind)]
    return pa.Table.from_pylist([{name: row[name] for name in plain} for row in found], schema=schema_of(table))


def copied(tmp_path: Path, table: Table, source: pa.Table, *gone: tuple[str, str, int]) -> pa.Table:
    pq.write_table(source, tmp_path / "source.parquet", row_group_size=2)
    place = tmp_path / table.name
    place.mkdir()
    batch = pa.RecordBatch.from_pylist([{"table": table.name, "path": str(tmp_path / "source.parquet")}])
    made = copying_tasks.copied(iter([batch]), {table.name: str(place)}, RUNS, "now", frozenset(gone))
    files = [row["file"] for one in made for row in one.to_pylist()]
    read = pa.concat_tables([pq.read_table(place / file["path"]) for file in files]) if files else schema_of(table).empty_table()
    assert sum(file["rows"] for file in files) == read.num_rows
    return read


@pytest.mark.parametrize("table", [SEGMENT_EPOCHS], ids=lambda table: table.name)
def test_rows_of_the_runs_are_copied_with_another_id(tmp_path: Path, table: Table) -> None:
    source = rows(
        table,
        ("before", "A", "orders", 0),
        ("before", "A", "orders", 1),
        ("before", "A", "payments", 0),
        ("earlier", "A", "orders", 0),  # of a run that is not taken over from
        ("before", "B", "orders", 0),  # a cluster of which another run is
        ("other", "B", "orders", 1),
        ("before", "A", "orders", 0),
    )
    found = copied(tmp_path, table, source, ("A", "orders", 1), ("B", "orders", 0))
    keys = found.select(["run_id", "cluster_id", "topic", "partition"]).to_pylist()
    assert [tuple(row.values()) for row in keys] == [
        ("now", "A", "orders", 0),
        ("now", "A", "payments", 0),
        ("now", "B", "orders", 1),
        ("now", "A", "orders", 0),
    ]
    expected = source.take([0, 2, 5, 6])
    for name in table.names[1:]:
        assert found[name].to_pylist() == expected[name].to_pylist(), name


def test_nothing_is_gone(tmp_path: Path) -> None:
    source = rows(SEGMENT_EPOCHS, ("before", "A", "orders", 0), ("before", "A", "orders", 1))
    assert copied(tmp_path, SEGMENT_EPOCHS, source).num_rows == 2


def test_everything_is_gone(tmp_path: Path) -> None:
    source = rows(SEGMENT_EPOCHS, ("before", "A", "orders", 0))
    assert copied(tmp_path, SEGMENT_EPOCHS, source, ("A", "orders", 0)).num_rows == 0


def test_nested_columns_come_along(tmp_path: Path) -> None:
    """A file of Spark's names the items of lists `element`, and its fields may be null."""
    table = REPLICA_VERDICTS
    nested = [name for name, kind in zip(table.names, schema_of(table).types, strict=True) if pa.types.is_list(kind)]
    assert nested
    source = rows(table, ("before", "A", "orders", 0))
    for name in nested:
        kind = schema_of(table).field(name).type
        as_spark = pa.list_(pa.field("element", kind.value_type))
        place = source.schema.get_field_index(name)
        source = source.set_column(place, pa.field(name, as_spark), pa.array([[]], as_spark))
    found = copied(tmp_path, table, source)
    assert found.schema.field(nested[0]).type == schema_of(table).field(nested[0]).type
    assert found[nested[0]].to_pylist() == [[]]


def _as_spark_writes(kind: pa.DataType) -> pa.DataType:
    """The type in a file of Spark's: items of lists are named `element`, and whatever is nested may be null."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _as_spark_writes(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _as_spark_writes(one.type)) for one in kind])
    return kind


def test_findings_of_an_unchanged_partition_come_along(tmp_path: Path) -> None:
    """The candidates for the leadership of an offline partition have columns that are never null."""
    table = PARTITION_FINGERPRINTS
    candidate = as_dict(full_row(ElectionChoice))
    found = as_dict(full_row(FoundFinding)) | {"candidates": [candidate]}
    row = {name: None for name in table.names} | {"run_id": "before", "cluster_id": "A", "topic": "orders", "partition": 0}
    row |= {"row_counts": [1], "verdicts": [], "input_errors": [], "found": [found], "checked": []}
    schema = pa.schema([pa.field(one.name, _as_spark_writes(one.type)) for one in schema_of(table)])
    made = copied(tmp_path, table, pa.Table.from_pylist([row], schema=schema))
    assert made.schema.equals(schema_of(table))
    (kept,) = made.to_pylist()
    assert kept["found"][0]["candidates"] == [candidate]
    assert kept["run_id"] == "now"


def test_only_files_that_may_hold_rows_of_the_runs_are_looked_into(tmp_path: Path) -> None:
    for number, run_id in enumerate(("before", "between", "other")):
        write_warehouse(tmp_path, SAMPLE, run_id=run_id, started_at=STARTED + timedelta(hours=number))
    place = tmp_path / SEGMENT_EPOCHS.name
    of_each = {run_id: set(_files(str(place), {"A": run_id})) for run_id in ("before", "between", "other")}
    assert all(len(files) == 1 for files in of_each.values())
    assert len(set.union(*of_each.values())) == 3
    assert set(_files(str(place), RUNS)) == of_each["before"] | of_each["other"]
    assert all(Path(path).is_file() for files in of_each.values() for path in files)
    assert _files(str(place), {"A": "unknown"}) == []


def test_a_worker_imports_neither_delta_rs_nor_pandas_to_copy_rows() -> None:
    code = f"import sys, {copying_tasks.__name__}; print({{'deltalake', 'pandas'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
