"""Time the scan of segments against kafka-dump-log and a plain read of the same file, in turn; prints ratios.

Everything is timed in every round, one after the other, so that what else the machine does falls on all of them; the least time of each
counts. Times are those of the clock; "cpu" is the processor time of the same, which other load disturbs less. Segments are made in a
temporary directory and removed.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from segments import write_segment

from replica_audit.formats.native import native_code
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.segment_fold import Scan

READ_BYTES = 1 << 18  # as the scan reads
FLOOR_BYTES = 1 << 16
PROCESS = "import sys; from pathlib import Path; from replica_audit.formats.replicas.segment_reader import scan_file;"
PROCESS += "scan_file(Path(sys.argv[1]), verify_crc=sys.argv[2] == 'crc')"


class Time(NamedTuple):
    """Seconds by the clock, and of all processors together."""

    wall: float
    cpu: float


Job = Callable[[], object]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def main(arguments: list[str]) -> int:
    """Run the benchmark; the exit code."""
    options = parser().parse_args(arguments)
    if native_code.scanner(sys.maxsize) is None:
        sys.stderr.write("error: there is no native code for this machine\n")
        return 2
    lines = [f"{machine()}; segments of {shown(options.size)}, least of {options.rounds} rounds (kafka-dump-log: {options.dump_rounds})"]
    with tempfile.TemporaryDirectory(prefix="replica-audit-benchmark-", dir=options.directory) as folder:
        for batch_bytes in options.batches:
            lines += ["", *timed(Path(folder), batch_bytes, options)]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            if options.output:
                with options.output.open("a") as stream:
                    stream.write("\n".join(lines) + "\n")
            lines = []
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", type=in_bytes, default=1 << 30, help="of each segment: bytes, or with KiB, MiB, GiB (default: 1GiB)")
    made.add_argument("--batches", type=in_bytes, nargs="+", default=[354, 16 << 10, 1 << 20], help="sizes (default: 354 16KiB 1MiB)")
    made.add_argument("--producers", type=int, default=0, help="idempotent ones that write a batch each in turn (default: none)")
    made.add_argument("--rounds", type=int, default=7, help="how often everything is timed (default: 7)")
    made.add_argument("--dump-rounds", type=int, default=3, help="in how many of them kafka-dump-log is, too (default: 3; 0: not at all)")
    made.add_argument("--cold-rounds", type=int, default=3, help="in how many of them reads of what is not cached are (default: 3)")
    made.add_argument("--directory", type=Path, help="where the segments are made (default: the system's for temporary files)")
    made.add_argument("--output", type=Path, help="a file to append the result to as well")
    made.add_argument("--java", default="java", help="the java to start kafka-dump-log with")
    made.add_argument("--kafka", type=Path, help="folder with the jars of Kafka; without it kafka-dump-log is left out")
    return made


def in_bytes(text: str) -> int:
    """A number of bytes, with a unit or without."""
    digits = text.rstrip("KMGiB")
    if text[len(digits) :] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, KiB, MiB or GiB")
    return int(digits) * UNITS[text[len(digits) :]]


def shown(count: int) -> str:
    """A number of bytes as a person would say it."""
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "") if count % UNITS[unit] == 0)
    return f"{count // UNITS[unit]} {unit or 'B'}"


def machine() -> str:
    """The processor, system and versions."""
    names = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    python = f"Python {platform.python_version()}"
    return f"{(names or [platform.machine()])[0]}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, {python}"


def timed(folder: Path, batch_bytes: int, options: argparse.Namespace) -> list[str]:
    """What one size of batches gives, as lines."""
    path, short = folder / "00000000000000000000.log", folder / "short" / "00000000000000000000.log"
    short.parent.mkdir(exist_ok=True)
    batches = write_segment(path, batch_bytes, options.size, options.producers)
    check(scan_file(path), batches)
    jobs = warm_jobs(path)
    if options.kafka and options.dump_rounds:
        check_dump(options, short, write_segment(short, 354, FLOOR_BYTES))
        jobs |= {"dump": lambda: dump(options, path), "dump floor": lambda: dump(options, short)}
    least: dict[str, Time] = {}
    for number in range(options.rounds):
        for name, job in jobs.items():
            if not name.startswith("dump") or number < options.dump_rounds:
                least[name] = lesser(least.get(name), clocked(job))
    cold = {f"{name}, cold": jobs[name] for name in ("read", "headers", "crc")}
    for _ in range(options.cold_rounds):
        for name, job in cold.items():
            forget(path)
            least[name] = lesser(least.get(name), clocked(job))
    path.unlink()
    title = f"{shown(batch_bytes)} batches ({batches:,} of them)"
    return [title, *(f"  {line}".rstrip() for line in (*times(least, batches * batch_bytes), "", *ratios(least)))]


def warm_jobs(path: Path) -> dict[str, Job]:
    """What is timed in this process and in one of its own, but for Kafka's tool."""

    def process(what: str) -> Job:
        return lambda: subprocess.run([sys.executable, "-c", PROCESS, path, what], check=True)  # noqa: S603 -- ourselves

    return {
        "read": lambda: read(path),
        "headers": lambda: scan_file(path, verify_crc=False),
        "crc": lambda: scan_file(path),
        "headers, plain Python": lambda: in_plain_python(path, verify_crc=False),
        "crc, plain Python": lambda: in_plain_python(path, verify_crc=True),
        "headers, whole process": process("headers"),
        "crc, whole process": process("crc"),
    }


def in_plain_python(path: Path, *, verify_crc: bool) -> None:
    """The scan as a process has it that does not load compiled code."""
    with mock.patch.object(native_code, "scanner", lambda _batches: None):
        scan_file(path, verify_crc=verify_crc)


def check(found: Scan, batches: int) -> None:
    """Nothing is timed that reads something else than what is there."""
    if found.damage or found.first_bad_crc is not None or sum(run.batch_count for run in found.runs) != batches:
        raise SystemExit(f"error: the segment was read as {found}")


def read(path: Path) -> None:
    """A plain read of the file, into one buffer."""
    buffer = bytearray(READ_BYTES)
    with path.open("rb", buffering=0) as stream:
        while stream.readinto(buffer):
            pass


def dump(options: argparse.Namespace, path: Path) -> None:
    """Kafka's own tool on the file, its output thrown away."""
    subprocess.run(dump_command(options, path), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 -- Kafka's


def check_dump(options: argparse.Namespace, path: Path, batches: int) -> None:
    """Nothing is compared with a tool that does not read what is there."""
    told = subprocess.run(dump_command(options, path), check=False, capture_output=True, text=True)  # noqa: S603 -- Kafka's tool
    if told.stdout.count("isvalid: true") != batches:
        raise SystemExit(f"error: kafka-dump-log says:\n{told.stdout[-500:]}\n{told.stderr[-500:]}")


def dump_command(options: argparse.Namespace, *paths: Path) -> list[str]:
    """The command that starts Kafka's tool on files."""
    return [options.java, "-cp", f"{options.kafka}/*", "kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths))]


def forget(path: Path) -> None:
    """Let the system drop the file from its cache; it can only be asked."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def clocked(job: Job) -> Time:
    """How long a job takes."""
    cpu, wall = processor_time(), time.perf_counter()
    job()
    return Time(time.perf_counter() - wall, processor_time() - cpu)


def processor_time() -> float:
    """Of this process and those that it started and waited for, in seconds."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def lesser(one: Time | None, other: Time) -> Time:
    """The least of either kind."""
    return other if one is None else Time(*map(min, one, other))


def times(least: dict[str, Time], size: int) -> list[str]:
    """What was timed, one a line."""
    return [
        f"{name:<26}{taken.wall * 1000:>10.1f} ms {size / taken.wall / 1e9:>9.1f} GB/s {taken.cpu * 1000:>11.1f} ms cpu"
        for name, taken in least.items()
    ]


def ratios(least: dict[str, Time]) -> list[str]:
    """How many times faster, by the clock and (in parentheses) by processor time."""
    lines = []
    if "dump" in least:
        marginal = Time(*(whole - floor for whole, floor in zip(least["dump"], least["dump floor"], strict=True)))
        for name in ("headers", "crc", "headers, plain Python", "crc, plain Python"):
            lines.append(ratio("kafka-dump-log less its start", marginal, name, least[name]))
        for name in ("headers, whole process", "crc, whole process"):
            lines.append(ratio("kafka-dump-log, whole process", least["dump"], name, least[name]))
    lines += [ratio("plain read", least["read"], name, least[name]) for name in ("headers", "crc")]
    cold = [name for name in ("headers, cold", "crc, cold") if name in least]
    return lines + [ratio("plain read, cold", least["read, cold"], name, least[name]) for name in cold]


def ratio(theirs: str, slow: Time, ours: str, fast: Time) -> str:
    """One ratio as a line."""
    return f"{theirs + ' / ' + ours:<56}{slow.wall / fast.wall:>8.2f}  ({slow.cpu / fast.cpu:.2f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
