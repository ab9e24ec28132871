"""The installed command runs Spark in its own process, and ends as the launcher's job does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from replica_audit.program import VERSION
from tests.house.checkout import ROOT
from tests.support.installed import build_wheel, install

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.nightly]
JARS = ROOT / ".cache/jars"


def mirror(below: Path) -> str:
    """The address of a repository that has the jars, laid out as Maven's."""
    for jar in ElementTree.parse(ROOT / "conf/ivy.xml").iter("dependency"):  # noqa: S314 - the project's own
        folder = below.joinpath(*jar.attrib["org"].split("."), jar.attrib["name"], jar.attrib["rev"])
        folder.mkdir(parents=True)
        name = f"{jar.attrib['name']}-{jar.attrib['rev']}.jar"
        shutil.copy(JARS / name, folder / name)
    return below.as_uri()


def test_an_audit_of_the_sample(tmp_path: Path) -> None:
    java = shutil.which("java")
    assert java
    home = {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
    installed = install(build_wheel(tmp_path), tmp_path, everything=True)
    variables = {"PATH": f"{Path(java).parent}:/usr/bin:/bin", "REPLICA_AUDIT_MAVEN_MIRROR": mirror(tmp_path / "mirror"), **home}
    ran = installed.run("audit", **variables)
    assert ran.code == 1, ran.err
    first, run, second, *progress = ran.err.splitlines()
    assert first == "fetching the Delta Lake jars, once (a few seconds, 13 MB) ..."
    (run_id,) = re.fullmatch(rf"\[(.*)\] run \1 of audit {re.escape(VERSION)}", run).groups()  # type: ignore[union-attr]
    assert second.startswith(f"[{run_id}] no --input: auditing the sample data in {installed.packages}")
    assert progress
    assert not [line for line in progress if not line.startswith(f"[{run_id}] [")], "the JVM says nothing of its own"
    (cached,) = (installed.cwd / ".cache/replica-audit").glob("jars-*")
    assert {jar.name: jar.read_bytes() for jar in cached.iterdir()} == {jar.name: jar.read_bytes() for jar in JARS.glob("*.jar")}
    for line in re.findall(r"^  replica-audit (.*)$", ran.out, re.MULTILINE):
        assert installed.run(*shlex.split(line)).code == 0, line

    # the same from jars that somebody has brought, without a cache and a network
    shutil.rmtree(installed.cwd / ".cache")
    variables |= {"REPLICA_AUDIT_JARS": str(JARS), "REPLICA_AUDIT_MAVEN_MIRROR": "file:///nowhere"}
    clean = ROOT / "tests/data/sample/clean-in-sync"
    # and on a machine whose name leads nowhere, as in the build of an image
    nowhere = ("unshare", "--uts", "sh", "-c", 'hostname leads-nowhere && exec "$@"', "start") if os.getuid() == 0 else ()
    again = installed.run_below(nowhere, "replica-audit", "audit", "--input", clean, "--json", "clean.json", **variables)
    assert (again.code, (installed.cwd / "clean.json").exists()) == (0, True), again.err
    assert not list((installed.cwd / ".cache").glob("replica-audit/jars-*")), "nothing was fetched"
