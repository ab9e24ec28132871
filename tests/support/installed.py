"""The project installed from a wheel, into an environment that holds what its requirements name and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.house.checkout import ROOT, Ran, project_files

_SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--isolated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An environment (`root`) with the command; `cwd` is an empty folder to start it from."""

    root: Path
    cwd: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path, program: str = "replica-audit", **variables: str) -> Ran:
        """Run a program of the environment, as a user without any settings does."""
        return self.run_below((), program, *arguments, **variables)

    def run_below(self, below: tuple[str, ...], program: str, *arguments: str | Path, **variables: str) -> Ran:
        """The same by a command that runs the one behind it."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.cwd), "LANG": "C.UTF-8", **self.variables, **variables}
        command = [*below, str(self.root / "bin" / program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return self.root / _SITE


def build_wheel(below: Path) -> Path:
    """The wheel of the checkout as it is, made in a copy: a build leaves files."""
    source = below / "source"
    for path in project_files():
        own = path.relative_to(ROOT)
        if own.parts[0] in ("lib", "conf", "tools") or own.parent == Path() or own.is_relative_to("tests/data/sample"):
            target = source / own
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    command = [*_PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(below), str(source)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (wheel,) = below.glob("*.whl")
    return wheel


def install(wheel: Path, below: Path, *, everything: bool = False) -> Installation:
    """Install a wheel into a new environment.

    The packages that it requires are those of the environment that runs the tests: what the wheel requires without extras, directly or not,
    is linked, package by package; or, with `everything`, all of them are there.
    """
    made = Installation(root=below / "environment", cwd=below / "cwd")
    made.cwd.mkdir()
    venv.create(made.root, with_pip=False)
    command = [_PIP[0], *_PIP[1:3], "--python", str(made.root / "bin/python"), *_PIP[3:], "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(command, env={"PATH": os.environ["PATH"], "HOME": str(below)}, capture_output=True, text=True, check=True)
    if everything:
        (made.packages / "everything.pth").write_text(f"{Path(str(distribution('pyarrow').locate_file(''))).resolve()}\n")
        return made
    (information,) = made.packages.glob("replica_audit-*.dist-info")
    for package in _closure(Distribution.at(information)).values():
        for name in _top_level(package):
            (made.packages / name).symlink_to(Path(str(package.locate_file(name))))
    return made


def _closure(package: Distribution, found: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """What a package requires without extras, directly or not, by name."""
    found = {} if found is None else found
    for line in package.requires or []:
        requirement = Requirement(line)
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            found[requirement.name] = distribution(requirement.name)
        except PackageNotFoundError as error:
            raise AssertionError(f"{line}: required, and not in the environment of the tests") from error
        _closure(found[requirement.name], found)
    return found


def _top_level(package: Distribution) -> Iterator[str]:
    files = package.files
    assert files, f"{package.name} has no list of its files"
    yield from sorted({file.parts[0] for file in files} - {"..", "__pycache__", "bin"})
