"""Two audits at the same moment into a warehouse that neither finds there, each with a JVM of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replica_audit.rows import AUDIT_RUNS, FINDINGS, REPLICA_VERDICTS, TRUNCATION_POINTS
from tests.house.checkout import ROOT
from tests.support import in_process

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CLUSTER = ROOT / "tests" / "data" / "sample" / "multi-round"


def start(warehouse: Path, *run_ids: str) -> list[subprocess.Popen[str]]:
    """An audit for each run, all at once."""
    return [
        subprocess.Popen(
            [ROOT / "spark-submit.sh", "audit", "--input", CLUSTER, "--warehouse", warehouse, "--run-id", run_id],
            env={**os.environ, "SPARK_MASTER": "local[1]"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for run_id in run_ids
    ]


def end(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Its exit code and lines of errors."""
    _out, err = process.communicate(timeout=1200)
    said = [line.partition("] ")[2] for line in err.splitlines()]  # without the id of the run
    return process.returncode, [line for line in said if not line.startswith(("[", "run "))]


def freeze_the_holder(warehouse: Path, started: list[subprocess.Popen[str]]) -> int:
    """Stop the process that has begun a run, once one has, so that the other comes before its end; the number of the process."""
    while all(process.poll() is None for process in started):
        with suppress(TableNotFoundError):
            for row in DeltaTable(str(warehouse / AUDIT_RUNS.name)).to_pyarrow_table().to_pylist():
                os.kill(row["holder"]["pid"], signal.SIGSTOP)
                return int(row["holder"]["pid"])
        time.sleep(0.02)
    raise AssertionError(f"ended before a run was begun: {[end(process) for process in started]}")


def rows_by_run(warehouse: Path, table: str) -> Counter[str]:
    return Counter(map(str, DeltaTable(str(warehouse / table)).to_pyarrow_table()["run_id"].to_pylist()))


def assert_has_one_run(warehouse: Path, run_id: str) -> None:
    expected = in_process.audit(CLUSTER)
    for table in (REPLICA_VERDICTS, TRUNCATION_POINTS):
        assert rows_by_run(warehouse, table.name)[run_id] == len(expected[table.name]), table.name
    assert rows_by_run(warehouse, FINDINGS.name)[run_id] == 3
    runs = DeltaTable(str(warehouse / AUDIT_RUNS.name)).to_pyarrow_table().to_pylist()
    (run,) = (row for row in runs if row["run_id"] == run_id)
    assert run["status"] == "complete"
    assert run["proven_healthy"] == sum(row["proven_pairs"] for row in expected["checked"])


@pytest.mark.nightly
def test_two_ids_at_once_are_both_complete(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    assert [end(process) for process in start(warehouse, "one", "two")] == [(1, []), (1, [])]
    for run_id in ("one", "two"):
        assert_has_one_run(warehouse, run_id)


def test_of_two_of_one_id_one_is_refused(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    started = start(warehouse, "nightly", "nightly")
    holder = freeze_the_holder(warehouse, started)
    while all(process.poll() is None for process in started):
        time.sleep(0.02)
    os.kill(holder, signal.SIGCONT)
    (code, _nothing), (refused, errors) = sorted(map(end, started))
    assert (code, refused) == (1, 2)
    (line,) = errors
    assert line.startswith("error: --run-id nightly is held by process ")
    assert_has_one_run(warehouse, "nightly")
