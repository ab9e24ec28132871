"""The audit on YARN: the tables of a local run, made by executors that YARN starts."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from replica_audit.rows import TABLES
from tests.cluster_mode.test_standalone import AT_LOOPBACK, NOT_IN_SAMPLE, SAMPLE, rows, submit
from tests.cluster_mode.yarn import yarn

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("REPLICA_AUDIT_YARN"), reason="takes minutes, and 67 MB of jars: REPLICA_AUDIT_YARN=1"),
]


def test_tables_equal_those_of_a_local_run(tmp_path: Path) -> None:
    spark = find_spec("pyspark")
    assert spark is not None and spark.submodule_search_locations
    jars = f"--conf spark.yarn.jars=local:{spark.submodule_search_locations[0]}/jars/*"  # else Spark sends its own 400 MB of jars along
    sizes = f"--num-executors 2 --conf spark.yarn.am.memory=512m --conf spark.yarn.stagingDir=file://{tmp_path}/staging"
    arguments = ("audit", "--input", str(SAMPLE), "--run-id", "one", "--run-date", "2026-01-02", "--what-if-leaders")
    message = tmp_path / "message.json"
    (tmp_path / "yarn").mkdir()
    with yarn(tmp_path / "yarn") as conf:
        done = submit(
            *arguments,
            f"--warehouse={tmp_path / 'cluster'}",
            f"--termination-message={message}",
            cwd=tmp_path,
            SPARK_MASTER="yarn",
            HADOOP_CONF_DIR=str(conf),
            SPARK_SUBMIT_ARGS=f"{AT_LOOPBACK} {jars} {sizes}",
        )
        logs = sorted(path for path in (tmp_path / "yarn").rglob("stderr") if path.parent.name.startswith("container_"))
    assert done.returncode == 1, done.stderr[-2000:]
    assert json.loads(message.read_text(encoding="utf-8"))["exit_code"] == 1
    assert logs, "no container of YARN's has run"
    assert submit(*arguments, f"--warehouse={tmp_path / 'local'}", cwd=tmp_path).returncode == 1
    for table in TABLES:
        expected = rows(tmp_path / "local", table)
        assert rows(tmp_path / "cluster", table) == expected, table.name
        assert expected or table in NOT_IN_SAMPLE, table.name
