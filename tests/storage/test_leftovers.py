"""What killed processes leave of tables: a table that was begun is cleared away, unless somebody is at work on it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.rows import AUDIT_RUNS
from replica_audit.storage.warehouse import damage
from replica_audit.storage.warehouse.place import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT, TEMPORARY = "00000000000000000000.json", ".00000000000000000000.json.4c2fb818-8be3-41d1-a66a-72282f397b7c.tmp"
CHECKSUM = f".{TEMPORARY}.crc"


def begun(table: Path, *names: str) -> Path:
    """A table that was begun long ago, with these files in its log."""
    (table / LOG / "_staged_commits").mkdir(parents=True)
    for name in names:
        (table / LOG / name).write_text("{")
    for path in (*table.rglob("*"), table):
        os.utime(path, (1, 1))
    return table


@pytest.mark.parametrize("names", [(), (TEMPORARY,), (TEMPORARY, CHECKSUM), (f"{COMMIT}#1", "_last_checkpoint#2")])
def test_a_table_that_was_begun_goes(tmp_path: Path, names: tuple[str, ...]) -> None:
    table = begun(tmp_path / "findings", *names)
    assert damage.clear_begun(table, 20)
    assert not list(table.iterdir())


@pytest.mark.parametrize("name", [COMMIT, "notes.txt", f"x{TEMPORARY}"])
def test_whatever_else_is_there_stays(tmp_path: Path, name: str) -> None:
    table = begun(tmp_path / "findings", name)
    assert not damage.clear_begun(table, 20)
    assert (table / LOG / name).read_text() == "{"


@pytest.mark.parametrize("name", ["", TEMPORARY, "_staged_commits"])
def test_somebody_is_at_work_on_it(tmp_path: Path, name: str) -> None:
    table = begun(tmp_path / "findings", TEMPORARY)
    os.utime(table / LOG / name)
    assert not damage.clear_begun(table, 20)
    assert (table / LOG / TEMPORARY).exists()


def test_temporary_files_of_a_log(tmp_path: Path) -> None:
    table = begun(tmp_path / "findings", COMMIT, f".{COMMIT}.crc", TEMPORARY, CHECKSUM)
    assert [path.name for path in damage.temporary_files(table, 20)] == [CHECKSUM, TEMPORARY]
    os.utime(table / LOG / CHECKSUM)
    assert [path.name for path in damage.temporary_files(table, 20)] == [TEMPORARY]
    shutil.rmtree(table)
    assert damage.temporary_files(table, 20) == ()


@pytest.mark.spark
def test_a_table_is_created_where_one_was_begun(spark: SparkSession, tmp_path: Path) -> None:
    from replica_audit.errors import UsageError
    from replica_audit.storage.warehouse.tables import DeltaWarehouse

    warehouse = DeltaWarehouse(spark, str(tmp_path))
    begun(tmp_path / AUDIT_RUNS.name, TEMPORARY)
    warehouse._make_ready(AUDIT_RUNS)
    assert warehouse.tables.has(AUDIT_RUNS.name)
    other = DeltaWarehouse(spark, str(tmp_path / "other"))
    (tmp_path / "other" / AUDIT_RUNS.name).mkdir(parents=True)
    (tmp_path / "other" / AUDIT_RUNS.name / "part.parquet").write_bytes(b"not ours")
    with pytest.raises(UsageError, match="not a Delta table"):
        other._make_ready(AUDIT_RUNS)
