"""`triage --compare records` against what one does by hand: kafka-dump-log --print-data-log of both replicas, sort, diff.

Both are whole processes over the same two replicas of one compacted partition, in turn, round after round; the least processor time of each
counts, for that of the clock is the machine's. Nothing is left behind.
"""

from __future__ import annotations

import argparse
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import crc32c
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from replica_audit.formats.segment.record_batch import V2_HEADER

ROOT = Path(__file__).resolve().parents[1]
IN_BATCH, KEY, VALUE = 100, 12, 100
TIME = 1_700_000_000_000


def batches(records: int, keys: int) -> Iterator[bytes]:
    """Batches of magic 2 with records of random keys, so many of them in all."""
    random = np.random.default_rng(5)
    made = [_record(delta, random.bytes(VALUE)) for delta in range(IN_BATCH)]
    block = bytearray(b"".join(made))
    ends = np.cumsum([len(record) for record in made])
    starts = [int(end) - len(record) + record.index(b"k" * KEY) for end, record in zip(ends, made, strict=True)]
    for base in range(0, records, IN_BATCH):
        for at, key in zip(starts, random.integers(0, keys, IN_BATCH).tolist(), strict=True):
            block[at : at + KEY] = b"%012d" % key
        covered = struct.pack(">hiqqqhii", 0, IN_BATCH - 1, TIME, TIME, -1, -1, -1, IN_BATCH) + bytes(block)
        head = struct.pack(">qiibI", base, V2_HEADER.size - 12 + len(block), 0, 2, crc32c.crc32c(covered))
        yield head + covered


def _record(delta: int, value: bytes) -> bytes:
    body = b"\x00\x00" + _varint(delta) + _varint(KEY) + b"k" * KEY + _varint(VALUE) + value + b"\x00"
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


def write(folder: Path, records: int, keys: int) -> list[Path]:
    """Two replicas, of which the second lacks a batch; the paths of their segments."""
    found = []
    for broker in (1, 2):
        data = folder / f"broker-{broker}" / "data"
        replica = data / "state-0"
        replica.mkdir(parents=True)
        path = replica / f"{0:020d}.log"
        with path.open("wb") as stream:
            for number, batch in enumerate(batches(records, keys)):
                if broker == 1 or number != records // IN_BATCH - 2:
                    stream.write(batch)
        (replica / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n", encoding="ascii")
        (data / "cleaner-offset-checkpoint").write_text(f"0\n1\nstate 0 {records - IN_BATCH}\n", encoding="ascii")
        (data / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=benchmark\n", encoding="ascii")
        found.append(path)
    return found


def timed(command: list[str], *, shell: bool = False) -> tuple[float, float, int]:
    """Seconds by the clock and of the processors, and the most memory that one of its processes had, in MiB."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["/bin/sh", "-c", *command] if shell else command, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, spent, after.ru_maxrss >> 10


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kafka", type=Path, default=ROOT / ".cache" / "lab-jars-4.3", help="folder with Kafka's jars")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write(folder / "cluster", options.records, options.keys)
        size = sum(path.stat().st_size for path in paths)
        say(f"2 replicas, {options.records:,} records of {options.keys:,} keys each, {size >> 20} MiB together")
        tool = f"java -cp '{options.kafka}/*' org.apache.kafka.tools.DumpLogSegments --print-data-log --files"
        by_hand = "; ".join(f"{tool} {path} | LC_ALL=C sort > {folder}/{number}" for number, path in enumerate(paths))
        commands = {
            "records": (
                [sys.executable, str(ROOT / "jobs" / "triage.py"), "--input", str(folder / "cluster"), "--compare", "records"],
                False,
            ),
            "content": ([sys.executable, str(ROOT / "jobs" / "triage.py"), "--input", str(folder / "cluster")], False),
            "by hand": ([f"{by_hand}; diff {folder}/0 {folder}/1"], True),
        }
        rounds = [{name: timed(command, shell=shell) for name, (command, shell) in commands.items()} for _ in range(options.rounds)]
    best = {name: min(round_[name][1] for round_ in rounds) for name in commands}
    for name in commands:
        clock = min(round_[name][0] for round_ in rounds)
        say(f"{name:8} {best[name]:7.2f} s of the processors, {clock:7.2f} s by the clock")
    say(f"memory of records: {rounds[0]['records'][2]} MiB")
    say(f"by hand / records: {best['by hand'] / best['records']:.1f}")


if __name__ == "__main__":
    main()
