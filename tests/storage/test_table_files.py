"""Files of tables that tasks write: a commit makes them the table's, they say what Delta would, and go if they are for nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from replica_audit.engine.arrow import spark_schema
from replica_audit.errors import UsageError
from replica_audit.rows import OF_PARTITIONS, SEGMENT_EPOCHS, TRUNCATION_POINTS, AuditedPartition
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.pairs import TruncationPoint
from replica_audit.stages.valid_rows import encoded
from replica_audit.storage.warehouse import table_files
from replica_audit.storage.warehouse.table_files import TableFiles
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.rows.values import full_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINT = full_row(TruncationPoint)
EPOCHS = pa.schema(list(schema_of(SEGMENT_EPOCHS))[1:])


def epochs(*partitions: int, topic: str = "orders") -> pa.RecordBatch:
    keys = {"cluster_id": "c", "topic": topic, "broker_id": 1, "log_dir": "data", "source": "raw"}
    numbers = dict.fromkeys(("segment_base_offset", "leader_epoch", "first_offset", "min_timestamp_ms", "max_timestamp_ms"), 0)
    numbers |= {"last_offset": 8, "batch_count": 1, "record_count": 9}
    return pa.RecordBatch.from_pylist([{**keys, **numbers, "partition": one, "size_bytes": 70 + one} for one in partitions], schema=EPOCHS)


def written(place: Path, *batches: pa.RecordBatch, run_id: str = "one") -> list[WrittenFile]:
    place.mkdir(exist_ok=True)
    with TableFiles({SEGMENT_EPOCHS.name: str(place)}, run_id) as files:
        for batch in batches:
            files.add(SEGMENT_EPOCHS.name, batch)
        return files.finish()


def test_a_file_holds_the_rows_in_their_order_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_ROW_GROUP_BYTES", 1)
    (file,) = written(tmp_path, epochs(3, 1), epochs(2))
    found = pq.ParquetFile(tmp_path / file.path)
    assert found.metadata.num_row_groups == 2
    assert found.schema_arrow.equals(schema_of(SEGMENT_EPOCHS))
    assert [(row["run_id"], row["partition"]) for row in found.read().to_pylist()] == [("one", 3), ("one", 1), ("one", 2)]
    assert (file.rows, file.size_bytes) == (3, (tmp_path / file.path).stat().st_size)
    said = json.loads(file.statistics)
    assert (said["numRecords"], said["minValues"]["partition"], said["maxValues"]["partition"]) == (3, 1, 3)


def test_a_task_that_makes_no_rows_leaves_no_file(tmp_path: Path) -> None:
    assert written(tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_task_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_ROW_GROUP_BYTES", 1)
    with pytest.raises(RuntimeError), TableFiles({SEGMENT_EPOCHS.name: str(tmp_path)}, "one") as files:
        files.add(SEGMENT_EPOCHS.name, epochs(1))
        assert list(tmp_path.iterdir())
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_place_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone/part-"), TableFiles({SEGMENT_EPOCHS.name: str(tmp_path / "gone")}, "one") as files:
        files.add(SEGMENT_EPOCHS.name, epochs(1))
        files.finish()


def test_rows_go_to_their_tables_with_their_cluster() -> None:
    row = AuditedPartition(cluster_id="c", truncation_points=[POINT, POINT])
    taken = encoded([row, AuditedPartition(cluster_id="d")])
    assert taken.keys() == {TRUNCATION_POINTS.name}
    assert taken[TRUNCATION_POINTS.name]["cluster_id"].to_pylist() == ["c", "c"]
    assert taken[TRUNCATION_POINTS.name].schema == pa.schema(list(schema_of(TRUNCATION_POINTS))[1:])


@pytest.fixture(scope="module")
def place(empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose tables are there."""
    made = tmp_path_factory.mktemp("warehouses") / "warehouse"
    shutil.copytree(empty_warehouse, made)
    return made


def added(place: Path, run_id: str) -> list[dict[str, Any]]:
    """The statistics in the log of each file of a run."""
    actions = DeltaTable(str(place / SEGMENT_EPOCHS.name)).get_add_actions(flatten=True)
    return [row for row in pa.table(actions).to_pylist() if row["min.run_id"] == run_id]


@pytest.mark.spark
class TestInDelta:
    """Commits of such files."""

    def test_statistics_are_those_that_delta_makes_of_the_same_rows(self, spark: SparkSession, place: Path) -> None:
        warehouse = DeltaWarehouse(spark, str(place))
        rows = epochs(5, 7, topic="orders-é")
        files = written(place / SEGMENT_EPOCHS.name, rows, run_id="files")
        warehouse.write_run(SEGMENT_EPOCHS, files, "files", replace=False, fence=1)
        frame = warehouse.frame(SEGMENT_EPOCHS, [{"run_id": "files", **row} for row in rows.to_pylist()])
        frame = frame.selectExpr("'spark' AS run_id", *SEGMENT_EPOCHS.names[1:]).coalesce(1)
        warehouse.write_run(SEGMENT_EPOCHS, frame, "spark", replace=False, fence=1)
        (ours,), (deltas,) = added(place, "files"), added(place, "spark")
        for name, value in deltas.items():
            if name.startswith(("min.", "max.", "null_count.", "num_records")) and "run_id" not in name:
                assert ours[name] == value, name

    def test_the_rows_are_read_by_spark_and_without_it_and_a_number_is_written_once(self, spark: SparkSession, place: Path) -> None:
        warehouse = DeltaWarehouse(spark, str(place))
        for _again in range(2):
            files = written(place / SEGMENT_EPOCHS.name, epochs(1, 2), run_id="once")
            warehouse.write_run(SEGMENT_EPOCHS, files, "once", replace=False, fence=5)
        expected = [("once", 1, 71), ("once", 2, 72)]
        read = warehouse.read(SEGMENT_EPOCHS).where("run_id = 'once'").select("run_id", "partition", "size_bytes")
        assert sorted(map(tuple, read.collect())) == expected
        here = DeltaTable(str(place / SEGMENT_EPOCHS.name)).to_pyarrow_table().to_pylist()
        assert sorted((row["run_id"], row["partition"], row["size_bytes"]) for row in here if row["run_id"] == "once") == expected

    def test_only_tables_as_they_were_made_take_files(self, spark: SparkSession, tmp_path: Path) -> None:
        warehouse = DeltaWarehouse(spark, str(tmp_path))
        warehouse.create_missing()
        assert warehouse.places_of_files(OF_PARTITIONS) == {table.name: str(tmp_path / table.name) for table in OF_PARTITIONS}
        assert DeltaWarehouse(spark, "spark_catalog.audits").places_of_files(OF_PARTITIONS) == {}
        name = warehouse.identifier(SEGMENT_EPOCHS)
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT of_mine CHECK (batch_count < 100)")
        assert warehouse.places_of_files(OF_PARTITIONS) == {}, "Delta would not look whether the rows hold it"
        spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT of_mine")
        assert warehouse.places_of_files(OF_PARTITIONS)

    def test_a_table_that_lost_a_column_meanwhile_takes_nothing(self, spark: SparkSession, tmp_path: Path) -> None:
        warehouse = DeltaWarehouse(spark, str(tmp_path))
        lacking = [f for f in spark_schema(schema_of(SEGMENT_EPOCHS)) if f.name != "size_bytes"]
        spark.createDataFrame([], type(spark_schema(schema_of(SEGMENT_EPOCHS)))(lacking)).write.format("delta").save(
            warehouse.path(SEGMENT_EPOCHS)
        )
        assert warehouse.places_of_files([SEGMENT_EPOCHS]) == {}
        files = written(tmp_path / SEGMENT_EPOCHS.name, epochs(1))
        with pytest.raises(UsageError, match="columns of table segment_epochs changed meanwhile"):
            warehouse.write_run(SEGMENT_EPOCHS, files, "one", replace=False, fence=1)
