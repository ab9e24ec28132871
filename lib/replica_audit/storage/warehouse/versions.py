"""The versions of what made a run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from replica_audit.program import VERSION


def versions(*packages: str) -> Iterator[tuple[str, str]]:
    """This product and the installed packages of these names, each with its version."""
    yield "replica-audit", VERSION
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed as a package"
