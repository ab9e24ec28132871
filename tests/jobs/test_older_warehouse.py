"""An audit goes on in a warehouse of a version before this one: its tables get the columns that they lack, inside of structs, too."""

from __future__ import annotations

import shutil
import tarfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from replica_audit import cli, open_warehouse
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.rows import FORMER_TABLES, TABLES
from replica_audit.storage.warehouse.rewrites import CHANGE_FEED
from tests.support.delta_readers import comparable, in_delta_rs, in_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).resolve().parents[1] / "data"


pytestmark = pytest.mark.spark
# of the first release, whose tables lack most; of the last version whose audits took unchanged partitions over
ARCHIVES = ("warehouse-0.1.0", pytest.param("warehouse-with-fingerprints", marks=pytest.mark.nightly))


@pytest.fixture(scope="module", params=ARCHIVES)
def went_on(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The archive, and its warehouse after a second run of the same clusters."""
    from replica_audit import pipeline
    from replica_audit.config import Settings

    place = tmp_path_factory.mktemp("older")
    with tarfile.open(DATA / "older" / f"{request.param}.tar.gz") as archive:
        archive.extractall(place, filter="data")
    has_feed = CHANGE_FEED in DeltaTable(str(place / "warehouse" / "findings")).metadata().configuration
    assert has_feed == (request.param != "warehouse-0.1.0")
    roots = tuple(str(DATA / "sample" / name) for name in ("multi-round", "leader-trimmed"))
    settings = Settings(topics="ledger|audit")
    warehouse = place / "warehouse"
    given = pipeline.AuditRequest(inputs=roots, warehouse=str(warehouse), settings=settings, run_id="second", run_date=date(2026, 1, 3))
    pipeline.audit(spark, given, lambda line: None)
    return request.param, warehouse


def of_archive(archive: str, spark: SparkSession) -> SparkSession | None:
    """What `maintain` needs to change an archive's tables: those of the first release are clustered."""
    return spark if archive == "warehouse-0.1.0" else None


def test_every_reader_opens_every_table(
    spark: SparkSession, went_on: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, warehouse = went_on
    both = set()
    for table in TABLES:
        place = warehouse / table.name
        found = spark.read.format("delta").load(str(place)).toArrow()
        assert comparable(found) == comparable(in_delta_rs(place)) == comparable(in_duckdb(place)), table.name
        both |= {table.name} if set(found["run_id"].to_pylist()) == {"first", "second"} else set()
    assert both > {"audit_runs", "findings", "replica_verdicts", "truncation_points", "epoch_start_offsets"}
    for run_id in ("first", "second"):
        assert cli.main(["report", "--warehouse", str(warehouse), "--run-id", run_id, "--output", str(tmp_path / "page.html")]) == 0
        assert cli.main(["explain", "--warehouse", str(warehouse), "--run-id", run_id, "--partition", "ledger-0"]) == 0
        assert "The exchange" in capsys.readouterr().out
    kept = maintain(
        UpkeepRequest(warehouse=str(warehouse), keep_days=40_000, keep_runs=1, is_dry=True), lambda line: None, of_archive(archive, spark)
    )
    assert (kept.exit_code, kept.removed_runs) == (0, ())


def test_the_change_feed_begins_with_the_audit(spark: SparkSession, went_on: tuple[str, Path]) -> None:
    _archive, warehouse = went_on
    findings = DeltaTable(str(warehouse / "findings"))
    assert findings.metadata().configuration[CHANGE_FEED] == "true"
    told = pa.table(findings.load_cdf(starting_version=findings.version()).read_all())
    assert set(told["_change_type"].to_pylist()) == {"insert"}
    written = in_delta_rs(warehouse / "findings")
    of_second = written.filter(pc.field("run_id") == "second")
    assert comparable(told.select(written.column_names)) == comparable(of_second)
    assert spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", findings.version()).load(
        str(warehouse / "findings")
    ).count() == len(of_second)


def test_findings_of_before_persist(went_on: tuple[str, Path]) -> None:
    _archive, warehouse = went_on
    assert set(open_warehouse(str(warehouse)).run("second").findings()["status"]) == {"persisting"}


def test_old_rows_have_neither_date_nor_rank_and_new_ones_have(went_on: tuple[str, Path]) -> None:
    _archive, warehouse = went_on
    for name, more in (("findings", ["severity_rank"]), ("replica_verdicts", ["severity_rank"]), ("replica_logs", [])):
        found = in_delta_rs(warehouse / name).select(["run_id", "run_date", *more])
        for column in ("run_date", *more):
            assert found.filter(pc.field("run_id") == "first")[column].null_count == len(found.filter(pc.field("run_id") == "first")) > 0
        of_second = found.filter(pc.field("run_id") == "second")
        assert set(of_second["run_date"].to_pylist()) == {date(2026, 1, 3)}
        assert not any(of_second[column].null_count for column in more)


def test_old_and_new_runs_stand_in_the_same_tables(went_on: tuple[str, Path]) -> None:
    archive, warehouse = went_on
    opened = open_warehouse(str(warehouse))
    assert opened.run_ids == ("second", "first")
    rounds = {run: opened.run(run).partition("ledger-0").rounds() for run in opened.run_ids}
    same = [name for name in rounds["first"].columns if name != "decided_by"]
    assert rounds["first"][same].equals(rounds["second"][same]), "the same exchange"
    assert rounds["first"]["decided_by"].isna().all() == (archive == "warehouse-0.1.0")
    applied = rounds["second"][rounds["second"]["applies"]]
    assert list(applied["decided_by"]) == ["unknown-epoch", "unknown-epoch", "common-epoch", "records"]
    causes = {run: set(opened.run(run).verdicts(verdict="inconclusive")["cause"].dropna()) for run in opened.run_ids}
    assert causes["second"] == {"no common range"}
    assert causes["first"] == (set() if archive == "warehouse-0.1.0" else {"no common range"})


def test_nothing_is_left_of_a_run_that_is_removed(spark: SparkSession, went_on: tuple[str, Path], tmp_path: Path) -> None:
    """Not in tables either that nothing writes any more."""
    archive, warehouse = went_on
    place = tmp_path / "warehouse"
    shutil.copytree(warehouse, place)
    former = {path.name for path in place.iterdir()} - {table.name for table in TABLES}
    assert former <= {table.name for table in FORMER_TABLES}
    assert ("partition_fingerprints" in former) == (archive == "warehouse-with-fingerprints")
    runs = {name: set(in_delta_rs(place / name)["run_id"].to_pylist()) for name in (*former, "replica_logs")}
    assert runs["replica_logs"] == {"first", "second"}
    assert runs["what_if_rules"] == runs["content_windows"] == {"first"}
    done = maintain(UpkeepRequest(warehouse=str(place), keep_days=1, keep_runs=1), lambda line: None, of_archive(archive, spark))
    assert (done.exit_code, done.removed_runs) == (0, ("first",))
    assert {run for path in place.iterdir() for run in in_delta_rs(path)["run_id"].to_pylist()} == {"second"}
