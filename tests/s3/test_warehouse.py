"""A warehouse in a store that speaks S3: written, read and kept small without Spark."""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from replica_audit import cli
from replica_audit.rows import INPUT_ERRORS, OF_PARTITIONS
from replica_audit.rows.arrow import schema_of
from replica_audit.storage.warehouse import upkeep
from replica_audit.storage.warehouse.commits import TableCommit, TableCommits
from replica_audit.storage.warehouse.reader import WarehouseTables
from replica_audit.storage.warehouse.rewrites import CommitConflictError
from replica_audit.storage.warehouse.table_files import TableFiles
from tests.house.checkout import ROOT
from tests.s3.store import Store
from tests.s3.test_audit import comparable
from tests.support import in_process
from tests.support.warehouse import write_warehouse

pytestmark = pytest.mark.slow
LOSS = ROOT / "tests" / "data" / "sample" / "committed-loss"
WAREHOUSE = "s3a://audits/nightly"
IN_COLUMNS = ("--format", "text")


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A job by the launcher, which fetches the connector if it is not there."""
    return subprocess.run([ROOT / "spark-submit.sh", *arguments], capture_output=True, text=True, check=False, timeout=1800)


def told(warehouse: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What report and explain say without Spark, wherever the warehouse is and a line ends."""

    def said() -> str:
        return "".join(capsys.readouterr().out.split()).replace(warehouse, "WAREHOUSE")  # a line may end within a long path

    capsys.readouterr()
    assert cli.main(["report", "--warehouse", warehouse, *IN_COLUMNS]) == 0
    report = said()
    assert cli.main(["explain", "--warehouse", warehouse, "--partition", "billing-0"]) == 0
    return report, said()


def test_what_lies_there_is_read_as_on_a_disk(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(tmp_path / "here", LOSS, run_id="one")
    store.upload(tmp_path / "here", "copied", "nightly/")
    assert told("s3a://copied/nightly", capsys) == told(str(tmp_path / "here"), capsys)
    assert cli.main(["report", "--warehouse", "s3a://copied/nowhere", *IN_COLUMNS]) == 2
    assert "s3a://copied/nowhere" in capsys.readouterr().err


def test_old_runs_go_and_files_are_merged(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_MANY_FILES", 1)
    now = datetime.now(UTC)
    for run_id, days in (("older", 900), ("old", 800), ("kept", 10), ("new", 1)):
        write_warehouse(tmp_path / "here", LOSS, run_id=run_id, started_at=now - timedelta(days=days))
    store.upload(tmp_path / "here", "old", "nightly/")
    assert cli.main(["maintain", "--warehouse", "s3a://old/nightly", "--json", str(tmp_path / "done")]) == 0
    done = json.loads((tmp_path / "done").read_text())
    assert done["removed_runs"] == ["older", "old"]
    of = {one["table"]: one for one in done["tables"]}["replica_verdicts"]
    assert (of["merged_files"], of["made_files"], of["removed_files"]) == (2, 1, 0)
    for table in ("audit_runs", "replica_verdicts", "findings"):
        there, before = (WarehouseTables(place).arrow(table) for place in ("s3a://old/nightly", str(tmp_path / "here")))
        assert there is not None and before is not None
        kept = before.filter(pc.is_in(before["run_id"], value_set=pa.array(["kept", "new"])))
        assert comparable(in_process.rows(there)) == comparable(in_process.rows(kept)), table


def test_commits_at_the_same_time_all_count(store: Store) -> None:
    store.client().create_bucket(Bucket="commits")
    place = "s3a://commits/nightly"
    commits = TableCommits(place)
    commits.create(INPUT_ERRORS)
    commits.add_constraints(INPUT_ERRORS)
    assert commits.takes(INPUT_ERRORS)

    def write(run_id: str) -> None:
        words = {name: "w" for name in ("path", "kind", "code", "detail", "remedy")}
        rows = pa.RecordBatch.from_pylist([{"cluster_id": "c", **words}], schema=pa.schema(list(schema_of(INPUT_ERRORS))[1:]))
        with TableFiles({INPUT_ERRORS.name: f"{place}/{INPUT_ERRORS.name}"}, run_id) as files:
            files.add(INPUT_ERRORS.name, rows)
            made = files.finish()
        while True:
            try:
                return TableCommits(place).write(INPUT_ERRORS, made, TableCommit(run_id=run_id, fence=1), replace=None)
            except CommitConflictError:
                continue

    threads = [threading.Thread(target=write, args=(f"run-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = WarehouseTables(place).arrow(INPUT_ERRORS.name)
    assert found is not None
    assert sorted(map(str, found["run_id"].to_pylist())) == [f"run-{number}" for number in range(4)]


def test_a_task_that_fails_leaves_no_object(store: Store) -> None:
    store.client().create_bucket(Bucket="failed")
    rows = pa.RecordBatch.from_pylist([{"cluster_id": "c"}], schema=pa.schema([("cluster_id", pa.string())]))
    with pytest.raises(RuntimeError), TableFiles({INPUT_ERRORS.name: "s3a://failed/here"}, "one") as files:
        files.add(INPUT_ERRORS.name, rows)
        files._write(INPUT_ERRORS.name)
        raise RuntimeError
    found = store.client().list_objects_v2(Bucket="failed")
    assert not [one["Key"] for one in found.get("Contents", ()) if one["Key"].endswith(".parquet")]


@pytest.mark.spark
@pytest.mark.nightly  # three jobs of the launcher, and every table made in a store
def test_audits_report_explain_and_maintain(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = store.client()
    client.create_bucket(Bucket="audits")
    for run_id, day in (("old", "2020-01-01"), ("new", "2026-01-02")):
        given = ("--warehouse", WAREHOUSE, "--run-id", run_id, "--run-date", day, "--json", str(tmp_path / run_id))
        ran = job("audit", "--input", str(LOSS), *given)
        assert ran.returncode == 1, ran.stderr
    assert json.loads((tmp_path / "new").read_text())["changes"]["persisting"] > 0, "the history is read there, too"
    expected = in_process.audit(LOSS)
    for table in (*OF_PARTITIONS, INPUT_ERRORS):
        there = WarehouseTables(WAREHOUSE).arrow(table.name, run_id="new")
        assert there is not None, table.name
        assert comparable(in_process.rows(there)) == comparable(expected[table.name]), table.name
    report, explanation = told(WAREHOUSE, capsys)
    assert "billing-02>1" in report, "without blanks"
    assert "Theexchange" in explanation
    kept = job("maintain", "--warehouse", WAREHOUSE, "--keep-runs", "1", "--json", str(tmp_path / "kept"))
    assert kept.returncode == 0, kept.stderr
    assert json.loads((tmp_path / "kept").read_text())["removed_runs"] == ["old"]
    assert told(WAREHOUSE, capsys) == (report, explanation)
    left = WarehouseTables(WAREHOUSE).arrow("findings")
    assert left is not None
    assert set(left["run_id"].to_pylist()) == {"new"}
