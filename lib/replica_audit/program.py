"""What this program is: its version, how it was started, and where the files are that belong to it.

It is started by `./spark-submit.sh` of a checkout, or installed, as the command `replica-audit`, or as a file that only collects. What a
text shows as a command to type has to fit the way that the reader came.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

VERSION = "0.2.0"
LAUNCHER, COMMAND = "./spark-submit.sh", "replica-audit"
COLLECTOR = "replica-audit-collect.pyz"
_PACKAGE = Path(__file__).parent
_JOBS = "jobs"
_MAIN = "__main__.py"  # of `python -m replica_audit`, or of a file that Python runs


def _checkout() -> Path:
    """The folder of the project: around the package, or around the job that was started, where Spark was given the package as a zip."""
    started = Path(sys.argv[0]).absolute()
    return started.parents[1] if started.parent.name == _JOBS else _PACKAGE.parents[1]


def is_installed() -> bool:
    """Whether the package was installed by a wheel: there is no checkout around it."""
    return not (_checkout() / LAUNCHER).is_file()


def program() -> str:
    """What a user types before the name of a command."""
    started = Path(sys.argv[0])
    if started.name in (COMMAND, f"{COMMAND}.exe") or (started.name == _MAIN and started.parent == _PACKAGE):
        return COMMAND
    return COMMAND if is_installed() else LAUNCHER


def shown_name(name: str) -> str:
    """The name of a command as a user types it: the launcher knows `describe_cluster`, `replica-audit` writes it with a hyphen."""
    return name if program() == LAUNCHER else name.replace("_", "-")


def command_line(name: str) -> str:
    """What a user types to start the command of this name."""
    if sys.argv[0].endswith(".pyz"):
        return f"python3 {Path(sys.argv[0]).name}"
    return f"{program()} {shown_name(name)}"


def option(name: str, value: str) -> list[str]:
    """An option with its value, as words of a command to type: joined where the value itself would be taken for an option, as `--help`."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def shipped(path: str) -> Path:
    """A file or folder of the project, by its path in a checkout: there, or as a copy that the wheel brought along (setup.py)."""
    return _PACKAGE / "shipped" / path if is_installed() else _checkout() / path


def versions(*packages: str) -> Iterator[tuple[str, str]]:
    """This product and the installed packages of these names, each with its version."""
    from importlib.metadata import PackageNotFoundError, version  # it takes 10 ms, which not every command has to spend

    yield "replica-audit", VERSION
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed as a package"


@cache
def digest_of_code(rooms: Collection[str]) -> str:
    """A digest, in hexadecimal digits, of the sources of some modules and packages right below the package."""
    made = hashlib.blake2b(digest_size=16)
    for name, source in sorted(_sources(files("replica_audit"), "")):
        if name.split("/")[0].removesuffix(".py") in rooms:
            made.update(f"{name}\n{hashlib.blake2b(source.read_bytes()).hexdigest()}\n".encode())
    return made.hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry
