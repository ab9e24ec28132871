"""spark-submit.sh itself: the real script, with what it finds on the machine replaced."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.house.checkout import Checkout, Ran


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.make(tmp_path)


def spark_flags(ran: Ran) -> list[str]:
    """What a printed command lets Spark's JVM start with."""
    (given,) = (word for word in shlex.split(ran.out) if word.startswith("PYSPARK_SUBMIT_ARGS="))
    return shlex.split(given.partition("=")[2])


def flag(ran: Ran, name: str) -> str:
    """The value of the last such flag that a printed command gives Spark: it is the one that counts."""
    words = spark_flags(ran)
    return words[len(words) - words[::-1].index(name)]


@pytest.mark.parametrize("arguments", [(), ("audit",)])
def test_without_java_it_says_what_to_install(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    ran = checkout.run(*arguments)
    assert ran.code == 2
    assert "error: a Java 17 or newer runtime is needed; found: none (JAVA_HOME is not set, no java on PATH)" in ran.err
    assert "openjdk-17-jre-headless" in ran.err
    assert checkout.untouched()


@pytest.mark.parametrize(("version", "major"), [("11.0.22", "Java 11"), ("1.8.0_402", "Java 8"), ("16", "Java 16")])
def test_an_old_java_is_named(checkout: Checkout, version: str, major: str) -> None:
    java = checkout.java(version)
    ran = checkout.run("audit")
    assert ran.code == 2
    assert f"found: {major} ({java})" in ran.err
    assert checkout.untouched()


@pytest.mark.parametrize(
    ("arguments", "flags", "setting"),
    [
        (("--deploy-mode", "cluster", "audit"), "", ""),
        (("--deploy-mode=cluster", "audit"), "", ""),
        (("audit",), "--verbose --deploy-mode cluster", ""),
        (("audit",), "--conf spark.submit.deployMode=cluster", ""),
        (("audit",), "", "spark.submit.deployMode  cluster"),
    ],
)
def test_a_driver_elsewhere_is_refused_in_a_sentence(checkout: Checkout, arguments: tuple[str, ...], flags: str, setting: str) -> None:
    defaults = checkout.root / "conf" / "spark-defaults.conf"
    defaults.write_text(f"{defaults.read_text()}\n{setting}\n")
    ran = checkout.run("--dry-run", *arguments, SPARK_SUBMIT_ARGS=flags)
    assert (ran.code, ran.out) == (2, "")
    assert "error: only deploy mode client:" in ran.err
    assert checkout.run("--dry-run", "triage", SPARK_SUBMIT_ARGS=flags).code == 0, "it has no driver"


def test_the_release_file_tells_the_version_without_starting_java(checkout: Checkout, tmp_path: Path) -> None:
    home = tmp_path / "old java"
    checkout.script(home / "bin" / "java", "echo started >&2", "exit 1")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.1"\n')
    ran = checkout.run("audit", JAVA_HOME=str(home))
    assert ran.code == 2
    assert f"found: Java 11 ({home}/bin/java)" in ran.err


def test_a_java_on_path_serves_where_java_home_does_not(checkout: Checkout, tmp_path: Path) -> None:
    checkout.java("11", home=tmp_path / "old")
    checkout.java("21.0.1")
    checkout.prepared()
    checkout.script(checkout.root / ".venv/bin/python", 'echo "JAVA_HOME=${JAVA_HOME:-unset}"')
    assert checkout.run("audit", JAVA_HOME=str(tmp_path / "old")).out == "JAVA_HOME=unset\n"


def test_without_python_it_says_what_to_install(checkout: Checkout) -> None:
    checkout.java("17")
    ran = checkout.run("audit")
    assert ran.code == 2
    assert "error: Python 3.11 or newer is needed; found: none on PATH" in ran.err
    assert checkout.untouched()


def test_an_old_python_is_named(checkout: Checkout) -> None:
    checkout.java("17")
    python = checkout.script(checkout.path / "python3", 'case "$3" in *print*) echo 3.9 ;; *) exit 1 ;; esac')
    ran = checkout.run("audit")
    assert ran.code == 2
    assert f"found: Python 3.9 ({python})" in ran.err


@pytest.mark.parametrize("name", ["adit", "audit.py", "../audit", "", "AUDIT"])
def test_an_unknown_job_is_refused_with_the_list(checkout: Checkout, name: str) -> None:
    checkout.job("second_job")
    ran = checkout.run(name, "--input", "x") if name else checkout.run("no such job")
    assert ran.code == 2
    assert "error: no job named" in ran.err
    assert "  audit " in ran.err
    assert "  second_job         The job second_job." in ran.err
    assert checkout.untouched()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_needs_nothing(checkout: Checkout, option: str) -> None:
    ran = checkout.run(option)
    assert ran.code == 0
    assert ran.out.startswith("usage: ./spark-submit.sh")
    for word in ("SPARK_MASTER", "SPARK_SUBMIT_ARGS", "--dry-run", "  audit "):
        assert word in ran.out
    assert checkout.untouched()


@pytest.mark.parametrize(
    "arguments",
    [("--dry-run", "audit", "--input", "a b"), ("audit", "--dry-run", "--input", "a b"), ("audit", "--input", "a b", "--dry-run")],
)
def test_dry_run_prints_the_command_and_sets_nothing_up(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    ran = checkout.run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    words = shlex.split(ran.out)
    assert f"PYSPARK_PYTHON={checkout.root}/.venv/bin/python" in words
    assert words[-4:] == [f"{checkout.root}/.venv/bin/python", f"{checkout.root}/jobs/audit.py", "--input", "a b"]
    assert flag(ran, "--master") == "local[*]"
    assert flag(ran, "--properties-file") == f"{checkout.root}/conf/spark-defaults.conf"
    assert flag(ran, "--driver-memory") == "2g"
    assert flag(ran, "--driver-class-path") == f"{checkout.root}/.cache/jars/*"
    assert checkout.untouched()


def warm_up(checkout: Checkout, *lines: str) -> None:
    """A spark-submit that runs `lines` to archive classes ($made: where to), and a job that prints its JVM's flags."""
    checkout.java("17")
    checkout.script(checkout.path / "python3", f'exec "{sys.executable}" "$@"')
    checkout.script(checkout.path / "touch", ': >"$1"')
    checkout.prepared()
    (checkout.root / ".cache/classes.jsa.made-for").write_text("another Java\n")
    checkout.script(
        checkout.root / ".venv/bin/spark-submit",
        """all="$*" made="${all#*AtExit=?}" made="${made%%.new*}.new\"""",
        *lines,
    )
    checkout.script(checkout.root / ".venv/bin/python", 'printf "%s\n" "$PYSPARK_SUBMIT_ARGS" | grep -F TieredStopAtLevel')


def test_the_classes_are_archived_once_and_then_used(checkout: Checkout) -> None:
    warm_up(checkout, 'echo x >"$made"; exit 1')
    first, second = checkout.run("audit"), checkout.run("audit")
    assert "archiving the JVM's classes" in first.err
    assert second.err == ""
    assert f'-XX:SharedArchiveFile="{checkout.root}/.cache/classes.jsa" ' in first.out
    assert first.out == second.out


def test_without_a_class_archive_jobs_run_all_the_same(checkout: Checkout) -> None:
    warm_up(checkout, "exit 1")
    first, second = checkout.run("audit"), checkout.run("audit")
    assert "the classes could not be archived (whole output: .cache/setup.log)" in first.err
    assert second.err == ""
    assert "SharedArchiveFile" not in first.out + second.out
    assert (first.code, second.code) == (0, 0)


def test_jars_and_package_travel_to_a_cluster(checkout: Checkout) -> None:
    ran = checkout.run("audit", "--dry-run", SPARK_MASTER="spark://127.0.0.1:7077")
    assert flag(ran, "--master") == "spark://127.0.0.1:7077"
    jars = flag(ran, "--jars").split(",")
    assert len(jars) == 8
    assert f"{checkout.root}/.cache/jars/delta-spark_4.2_2.13-4.4.0.jar" in jars
    assert flag(ran, "--py-files") == f"{checkout.root}/.cache/replica_audit.zip"
    assert "--driver-class-path" not in ran.out


@pytest.mark.parametrize(
    ("given", "connector"),
    [
        (("--warehouse", "s3a://audits/nightly"), True),
        (("--warehouse=s3a://audits",), True),
        (("--input", "s3a://backup", "--warehouse", "/srv/audits"), False),
        (("--warehouse", "/srv/s3a://x"), False),
    ],
)
def test_a_warehouse_in_s3_has_the_connector(checkout: Checkout, given: tuple[str, ...], connector: bool) -> None:
    ran = checkout.run("audit", "--dry-run", *given)
    there = f":{checkout.root}/.cache/s3-jars/*" if connector else ""
    assert flag(ran, "--driver-class-path") == f"{checkout.root}/.cache/jars/*{there}"
    sent = flag(checkout.run("audit", "--dry-run", *given, SPARK_MASTER="spark://127.0.0.1:7077"), "--jars")
    assert (f"{checkout.root}/.cache/s3-jars/hadoop-aws-3.5.0.jar" in sent.split(",")) == connector


def test_a_driver_job_needs_neither_spark_nor_java(checkout: Checkout) -> None:
    checkout.job("second_job", runs_on="driver")
    assert shlex.split(checkout.run("second_job", "--dry-run", "x").out) == [
        f"{checkout.root}/.venv/bin/python",
        f"{checkout.root}/jobs/second_job.py",
        "x",
    ]
    checkout.prepared()
    checkout.script(checkout.root / ".venv/bin/python", 'echo "python $*"', "exit 3")
    assert checkout.run("second_job", "x") == Ran(code=3, out=f"python {checkout.root}/jobs/second_job.py x\n", err="")


def test_another_spark_in_the_users_shell_does_not_count(checkout: Checkout) -> None:
    checkout.java("17")
    checkout.prepared()
    checkout.script(checkout.root / ".venv/bin/python", "env")
    foreign = {"SPARK_HOME": "/opt/spark", "PYSPARK_PYTHON": "/x", "PYSPARK_DRIVER_PYTHON": "jupyter", "SPARK_REMOTE": "sc://x"}
    lines = checkout.run("audit", **foreign, PYSPARK_SUBMIT_ARGS="x").out.splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    python = f"{checkout.root}/.venv/bin/python"
    assert seen["SPARK_HOME"] == f"{checkout.root}/.venv/lib/python3.11/site-packages/pyspark"
    assert seen["PYSPARK_PYTHON"] == python
    assert "PYSPARK_DRIVER_PYTHON" not in seen
    assert seen["PATH"].startswith(f"{checkout.root}/.venv/bin:")
    assert "SPARK_REMOTE" not in seen
    assert shlex.split(seen["PYSPARK_SUBMIT_ARGS"])[-1] == "pyspark-shell"


def test_without_a_job_a_prepared_environment_lists_the_jobs(checkout: Checkout) -> None:
    checkout.java("17")
    checkout.prepared()
    checkout.job("second_job")
    ran = checkout.run()
    assert (ran.code, ran.err) == (0, "")
    assert "ready" in ran.out
    assert "  audit " in ran.out
    assert "  second_job         The job second_job." in ran.out


@pytest.mark.parametrize("change", ["stamp", "versions", "requirements", "moved"])
def test_what_changes_the_packages_makes_the_environment_anew(checkout: Checkout, tmp_path: Path, change: str) -> None:
    checkout.java("17")
    checkout.prepared()
    checkout.script(checkout.root / ".venv/bin/python", "exit 0")
    assert checkout.run("audit").code == 0
    if change == "stamp":
        (checkout.root / ".venv/.replica-audit-installed").unlink()
    elif change == "moved":
        moved = checkout.root.rename(tmp_path / "elsewhere")
        checkout = Checkout(root=moved, cwd=checkout.cwd, path=checkout.path)
    else:
        path = checkout.root / ("conf/requirements/run.txt" if change == "versions" else "setup.cfg")
        path.write_text(re.sub("pyspark(==|>=)", "pyspark==1", path.read_text()))
    ran = checkout.run("audit")
    assert ran.code == 2
    assert "error: Python 3.11 or newer is needed" in ran.err  # the set-up began, and this PATH has no Python


def test_the_environment_of_another_checkout_is_not_emptied_through_a_link(checkout: Checkout, tmp_path: Path) -> None:
    checkout.java("17")
    checkout.prepared()
    others = (checkout.root / ".venv").rename(tmp_path / "others")
    (others / ".replica-audit-installed").unlink()
    before = sorted(others.rglob("*"))
    (checkout.root / ".venv").symlink_to(others)
    ran = checkout.run("audit")
    assert ran.code == 2
    assert f"error: .venv is a link to {others}, which is not the environment of this checkout" in ran.err
    assert f"Remove the link (rm {checkout.root}/.venv)" in ran.err
    assert sorted(others.rglob("*")) == before


@pytest.mark.parametrize("name", [".venv", ".cache"])
@pytest.mark.parametrize("is_link", [False, True])
def test_what_another_user_put_into_the_checkout_is_not_run(checkout: Checkout, tmp_path: Path, name: str, is_link: bool) -> None:
    if os.geteuid():
        return  # only root can give a folder to another user
    checkout.java("17")
    checkout.prepared()
    checkout.job("told", runs_on="driver")
    assert checkout.run("told").code == 99  # of what stands in for Python there
    planted = checkout.root / name
    if is_link:
        planted.rename(tmp_path / "elsewhere")
        planted.symlink_to(tmp_path / "elsewhere")
    os.chown(planted, 12345, -1, follow_symlinks=False)
    ran = checkout.run("told")
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {planted} belongs to another user (uid 12345): what is in it is not run" in ran.err


def test_a_missing_jar_is_fetched_again(checkout: Checkout) -> None:
    checkout.java("17")
    checkout.prepared()
    next((checkout.root / ".cache/jars").iterdir()).unlink()
    ran = checkout.run("audit")
    assert ran.code == 2
    assert "error: Python 3.11 or newer is needed" in ran.err


def test_a_checkout_that_cannot_be_written_is_told_in_a_sentence(checkout: Checkout) -> None:
    (checkout.root / ".cache").write_text("in the way")
    checkout.script(checkout.path / "python3.11", "exit 0")
    ran = checkout.run("collect")
    assert (ran.code, ran.out) == (2, "")
    assert f"error: cannot write to {checkout.root}/.cache, where the environment has to be set up first\n" in ran.err
    assert f"start it once as the user who owns {checkout.root}\n" in ran.err
