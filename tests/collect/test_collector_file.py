"""The collector of one file runs where there is nothing but Python, and collects what `collect` does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from replica_audit import cli, program
from tests.collect.collections import lasting
from tests.house.checkout import ROOT, Ran

pytestmark = pytest.mark.slow
DATA = ROOT / "tests/data/sample/committed-loss/broker-1/data-0"
PAGE = (ROOT / "docs/collecting.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("collector") / program.COLLECTOR
    subprocess.run([sys.executable, ROOT / "tools/collector.py", made], check=True, capture_output=True)
    return made


def run(collector: Path, *arguments: str | Path, home: Path, **variables: str) -> Ran:
    """Start the file with a Python that sees no packages, no site and no variables."""
    python = Path(sys.executable).resolve()
    command = [str(python), "-I", "-S", str(collector), *map(str, arguments)]
    environment = {"HOME": str(home), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_gives_the_same_files(collector: Path, tmp_path: Path) -> None:
    assert collector.stat().st_size <= 60_000_000
    ran = run(collector, "--log-dir", DATA, "--output", tmp_path / "by-file", home=tmp_path)
    assert (ran.code, ran.out) == (0, f"{tmp_path}/by-file/broker-1\n"), ran.err
    assert cli.main(["collect", "--log-dir", str(DATA), "--output", str(tmp_path / "by-command")]) == 0
    given, expected = contents(tmp_path / "by-file/broker-1"), contents(tmp_path / "by-command/broker-1")
    assert given.keys() == expected.keys()
    manifests = [json.loads(files.pop("manifest.json")) for files in (given, expected)]
    assert lasting(manifests[0]) == lasting(manifests[1])
    # the time of the last check of CRCs stands in the rows of the segments
    rows = [pq.read_table(tmp_path / by / "broker-1/data-0/segments.parquet") for by in ("by-file", "by-command")]
    differing = [name for name in rows[0].column_names if rows[0][name] != rows[1][name]]
    assert differing in ([], ["verified_at_ms"])
    assert {name for name in given if given[name] != expected[name]} <= {"data-0/segments.parquet"}


def test_it_unpacks_once(collector: Path, tmp_path: Path) -> None:
    assert run(collector, "--version", home=tmp_path).out == f"{program.COLLECTOR} {program.VERSION}\n"
    (unpacked,) = (tmp_path / ".cache/replica-audit").iterdir()
    before = unpacked.stat().st_mtime_ns
    shown = run(collector, "--help", home=tmp_path)
    assert f"\n  python3 {program.COLLECTOR} --log-dir /var/lib/kafka/data" in shown.out
    assert shown.out.startswith(f"usage: python3 {program.COLLECTOR}")
    assert [(one, one.stat().st_mtime_ns) for one in (tmp_path / ".cache/replica-audit").iterdir()] == [(unpacked, before)]


@pytest.mark.parametrize("planted", ["another user's", "writable by others", "a link", "in a folder where all may rename"])
def test_code_that_others_may_have_put_there_is_not_run(collector: Path, tmp_path: Path, planted: str) -> None:
    shared = tmp_path / "shared"
    variables = {"REPLICA_AUDIT_UNPACKED": str(shared), "TMPDIR": str(tmp_path)}
    assert run(collector, "--version", home=tmp_path, **variables).code == 0
    (kept,) = shared.iterdir()
    (kept / "site/replica_audit/collector.py").write_text("raise SystemExit(99)\n", encoding="ascii")
    if planted == "another user's":
        if os.geteuid():
            return  # only root can give a folder to another user
        os.chown(kept, 12345, -1)
    elif planted == "writable by others":
        kept.chmod(0o777)
    elif planted == "a link":
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    else:
        shared.chmod(0o777)
    assert run(collector, "--version", home=tmp_path, **variables).out == f"{program.COLLECTOR} {program.VERSION}\n"


def test_without_a_home_it_leaves_nothing(collector: Path, tmp_path: Path) -> None:
    assert run(collector, "--version", home=Path("/proc/nowhere"), TMPDIR=str(tmp_path)).code == 0
    assert not list(tmp_path.iterdir())
    assert run(collector, "--output", tmp_path / "x", home=Path("/proc/nowhere"), TMPDIR=str(tmp_path)).code == 2
    assert not list(tmp_path.iterdir())


def test_on_another_python_it_says_which_one_it_needs(collector: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(collector) as archive, zipfile.ZipFile(other, "w") as changed:
        changed.writestr("__main__.py", archive.read("__main__.py"))
        made_for = json.loads(archive.read("made-for.json"))
        changed.writestr("made-for.json", json.dumps(made_for | {"python": "3.99", "abi": "cpython-399"}))
    ran = run(other, "--version", home=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: this file is made for Python 3.99 (cpython-399), and this is Python 3.")
    assert ran.err.endswith("; build one with this Python\n")
    assert ran.err.count("\n") == 1
    as_if = f"import runpy, sys; sys.version_info = (3, 9); runpy.run_path({str(other)!r}, run_name='__main__')"
    older = subprocess.run([sys.executable, "-I", "-c", as_if], capture_output=True, text=True, check=False)
    assert (older.returncode, older.stderr.partition("; ")[2]) == (2, "collect needs Python 3.11 or newer\n")


def test_the_page_shows_how(collector: Path, tmp_path: Path) -> None:
    (line,) = re.findall(rf"^python3 {re.escape(program.COLLECTOR)} (.*)$", PAGE, re.MULTILINE)
    shutil.copytree(DATA, tmp_path / "var/lib/kafka/data")
    words = [f"{tmp_path}{word.removeprefix('~')}" if word.startswith(("/", "~/")) else word for word in line.split()]  # as a shell does
    assert run(collector, *words, home=tmp_path).code == 0
    assert (tmp_path / "collected/broker-1/manifest.json").exists()
