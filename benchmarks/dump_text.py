"""Time the scan of text of kafka-dump-log against Spark's `regexp_extract` over the same text, in turn; prints the ratio.

Both have one core, and read the file from the page cache. Spark reads it as text, takes seven numbers out of every batch line (base offset,
last offset, epoch, count, size, position, CRC) with a regular expression each, and sums them; the scan gives runs of one epoch and digests,
having checked that every line continues the log. Spark's first round, in which it compiles, does not count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scan import machine

from replica_audit.formats.dump import dump_log
from replica_audit.formats.dump.dump_log import scan_section
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import scan

HEAD = "Dumping /var/lib/kafka/data/orders-0/00000000000000000000.log\nLog starting offset: 0\n"
LINE = (
    "baseOffset: {base} lastOffset: {last} count: 10 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
    "partitionLeaderEpoch: {epoch} isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: {position} "
    "CreateTime: {time} size: 354 magic: 2 compresscodec: none crc: {crc} isvalid: true\n"
)
KEYS = ("baseOffset", "lastOffset", "partitionLeaderEpoch", "count", "size", "position", "crc")
EPOCHS = 5


def main(arguments: list[str]) -> int:
    """Run the benchmark; the exit code."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--lines", type=int, default=1_000_000, help="of batches (default: 1000000)")
    made.add_argument("--rounds", type=int, default=4, help="how often everything is timed (default: 4)")
    made.add_argument("--directory", type=Path, help="where the text is made (default: the system's for temporary files)")
    options = made.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="replica-audit-benchmark-", dir=options.directory) as folder:
        path = Path(folder) / "dump.txt"
        write_text(path, options.lines)
        sys.stdout.write(
            f"{machine()}; {options.lines:,} batch lines, {path.stat().st_size / 1e6:.0f} MB, least of {options.rounds} rounds\n"
        )
        sys.stdout.write("\n".join(timed(path, options.lines, options.rounds)) + "\n")
    return 0


def write_text(path: Path, lines: int) -> None:
    """As kafka-dump-log 4.x prints a segment of small batches."""
    with path.open("w") as stream:
        stream.write(HEAD)
        for i in range(lines):
            numbers = {"base": 10 * i, "last": 10 * i + 9, "epoch": i * EPOCHS // lines, "position": 354 * i}
            stream.write(LINE.format(**numbers, time=1_700_000_000_000 + i, crc=i * 2_654_435_761 % 2**32))


def timed(path: Path, lines: int, rounds: int) -> list[str]:
    """What was timed, as lines."""
    spark = with_spark(path)
    check(at_once(path), spark(), lines)
    jobs: dict[str, Callable[[], object]] = {
        "scan": lambda: at_once(path),
        "regexp_extract": spark,
        "scan, line by line": lambda: line_by_line(path),
    }
    least = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            least[name] = min(least[name], time.perf_counter() - began)
    told = [f"  {name:<22}{taken * 1000:>9.0f} ms{lines / taken / 1e6:>9.2f} million lines/s" for name, taken in least.items()]
    return [*told, f"  regexp_extract / scan: {least['regexp_extract'] / least['scan']:.1f}"]


def at_once(path: Path) -> Scan:
    """As the audit does: the sections of the text, then the scan of each."""
    with path.open("rb") as stream:
        (section,) = dump_log.sections(stream)
        return scan_section(stream, section)


def line_by_line(path: Path) -> Scan:
    """The same without columns."""
    with path.open("rb") as stream:
        (section,) = dump_log.sections(stream)
        return scan(dump_log.batches(stream, section))


def with_spark(path: Path) -> Callable[[], dict[str, int]]:
    """What Spark does, as a function: the sums by key."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
    session = builder.config("spark.sql.files.maxPartitionBytes", "1g").getOrCreate()

    def run() -> dict[str, int]:
        lines = session.read.text(str(path)).where(F.col("value").startswith("baseOffset: "))
        numbers = [F.regexp_extract("value", rf"\b{key}: (-?\d+)", 1).cast("long").alias(key) for key in KEYS]
        return lines.select(*numbers).agg(*[F.sum(key).alias(key) for key in KEYS]).collect()[0].asDict()

    return run


def check(found: Scan, sums: dict[str, int], lines: int) -> None:
    """Nothing is compared that does not find the same."""
    ours = tuple(sum(numbers) for numbers in zip(*((run.batch_count, run.record_count, run.size_bytes) for run in found.runs), strict=True))
    if found.damage or ours != (lines, sums["count"], sums["size"]):
        raise SystemExit(f"error: the scan found {ours}, Spark {sums}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
