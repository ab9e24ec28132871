"""Trying many seeds by hand, for what has a bounded part in the tests."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from replica_audit.errors import AuditError
from replica_audit.recovery.invariants import PlanDefectError


def parser_of_seeds(description: str | None, total: int) -> argparse.ArgumentParser:
    """The options that say which seeds are tried; `total`: so many where nothing is given."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--total", type=int, default=total)
    parser.add_argument("--first", type=int, default=0)
    return parser


def count_broken(given: argparse.Namespace, tried: Callable[[int, Path], object], broken: type[Exception]) -> int:
    """Try each seed in a folder of its own, and print what is `broken`, or what the product refuses. Returns how many."""
    found = 0
    for seed in range(given.first, given.first + given.total):
        with tempfile.TemporaryDirectory() as folder:
            try:
                tried(seed, Path(folder))
            except (broken, PlanDefectError, AuditError) as error:
                sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
                found += 1
    return found
