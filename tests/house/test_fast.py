"""tests/run.sh --fast: without Java, without what needs it, and nothing in it starts a JVM unnoticed; pre-commit runs its checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from tests.house.checkout import ROOT, Checkout
from tests.support.shares import without_pairs_that_recur

MADE = """
import subprocess
import pytest

@pytest.fixture
def session():
    subprocess.run(["java", "-version"], check=False)

def test_starts_one():
    subprocess.run(["java", "-version"], check=False)

def test_starts_one_far_away():
    subprocess.run(["bash", "-c", "exec \\"$(readlink -f \\"$(type -P java)\\")\\" -version"], check=False)

def test_starts_one_and_fails():
    subprocess.run(["java", "-version"], check=False)
    raise ValueError

def test_starts_one_in_a_fixture(session):
    pass

def test_starts_none():
    pass

@pytest.mark.spark
def test_is_marked():
    raise ValueError

@pytest.fixture
def spark():
    raise ValueError

def test_has_a_session(spark):
    pass
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    tests = tmp_path / "test_made.py"
    tests.write_text(MADE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spark\n  nightly\n", encoding="utf-8")
    return tests


def pytest_fast(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.fast", "-p", "no:cacheprovider", "--fast", "-rA", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.spark
def test_what_starts_a_jvm_fails(made: Path) -> None:
    done = pytest_fast(str(made))
    ended = {test: how for how, test in re.findall(r"^([A-Z]+) .*::(test_\w+)", done.stdout, re.MULTILINE)}
    assert ended == {
        "test_starts_one": "FAILED",
        "test_starts_one_far_away": "FAILED",
        "test_starts_one_and_fails": "FAILED",
        "test_starts_one_in_a_fixture": "ERROR",
        "test_starts_none": "PASSED",
    }, done.stdout
    assert done.stdout.count("started 1 JVM(s)") >= 4
    assert "2 deselected" in done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout that is set up for tests, whose Python and linters only print what they are given; there is no Java."""
    checkout = Checkout.make(tmp_path)
    checkout.prepared()
    stamp = checkout.root / ".venv/.replica-audit-installed"
    stamp.write_text(checkout.shell("packages_fingerprint") + "\ntest,lint,notebook\n")
    for name in ("python", "ruff", "mypy", "lint-imports"):
        checkout.script(checkout.root / ".venv/bin" / name, f'echo "{name} $*"')
    checkout.script(checkout.root / "tests/run.sh", *(ROOT / "tests/run.sh").read_text(encoding="utf-8").splitlines()[1:])
    return checkout


def run(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(checkout.path), "HOME": str(checkout.cwd)}
    command = [str(checkout.root / "tests/run.sh"), *arguments]
    return subprocess.run(command, cwd=checkout.cwd, env=environment, capture_output=True, text=True, check=False)


def test_what_is_for_the_night_runs_then_and_nothing_else_does(tmp_path: Path) -> None:
    tests = tmp_path / "test_made.py"
    tests.write_text("import pytest\n\ndef test_day(): pass\n\n@pytest.mark.nightly\ndef test_night(): pass\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly\n", encoding="utf-8")
    for arguments, ran in (([], "day"), (["--nightly"], "night"), (["--fast"], "day")):
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.fast", "-v", str(tests), *arguments]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
        assert re.findall(r"::test_(\w+) PASSED", done.stdout) == [ran]


def test_fast_needs_no_java(checkout: Checkout) -> None:
    done = run(checkout, "--fast")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *(f"ok      {check}" for check in checks()),
        "python -m pytest --fast -n 2 --dist loadfile --no-loadscope-reorder",
    ]
    assert run(checkout, "--fast", "tests/protocol", "-x").stdout == "python -m pytest --fast tests/protocol -x\n"


def checks() -> list[str]:
    """The checks of tests/run.sh, as they are written there."""
    found = re.findall(r"^ +check (.*)$", (ROOT / "tests/run.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) >= 4
    return found


def test_pre_commit_runs_the_same_checks_from_the_projects_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"], "nothing is fetched"
    hooks = config["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == [f".venv/bin/{check}" for check in checks()]
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)
    assert all(hook.keys() == {"id", "name", "entry", "language", "pass_filenames", "types_or"} for hook in hooks)


class Combination:
    """A test as pytest collects it, called with one value of each of its parameters."""

    def __init__(self, name: str, **values: str) -> None:
        self.nodeid = f"{name}[{'-'.join(values.values())}]"
        self.callspec = SimpleNamespace(params=values)
        self.added: list[str] = []

    def iter_markers(self, _name: str) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(args=(name,)) for name in self.callspec.params)

    def get_closest_marker(self, _name: str) -> None:
        return None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.added.append(mark.name)


def test_by_day_each_pair_of_values_occurs() -> None:
    values = {"shape": ("raw", "text", "collected"), "broker": ("leader", "follower"), "state": ("up", "down")}
    items = [Combination("t", **dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())]
    two = [Combination("two", a=a, b=b) for a, b in product("xyz", "xyz")]
    without_pairs_that_recur(cast("list[pytest.Item]", [*items, *two]))

    def pairs(some: list[Combination]) -> set[object]:
        return {pair for item in some for pair in combinations(item.callspec.params.items(), 2)}

    by_day = [item for item in items if not item.added]
    assert pairs(by_day) == pairs(items)
    assert len(by_day) < len(items)
    assert not [item for item in two if item.added], "two parameters are one pair each"
