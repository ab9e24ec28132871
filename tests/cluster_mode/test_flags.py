"""What spark-submit is told for a cluster: where it is, what is sent to its executors, and which Python they run."""

from __future__ import annotations

import itertools
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.house.checkout import ROOT, Checkout, Ran
from tests.house.test_launcher import spark_flags

CLUSTER = "spark://127.0.0.1:7077"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.make(tmp_path)


def settings(ran: Ran) -> dict[str, str]:
    """What is given as options of spark-submit, those of --conf by their own names."""
    assert (ran.code, ran.err) == (0, "")
    words = spark_flags(ran)
    pairs = [(name, value) for name, value in itertools.pairwise(words) if name.startswith("--")]
    return {name: value for name, value in pairs if name != "--conf"} | dict(
        value.split("=", 1) for name, value in pairs if name == "--conf"
    )


@pytest.mark.parametrize("arguments", [("--master", CLUSTER, "audit"), (f"--master={CLUSTER}", "audit")])
def test_the_option_says_where_spark_runs(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    assert settings(checkout.run("--dry-run", *arguments, SPARK_MASTER="spark://elsewhere:1"))["--master"] == CLUSTER


def test_the_variable_goes_over_the_configuration(checkout: Checkout) -> None:
    conf = checkout.root / "conf" / "spark-defaults.conf"
    conf.write_text(conf.read_text() + "\nspark.master   spark://of-the-file:7077\n")
    assert settings(checkout.run("--dry-run", "audit"))["--master"] == "spark://of-the-file:7077"
    assert settings(checkout.run("--dry-run", "audit", SPARK_MASTER=CLUSTER))["--master"] == CLUSTER
    assert "--archives" in settings(checkout.run("--dry-run", "audit"))


def test_master_without_an_address_is_wrong_usage(checkout: Checkout) -> None:
    ran = checkout.run("--master")
    assert (ran.code, ran.out) == (2, "")
    assert "--master needs a URL" in ran.err


def test_behind_the_job_it_is_an_option_of_the_job(checkout: Checkout) -> None:
    assert shlex.split(checkout.run("--dry-run", "audit", "--master", "x").out)[-2:] == ["--master", "x"]


def test_packages_are_sent_and_any_python_of_the_version_runs_them(checkout: Checkout) -> None:
    checkout.prepared()
    given = settings(checkout.run("--dry-run", "--master", CLUSTER, "audit"))
    assert given["--archives"] == f"{checkout.root}/.cache/executor-packages.tar.gz#packages"
    assert given["spark.executorEnv.PYTHONPATH"] == "packages"
    assert given["spark.pyspark.python"] == "python3.11"
    assert given["spark.pyspark.driver.python"] == f"{checkout.root}/.venv/bin/python"


def test_a_python_that_has_them_is_sent_none(checkout: Checkout) -> None:
    given = settings(checkout.run("--dry-run", "--master", CLUSTER, "audit", REPLICA_AUDIT_EXECUTOR_PYTHON="/opt/audit/bin/python"))
    assert given["spark.pyspark.python"] == "/opt/audit/bin/python"
    assert not {"--archives", "spark.executorEnv.PYTHONPATH"} & given.keys()


def test_on_this_machine_nothing_is_sent(checkout: Checkout) -> None:
    given = settings(checkout.run("--dry-run", "audit"))
    assert not {"--archives", "--py-files", "spark.pyspark.python"} & given.keys()


@pytest.mark.slow
def test_the_archive_holds_what_executors_import_and_no_spark(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "executor_packages.py"))
    assert {"pyarrow", "numpy", "numba", "llvmlite", "crc32c", "pandas", "pydantic", "pydantic-core"} <= tool["packages"](
        "replica-audit"
    ).keys()
    tool["write"](tmp_path / "made.tar.gz")
    with tarfile.open(tmp_path / "made.tar.gz") as made:
        names = made.getnames()
    folders = {name.partition("/")[0] for name in names}
    assert {"pyarrow", "numpy", "llvmlite"} <= folders
    assert not {"pyspark", "delta", "deltalake", "pytest", "replica_audit"} & folders
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]


def test_a_job_whose_package_comes_as_a_zip_shows_the_launchers_commands(tmp_path: Path) -> None:
    """As on a cluster: the driver, too, has the package from what is sent to the executors."""
    archive = shutil.make_archive(str(tmp_path / "replica_audit"), "zip", ROOT / "lib", "replica_audit")
    code = "import replica_audit, runpy, sys; assert '.zip' in replica_audit.__file__; runpy.run_path(sys.argv[0], run_name='__main__')"
    job = f"import sys; sys.argv = [{str(ROOT / 'jobs' / 'report.py')!r}, '--help']; {code}"
    done = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, env={"PYTHONPATH": archive}, check=False)
    assert done.returncode == 0, done.stderr
    assert "./spark-submit.sh report --warehouse /audits" in done.stdout
