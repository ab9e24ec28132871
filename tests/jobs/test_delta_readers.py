"""What others see of the tables: delta-rs and DuckDB read what Spark does; the change feed of findings tells what each run changed."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from replica_audit.config import Settings
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.pipeline import AuditRequest, audit
from replica_audit.rows import FINDINGS, OF_PARTITIONS, TABLES
from replica_audit.storage.warehouse import upkeep
from replica_audit.storage.warehouse.tables import CHANGE_FEED, DeltaWarehouse
from tests.support.delta_readers import Rows, comparable, in_delta_rs, in_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DATA = Path(__file__).resolve().parents[1] / "data"
LOSS, OFFLINE = DATA / "sample" / "committed-loss", DATA / "offline" / "nobody-leads"
COMMIT = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A warehouse, and the versions of its findings after each step."""

    place: Path
    versions: dict[str, tuple[int, int]]  # by step: the versions before and after it

    def findings(self, version: int) -> Rows:
        return comparable(in_delta_rs(self.place / "findings", version))


@pytest.fixture(scope="module")
def made(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run, made again with fewer topics; another; and an upkeep that removes the first and merges every table's files."""
    place, versions = tmp_path_factory.mktemp("warehouses") / "warehouse", dict[str, tuple[int, int]]()
    shutil.copytree(empty_warehouse, place)

    def run(step: str, run_id: str, day: date, *roots: Path, **settings: Any) -> None:
        before = DeltaTable(str(place / "findings")).version()
        inputs = tuple(map(str, roots))
        request = AuditRequest(inputs=inputs, warehouse=str(place), settings=Settings(**settings), run_id=run_id, run_date=day)
        audit(spark, request, lambda line: None)
        versions[step] = before, DeltaTable(str(place / "findings")).version()

    run("old", "old", date(2020, 1, 1), LOSS, OFFLINE)
    run("old again", "old", date(2020, 1, 1), LOSS, topics="billing")
    run("new", "new", date(2026, 1, 2), LOSS, OFFLINE, what_if_leaders=True)
    before = DeltaTable(str(place / "findings")).version()
    with pytest.MonkeyPatch.context() as bound:
        bound.setattr(upkeep, "_MANY_FILES", 1)
        done = maintain(spark, UpkeepRequest(warehouse=str(place), keep_days=400, keep_runs=1), lambda line: None)
    assert (done.exit_code, done.removed_runs) == (0, ("old",))
    versions["maintain"] = before, DeltaTable(str(place / "findings")).version()
    return Made(place=place, versions=versions)


def feed(spark: SparkSession, made: Made, step: str) -> dict[str, Rows]:
    """By kind, the changes that a step made, as Spark tells them; delta-rs tells the same."""
    before, after = made.versions[step]
    place = str(made.place / "findings")
    read = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", before + 1)
    found = read.option("endingVersion", after).load(place).toArrow()
    by_sql = spark.sql(f"SELECT * FROM table_changes_by_path('{place}', {before + 1}, {after})").toArrow()  # noqa: S608
    there = pa.table(DeltaTable(place).load_cdf(starting_version=before + 1, ending_version=after).read_all())
    kinds = sorted(set(map(str, found["_change_type"].to_pylist())))
    told = {kind: comparable(found.filter(pc.field("_change_type") == kind).drop_columns(list(COMMIT))) for kind in kinds}
    columns = sorted({*found.column_names} - {"_commit_timestamp"})  # delta-rs says when in another way
    for other in (by_sql, there):
        assert comparable(other.select(columns)) == comparable(found.select(columns))
    return told


def of_run(found: Rows, run_id: str) -> Rows:
    return Counter({row: many for row, many in found.items() if json.loads(row)["run_id"] == run_id})


@pytest.mark.parametrize("step", ["old", "new"])
def test_the_feed_of_a_run_has_its_findings(spark: SparkSession, made: Made, step: str) -> None:
    _before, after = made.versions[step]
    expected = of_run(made.findings(after), step)
    assert expected
    assert feed(spark, made, step) == {"insert": expected}


def test_the_feed_of_a_run_made_again_has_what_went_and_what_came(spark: SparkSession, made: Made) -> None:
    before, after = made.versions["old again"]
    went, came = of_run(made.findings(before), "old"), of_run(made.findings(after), "old")
    assert 0 < len(came) < len(went)
    assert feed(spark, made, "old again") == {"delete": went, "insert": came}


def test_the_feed_of_maintain_has_the_findings_of_the_removed_run_and_nothing_of_what_it_merged(spark: SparkSession, made: Made) -> None:
    before, after = made.versions["maintain"]
    gone = of_run(made.findings(before), "old")
    assert gone
    assert not of_run(made.findings(after), "old")
    assert feed(spark, made, "maintain") == {"delete": gone}
    assert len(DeltaTable(str(made.place / "findings")).file_uris()) == 1, "what stays was merged"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_delta_rs_and_duckdb_read_what_spark_does(spark: SparkSession, made: Made, table: Any) -> None:
    place = made.place / table.name
    found = spark.read.format("delta").load(str(place)).toArrow()
    expected = comparable(found)
    assert comparable(in_delta_rs(place)) == expected
    assert comparable(in_duckdb(place)) == expected
    assert in_duckdb(place).num_rows == found.num_rows


def test_only_a_few_tables_are_empty(made: Made) -> None:
    """Else there is nothing to compare."""
    empty = {table.name for table in TABLES if not in_delta_rs(made.place / table.name).num_rows}
    assert len(empty) < len(TABLES) / 3, empty
    merged = {table.name for table in OF_PARTITIONS if len(DeltaTable(str(made.place / table.name)).file_uris()) == 1}
    assert len(merged) > len(TABLES) / 3, "they are read after they were merged"


@pytest.mark.parametrize("switched_off", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_the_findings_of_an_older_version_get_a_feed_unless_it_was_switched_off(
    spark: SparkSession, tmp_path: Path, switched_off: bool
) -> None:
    with tarfile.open(DATA / "older" / "warehouse-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    warehouse = DeltaWarehouse(spark, str(tmp_path / "warehouse"))
    place = warehouse.path(FINDINGS)
    assert CHANGE_FEED not in DeltaTable(place).metadata().configuration
    before = comparable(in_delta_rs(Path(place)))
    if switched_off:
        spark.sql(f"ALTER TABLE {warehouse.identifier(FINDINGS)} SET TBLPROPERTIES ('{CHANGE_FEED}' = 'false')")
    warehouse.create_missing()
    assert DeltaTable(place).metadata().configuration[CHANGE_FEED] == ("false" if switched_off else "true")
    version = DeltaTable(place).version()
    DeltaWarehouse(spark, str(tmp_path / "warehouse")).create_missing()
    assert DeltaTable(place).version() == version, "once is enough"
    assert comparable(in_delta_rs(Path(place))) == before
    assert comparable(in_duckdb(Path(place))) == before
