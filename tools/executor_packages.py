"""Writes what a cluster's executors need beside Spark and the package itself: the installed Python packages, as one archive.

    .venv/bin/python tools/executor_packages.py ARCHIVE.tar.gz

In the archive are the files of the packages that replica-audit requires, and of those that they require, as they lie in site-packages; left
out are Spark, which a cluster has, and what only the driver uses. There is no interpreter in it.
"""

from __future__ import annotations

import re
import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_OF_THE_DRIVER = {"pyspark", "py4j", "delta-spark", "deltalake", "jinja2", "rich", "kafka-python", "psutil", "importlib-metadata"}
_EXTRA = 'extra == "spark"'
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_UNUSED_FOLDERS = {"__pycache__", "tests", "include"}  # of packages: half of their files, none of which a run opens


def packages(name: str, found: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """The packages that one requires, directly or not, by name; with those of its extra for Spark, without those of the driver."""
    found = {} if found is None else found
    for requirement in distribution(name).requires or []:
        wanted, _, marker = requirement.partition(";")
        match = _NAME.match(wanted)
        needed = re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
        if not needed or ("extra ==" in marker and _EXTRA not in marker) or needed in _OF_THE_DRIVER or needed in found:
            continue
        try:
            found[needed] = distribution(needed)
        except PackageNotFoundError:
            continue  # needed on another system or Python only
        packages(needed, found)
    return found


def write(archive: Path) -> None:
    """Write the archive."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as made:
        for name, package in sorted(packages("replica-audit").items()):
            if not package.files:
                raise SystemExit(f"{name} has no list of its files: install it with pip")
            for file in package.files:
                if not _UNUSED_FOLDERS.intersection(file.parts) and ".." not in file.parts:
                    made.add(str(package.locate_file(file)), arcname=str(file), recursive=False)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
