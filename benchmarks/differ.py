"""Time the comparison of two replicas against `cmp` on the same two files, in turn; prints medians of the ratios of pairs.

Each round times, one after the other: `cmp` of both files, a plain read of both into one buffer, the scan of both by their headers with the
digests compared (what an audit does that trusts CRCs), the same with every CRC verified, and both again with a replica for each of two
threads, as an audit has them in two processes. Both files are the same, so that all of them read everything that they ever would;
the last lines plant one other record in the middle and time how long it takes to name it. Times are those of the clock; "cpu" is the
processor time of the same, which other load disturbs less.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import crc32c
from scan import in_bytes, machine, read, shown
from segments import write_segment

from replica_audit.formats.native import native_code
from replica_audit.formats.replicas.replica_reader import stored_batches
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.model import SegmentFile
from replica_audit.protocol.comparison.content import locate


class Spent(NamedTuple):
    """Seconds by the clock, and of all processors together."""

    wall: float
    cpu: float


def main(arguments: list[str]) -> int:
    """Run the benchmark; the exit code."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", type=in_bytes, default=1 << 30, help="of each replica (default: 1GiB)")
    made.add_argument("--batches", type=in_bytes, nargs="+", default=[354, 16 << 10, 1 << 20], help="sizes (default: 354 16KiB 1MiB)")
    made.add_argument("--rounds", type=int, default=7, help="pairs (default: 7)")
    made.add_argument("--directory", type=Path, help="where the files are made (default: the system's for temporary files)")
    options = made.parse_args(arguments)
    if native_code.scanner(sys.maxsize) is None:
        sys.stderr.write("error: there is no native code for this machine\n")
        return 2
    sys.stdout.write(f"{machine()}; two replicas of {shown(options.size)}, medians of {options.rounds} pairs\n")
    for batch_bytes in options.batches:
        with tempfile.TemporaryDirectory(prefix="replica-audit-benchmark-", dir=options.directory) as folder:
            for line in timed(Path(folder), batch_bytes, options):
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
    return 0


def timed(folder: Path, batch_bytes: int, options: argparse.Namespace) -> list[str]:
    """The lines about batches of one size."""
    paths = [folder / name / "00000000000000000000.log" for name in ("leader", "follower")]
    for path in paths:
        path.parent.mkdir()
    write_segment(paths[0], batch_bytes, options.size)
    shutil.copyfile(*paths)
    jobs: dict[str, Callable[[], object]] = {
        "cmp": lambda: subprocess.run(["cmp", *map(str, paths)], check=True),  # noqa: S603, S607
        "read": lambda: [read(path) for path in paths],
        "headers": lambda: equal(paths, verify_crc=False),
        "crc": lambda: equal(paths, verify_crc=True),
        "headers, two threads": lambda: equal(paths, verify_crc=False, threads=2),
        "crc, two threads": lambda: equal(paths, verify_crc=True, threads=2),
    }
    for job in jobs.values():
        job()
    rounds = [{name: spent(job) for name, job in jobs.items()} for _ in range(options.rounds)]
    lines = [f"batches of {shown(batch_bytes)}"]
    lines += [f"  {name:20} {median(rounds, name, 0) * 1000:7.0f} ms ({median(rounds, name, 1) * 1000:.0f} cpu)" for name in jobs]
    for name in list(jobs)[1:]:
        ratios = [statistics.median(one["cmp"][kind] / one[name][kind] for one in rounds) for kind in (0, 1)]
        lines.append(f"  cmp / {name}: {ratios[0]:.1f} ({ratios[1]:.1f} cpu)")
    changed = plant(paths[1], batch_bytes)
    found: list[object] = []
    took = spent(lambda: found.append(named(paths, changed)))
    if found == [changed]:  # of some sizes the benchmark's batches have bytes behind their record, and no records can be had
        lines.append(
            f"  naming the record at offset {changed}, once its batch is known: {took.wall * 1000:.0f} ms ({took.cpu * 1000:.0f} cpu)"
        )
    return lines


def equal(paths: list[Path], *, verify_crc: bool, threads: int = 1) -> None:
    """Compare two replicas as an audit does where nothing differs."""
    with ThreadPoolExecutor(threads) as pool:
        leader, follower = pool.map(lambda path: scan_file(path, verify_crc=verify_crc), paths)
    if (leader.runs, leader.windows) != (follower.runs, follower.windows):
        raise AssertionError("they differ")


def named(paths: list[Path], first: int) -> int | None:
    """The offset of the first record that differs."""
    files = [SegmentFile(path=str(path), source="raw", base_offset=0, size_bytes=path.stat().st_size) for path in paths]
    leader, follower = (stored_batches([file], first) for file in files)
    found = locate(leader, follower, first, first + 1)
    return found.record.offset if found.record else None


def plant(path: Path, batch_bytes: int) -> int:
    """Change a byte of the record in the middle, with a CRC that matches; its offset."""
    middle = path.stat().st_size // batch_bytes // 2
    with path.open("r+b") as stream:
        stream.seek(middle * batch_bytes)
        batch = bytearray(stream.read(batch_bytes))
        batch[-8] ^= 1
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
        stream.seek(middle * batch_bytes)
        stream.write(batch)
    return middle


def spent(job: Callable[[], object]) -> Spent:
    """Run it once."""
    before, began = processors(), time.perf_counter()
    job()
    return Spent(time.perf_counter() - began, processors() - before)


def processors() -> float:
    """Seconds of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def median(rounds: list[dict[str, Spent]], name: str, kind: int) -> float:
    """Of all rounds."""
    return statistics.median(one[name][kind] for one in rounds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
