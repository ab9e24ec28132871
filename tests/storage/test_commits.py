"""Commits without a JVM: of the version that was read or not at all, each number once, a run's rows replaced as a whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from replica_audit.errors import UsageError
from replica_audit.rows import AUDIT_RUNS, EPOCH_END_OFFSETS, FINDINGS, INPUT_ERRORS, TABLES, Table
from replica_audit.rows.arrow import WrittenFile, schema_of
from replica_audit.rows.encoding import RowMismatchError, as_dict, row_of
from replica_audit.storage.warehouse import table_files
from replica_audit.storage.warehouse.commits import TableCommit, TableCommits
from replica_audit.storage.warehouse.faults import is_conflict
from replica_audit.storage.warehouse.reader import CONSTRAINT, WarehouseTables
from replica_audit.storage.warehouse.rewrites import CHANGE_FEED, CommitConflictError
from replica_audit.storage.warehouse.spark_tables import pending_changes
from replica_audit.storage.warehouse.table_files import TableFiles, written_rows
from tests.rows.values import full_row
from tests.support.delta_readers import in_duckdb

Row = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made(tmp_path, INPUT_ERRORS)
    return tmp_path


def made(place: Path, table: Table) -> TableCommits:
    commits = TableCommits(str(place))
    commits.create(table)
    commits.add_constraints(table)
    return commits


def problems(*brokers: int) -> list[Row]:
    words = {name: "w" for name in ("path", "kind", "code", "detail", "remedy")}
    return [{"cluster_id": "c", "broker_id": broker, **words} for broker in brokers]


def files(place: Path, rows: list[Row], run_id: str, table: Table = INPUT_ERRORS) -> list[WrittenFile]:
    schema = pa.schema(list(schema_of(table))[1:])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    (found,) = written_rows(iter([batch]), table=table.name, place=str(place / table.name), run_id=run_id)
    return [row_of(WrittenFile, row) for row in found.to_pylist()]


def write(place: Path, run_id: str, *brokers: int, fence: int | None, replace: bool = False) -> None:
    known: list[pa.Table] | None = [] if replace else None
    commit = TableCommit(run_id=run_id, fence=fence)
    TableCommits(str(place)).write(INPUT_ERRORS, files(place, problems(*brokers), run_id) if brokers else [], commit, replace=known)


def brokers(place: Path, run_id: str) -> list[int]:
    rows = DeltaTable(str(place / INPUT_ERRORS.name)).to_pyarrow_table().to_pylist()
    return sorted(row["broker_id"] for row in rows if row["run_id"] == run_id)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_created_as_its_class_says(tmp_path: Path, table: Table) -> None:
    made(tmp_path, table)
    made(tmp_path, table)  # once more changes nothing
    opened = DeltaTable(str(tmp_path / table.name))
    assert opened.version() == bool(table.constraints)
    about = opened.metadata()
    assert about.description == table.grain
    assert {f"{CONSTRAINT}{name}" for name in table.constraints} == {name for name in about.configuration if name.startswith(CONSTRAINT)}
    assert about.configuration["delta.enableDeletionVectors"] == "false"
    assert (about.configuration.get(CHANGE_FEED) == "true") == table.has_change_feed
    comments = {field.name: field.metadata.get("comment") for field in opened.schema().fields}
    assert comments == {column.name: column.comment for column in table.columns}
    assert [field.name for field in opened.schema().fields] == table.names
    assert [field.nullable for field in opened.schema().fields] == [column.nullable for column in table.columns]
    assert '"nullable":false' not in json.dumps(
        [field["type"] for field in json.loads(opened.schema().to_json())["fields"]], separators=(",", ":")
    ), "as Spark's"
    assert not list(pending_changes(table, about.configuration)), "nothing is to be altered in a table of this version"
    assert TableCommits(str(tmp_path)).takes(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_of_every_table_are_written_and_read_back(tmp_path: Path, table: Table) -> None:
    commits = made(tmp_path, table)
    row: Any = table.row
    whole = {"run_id": "one", "cluster_id": "c", **{name: value for name, value in as_dict(full_row(row)).items() if name != "run_id"}}
    kinds = {field.name: field.type for field in schema_of(table)}
    rows = [{name: list(v.items()) if pa.types.is_map(kinds[name]) and v else v for name, v in whole.items() if name != "run_id"}]
    with TableFiles({table.name: str(tmp_path / table.name)}, "one") as taken:  # which looks at no checks: the values are any
        taken.add(table.name, pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(schema_of(table))[1:])))
        commits.write(table, taken.finish(), TableCommit(run_id="one", fence=1), replace=None)
    expected = pa.Table.from_pylist([{"run_id": "one", **rows[0]}], schema=schema_of(table)).to_pylist()
    found = WarehouseTables(str(tmp_path)).arrow(table.name, run_id="one")
    assert found is not None
    assert found.select(table.names).to_pylist() == expected
    assert in_duckdb(tmp_path / table.name).num_rows == 1


def test_a_killed_creation_is_finished(tmp_path: Path) -> None:
    commits = TableCommits(str(tmp_path))
    commits.create(EPOCH_END_OFFSETS)  # and its process is gone
    commits.add_constraints(EPOCH_END_OFFSETS)
    assert f"{CONSTRAINT}undefined_together" in DeltaTable(str(tmp_path / EPOCH_END_OFFSETS.name)).metadata().configuration


def test_a_constraint_that_was_dropped_stays_away(place: Path) -> None:
    made(place, EPOCH_END_OFFSETS)
    DeltaTable(str(place / EPOCH_END_OFFSETS.name)).alter.drop_constraint("undefined_together")
    made(place, EPOCH_END_OFFSETS)
    assert f"{CONSTRAINT}undefined_together" not in DeltaTable(str(place / EPOCH_END_OFFSETS.name)).metadata().configuration


@pytest.mark.parametrize("others", [0, 1, 120], ids=["the same run", "another run", "more runs than a checksum keeps"])
def test_what_is_sent_after_a_later_attempt_has_written_is_passed_over(place: Path, others: int) -> None:
    write(place, "run", 2, fence=20)
    for number in range(others):
        write(place, f"other-{number}", 7, fence=1)
    write(place, "run", 1, fence=10)
    write(place, "run", 4, fence=20)
    assert brokers(place, "run") == [2]
    write(place, "run", 3, fence=30)
    assert brokers(place, "run") == [2, 3]
    assert DeltaTable(str(place / INPUT_ERRORS.name)).transaction_version("replica-audit:run") == 30


def test_a_run_is_replaced_in_one_commit_and_others_stay(place: Path) -> None:
    write(place, "run", 1, 2, fence=1)
    write(place, "other", 7, fence=1)
    before = DeltaTable(str(place / INPUT_ERRORS.name)).version()
    write(place, "run", 3, fence=2, replace=True)
    assert (brokers(place, "run"), brokers(place, "other")) == ([3], [7])
    assert DeltaTable(str(place / INPUT_ERRORS.name)).version() == before + 1
    write(place, "run", fence=3, replace=True)
    assert (brokers(place, "run"), brokers(place, "other")) == ([], [7]), "an attempt that makes no rows leaves none of those before"
    write(place, "run", 9, fence=2)
    assert brokers(place, "run") == [], "what an earlier attempt still sends is passed over, too"


@pytest.mark.parametrize("is_at_hand", [False, True])
def test_a_run_is_replaced_also_where_its_rows_were_merged_with_others(place: Path, is_at_hand: bool) -> None:
    write(place, "run", 1, fence=1)
    write(place, "other", 7, fence=1)
    opened = DeltaTable(str(place / INPUT_ERRORS.name))
    opened.optimize.compact()
    assert len(opened.file_uris()) == 1
    rows = pa.Table.from_pylist([{"run_id": "run", **row} for row in problems(3)], schema=schema_of(INPUT_ERRORS))
    commit = TableCommit(run_id="run", fence=2)
    made_files = files(place, problems(3), "run")
    TableCommits(str(place)).write(INPUT_ERRORS, made_files, commit, replace=[rows] if is_at_hand else [])
    assert (brokers(place, "run"), brokers(place, "other")) == ([3], [7])
    after = DeltaTable(str(place / INPUT_ERRORS.name))
    assert after.version() == opened.version() + (1 if is_at_hand else 2), "rows that are at hand are put there in the same commit"
    assert after.transaction_version("replica-audit:run") == 2


def merged(table: DeltaTable) -> None:
    table.optimize.compact()


def appended(table: DeltaTable) -> None:
    place = Path(table.table_uri.removeprefix("file://")).parent
    write(place, "between", 5, fence=1)


def deleted(table: DeltaTable) -> None:
    table.delete("run_id = 'other'")


@pytest.mark.parametrize("between", [merged, appended, deleted])
@pytest.mark.parametrize("replace", [False, True])
def test_whatever_comes_between_is_a_conflict_and_nothing_is_twice(
    place: Path, between: Callable[[DeltaTable], None], replace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs by itself would let the replacement through behind a merge, and the rows of both would be there."""
    for run_id, broker in (("run", 1), ("other", 7)):
        write(place, run_id, broker, fence=1)
    commit_files = DeltaTable.create_write_transaction

    def late(table: DeltaTable, actions: list[AddAction | RemoveAction], *rest: Any, **more: Any) -> None:
        monkeypatch.undo()
        between(DeltaTable(table.table_uri))
        commit_files(table, actions, *rest, **more)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    with pytest.raises(CommitConflictError) as caught:
        write(place, "run", 2, fence=2, replace=replace)
    assert is_conflict(caught.value)
    assert brokers(place, "run") == [1]
    write(place, "run", 2, fence=2, replace=replace)
    assert brokers(place, "run") == ([2] if replace else [1, 2])


def test_another_failure_is_no_conflict(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake.exceptions import CommitFailedError

    def refused(*_given: Any, **_more: Any) -> None:
        raise CommitFailedError("no")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refused)
    with pytest.raises(CommitFailedError):
        write(place, "run", 2, fence=2)


def test_a_check_refuses_a_row_before_anything_is_committed(place: Path) -> None:
    made(place, FINDINGS)
    row: Any = FINDINGS.row
    bad = {"cluster_id": "c", **{name: None for name in FINDINGS.names[2:]}, **as_dict(full_row(row)), "status": "forgotten"}
    bad.pop("run_id", None)
    with pytest.raises(RowMismatchError, match="known_status"):
        files(place, [bad], "run", FINDINGS)
    assert not list((place / FINDINGS.name).glob("*.parquet"))


def test_a_table_that_is_gone_is_not_made_anew(place: Path) -> None:
    shutil.rmtree(place / INPUT_ERRORS.name)
    (place / INPUT_ERRORS.name).mkdir()
    with pytest.raises(FileNotFoundError):
        write(place, "run", 1, fence=1)


@pytest.mark.parametrize("what", ["constraint", "column", "feature"])
def test_tables_of_others_definition_take_no_files(place: Path, what: str) -> None:
    """delta-rs and Spark would not look whether the rows of files hold what others want."""
    commits, table = TableCommits(str(place)), DeltaTable(str(place / INPUT_ERRORS.name))
    assert commits.takes(INPUT_ERRORS)
    if what == "constraint":
        table.alter.add_constraint({"of_mine": "broker_id < 100"})
    elif what == "feature":
        log = place / INPUT_ERRORS.name / "_delta_log" / f"{table.version() + 1:020}.json"
        features = ["appendOnly", "checkConstraints", "invariants", "clustering", "domainMetadata"]
        protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
        log.write_text('{"commitInfo":{"operation":"UPGRADE"}}\n' + json.dumps({"protocol": protocol}) + "\n", encoding="utf-8")
    else:
        lacking = [field for field in schema_of(AUDIT_RUNS) if field.name != "attempt"]
        DeltaTable.create(str(place / AUDIT_RUNS.name), pa.schema(lacking))
    table_of = AUDIT_RUNS if what == "column" else INPUT_ERRORS
    assert not commits.takes(table_of)
    with pytest.raises(UsageError, match="changed meanwhile"):
        commits.write(table_of, [], TableCommit(run_id="run", fence=1), replace=None)


def test_a_file_without_statistics_of_a_column_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs' own dataset passes over its rows where another file has them."""
    whole = table_files._statistics

    def lacking(file: Any) -> Row:
        found = whole(file)
        return {**found, "minValues": {}, "maxValues": {}}

    write(place, "with", 1, fence=1)
    monkeypatch.setattr(table_files, "_statistics", lacking)
    write(place, "without", 2, fence=1)
    for run_id, broker in (("with", 1), ("without", 2)):
        tables = WarehouseTables(str(place))
        found = tables.arrow(INPUT_ERRORS.name, run_id=run_id, broker_id=broker)
        assert found is not None
        assert (found.num_rows, tables.count(INPUT_ERRORS.name, run_id=run_id, broker_id=broker)) == (1, 1)


def test_times_are_within_the_bounds_of_their_file(tmp_path: Path) -> None:
    """Delta's statistics have milliseconds."""
    commits, moment = made(tmp_path, AUDIT_RUNS), datetime(2026, 1, 2, 3, 4, 5, 999_001, tzinfo=UTC)
    row = {"cluster_id": "c", "started_at": moment, "run_date": moment.date(), "status": "running", "attempt": 1}
    written = files(tmp_path, [row], "one", AUDIT_RUNS)
    commits.write(AUDIT_RUNS, written, TableCommit(run_id="one", fence=1), replace=None)
    said = json.loads(written[0].statistics)
    assert (said["minValues"]["started_at"], said["maxValues"]["started_at"]) == ("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:06.000Z")
    assert said["minValues"]["run_date"] == said["maxValues"]["run_date"] == "2026-01-02"
    where = tmp_path / AUDIT_RUNS.name
    for name, value in (("started_at", moment), ("run_date", moment.date())):
        assert DeltaTable(str(where)).to_pyarrow_dataset().to_table(filter=ds.field(name) == value).num_rows == 1
        assert in_duckdb(where, f"{name} = ?", value).num_rows == 1


def test_filters_find_every_row_by_the_statistics_of_its_file(place: Path) -> None:
    """Wrong ones would let a reader pass over files that hold rows."""
    last = "\U0010ffff"
    texts = ["", "a", "é", "z" * 63, "z" * 64, "z" * 65, "y" * 64 + last * 3 + "a", "\U0001f600", "\uffff", last * 70, "x" * 5000]
    for number, text in enumerate(texts):
        row = problems(number)[0] | {"path": text, "line": None if number % 2 else 2**62 - number}
        TableCommits(str(place)).write(
            INPUT_ERRORS, files(place, [row], f"run-{number}"), TableCommit(run_id=f"run-{number}", fence=1), replace=None
        )
    where = place / INPUT_ERRORS.name
    for number, text in enumerate(texts):
        found = DeltaTable(str(where)).to_pyarrow_table(filters=[("path", "=", text)])
        assert found["run_id"].to_pylist() == [f"run-{number}"], text
        chosen = DeltaTable(str(where)).to_pyarrow_dataset().to_table(filter=(ds.field("path") >= text) & (ds.field("path") <= text))
        assert chosen["run_id"].to_pylist() == [f"run-{number}"], text
        assert in_duckdb(where, "path = ?", text)["run_id"].to_pylist() == [f"run-{number}"], text
    assert in_duckdb(where, "line IS NULL").num_rows == len(texts) // 2
    assert in_duckdb(where, "line > ?", 2**62 - 5).num_rows == 3
