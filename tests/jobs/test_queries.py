"""The shipped questions give the same answers in Spark, DuckDB and delta-rs, and the right ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from replica_audit.rows import TABLES
from tests.house.checkout import ROOT
from tests.support.delta_readers import Rows, comparable, delta_extension
from tests.support.warehouse import STARTED, write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ROOT / "docs" / "queries.sql"
SAMPLE = ROOT / "tests" / "data" / "sample"
NAMES = [table.name for table in TABLES]


def statements() -> dict[str, str]:
    """The statements of the file by their names, in order."""
    blocks = QUERIES.read_text(encoding="utf-8").split("\n\n")[1:]
    named = (block.partition("\n") for block in blocks)
    return {re.match(r"-- (\w+): ", head)[1]: statement for head, _end, statement in named}  # type: ignore[index]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights of a cluster that loses records, one of another, and a run that is not complete."""
    path = tmp_path_factory.mktemp("warehouse")
    for number, run_id in enumerate(("first", "second")):
        write_warehouse(path, SAMPLE / "committed-loss", run_id=run_id, started_at=STARTED + timedelta(days=number))
    write_warehouse(path, SAMPLE / "leader-trimmed", run_id="other", started_at=STARTED + timedelta(days=3))
    write_warehouse(path, SAMPLE / "leader-trimmed", run_id="killed", started_at=STARTED + timedelta(days=4), status="running")
    return path


def answers(run: Callable[[str], pa.Table]) -> dict[str, pa.Table]:
    return {name: run(statement) for name, statement in statements().items()}


def in_duckdb(warehouse: Path) -> dict[str, pa.Table]:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        database.load_extension(str(delta_extension()))
        database.execute("SET TimeZone = 'UTC'")
        for name in NAMES:
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM delta_scan('{warehouse / name}')")  # noqa: S608 - a test's own
        return answers(lambda statement: database.execute(statement).to_arrow_table())


def in_delta_rs(warehouse: Path) -> dict[str, pa.Table]:
    builder = QueryBuilder()
    for name in NAMES:
        builder.register(name, DeltaTable(str(warehouse / name)))
    return answers(lambda statement: pa.table(builder.execute(statement).read_all()))


def rows(found: Mapping[str, pa.Table]) -> dict[str, Rows]:
    return {name: comparable(table) for name, table in found.items() if "VIEW" not in statements()[name]}


def of(found: Mapping[str, pa.Table], name: str, *columns: str) -> Sequence[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in found[name].to_pylist()]


def test_duckdb_and_delta_rs_answer_alike_and_right(warehouse: Path) -> None:
    found = in_duckdb(warehouse)
    assert rows(found) == rows(in_delta_rs(warehouse))
    assert {run for (run,) in of(found, "latest", "run_id")} == {"second", "other"}
    assert {run for (run,) in of(found, "trend", "run_id")} == {"first", "second", "other"}
    assert of(found, "brokers", "broker_id", "outcome") == [(2, "copy-first")]
    assert {run for (run,) in of(found, "one_partition", "run_id")} == {"first", "second"}
    assert {since for (since,) in of(found, "longest_open", "open_since")} == {STARTED.date(), (STARTED + timedelta(days=3)).date()}
    worst = [severity for (severity,) in of(found, "worst_first", "severity")]
    assert worst == sorted(worst, key=("critical", "error", "warning").index)
    assert len(set(worst)) > 1
    for name in ("worst_topics", "worst_brokers", "groups", "unclean_elections"):
        assert found[name].num_rows, name
    assert "billing" not in {topic for (topic,) in of(found, "new_criticals", "topic")}, "they are of the first night"
    assert found["new_criticals"].num_rows


@pytest.mark.spark
def test_spark_answers_alike(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE questions LOCATION '{tmp_path}'")
    try:
        spark.catalog.setCurrentDatabase("questions")
        for name in NAMES:
            spark.sql(f"CREATE TABLE {name} USING DELTA LOCATION '{warehouse / name}'")
        assert rows(answers(lambda statement: spark.sql(statement).toArrow())) == rows(in_duckdb(warehouse))
    finally:
        spark.catalog.setCurrentDatabase(before)
        spark.sql("DROP DATABASE questions CASCADE")
