"""Records saved by tasks of Spark: the files of a salvage in this process, and errors that say what to do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replica_audit.engine.spark_salvage import replay_units, save_units
from replica_audit.errors import OutputError
from replica_audit.salvage.run import SalvageRequest, salvage
from tests.clusters.test_scenarios import SHARED
from tests.formats import record_files as rf
from tests.salvage.made import audited, lines, rows, saved
from tests.salvage.test_made_logs import diverged
from tests.salvage.test_run import many_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def on_spark(spark: SparkSession, root: Path, output: Path) -> int:
    request = SalvageRequest(output=output, is_audited_anew=True)
    found = salvage(audited(root), request, partial(save_units, spark), partial(replay_units, spark), lambda _line: None)
    return found.saved


@pytest.mark.parametrize("cluster", ["txn-loss", "three-way"])
def test_both_engines_save_the_same(spark: SparkSession, tmp_path: Path, cluster: str) -> None:
    root = SHARED / cluster / "before"
    here = saved(audited(root), tmp_path / "here", is_audited_anew=True)
    assert on_spark(spark, root, tmp_path / "there") == here.saved > 0
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    for path in (tmp_path / "here" / "replay").glob("*.txt"):
        assert lines(tmp_path / "there", path.name) == lines(tmp_path / "here", path.name)


def test_segments_are_spread_and_what_is_there_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    many_segments(tmp_path / "in", count=5)
    assert on_spark(spark, tmp_path / "in", tmp_path / "out") == 100
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "records").iterdir()}
    assert on_spark(spark, tmp_path / "in", tmp_path / "out") == 100
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "records").iterdir()} == written
    assert len(lines(tmp_path / "out", "orders-0.console.txt")) == 100


def test_an_error_of_a_task_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    on_spark(spark, tmp_path / "in", tmp_path / "out")
    (path,) = (tmp_path / "out" / "records").glob("*.parquet")
    path.write_bytes(b"something else")
    with pytest.raises(OutputError, match="it is not a file of a salvage, or damaged; salvage again, and it continues"):
        on_spark(spark, tmp_path / "in", tmp_path / "out")
