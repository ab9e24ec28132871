"""Two audits at the same moment into a warehouse that neither finds there, each with a JVM of its own."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from replica_audit.tables import AUDIT_RUNS, FINDINGS, REPLICA_VERDICTS, TRUNCATION_POINTS
from tests.house.checkout import ROOT
from tests.support import in_process

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CLUSTER = ROOT / "tests" / "data" / "sample" / "multi-round"


def audit_twice(warehouse: Path, *run_ids: str) -> list[tuple[int, list[str]]]:
    """(exit code, lines of errors) of each run."""
    started = [
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
    ended = []
    for process in started:
        _out, err = process.communicate(timeout=1200)
        ended.append((process.returncode, [line for line in err.splitlines() if not line.startswith("[")]))
    return ended


def rows_by_run(warehouse: Path, table: str) -> Counter[str]:
    return Counter(map(str, DeltaTable(str(warehouse / table)).to_pyarrow_table()["run_id"].to_pylist()))


def assert_has_one_run(warehouse: Path, run_id: str) -> None:
    expected = in_process.audit(CLUSTER)
    for table in (REPLICA_VERDICTS, TRUNCATION_POINTS):
        assert rows_by_run(warehouse, table.name)[run_id] == len(expected[table.name]), table.name
    assert rows_by_run(warehouse, FINDINGS.name)[run_id] == 3
    runs = DeltaTable(str(warehouse / AUDIT_RUNS.name)).to_pyarrow_table().to_pylist()
    assert [row["status"] for row in runs if row["run_id"] == run_id] == ["complete"]


def test_two_ids_at_once_are_both_complete(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    assert audit_twice(warehouse, "one", "two") == [(1, []), (1, [])]
    for run_id in ("one", "two"):
        assert_has_one_run(warehouse, run_id)


def test_of_two_of_one_id_one_is_refused(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    (code, _nothing), (refused, errors) = sorted(audit_twice(warehouse, "nightly", "nightly"), key=lambda ended: ended[0])
    assert (code, refused) == (1, 2)
    (line,) = errors
    assert line.startswith("error: --run-id nightly is held by process ")
    assert_has_one_run(warehouse, "nightly")
