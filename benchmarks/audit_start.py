"""Times what an audit of one small cluster costs against Spark sessions that write one Delta table: benchmarks/audit_start.py --help."""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "tests" / "data" / "sample" / "committed-loss"
FINDING = "committed_loss:"  # in the line of the first finding
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSION = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
frame = spark.createDataFrame([(number, str(number)) for number in range(100)], "id int, name string")
frame.write.format("delta").mode("append").save(sys.argv[1])
"""
_PLAIN = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One process and all that it started: seconds of the clock and of the processors, whole and until the first finding was printed."""

    wall: float
    cpu: float
    first_wall: float | None = None
    first_cpu: float | None = None


def main() -> None:
    """Run everything in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=3, help="of one run of each, in turn; the first round comes after one that does not count"
    )
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "session.py").write_text(_SESSION, encoding="utf-8")
        audit = [str(ROOT / "spark-submit.sh"), "audit", "--input", str(CLUSTER), "--warehouse", str(work / "warehouse")]
        ours, environment = _submit()
        settings = [part for setting in _PLAIN.items() for part in ("--conf", "=".join(setting))]
        plain = [ours[0], *_pick(ours, "--driver-class-path", "--master"), *settings]
        runs: dict[str, Callable[[], Timed]] = {
            "session": lambda: _time([*ours, str(work / "session.py"), str(work / "session")], environment),
            "session, Spark's own flags": lambda: _time([*plain, str(work / "session.py"), str(work / "plain")], environment),
            "audit": lambda: _time(audit, {}),
        }
        for run in runs.values():
            run()
        timed = [{name: run() for name, run in runs.items()} for _round in range(rounds)]
    for name in runs:
        every = [one[name] for one in timed]
        line = f"{name:28} wall {_median(one.wall for one in every):5.1f} s, cpu {_median(one.cpu for one in every):5.1f} s"
        for base in [other for other in runs if other != "audit"] if name == "audit" else []:
            ratio = _median(one[name].cpu / one[base].cpu for one in timed)
            first = _median((one[name].first_cpu or 0) / one[base].cpu for one in timed)
            line += f"\n  cpu / {base}: {ratio:.2f}; until the first finding: {first:.2f}"
        sys.stdout.write(f"{line}\n")


def _median(values: object) -> float:
    return statistics.median(values)  # type: ignore[call-overload, no-any-return]


def _submit() -> tuple[list[str], dict[str, str]]:
    """What starts a script with the flags that an audit gives Spark, and its environment."""
    command = [str(ROOT / "spark-submit.sh"), "--dry-run", "audit"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    words = shlex.split(told)
    environment = dict(word.split("=", 1) for word in words[: words.index(str(ROOT / ".venv/bin/python"))])
    flags = shlex.split(environment.pop("PYSPARK_SUBMIT_ARGS"))
    return [str(ROOT / ".venv/bin/spark-submit"), *flags[: flags.index("pyspark-shell")]], environment


def _pick(words: list[str], *flags: str) -> list[str]:
    return [part for flag in flags for part in (flag, words[words.index(flag) + 1])]


def _time(command: list[str], environment: dict[str, str]) -> Timed:
    began, first = time.monotonic(), None
    process = subprocess.Popen(  # noqa: S603
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in process.stderr or ():
        said.append(line)
        if first is None and FINDING in line:
            first = (time.monotonic() - began, _cpu_of(process.pid))
    _pid, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit("".join(said))
    wall, cpu = time.monotonic() - began, used.ru_utime + used.ru_stime
    return Timed(wall=wall, cpu=cpu, first_wall=first[0] if first else None, first_cpu=first[1] if first else None)


def _cpu_of(root: int) -> float:
    """Seconds of the processors that a process, what it started, and what of that has ended, have used so far."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(number) for number in fields[11:15]) / _TICKS
    total, left = 0.0, [root]
    while left:
        pid = left.pop()
        total += used.get(pid, 0.0)
        left += parents.get(pid, [])
    return total


if __name__ == "__main__":
    main()
