"""The long run for damage that stays silent; ends with 1 if any does.

PYTHONPATH=lib .venv/bin/python -m tests.mutation.hunt --total 1000000 --seed 1 ../shared/clusters/*/after ../shared/clusters/*/before
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.mutation.generated import STATES, healthy
from tests.mutation.shapes import COLLECTED, RAW, TEXT
from tests.mutation.silent import Place, Silent, Tally, round_of, round_together

SHOWN = 4  # of a kind


def places(roots: list[Path], shapes: list[str], folder: Path) -> list[Place]:
    """Working copies of clusters in every shape; of the generated ones if none is named."""
    chosen = roots or [healthy(folder / "generated" / state, state) for state in STATES]
    found = [Place(root, folder, shape) for root in chosen for shape in shapes]
    return found + [Place(root, folder, shape, of_shape=True) for root in chosen for shape in shapes if shape != RAW]


def in_company(roots: list[Path], shapes: list[str], folder: Path) -> list[Place]:
    """The same, each audited in one run with another cluster, which is healthy."""
    chosen = roots or [healthy(folder / "generated" / state, state) for state in STATES]
    beside = [healthy(folder / "beside", "stopped", "AAAAAAAAQAAAAAAAAAAAAA")]
    return [Place(root, folder / "in company", shape, beside=beside) for root in chosen for shape in shapes]


def write(silent: list[Silent], to: Path) -> None:
    """Write the tree of one of each kind, to be audited by hand."""
    for one in silent:
        target = to / f"{one.mutation.kind}-{one.mutation.facts.get('whose', '')}-{one.place.at.name}".replace(" ", "-")
        if target.exists():
            continue
        shutil.copytree(one.place.at, target)
        for path, content in one.mutation.changes.items():
            if content is None:
                (target / path).unlink()
            else:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(content)


def show(tally: Tally, seconds: float) -> None:
    """Print what stayed silent by kind, and the counts."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for one in tally.silent:
        kinds[f"{one.mutation.kind} / {one.mutation.facts.get('whose', '')}"].append(str(one))
    for kind, lines in sorted(kinds.items(), key=lambda found: -len(found[1])):
        print(f"{len(lines):>5} {kind}")  # noqa: T201
        for line in lines[:SHOWN]:
            print(f"        {line[:420]}")  # noqa: T201
    print(f"told: {dict(tally.how)}\nmay stay silent: {dict(tally.accepted)}\ntold by a row alone: {dict(tally.by_row_alone)}")  # noqa: T201
    print(f"{tally.runs} mutations, {tally.neutral} neutral, {len(tally.silent)} silent, {seconds:.0f} s", flush=True)  # noqa: T201


def main() -> int:
    """Run it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--total", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0, help="of the first round; the others count up")
    arguments.add_argument("--minutes", type=float, help="end after so many, too")
    arguments.add_argument("--write", type=Path, help="a folder for the trees of what stayed silent, one of each kind")
    arguments.add_argument("--shape", action="append", choices=[RAW, TEXT, COLLECTED])
    arguments.add_argument("--together", action="store_true", help="several at once in a cluster, in one run with another cluster")
    arguments.add_argument("roots", nargs="*", type=Path, help="clusters; the generated ones if there is none")
    given = arguments.parse_args()
    began, tally, seed = time.monotonic(), Tally(), given.seed
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        chosen, one_round = (in_company, round_together) if given.together else (places, round_of)
        found = chosen(given.roots, given.shape or [RAW], Path(folder))
        while tally.runs < given.total and (given.minutes is None or time.monotonic() - began < 60 * given.minutes):
            one_round(found[seed % len(found)], seed, tally)
            seed += 1
        if given.write:
            write(tally.silent, given.write)
        show(tally, time.monotonic() - began)
    return 1 if tally.silent else 0


if __name__ == "__main__":
    sys.exit(main())
