#!/usr/bin/env python3
"""Times an audit that reads everything, and the one of the night after, of whose partitions 1 % have changed, in turn in one run.

.venv/bin/python benchmarks/incremental.py                         # 10,000 partitions
.venv/bin/python benchmarks/incremental.py --partitions 100000
.venv/bin/python benchmarks/incremental.py --segments 8           # of every log, as of a week with segment.ms of a day
.venv/bin/python benchmarks/incremental.py --form raw

The clusters are those of clusters.py: as `collect` writes them, each night into a folder of its own, every replica with another time; or
the brokers' log directories, in which files change. What counts is the time of the processors, of whole processes: a machine that others
use, too, tells the same.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from audit import SUBREAPER, Cost, audit, cost, say, summary, told

ROOT = Path(__file__).resolve().parents[1]
_AT_REST_SECONDS = 3  # a file that was just written is read again


def measure(partitions: int, segments: int, changed: float, rounds: int, form: str, work: Path) -> tuple[list[Cost], list[Cost]]:
    """The costs of full and of incremental audits, in turn."""
    warehouse = work / "warehouse"

    def cluster(night: int) -> Path:
        """The cluster in a night."""
        root = work / ("brokers" if form == "raw" else f"night-{night}")
        sizes = ["--partitions", str(partitions), "--segments", str(segments)]
        options = [*sizes, "--night", str(night), "--changed", str(changed), "--form", form]
        if form == "raw" or not root.exists():
            command = [sys.executable, str(ROOT / "benchmarks" / "clusters.py"), "--output", str(root), *options]
            subprocess.run(command, check=True)  # noqa: S603
            time.sleep(_AT_REST_SECONDS)
        return root

    full, incremental = [], []
    for night in range(1, rounds + 1):
        before = cluster(0)
        full.append(cost(lambda: audit(before, warehouse, "--full")))  # noqa: B023 - called at once
        say(f"round {night}: full {told(full[-1])}; load {os.getloadavg()[0]:.1f}")
        after = cluster(night)
        incremental.append(cost(lambda: audit(after, warehouse)))  # noqa: B023 - called at once
        say(f"round {night}: incremental {told(incremental[-1])}; load {os.getloadavg()[0]:.1f}")
        shutil.rmtree(warehouse)
    return full, incremental


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
        full, incremental = measure(given.partitions, given.segments, given.changed, given.rounds, given.form, Path(work))
    say("seconds of the processors, and ratios: least / median / most")
    say(summary(f"{given.partitions:>9,} partitions, full       ", [one.processors for one in full]))
    say(summary(f"{given.partitions:>9,} partitions, incremental", [one.processors for one in incremental]))
    pairs = list(zip(incremental, full, strict=True))
    say(summary("incremental / full, processors", [one.processors / other.processors for one, other in pairs]))
    say(summary("incremental / full, clock", [one.clock / other.clock for one, other in pairs]))


if __name__ == "__main__":
    main()
