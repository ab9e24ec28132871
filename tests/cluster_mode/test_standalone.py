"""The audit on a cluster: the tables of a local run, made by executors that have nothing but what was sent to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from replica_audit.rows import (
    DAMAGED_BATCHES,
    DIFFERENCES,
    FUTURE_REPLICAS,
    INPUT_ERRORS,
    OPEN_TRANSACTIONS,
    REPLICA_LOGS,
    REPLICA_VERDICTS,
    SEGMENT_EPOCHS,
    SEQUENCE_GAPS,
    TABLES,
    TRUNCATION_POINTS,
    Table,
)
from replica_audit.storage.inputs.sources import discover
from tests.cluster_mode.standalone import Cluster, standalone
from tests.house.checkout import ROOT
from tests.s3.store import s3_store
from tests.support import in_process

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]
SAMPLE = ROOT / "tests" / "data" / "sample"
AT_LOOPBACK = (
    "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 --conf spark.executor.memory=512m"
    # few tasks and no second compiler: these runs are short
    " --conf spark.sql.shuffle.partitions=2 --conf spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1"
)
# differ between any two runs
OF_THE_RUN = {"started_at", "finished_at", "holder", "alive_at"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


# each has a test of its own, over clusters that make such rows
NOT_IN_SAMPLE = (
    *(FUTURE_REPLICAS, INPUT_ERRORS, SEQUENCE_GAPS),
    *(DAMAGED_BATCHES, DIFFERENCES, OPEN_TRANSACTIONS),
)


def submit(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """spark-submit.sh as a user starts it, from a folder that has nothing to do with the project."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    command = [str(ROOT / "spark-submit.sh"), *arguments]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**kept, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=1200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def rows(warehouse: Path, table: Table) -> Counter[str]:
    read: list[dict[str, Any]] = DeltaTable(str(warehouse / table.name)).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")
    bare = ({key: value for key, value in row.items() if key not in OF_THE_RUN} for row in read)
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in bare)


def test_tables_equal_those_of_a_local_run(cluster: Cluster, tmp_path: Path) -> None:
    arguments = ("audit", "--input", str(SAMPLE), "--run-id", "one", "--run-date", "2026-01-02", "--what-if-leaders", "--warehouse")
    ran = {
        "cluster": submit("--master", cluster.master, *arguments, str(tmp_path / "cluster"), cwd=tmp_path, SPARK_SUBMIT_ARGS=AT_LOOPBACK),
        "local": submit(*arguments, str(tmp_path / "local"), cwd=tmp_path),
    }
    assert {name: (done.returncode, done.stderr[-2000:] if done.returncode != 1 else "") for name, done in ran.items()} == {
        "cluster": (1, ""),
        "local": (1, ""),
    }
    for table in TABLES:
        expected = rows(tmp_path / "local", table)
        assert rows(tmp_path / "cluster", table) == expected, table.name
        assert expected or table in NOT_IN_SAMPLE, table.name


def test_executors_find_the_store_that_spark_was_told_of(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing in the environment of the driver or of a worker says where the store is."""
    root = SAMPLE / "multi-round"
    with s3_store() as store:
        store.upload(root, "brokers")
        settings = {
            "endpoint": store.endpoint.removeprefix("http://"),
            "connection.ssl.enabled": "false",
            "endpoint.region": "us-east-1",
            "access.key": "test",
            "secret.key": "test",
        }
        hadoop = " ".join(f"--conf spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items())
        arguments = ("audit", "--input", "s3a://brokers", "--warehouse", str(tmp_path / "w"), "--run-id", "one")
        done = submit("--master", cluster.master, *arguments, cwd=tmp_path, SPARK_SUBMIT_ARGS=f"{AT_LOOPBACK} {hadoop}")
    assert done.returncode == 1, done.stderr[-2000:]
    expected = in_process.audit(root)
    keys = {"run_id": "one", "cluster_id": discover([str(root)]).roots[0].cluster_id}
    for table in (REPLICA_VERDICTS, SEGMENT_EPOCHS, REPLICA_LOGS, TRUNCATION_POINTS):
        here = Counter(
            json.dumps(row | keys, sort_keys=True, default=str).replace(str(root), "s3a://brokers") for row in expected[table.name]
        )
        assert here
        assert rows(tmp_path / "w", table) == here, table.name
    assert not rows(tmp_path / "w", INPUT_ERRORS)


PROBE = """
import json, sys
from pyspark.sql import SparkSession
from replica_audit.commands import spark_process

def look(batches):
    import os, numpy, pyarrow, pyspark, replica_audit
    from replica_audit.formats.native import native_code
    native = native_code.scanner(1 << 60) is not None
    for batch in batches:
        places = [module.__file__ for module in (replica_audit, numpy, pyarrow, pyspark)] + [sys.executable, os.getcwd()]
        yield pyarrow.RecordBatch.from_pylist([{"native": native, "places": places, "path": sys.path}] * batch.num_rows)

spark_process.start()
spark = SparkSession.builder.getOrCreate()
frame = spark.range(8, numPartitions=8).mapInArrow(look, "native boolean, places array<string>, path array<string>")
open(sys.argv[1], "w").write(json.dumps([row.asDict() for row in frame.collect()]))
"""


def packed(master: str) -> None:
    """Make what a start sends to executors, which a dry run only names."""
    script = 'source "$0/tools/environment.sh"; environment_for_executors'
    subprocess.run(["bash", "-c", script, str(ROOT)], env={**os.environ, "SPARK_MASTER": master}, check=True, timeout=1200)


def test_executors_use_what_was_sent_to_them(cluster: Cluster, tmp_path: Path) -> None:
    packed(cluster.master)
    job = tmp_path / "probe.py"
    job.write_text(PROBE)
    line = submit("--master", cluster.master, "--dry-run", "audit", cwd=tmp_path, SPARK_SUBMIT_ARGS=AT_LOOPBACK).stdout
    command = line.strip().removesuffix(str(ROOT / "jobs" / "audit.py")) + f"{job} {tmp_path / 'seen.json'}"
    done = subprocess.run(["bash", "-c", f"env {command}"], cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert len(seen) == 8
    of_driver = [str(ROOT / folder) for folder in (".venv", "lib", ".cache", "jobs")]
    work = str(cluster.scratch.parent)
    their_spark = str(cluster.spark_home.resolve())  # a link to the driver's, which Java follows
    for row in seen:
        package, numpy, arrow, spark, _python, cwd = row["places"]
        assert cwd.startswith(work)
        assert str(Path(cwd, package)) == f"{cwd}/replica_audit.zip/replica_audit/__init__.py"
        assert numpy.startswith(f"{cwd}/packages/")
        assert arrow.startswith(f"{cwd}/packages/")
        assert spark.startswith(str(cluster.spark_home))
        used = [path.replace(their_spark, "") for path in (*row["places"], *row["path"])]
        assert not [path for path in used if path.startswith(tuple(of_driver))]
        assert row["native"], "the scan is compiled although neither the package nor a home can be written to"


def test_a_python_without_the_packages_is_told(cluster: Cluster, tmp_path: Path) -> None:
    """An image that should have the packages and has not: no hang, no half run that counts."""
    arguments = ("audit", "--input", str(SAMPLE / "multi-round"), "--warehouse", str(tmp_path / "w"))
    done = submit(
        "--master", cluster.master, *arguments, cwd=tmp_path, SPARK_SUBMIT_ARGS=AT_LOOPBACK, REPLICA_AUDIT_EXECUTOR_PYTHON="python3"
    )
    assert done.returncode != 0
    assert "No module named" in done.stdout + done.stderr
    statuses = DeltaTable(str(tmp_path / "w" / "audit_runs")).to_pyarrow_table()["status"].to_pylist()
    assert statuses == ["running"]
