#!/usr/bin/env python3
"""Times whole audits of clusters of 10,000 and 100,000 partitions, and DuckDB reading the same Parquet and joining the same runs.

.venv/bin/python benchmarks/audit.py                                # two clusters, one audit of the larger one: ten minutes, 7 GB of disk
.venv/bin/python benchmarks/audit.py --partitions 10000 --rounds 3
.venv/bin/python benchmarks/audit.py --help

What counts is the time of the processors, of a process and all that it started: how long it took depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clusters import Cluster, Maker

ROOT = Path(__file__).resolve().parents[1]
SUBREAPER = 36  # PR_SET_CHILDSUBREAPER: Spark ends before its Python workers do, which would else be counted with nobody
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOKS_EVERY_SECONDS = 0.5
_FINDINGS = 1  # the exit code of an audit that found what was made
_JOIN = r"""
WITH topics AS (SELECT unnest(topics) AS topic FROM read_json('{root}/cluster-metadata.json', maximum_object_size=200000000)),
partitions AS (SELECT topic.topic AS topic, unnest(topic.partitions) AS p FROM topics),
leaders AS (SELECT topic, p.partition AS partition, p.leader AS leader FROM partitions),
runs AS (
    SELECT topic, partition, CAST(regexp_extract(filename, 'broker-(\d+)', 1) AS INT) AS broker, unnest(runs) AS run
    FROM read_parquet('{root}/broker-*/*/segments.parquet', filename = true)
),
of_leaders AS (SELECT runs.* FROM runs JOIN leaders USING (topic, partition) WHERE broker = leader)
SELECT count(*) AS pairs, count(first_difference) AS diverged FROM (
    SELECT f.topic, f.partition, f.broker,
        min(greatest(l.run.first_offset, f.run.first_offset)) FILTER (l.run.leader_epoch <> f.run.leader_epoch) AS first_difference
    FROM runs AS f JOIN of_leaders AS l ON f.topic = l.topic AND f.partition = l.partition AND f.broker <> l.broker
        AND l.run.first_offset <= f.run.last_offset AND f.run.first_offset <= l.run.last_offset
    GROUP BY ALL
)
"""


class Cost(NamedTuple):
    """Seconds of the processors and of the clock."""

    processors: float
    clock: float


class Watch:
    """Adds up, while it is entered, the processor time of all processes below this one, looked at each half second.

    What a process is told of those that have ended leaves out Spark's Python workers, for which nobody waits: two thirds of an audit.
    """

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self._seconds: dict[tuple[int, int], float] = {}  # by process and when it started
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        """Start looking."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop looking."""
        self._stop.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Of all of them."""
        return sum(self._seconds.values())

    def _watch(self) -> None:
        while not self._stop.wait(_LOOKS_EVERY_SECONDS):
            self._look()

    def _look(self) -> None:
        children: dict[int, list[int]] = {}
        used: dict[int, tuple[int, float]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
                    used[int(entry.name)] = int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS
        left = list(children.get(os.getpid(), []))
        while left:
            pid = left.pop()
            left += children.get(pid, [])
            if pid in used:
                started, seconds = used[pid]
                self._seconds[pid, started] = seconds


def cost(work: Callable[[], object]) -> Cost:
    """What work costs that is done by processes started for it: as looked at, or as they are told of, whichever is more."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with Watch() as watch:
        work()
    taken = time.monotonic() - began
    with suppress(ChildProcessError):  # those that it left behind
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(max(watch.seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), taken)


def audit(root: Path, warehouse: Path, *options: str) -> None:
    """One audit into a warehouse, which need not be there yet."""
    command = [str(ROOT / "spark-submit.sh"), "audit", "--input", str(root), "--warehouse", str(warehouse), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    stages = [f"  {line}" for line in done.stderr.splitlines() if " s] " in line and "tasks done" not in line]
    say("\n".join(stages))
    if done.returncode != _FINDINGS:
        raise SystemExit(f"the audit ended with {done.returncode}:\n{done.stderr[-2000:]}")


def join(root: Path) -> None:
    """DuckDB on the same files."""
    subprocess.run([sys.executable, __file__, "--join", str(root)], check=True)  # noqa: S603


def joined(root: Path) -> tuple[int, int]:
    """How many followers there are, and how many of them differ from their leader, by DuckDB."""
    import duckdb

    found = duckdb.connect(config={"threads": os.cpu_count() or 2}).sql(_JOIN.format(root=root)).fetchone()
    assert found is not None  # noqa: S101
    return found


def measure(partitions: int, rounds: int, work: Path) -> tuple[list[Cost], list[Cost]]:
    """The costs of audits and of joins of one cluster, in turn."""
    root = work / f"cluster-{partitions}"
    made = cost(lambda: subprocess.run([sys.executable, __file__, "--make", str(root), str(partitions)], check=True))  # noqa: S603
    say(f"{partitions:,} partitions made: {made.processors:.0f} s of the processors")
    audits, joins = [], []
    warehouse = work / "warehouse"
    for number in range(rounds):
        joins.append(cost(lambda: join(root)))
        audits.append(cost(lambda: audit(root, warehouse)))
        shutil.rmtree(warehouse)
        load = f"load {os.getloadavg()[0]:.1f}"
        say(f"{partitions:,} partitions, round {number + 1}: audit {told(audits[-1])}, join {told(joins[-1])}; {load}")
    shutil.rmtree(root)
    return audits, joins


def told(one: Cost) -> str:
    """What one cost, as text."""
    return f"{one.processors:.1f} s of the processors ({one.clock:.0f} s)"


def summary(name: str, values: Sequence[float]) -> str:
    """Smallest, median and largest."""
    return f"{name}: {min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def say(line: str) -> None:
    """Tell."""
    print(line, flush=True)  # noqa: T201


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10_000, 100_000], help="of each cluster, the smallest first")
    parser.add_argument("--rounds", type=int, nargs="+", default=[3, 1], help="of each cluster")
    parser.add_argument("--work", type=Path, help="folder for clusters and warehouses (default: a temporary one)")
    parser.add_argument("--join", type=Path, metavar="CLUSTER", help="only let DuckDB join the runs of a cluster that is there")
    parser.add_argument("--make", nargs=2, metavar=("CLUSTER", "PARTITIONS"), help="only make a cluster")
    given = parser.parse_args()
    if given.join:
        say("{:,} followers, {:,} of them differ".format(*joined(given.join)))
        return
    if given.make:
        Maker(Cluster(partitions=int(given.make[1]))).write(Path(given.make[0]), is_collected=True)
        return
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    costs = {}
    with tempfile.TemporaryDirectory(dir=given.work) as work:
        for place, partitions in enumerate(given.partitions):
            costs[partitions] = measure(partitions, given.rounds[min(place, len(given.rounds) - 1)], Path(work))
    first: list[Cost] = []
    say("seconds of the processors, and ratios: least / median / most")
    for partitions, (audits, joins) in costs.items():
        say(summary(f"{partitions:>9,} partitions, audit", [one.processors for one in audits]))
        say(summary(f"{partitions:>9,} partitions, join ", [one.processors for one in joins]))
        ratios = [one.processors / other.processors for one, other in zip(audits, joins, strict=True)]
        say(summary(f"{partitions:>9,} partitions, audit / join", ratios))
        first = first or audits
        if audits is not first:
            grown = statistics.median(one.processors for one in audits) / statistics.median(one.processors for one in first)
            say(f"grows by {grown:.1f} where partitions grow by {partitions / given.partitions[0]:.1f}")


if __name__ == "__main__":
    main()
