"""An audit as a call: what it gives back, and that it leaves a session, and the process, as they were."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.errors import ConfigError, UsageError
from replica_audit.spark import audit, refuse_untried, refuse_without_distutils
from replica_audit.storage import session as sessions
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LOSS = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
# what a platform, or a person, has set: as Spark has it by default, and otherwise
OF_A_CALLER = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.of.a.caller": "kept",
}


@pytest.fixture
def guest_of(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of somebody's, in the middle of their work."""
    made = spark.newSession()
    for name, value in OF_A_CALLER.items():
        made.conf.set(name, value)
    made.range(1).collect()
    made.createDataFrame([(1,)], "one int").createOrReplaceTempView("theirs")
    spark.sparkContext.setJobGroup("theirs", "what they do")
    spark.sparkContext.addJobTag("theirs")
    yield made
    spark.sparkContext.clearJobTags()
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
        spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def state(spark: SparkSession) -> dict[str, Any]:
    """All of a session and of the process that an audit could touch."""
    context = spark.sparkContext
    java: Any = spark._jvm
    loggers = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in ("", "py4j", "pyspark", "numba")}
    return {
        "settings": {name: value for name, value in spark.conf.getAll.items() if "fieldId" not in name},  # which Delta sets by itself
        "active": spark.getActiveSession(),
        "views": [view.name for view in spark.catalog.listTables()],
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)},
        "loggers": loggers,
        "handlers": (list(logging.getLogger().handlers), list(logging.getLogger().filters)),
        "environment": dict(os.environ),
        "of executors": dict(context.environment),
        "hooks": (sys.excepthook, sys.unraisablehook, list(sys.meta_path)),
        "collector": gc.isenabled(),
        "folder": Path.cwd(),
        "group": [context.getLocalProperty(name) for name in ("spark.jobGroup.id", "spark.job.description")],
        "tags": set(context.getJobTags()),
        "stored": [name for rdd in context._jsc.getPersistentRDDs().values() if "Delta Table State" not in (name := str(rdd.name()))],
        "level": str(java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel()),
        "property": java.System.getProperty("replica_audit.run"),
        "accumulators": context._accumulatorServer.handle_error,
    }


def test_a_guest_leaves_a_session_as_it_was(guest_of: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_SEGMENTS_ARE_MANY", 0)  # what is set for much input is set
    suited = list[str | None]()
    suit = sessions.suit_size

    def suiting(spark: SparkSession, segments: int) -> None:
        suit(spark, segments)
        suited.extend(spark.conf.get(name) for name in ("spark.sql.execution.arrow.maxRecordsPerBatch", *OF_A_CALLER))

    monkeypatch.setattr("replica_audit.pipeline.run.suit_size", suiting)
    before = state(guest_of)
    told = list[str]()
    result = audit(guest_of, LOSS, tmp_path / "warehouse", settings={"topics": "billing"}, tell=lambda event: told.append(event.text))
    assert state(guest_of) == before
    assert suited[0] == "512"
    assert suited[-1] == "kept", "the settings of the caller are there"
    assert any(told)
    assert result.exit_code == result.report.exit_code == 1
    assert differing_tables(tmp_path / "warehouse", [str(LOSS)], Settings(topics="billing")) == []
    assert result.rows("findings").where("code = 'committed_loss'").count() == 3
    assert result.rows("audit_runs").first()["run_id"] == result.run_id  # type: ignore[index]
    # topics limit what is audited, not what is known of the groups
    assert {row["topic"] for row in result.rows("replica_logs").collect()} == {"billing"}
    assert result.rows("consumer_impacts").count() == 18
    (cluster,) = result.report.clusters
    assert (cluster.affected_groups, cluster.affected_positions, cluster.unclean_elections) == (4, 12, 3)
    assert (result.report.impacts[0].row.records_gone, result.report.impacts[0].row.reset_offset) == (20, 10)
    assert result.report.candidates == (), "only with --what-if-leaders"
    with pytest.raises(UsageError, match="no table verdicts; there are: audit_runs, broker_starts, "):
        result.rows("verdicts")


def test_a_guest_that_fails_leaves_it_as_it_was_too(
    guest_of: SparkSession, empty_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise KeyboardInterrupt("in the middle")

    monkeypatch.setattr("replica_audit.engine.spark.merged", fail)
    shutil.copytree(empty_warehouse, tmp_path / "warehouse")
    before = state(guest_of)
    with pytest.raises(KeyboardInterrupt, match="in the middle"):
        audit(guest_of, [LOSS], tmp_path / "warehouse")
    assert state(guest_of) == before


def test_what_no_audit_can_be_made_of(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'colour'"):
        audit(spark, LOSS, tmp_path, settings={"colour": "red"})
    with pytest.raises(UsageError, match="--run-id 'a b'"):
        audit(spark, LOSS, tmp_path, run_id="a b")
    with pytest.raises(UsageError, match="nothing to audit"):
        audit(spark, tmp_path / "none", tmp_path / "warehouse")
    with pytest.raises(UsageError, match="a session of Spark; this is of the class object"):
        audit(object(), LOSS, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["3.4.4", "4.3.0", "5.0.0"])
def test_a_spark_on_which_no_rows_were_compared_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match=f"Spark {version} cannot run an audit: use Spark 3.5, 4.0, 4.1 or 4.2, or `triage`, which"):
        refuse_untried(version)


@pytest.mark.parametrize("version", ["3.5.0", "4.0.5", "4.1.4", "4.2.1", "4.2.0-amzn-1"])
def test_others_are_not(version: str) -> None:
    refuse_untried(version)


@pytest.mark.parametrize("there", [True, False])
def test_only_spark_3_needs_distutils(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.spark.find_spec", lambda name: object() if there and name == "distutils" else None)
    refuse_without_distutils("4.2.1")
    if there:
        refuse_without_distutils("3.5.9")
    else:
        with pytest.raises(UsageError, match=r"Spark 3\.5\.9 needs distutils, .*: pip install setuptools"):
            refuse_without_distutils("3.5.9")


def test_the_command_is_one_caller(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[dict[str, Any]]()

    def called(*_given: Any, **named: Any) -> Any:
        calls.append(named)
        raise UsageError("was called")

    monkeypatch.setattr("replica_audit.spark.audit", called)
    assert spark.version
    arguments = ["audit", "--input", str(LOSS), "--warehouse", str(tmp_path), "--run-id", "one", "--topics", "billing"]
    assert cli.main(arguments) == 2
    assert [(call["run_id"], call["settings"].topics) for call in calls] == [("one", "billing")]
