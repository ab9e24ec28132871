"""SQL of others in the definition of a table: Delta would evaluate it, and so run their code in the process of an audit."""

from __future__ import annotations

import json
import shutil
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from replica_audit.errors import UsageError
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.rows import AUDIT_RUNS, INPUT_ERRORS, SEGMENT_EPOCHS, TABLES
from replica_audit.storage.warehouse.reader import WarehouseTables, is_comparison, refuse_foreign_sql
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.storage.test_transactions import brokers, write
from tests.support.warehouse import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).resolve().parents[1] / "data"
CALL = "reflect('java.lang.System', 'load', '/tmp/evil.so')"
GENERATED = {"delta.generationExpression": CALL}


@pytest.mark.parametrize("expression", ["price > -5", " a >= 1 and NOT (b in ( 'x' ) OR c <> 2)", "a IS NOT NULL", "(a = 1) = (b = 1)"])
def test_comparisons_are_taken(expression: str) -> None:
    assert is_comparison(expression)


@pytest.mark.parametrize(
    "expression",
    [
        CALL,
        f"partition >= 0 AND {CALL} IS NULL",
        "partition IN (reflect ('a'))",
        "partition >= 0 OR\nreflect\n('a') = 1",
        "`reflect`('a') = 1",
        "reflect/**/('a') = 1",
        "spark_catalog.audits.evil('a')",
        "'reflect'('a')",
        "partition = -abs(1)",
        "EXISTS (SELECT 1)",
        "a = 'it\\'s' OR reflect('a')",
    ],
)
def test_whatever_may_call_a_function_is_not(expression: str) -> None:
    assert not is_comparison(expression)
    with pytest.raises(UsageError, match=r"table W/x: Delta\.Constraints\.known_status is "):
        refuse_foreign_sql("W/x", '{"type": "struct", "fields": []}', {"Delta.Constraints.known_status": expression})


@pytest.mark.parametrize("name", [*GENERATED, "delta.invariants", "CURRENT_DEFAULT", "delta.identity.start", "of.tomorrow"])
def test_a_column_has_a_comment_and_nothing_else(name: str) -> None:
    def schema(metadata: dict[str, object]) -> str:
        inner = {"type": "struct", "fields": [{"name": "inner", "type": "string", "nullable": True, "metadata": metadata}]}
        kind = {"type": "array", "elementType": inner, "containsNull": True}
        return json.dumps({"type": "struct", "fields": [{"name": "outer", "type": kind, "nullable": True, "metadata": {"comment": "c"}}]})

    refuse_foreign_sql("W/x", schema({"comment": "reflect()", "delta.columnMapping.id": 1}), {"delta.appendOnly": "false"})
    with pytest.raises(UsageError, match=f"table W/x: column outer.inner has {name}"):
        refuse_foreign_sql("W/x", schema({name: "1"}), {})


@pytest.mark.parametrize("archive", ["warehouse-0.1.0", "warehouse-with-fingerprints"])
def test_tables_of_every_version_are_taken(archive: str, tmp_path: Path) -> None:
    with tarfile.open(DATA / "older" / f"{archive}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    tables = WarehouseTables(str(tmp_path / "warehouse"))
    for name in [path.name for path in (tmp_path / "warehouse").iterdir()]:
        tables.refuse_foreign_sql(name)
    assert all(is_comparison(check) for table in TABLES for check in table.constraints.values())


def plant(table: Path, metadata: dict[str, str], constraint: str, *, without: str = "") -> None:
    """Put a column with metadata, and a constraint, into the definition of a table, by a commit of its own."""
    log = table / "_delta_log"
    (define,) = [line for line in (log / f"{0:020}.json").read_text(encoding="utf-8").splitlines() if "metaData" in json.loads(line)]
    action: dict[str, Any] = json.loads(define)
    schema = json.loads(action["metaData"]["schemaString"])
    schema["fields"].append({"name": "zz", "type": "string", "nullable": True, "metadata": metadata})
    action["metaData"]["schemaString"] = json.dumps(schema)
    action["metaData"]["configuration"] |= {"delta.constraints.zz": constraint}
    features = ["appendOnly", "changeDataFeed", "checkConstraints", "clustering", "domainMetadata", "generatedColumns", "invariants"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [name for name in features if name != without]}
    newest = DeltaTable(str(table)).version() + 1
    lines = [{"commitInfo": {"operation": "SET"}}, action, {"protocol": protocol}]
    (log / f"{newest:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("metadata", "constraint"),
    [
        pytest.param(GENERATED, "partition >= 0", id="column"),
        pytest.param({}, f"{CALL} IS NULL", id="constraint", marks=pytest.mark.nightly),
    ],
)
def test_nothing_is_written_to_such_a_table(
    spark: SparkSession, tmp_path: Path, metadata: dict[str, str], constraint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = DeltaWarehouse(spark, str(tmp_path))
    warehouse.create_missing()
    write(warehouse, "before", 1, fence=None)
    for table in (INPUT_ERRORS, SEGMENT_EPOCHS, AUDIT_RUNS):
        plant(tmp_path / table.name, metadata, constraint)
    versions = [DeltaTable(str(tmp_path / table.name)).version() for table in TABLES]
    refused = rf"table {tmp_path}/\w+: .* give another --warehouse"
    with pytest.raises(UsageError, match=refused):
        write(warehouse, "meanwhile", 1, fence=None)
    with pytest.raises(UsageError, match=refused):
        warehouse.create_missing()
    with monkeypatch.context() as patched:  # as of a store that only Spark opens
        patched.setattr(DeltaWarehouse, "_commits", None)
        if constraint != "partition >= 0":  # Spark shows what is checked, not what is computed
            with pytest.raises(UsageError, match=refused.replace(f"{tmp_path}", ".*")):
                write(warehouse, "meanwhile", 1, fence=None)
    assert [DeltaTable(str(tmp_path / table.name)).version() for table in TABLES] == versions
    assert brokers(tmp_path, "meanwhile") == []


@pytest.mark.spark
def test_a_definition_that_delta_itself_refuses_is_no_bug(spark: SparkSession, empty_warehouse: Path, tmp_path: Path) -> None:
    place = tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, place)
    plant(place / INPUT_ERRORS.name, {}, "broker_id >= 0", without="checkConstraints")
    with pytest.raises(UsageError, match=rf"table {place}/input_errors: Delta does not take its definition \(.*checkConstraints"):
        DeltaWarehouse(spark, str(place)).create_missing()


def test_maintain_changes_no_such_table(tmp_path: Path) -> None:
    began = datetime.now(UTC) - timedelta(days=800)
    keys = {"run_id": "old", "cluster_id": "c", "started_at": began, "run_date": began.date(), "status": "complete", "exit_code": 2}
    newer = keys | {"run_id": "new", "started_at": began + timedelta(days=1)}
    segment = dict.fromkeys(SEGMENT_EPOCHS.names, 1) | {"cluster_id": "c", "topic": "t", "log_dir": "data", "source": "raw"}
    rows = [segment | {"run_id": run_id} for run_id in ("old", "new")]
    write_rows(tmp_path, {AUDIT_RUNS.name: [keys, newer], SEGMENT_EPOCHS.name: rows})
    request = UpkeepRequest(warehouse=str(tmp_path), keep_days=1, keep_runs=0)
    for table, what in ((SEGMENT_EPOCHS, "delete the rows of runs"), (AUDIT_RUNS, "mark the runs that are to be removed")):
        plant(tmp_path / table.name, GENERATED, "partition >= 0")
        version = DeltaTable(str(tmp_path / table.name)).version()
        failures = maintain(request, lambda line: None).failures
        assert (table.name, what) in {(one.table, one.what) for one in failures}
        assert all("column zz has delta.generationExpression" in one.reason for one in failures)
        assert DeltaTable(str(tmp_path / table.name)).version() == version
