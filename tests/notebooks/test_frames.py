"""Tables as frames: the same rows as delta-rs reads, only those that are asked for, with types that keep them whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from deltalake import DeltaTable

from replica_audit import open_warehouse
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.notebook.run import Run
from replica_audit.notebook.warehouse import Warehouse
from replica_audit.past.unstored_rows import UNSTORED
from replica_audit.rows import TABLES
from replica_audit.rows.pairs import ExchangeRound
from tests.notebooks.execution import RUNS, inputs_of
from tests.support.warehouse import STARTED, forget_rows_of_tables, write_rows, write_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"


def rows(nights: Path, table: str, **equal: object) -> list[Row]:
    """What the table holds, read without the code under test."""
    found: list[Row] = DeltaTable(str(nights / "warehouse" / table)).to_pyarrow_table().to_pylist()
    return [row for row in found if all(row[name] == value for name, value in equal.items())]


def plain(value: Any) -> Any:
    """A cell of a frame as delta-rs tells it."""
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray":
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return None if value is None or value is pd.NA or value is pd.NaT else value.item() if hasattr(value, "item") else value


def comparable(found: list[Row]) -> list[str]:
    def told(name: str, value: Any) -> Any:
        if name in (
            "verdict_counts",
            "versions",
            "removed_committed_offsets",
            "lost_committed_offsets",
            "table_rows",
            "outcomes",
            "because",
        ):
            is_map = value is not None and (isinstance(value, dict) or all(isinstance(pair, (list, tuple)) for pair in value))
            return sorted(dict(value).items()) if is_map else plain(value)
        if name == "run_date":
            return str(value)[:10]
        return value.isoformat() if hasattr(value, "isoformat") and value is not pd.NaT else plain(value)

    return sorted(str({name: told(name, value) for name, value in row.items()}) for row in found)


@pytest.fixture(scope="module")
def whole(nights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same audit of the whole sample with every row stored, of what is proven healthy, too."""
    below = tmp_path_factory.mktemp("whole")
    roots = sorted(inputs_of(nights, RUNS[1]).iterdir())
    write_warehouse(below / "warehouse", *roots, run_id=RUNS[1], settings=Settings(detail="all"))
    return below


METHODS = {
    "verdicts": "replica_verdicts",
    "findings": "findings",
    "replicas": "replica_logs",
    "roles": "replica_roles",
    "epochs": "epoch_start_offsets",
    "truncation_points": "truncation_points",
    "consumer_impacts": "consumer_impacts",
    "leader_epochs": "leader_epochs",
    "logged_incidents": "logged_incidents",
    "what_if_leaders": "what_if_leaders",
    "input_errors": "input_errors",
}


@pytest.mark.parametrize(("method", "table"), METHODS.items(), ids=METHODS)
def test_a_method_gives_the_tables_rows_of_the_run(nights: Path, whole: Path, full: Run, method: str, table: str) -> None:
    frame = getattr(full, method)()
    assert comparable(frame.to_dict("records")) == comparable(rows(whole if table in UNSTORED else nights, table, run_id=RUNS[1]))
    if table not in ("what_if_leaders", "input_errors"):
        assert len(frame)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_any_table_can_be_had_by_its_name(nights: Path, whole: Path, full: Run, table: Any) -> None:
    frame = full.table(table.name)
    assert list(frame.columns) == list(table.names)
    assert comparable(frame.to_dict("records")) == comparable(rows(whole if table.name in UNSTORED else nights, table.name, run_id=RUNS[1]))


@pytest.mark.parametrize("table", UNSTORED)
def test_rows_that_only_say_that_nothing_is_cut_are_not_stored(nights: Path, whole: Path, table: str) -> None:
    assert 0 < len(rows(nights, table, run_id=RUNS[1])) < len(rows(whole, table, run_id=RUNS[1]))


def test_rows_are_chosen_by_cluster_topic_partition_and_any_column(nights: Path, full: Run) -> None:
    cluster = full.verdicts(topic="billing")["cluster_id"].iloc[0]
    chosen = full.verdicts(cluster=cluster, topic="billing", partition=0)
    assert comparable(chosen.to_dict("records")) == comparable(
        rows(nights, "replica_verdicts", run_id=RUNS[1], cluster_id=cluster, topic="billing", partition=0)
    )
    lost = full.verdicts(verdict="committed_loss")
    assert len(lost) == len(rows(nights, "replica_verdicts", run_id=RUNS[1], verdict="committed_loss")) > 1
    uncut = full.verdicts(truncation_offset=None)
    assert len(uncut) == len(rows(nights, "replica_verdicts", run_id=RUNS[1], truncation_offset=None)) > 1


def test_files_that_cannot_hold_a_wanted_row_are_not_opened(tmp_path: Path) -> None:
    for number, name in enumerate(("committed-loss", "multi-round")):
        write_warehouse(tmp_path, SAMPLE / name, run_id=name, started_at=STARTED + timedelta(days=number))
    for path in DeltaTable(str(tmp_path / "replica_verdicts")).file_uris(file_pruning_predicate=[("run_id", "=", "multi-round")]):
        Path(path).unlink()
    audits = open_warehouse(str(tmp_path))
    assert len(audits.run("committed-loss").verdicts())
    with pytest.raises(UsageError, match="table replica_verdicts cannot be read"):
        audits.run("multi-round").verdicts()


def test_integers_stay_integers_where_some_are_missing_and_times_are_utc(audits: Warehouse, full: Run) -> None:
    verdicts = full.verdicts()
    assert verdicts["truncation_offset"].isna().any()
    assert {str(verdicts[name].dtype) for name in ("truncation_offset", "divergence_offset", "removed_records")} == {"Int64"}
    assert str(full.truncation_points()["applies"].dtype) == "boolean"
    assert audits.runs()["started_at"].dt.tz is UTC or str(audits.runs()["started_at"].dt.tz) == "UTC"
    rounds = full.truncation_points(protocol="kip-279", topic="ledger")["rounds"].iloc[0]
    assert set(rounds[0]) == {field.name for field in fields(ExchangeRound)}


def test_large_offsets_are_kept_exactly(tmp_path: Path) -> None:
    far = 2**62 + 1
    write_warehouse(tmp_path, SAMPLE / "multi-round")
    verdict, *others = DeltaTable(str(tmp_path / "replica_verdicts")).to_pyarrow_table().to_pylist()
    shutil.rmtree(tmp_path / "replica_verdicts")
    far_away = verdict | {"topic": "far", "truncation_offset": far, "removed_records": None}
    write_rows(tmp_path, {"replica_verdicts": [far_away, *others]})
    assert int(open_warehouse(str(tmp_path)).latest().verdicts(topic="far")["truncation_offset"].iloc[0]) == far


def test_what_is_not_there_is_one_sentence(nights: Path, full: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no table is called verdicts; there are: audit_runs, .*findings"):
        full.table("verdicts")
    with pytest.raises(UsageError, match=r"table replica_verdicts has no column broker; it has: run_id, .*follower_id"):
        full.verdicts(broker=1)
    with pytest.raises(UsageError, match="no such directory"):
        open_warehouse(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="has no table audit_runs"):
        open_warehouse(str(tmp_path))
    with pytest.raises(UsageError, match="--run-id other: no such run; the latest complete runs are"):
        open_warehouse(str(nights / "warehouse")).run("other")
    with pytest.raises(UsageError, match="--cluster nobody: no run has that cluster"):
        open_warehouse(str(nights / "warehouse")).latest(cluster="nobody")


def test_a_run_that_is_not_complete_does_not_count(tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE / "multi-round", run_id="whole")
    write_warehouse(tmp_path, SAMPLE / "multi-round", run_id="half", started_at=STARTED + timedelta(days=1), status="running")
    audits = open_warehouse(str(tmp_path))
    assert (audits.latest().run_id, list(audits.runs()["run_id"])) == ("whole", ["whole"])
    assert list(audits.runs(complete=False)["run_id"]) == ["half", "whole"]
    for plot in (audits.history(), audits.lost_over_time()):
        assert {row["run_id"] for rows in plot.to_dict()["datasets"].values() for row in rows} == {"whole"}
    with pytest.raises(UsageError, match=r"--run-id half: started at .* and not complete"):
        audits.run("half")


def test_an_error_in_a_notebook_is_a_sentence_not_a_stack() -> None:
    assert UsageError("give another")._render_traceback_() == ["UsageError: give another"]


def test_the_package_alone_imports_neither_pandas_nor_spark_and_open_warehouse_no_spark(nights: Path) -> None:
    code = (
        "import sys, replica_audit; assert not {'pandas', 'altair', 'pyspark'} & set(sys.modules)\n"
        f"replica_audit.open_warehouse({str(nights / 'warehouse')!r}).latest().partition('billing-0').batches(1)\n"
        "assert 'altair' in sys.modules and 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "lib")})


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import replica_audit

    with pytest.raises(AttributeError, match="has no attribute 'open_warehose'"):
        replica_audit.open_warehose  # noqa: B018


@pytest.mark.spark
def test_frames_are_sparks_where_a_session_is_given(spark: SparkSession, nights: Path, full: Run) -> None:
    by_argument = full.verdicts(spark=spark, topic="billing")
    audits = open_warehouse(str(nights / "warehouse"), spark=spark)
    by_default = audits.run(RUNS[1]).verdicts(topic="billing")
    expected = comparable(rows(nights, "replica_verdicts", run_id=RUNS[1], topic="billing"))
    for frame in (by_argument, by_default):
        assert comparable([row.asDict(recursive=True) for row in frame.collect()]) == expected
    uncut = audits.run(RUNS[1]).verdicts(truncation_offset=None)
    assert uncut.count() == len(rows(nights, "replica_verdicts", run_id=RUNS[1], truncation_offset=None))
    # plots and the partition are made the same way
    assert audits.run(RUNS[1]).partition("billing-0").epochs().equals(full.partition("billing-0").epochs())


@pytest.mark.spark
def test_a_table_that_spark_cannot_read_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    write_warehouse(tmp_path, SAMPLE / "multi-round")
    forget_rows_of_tables(tmp_path)
    shutil.rmtree(tmp_path / "segment_epochs")
    run = open_warehouse(str(tmp_path)).latest()
    assert len(run.table("segment_epochs")) == 0
    with pytest.raises(UsageError, match="table segment_epochs cannot be read by this Spark session"):
        run.table("segment_epochs", spark=spark)
