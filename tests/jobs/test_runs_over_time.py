"""One warehouse over several runs and an upkeep: what each run changes, and what others see of its tables.

delta-rs and DuckDB read what Spark does; the change feed of findings tells what each run changed.
"""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from replica_audit.config import Settings
from replica_audit.engine import findings as findings_of
from replica_audit.errors import OutputError
from replica_audit.maintain.run import UpkeepRequest, maintain
from replica_audit.pipeline import AuditRequest, audit
from replica_audit.report.facts.run_report import Report
from replica_audit.rows import AUDIT_RUNS, FINDINGS, OF_PARTITIONS, TABLES
from replica_audit.storage.warehouse import upkeep
from replica_audit.storage.warehouse.rewrites import CHANGE_FEED
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.support.delta_readers import Rows, comparable, in_delta_rs, in_duckdb
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DATA = Path(__file__).resolve().parents[1] / "data"
LOSS, OFFLINE = DATA / "sample" / "committed-loss", DATA / "offline" / "nobody-leads"
COMMIT = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A warehouse, and what each step made of it, by the step's name."""

    place: Path
    versions: dict[str, tuple[int, int]]  # of the findings, before the step and after it
    reports: dict[str, Report]
    statuses: dict[str, set[str]]  # of all rows of `audit_runs`, after the step
    differing: list[str]  # tables of the first complete run that are not those of `triage`

    def findings(self, step: str) -> list[dict[str, Any]]:
        return in_delta_rs(self.place / "findings", self.versions[step][1]).to_pylist()

    def rows(self, version: int, run_id: str) -> Rows:
        found = in_delta_rs(self.place / "findings", version)
        return comparable(found.filter(pc.field("run_id") == run_id))


@pytest.fixture(scope="module")
def made(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run whose rows are lost on the way, made again; one of a single topic; one of a healed replica; and an upkeep.

    The upkeep removes all runs but the last and merges every table's files.
    """
    folder = tmp_path_factory.mktemp("warehouses")
    place, healed = folder / "warehouse", folder / "healed"
    shutil.copytree(empty_warehouse, place)
    shutil.copytree(LOSS, healed)
    shutil.rmtree(healed / "broker-1" / "data-0" / "billing-0")
    shutil.copytree(healed / "broker-2" / "data-0" / "billing-0", healed / "broker-1" / "data-0" / "billing-0")
    versions, reports, statuses = dict[str, tuple[int, int]](), dict[str, Report](), dict[str, set[str]]()

    def run(step: str, run_id: str, day: date, *roots: Path, **settings: Any) -> None:
        before = DeltaTable(str(place / "findings")).version()
        inputs = tuple(map(str, roots))
        request = AuditRequest(inputs=inputs, warehouse=str(place), settings=Settings(**settings), run_id=run_id, run_date=day)
        try:
            reports[step] = audit(spark, request, lambda line: None)
        finally:
            versions[step] = before, DeltaTable(str(place / "findings")).version()
            statuses[step] = set(map(str, in_delta_rs(place / AUDIT_RUNS.name)["status"].to_pylist()))

    whole = findings_of.with_history
    with pytest.MonkeyPatch.context() as lossy:
        lossy.setattr(findings_of, "with_history", lambda *given: whole(*given).where("code <> 'committed_loss'"))
        with pytest.raises(OutputError, match=r"does not count.* committed_loss critical replica_verdicts has 3, findings 0") as raised:
            run("lossy", "one", date(2020, 1, 1), LOSS, OFFLINE)
    assert raised.value.exit_code == 2
    run("again", "one", date(2020, 1, 1), LOSS, OFFLINE)
    differing = differing_tables(place, [str(LOSS), str(OFFLINE)], Settings())
    run("one topic", "one-topic", date(2020, 1, 2), LOSS, topics="(?P<internal>__consumer_offsets)")
    run("two", "two", date(2026, 1, 2), healed, OFFLINE, what_if_leaders=True)
    before = DeltaTable(str(place / "findings")).version()
    with pytest.MonkeyPatch.context() as bound:
        bound.setattr(upkeep, "_MANY_FILES", 1)
        done = maintain(UpkeepRequest(warehouse=str(place), keep_days=400, keep_runs=1), lambda line: None)
    assert (done.exit_code, set(done.removed_runs)) == (0, {"one", "one-topic"})
    versions["maintain"] = before, DeltaTable(str(place / "findings")).version()
    return Made(place=place, versions=versions, reports=reports, statuses=statuses, differing=differing)


def test_a_run_that_lost_rows_does_not_count_and_is_made_again(made: Made) -> None:
    assert made.statuses["lossy"] == {"running"}
    assert made.statuses["again"] == {"complete"}
    report = made.reports["again"]
    assert (report.exit_code, report.changes) == (1, {"new": 5}), "findings of a run that does not count are not known"
    assert made.differing == []


def test_a_run_of_one_topic_neither_resolves_what_is_of_others_nor_forgets_it(made: Made) -> None:
    assert made.reports["one topic"].changes == {}
    # the broker's log still shows what it lost
    assert made.reports["two"].changes == {"new": 1, "persisting": 4, "resolved": 1}
    of_two = [row for row in made.findings("two") if row["run_id"] == "two"]
    assert [(row["finding_key"], row["first_seen_run_id"], row["last_seen_run_id"]) for row in of_two if row["status"] == "resolved"] == [
        ("committed_loss:billing-0:1", "one", "one")
    ]
    assert {row["first_seen_run_id"] for row in of_two if row["status"] == "persisting"} == {"one"}


def test_every_row_has_the_date_of_the_run_that_wrote_it(made: Made) -> None:
    """Those of a finding that is resolved, or that another run saw first, too."""
    runs = {"one": date(2020, 1, 1), "one-topic": date(2020, 1, 2), "two": date(2026, 1, 2)}
    rows = [row for step in ("again", "two") for row in made.findings(step)]
    assert {(row["run_id"], row["run_date"]) for row in rows} == {(run, on) for run, on in runs.items() if run != "one-topic"}
    assert {"resolved", "persisting"} <= {row["status"] for row in rows if row["run_date"] == runs["two"]}


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


def test_the_feed_of_a_run_has_its_findings(spark: SparkSession, made: Made) -> None:
    expected = made.rows(made.versions["two"][1], "two")
    assert expected
    assert feed(spark, made, "two") == {"insert": expected}


def test_the_feed_of_a_run_made_again_has_what_went_and_what_came(spark: SparkSession, made: Made) -> None:
    before, after = made.versions["again"]
    went, came = made.rows(before, "one"), made.rows(after, "one")
    assert 0 < len(went) < len(came)
    assert feed(spark, made, "again") == {"delete": went, "insert": came}


def test_the_feed_of_maintain_has_the_findings_of_the_removed_run_and_nothing_of_what_it_merged(spark: SparkSession, made: Made) -> None:
    before, after = made.versions["maintain"]
    gone = made.rows(before, "one")
    assert gone
    assert not made.rows(after, "one")
    assert feed(spark, made, "maintain") == {"delete": gone}
    assert len(DeltaTable(str(made.place / "findings")).file_uris()) == 1, "what stays was merged"
    assert {run for table in TABLES for run in in_delta_rs(made.place / table.name)["run_id"].to_pylist()} == {"two"}, "of any table"


def test_delta_rs_and_duckdb_read_what_spark_does(spark: SparkSession, made: Made) -> None:
    for table in TABLES:
        place = made.place / table.name
        found = spark.read.format("delta").load(str(place)).toArrow()
        assert comparable(in_delta_rs(place)) == comparable(in_duckdb(place)) == comparable(found), table.name


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
