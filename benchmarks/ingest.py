#!/usr/bin/env python3
"""Times Spark's reading of segments, as an audit does it, against Spark reading the same files and doing nothing with them.

.venv/bin/python benchmarks/ingest.py                 # 2 GiB in 64 files, and 1 GiB beside 10,000 small ones
.venv/bin/python benchmarks/ingest.py --help
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from segments import write_segment

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lib"))

from replica_audit.engine.spark import SparkEngine  # noqa: E402 - the package need not be installed
from replica_audit.formats.replicas.segment_reader import BUFFER_BYTES  # noqa: E402
from replica_audit.model import Amounts  # noqa: E402
from replica_audit.protocol.comparison.content import CompareMode  # noqa: E402
from replica_audit.stages.inventory import list_source  # noqa: E402
from replica_audit.stages.items import READINGS, Item, Source, unpacked  # noqa: E402
from replica_audit.stages.segments import scan  # noqa: E402

CORES = 2
MIB = 1 << 20
_TASK = pa.schema([("begin", pa.float64()), ("end", pa.float64()), ("processor", pa.float64()), ("resident_mib", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A broker's folder as the audit lists it."""

    name: str
    engine: SparkEngine
    listed: DataFrame
    amounts: Amounts

    def spread(self) -> DataFrame:
        """What is to be read, as the audit gives it to tasks."""
        return self.engine.spread(self.engine.select(self.listed, READINGS), self.amounts)

    def ingest(self) -> DataFrame:
        """What the audit does: runs, CRCs and digests of every segment."""
        return self.engine.flat_map(self.spread(), partial(scan, mode=CompareMode.CONTENT))

    def identity(self) -> DataFrame:
        """The same files spread in the same way, read through a buffer of the same size; one number a file comes back."""
        return self.spread().mapInArrow(_read, "size_bytes bigint")


def _read(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    buffer = bytearray(BUFFER_BYTES)
    for batch in rows:
        sizes = []
        for part in (part for item in unpacked(batch) for part in item.value.parts):
            with Path(part.file.path).open("rb", buffering=0) as stream:
                size = 0
                while count := stream.readinto(buffer):  # type: ignore[attr-defined]
                    size += count
            sizes.append(size)
        yield pa.record_batch([pa.array(sizes, pa.int64())], names=["size_bytes"])


def _timed(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Scan the segments of a task, and tell when and with how much of a processor and of memory."""
    begin, used = time.time(), time.process_time()
    for item in (item for batch in rows for item in unpacked(batch)):
        for _scan in scan(item, CompareMode.CONTENT):
            pass
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    yield pa.RecordBatch.from_pylist(
        [{"begin": begin, "end": time.time(), "processor": time.process_time() - used, "resident_mib": resident}], schema=_TASK
    )


def even(folder: Path, size: int, files: int, batch_bytes: int) -> None:
    """As many files of equal size."""
    for number in range(files):
        path = folder / f"even-{number}"
        path.mkdir(parents=True)
        write_segment(path / f"{0:020d}.log", batch_bytes, size // files)


def skewed(folder: Path, size: int, files: int, batch_bytes: int) -> None:
    """One file of half the size, the other half in many."""
    big = folder / "big-0"
    big.mkdir(parents=True)
    write_segment(big / f"{0:020d}.log", batch_bytes, size // 2)
    first = folder / "small-0" / f"{0:020d}.log"
    for number in range(files):
        path = folder / f"small-{number}" / first.name
        path.parent.mkdir()
        if number:
            shutil.copyfile(first, path)
        else:
            write_segment(path, batch_bytes, size // 2 // files)


def listed(spark: SparkSession, name: str, folder: Path) -> Files:
    """List a folder as the audit does."""
    engine = SparkEngine(spark, 4 * CORES)
    source = Item("cluster", None, None, 1, Source("cluster", 1, str(folder), "broker"))
    rows = engine.keep(engine.flat_map(engine.given([source]), list_source))
    (amounts,) = (item.value for item in engine.collect(rows, [Amounts]))
    return Files(name=name, engine=engine, listed=rows, amounts=amounts)


def seconds(make: Callable[[], DataFrame]) -> float:
    """How long Spark takes to make a frame, and throw it away."""
    begin = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def busy(files: Files) -> tuple[float, int]:
    """Which part of the time of all cores, from the first task's begin to the last one's end, tasks were running; and the most memory."""
    schema = "begin double, end double, processor double, resident_mib bigint"
    tasks = files.spread().mapInArrow(_timed, schema).collect()
    wall = max(task["end"] for task in tasks) - min(task["begin"] for task in tasks)
    return sum(task["end"] - task["begin"] for task in tasks) / wall / CORES, max(task["resident_mib"] for task in tasks)


def session(scratch: Path) -> SparkSession:
    """Spark on two cores of this machine, with the project's settings as far as they matter here."""
    os.environ.pop("SPARK_HOME", None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = f"{ROOT / 'lib'}:{ROOT / 'benchmarks'}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("ingest")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Make the files, time in turn, print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size-mib", type=int, default=2048, help="of each set of files (default: 2048)")
    options.add_argument("--files", type=int, default=64, help="of the even set (default: 64)")
    options.add_argument("--small-files", type=int, default=10_000, help="of the skewed set (default: 10,000)")
    options.add_argument("--batch", type=int, default=16384, help="bytes of a batch (default: 16384)")
    options.add_argument("--rounds", type=int, default=5, help="the least time of so many counts (default: 5)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-") as scratch:
        folder = Path(scratch)
        even(folder / "even" / "broker-1", given.size_mib * MIB, given.files, given.batch)
        skewed(folder / "skewed" / "broker-1", given.size_mib * MIB, given.small_files, given.batch)
        spark = session(folder)
        try:
            _report([listed(spark, name, folder / name / "broker-1") for name in ("even", "skewed")], given.rounds)
        finally:
            spark.stop()


def _report(sets: list[Files], rounds: int) -> None:
    least: dict[tuple[str, str], float] = {}
    for number in range(rounds + 1):  # the first warms up: native code, workers, the page cache
        for files in sets:
            for what, make in (("identity", files.identity), ("ingest", files.ingest)):
                took = seconds(make)
                if number:
                    least[files.name, what] = min(took, least.get((files.name, what), took))
    print(f"{'':10}{'files':>8}{'MiB':>8}{'identity s':>12}{'ingest s':>10}{'ratio':>7}{'busy':>7}{'worker MiB':>12}")  # noqa: T201
    for files in sets:
        identity, ingest = least[files.name, "identity"], least[files.name, "ingest"]
        share, resident = max(busy(files) for _round in range(rounds))
        numbers = f"{identity:12.2f}{ingest:10.2f}{ingest / identity:7.2f}{share:7.0%}{resident:12}"
        print(f"{files.name:10}{files.amounts.segments:8}{files.amounts.size_bytes // MIB:8}{numbers}")  # noqa: T201
    ratio = least["skewed", "ingest"] / least["even", "ingest"]
    print(f"skewed / even: {ratio:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
