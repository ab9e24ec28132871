#!/usr/bin/env python3
"""Times the first audit of a cluster and that of the night after, of whose partitions 1 % have changed, in turn in one run.

.venv/bin/python benchmarks/second_night.py                       # 10,000 partitions
.venv/bin/python benchmarks/second_night.py --partitions 100000
.venv/bin/python benchmarks/second_night.py --changed 0            # the same cluster once more
.venv/bin/python benchmarks/second_night.py --form raw

Both audits are full, so the second takes no longer than the first. The clusters are those of clusters.py: as `collect` writes them, each
night into a folder of its own; or the brokers' log directories, in which files change. What counts is the time of the processors, of whole
processes: a machine that others use, too, tells the same.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from audit import SUBREAPER, Cost, audit, cost, say, summary, told

ROOT = Path(__file__).resolve().parents[1]


def measure(partitions: int, segments: int, changed: float, rounds: int, form: str, work: Path) -> tuple[list[Cost], list[Cost]]:
    """The costs of first and of second audits, in turn."""
    warehouse = work / "warehouse"

    def cluster(night: int) -> Path:
        """The cluster in a night."""
        root = work / ("brokers" if form == "raw" else f"night-{night}")
        sizes = ["--partitions", str(partitions), "--segments", str(segments)]
        options = [*sizes, "--night", str(night), "--changed", str(changed), "--form", form]
        if form == "raw" or not root.exists():
            command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(root), *options]
            subprocess.run(command, check=True)  # noqa: S603
        return root

    first, second = [], []
    for night in range(1, rounds + 1):
        before = cluster(0)
        first.append(cost(lambda: audit(before, warehouse)))  # noqa: B023 - called at once
        say(f"round {night}: first {told(first[-1])}; load {os.getloadavg()[0]:.1f}")
        after = cluster(night)
        second.append(cost(lambda: audit(after, warehouse)))  # noqa: B023 - called at once
        say(f"round {night}: second {told(second[-1])}; load {os.getloadavg()[0]:.1f}")
        shutil.rmtree(warehouse)
    return first, second


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=1, help="of every log, at most 10")
    parser.add_argument("--form", choices=("raw", "collected"), default="collected", help="log directories, or what collect writes of them")
    parser.add_argument("--changed", type=float, default=0.01, metavar="SHARE", help="of partitions that change in a night")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for clusters and warehouses (default: a temporary one)")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(dir=given.work) as work:
        first, second = measure(given.partitions, given.segments, given.changed, given.rounds, given.form, Path(work))
    say("seconds of the processors, and ratios: least / median / most")
    say(summary(f"{given.partitions:>9,} partitions, first ", [one.processors for one in first]))
    say(summary(f"{given.partitions:>9,} partitions, second", [one.processors for one in second]))
    pairs = list(zip(second, first, strict=True))
    say(summary("second / first, processors", [one.processors / other.processors for one, other in pairs]))
    say(summary("second / first, clock", [one.clock / other.clock for one, other in pairs]))


if __name__ == "__main__":
    main()
