"""Time `collect` of a log directory against one kafka-dump-log on its segments, whole processes, in turn; prints ratios and peak memory.

Both run with the lowest priority, which `collect` gives itself, so that what else the machine does falls on both, and find the segments in
the page cache. The least time of each counts. Segments are made in a temporary directory and removed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scan import FLOOR_BYTES, check_dump, dump_command, in_bytes, lesser, machine, processor_time, ratio, read, shown
from scan import Time as Taken
from segments import write_segment

JOB = Path(__file__).parents[1] / "jobs" / "collect.py"
META = "version=1\nbroker.id=1\ncluster.id=benchmark\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"
LOWEST = ("nice", "-n", "19")
POLLED_EVERY_S = 0.02


class Run(NamedTuple):
    """What a process took, and the most memory of its own, in MiB."""

    taken: Taken
    peak_mib: int


def main(arguments: list[str]) -> int:
    """Run the benchmark; the exit code."""
    options = parser().parse_args(arguments)
    sys.stdout.write(f"{machine()}; least of {options.rounds} rounds (kafka-dump-log: {options.dump_rounds})\n")
    with tempfile.TemporaryDirectory(prefix="replica-audit-benchmark-", dir=options.directory) as folder:
        whole = [(batch, options.size) for batch in options.batches]
        for sizes in (whole, *([one] for one in whole), [(options.batches[0], FLOOR_BYTES)]):
            lines = timed(Path(folder), sizes, options)
            sys.stdout.write("\n".join(["", *lines]) + "\n")
            sys.stdout.flush()
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", type=in_bytes, default=1 << 30, help="of each segment: bytes, or with KiB, MiB, GiB (default: 1GiB)")
    made.add_argument("--batches", type=in_bytes, nargs="+", default=[354, 16 << 10, 1 << 20], help="sizes (default: 354 16KiB 1MiB)")
    made.add_argument("--rounds", type=int, default=5, help="how often everything is timed (default: 5)")
    made.add_argument("--dump-rounds", type=int, default=2, help="in how many of them kafka-dump-log is, too (default: 2; 0: not at all)")
    made.add_argument("--directory", type=Path, help="where the segments are made (default: the system's for temporary files)")
    made.add_argument("--java", default="java", help="the java to start kafka-dump-log with")
    made.add_argument("--kafka", type=Path, help="folder with the jars of Kafka; without it kafka-dump-log is left out")
    return made


def timed(folder: Path, sizes: Sequence[tuple[int, int]], options: argparse.Namespace) -> list[str]:
    """What a directory gives, as lines: a segment for each size of batches, in bytes, and of itself."""
    data, output = folder / "data", folder / "out"
    segments = [data / f"orders-{number}" / "00000000000000000000.log" for number in range(len(sizes))]
    for segment in segments:
        segment.parent.mkdir(parents=True)
    (data / "meta.properties").write_text(META)
    batches = [write_segment(segment, *size) for segment, size in zip(segments, sizes, strict=True)]
    jobs = {
        " ".join(("collect", *more)): [*collect_command(data, output), *more] for more in ((), ("--no-batch-index",), ("--no-verify-crc",))
    }
    if options.kafka and options.dump_rounds:
        if sizes[0][1] <= FLOOR_BYTES:
            check_dump(options, segments[0], batches[0])
        jobs["kafka-dump-log"] = [*LOWEST, *dump_command(options, *segments)]
    least: dict[str, Taken] = {}
    peaks: dict[str, int] = {}
    for number in range(options.rounds):
        for name, command in jobs.items():
            if name != "kafka-dump-log" or number < options.dump_rounds:
                for segment in segments:
                    read(segment)  # what is timed finds the same in the page cache
                found = run(command)
                least[name], peaks[name] = lesser(least.get(name), found.taken), max(peaks.get(name, 0), found.peak_mib)
                written = size_of(output) if output.exists() else 0
                if name == "collect":
                    check(output, batches)
                    collected = written
                shutil.rmtree(output, ignore_errors=True)
    shutil.rmtree(data)
    held = [f"{shown(size)} of {shown(batch)} batches ({count:,} of them)" for (batch, size), count in zip(sizes, batches, strict=True)]
    lines = [f"{' + '.join(held)}; the collection has {collected / 1e6:.2f} MB"]
    lines += [f"  {name:<26}{t.wall * 1000:>9.0f} ms{t.cpu * 1000:>9.0f} ms cpu{peaks[name]:>7} MiB" for name, t in least.items()]
    if "kafka-dump-log" in least:
        lines += [f"  {ratio('kafka-dump-log', least['kafka-dump-log'], name, least[name])}" for name in jobs if name != "kafka-dump-log"]
    return lines


def collect_command(data: Path, output: Path) -> list[str]:
    """The command that collects the directory."""
    return [sys.executable, str(JOB), "--log-dir", str(data), "--output", str(output)]


def run(command: Sequence[str]) -> Run:
    """Run a process to its end, its output thrown away."""
    cpu, wall, peak = processor_time(), time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603 -- ours
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(POLLED_EVERY_S)
    if process.returncode:
        raise SystemExit(f"error: exit code {process.returncode} of {' '.join(command)}")
    return Run(Taken(time.perf_counter() - wall, processor_time() - cpu), peak)


def resident(pid: int) -> int:
    """The most MiB that a process had in memory so far; 0 once it is gone."""
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) >> 10 if found else 0


def check(output: Path, batches: Sequence[int]) -> None:
    """Nothing is timed that collects something else than what is there."""
    manifest = (output / "broker-1" / "manifest.json").read_text()
    if not all(f'"batches": {count},' in manifest for count in batches):
        raise SystemExit(f"error: not {batches} batches were collected: {manifest}")


def size_of(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
