"""spark-submit.sh with this project's own Spark: what a user sees of a run, and how it ends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, Checkout

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy that borrows the packages and jars of the environment that runs the tests."""
    made = Checkout.make(tmp_path)
    made.prepared()
    packages = next((ROOT / ".venv/lib").glob("python3*")) / "site-packages"
    pyspark = made.root / ".venv/lib/python3.11/site-packages/pyspark"
    pyspark.rmdir()
    pyspark.symlink_to(packages / "pyspark")
    made.script(made.root / ".venv/bin/python", f"exec '{ROOT}/.venv/bin/python' \"$@\"")
    shutil.rmtree(made.root / ".cache/jars")
    (made.root / ".cache/jars").symlink_to(ROOT / ".cache/jars")
    return made


VARIABLES = {
    "PATH": os.environ["PATH"],
    **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    "SPARK_SUBMIT_ARGS": "--driver-java-options -XX:TieredStopAtLevel=1",
}


def test_a_run_shows_what_the_job_says_and_leaves_nothing_behind(checkout: Checkout, tmp_path: Path) -> None:
    table = tmp_path / "table"
    checkout.job(
        "writes",
        "import sys",
        "from pyspark.sql import SparkSession",
        "from replica_audit.commands import spark_process",
        "spark_process.start()",
        "spark = SparkSession.builder.getOrCreate()",
        "def same(batches):",
        "    import replica_audit.model",
        "    yield from batches",
        f"spark.range(7).mapInArrow(same, 'id long').write.format('delta').save({str(table)!r})",
        f"print(spark.read.format('delta').load({str(table)!r}).count(), 'rows')",
        "print('progress', file=sys.stderr)",
        "spark.stop()",
        "spark_process.end()",
        "sys.exit(3)",
    )
    ran = checkout.run("writes", **VARIABLES)
    assert (ran.code, ran.out, ran.err) == (3, "7 rows\n", "progress\n")
    assert (table / "_delta_log").is_dir()
    assert not list(checkout.cwd.iterdir())


def set_traps(folder: Path) -> Path:
    """Modules that a folder of an input may hold; whoever imports one leaves a file behind."""
    sprung = folder / "sprung"
    for name in ("json", "replica_audit", "pyspark", "pyarrow", "sitecustomize", "encodings", "venv"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"open({str(sprung)!r}, 'a').write({name!r})\n", encoding="utf-8")
    return sprung


@pytest.mark.parametrize("path", [pytest.param(None, marks=pytest.mark.nightly), ":."])
def test_nothing_is_imported_from_the_folder_that_it_is_started_in(checkout: Checkout, path: str | None) -> None:
    checkout.job(
        "imports",
        "import sys",
        "from pyspark.sql import SparkSession",
        "def names(batches):",
        "    import json, replica_audit.model",
        "    yield from batches",
        "spark = SparkSession.builder.getOrCreate()",
        "sys.exit(spark.range(3).mapInArrow(names, 'id long').count())",
    )
    sprung = set_traps(checkout.cwd)
    ran = checkout.run("imports", **VARIABLES, **({} if path is None else {"PYTHONPATH": path}))
    assert not sprung.exists(), sprung.read_text()
    assert ran.code == 3
