"""Kind to the broker: bytes per second, the page cache, memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from replica_audit.collect import CollectRequest, collect
from replica_audit.collect.live_file import LiveFile
from replica_audit.collect.pace import Pace
from replica_audit.formats.replicas.segment_reader import scan_file
from tests.collect.collections import quietly
from tests.formats import kafka_files as kf

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def write_log_dir(path: Path, size: int, *, value: bytes = b"v" * 200, hole: int = 0) -> Path:
    """One segment of valid batches of one size, `size` bytes in all, and a hole behind them."""
    directory = path / "t-0"
    directory.mkdir(parents=True)
    (path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={kf.CLUSTER_ID}\n")
    template = kf.batch(0, 0, value=value)
    count = size // len(template)
    segment = directory / f"{0:020d}.log"
    at_once = max(1, 32 * MIB // len(template))
    with segment.open("wb") as stream:
        for first in range(0, count, at_once):
            number = min(at_once, count - first)
            rows = np.ndarray((number,), [("base", ">i8"), ("rest", f"V{len(template) - 8}")], bytearray(template * number))
            rows["base"] = np.arange(first, first + number)
            stream.write(rows.data)
        stream.truncate(stream.tell() + hole)
    return segment


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.slept += seconds


@pytest.mark.parametrize("rate", [1, 1_000, 1 << 30])
def test_the_pace_is_kept(rate: int) -> None:
    clock = Clock()
    pace = Pace(rate, clock=lambda: clock.now, sleep=clock.sleep)
    for _chunk in range(100):
        pace.wait_for(rate // 10 or 1)
    assert clock.slept == pytest.approx(99 * (rate // 10 or 1) / rate)
    assert pace.bytes_read == 100 * (rate // 10 or 1)


def test_time_that_was_not_used_is_lost() -> None:
    """A collection that waited for something else does not make up for it."""
    clock = Clock()
    pace = Pace(100, clock=lambda: clock.now, sleep=clock.sleep)
    pace.wait_for(100)
    clock.now += 1_000
    for _second in range(5):
        pace.wait_for(100)
    assert clock.slept == pytest.approx(4)


def test_without_a_limit_nothing_is_waited_for() -> None:
    clock = Clock()
    pace = Pace(None, clock=lambda: clock.now, sleep=clock.sleep)
    for _chunk in range(100):
        pace.wait_for(1 << 40)
    assert clock.slept == 0


@pytest.mark.parametrize("verify_crc", [True, False])
def test_a_whole_collection_keeps_it(tmp_path: Path, verify_crc: bool) -> None:
    size, rate = 3 * MIB, 2 * MIB
    write_log_dir(tmp_path / "data", size)
    begin = time.monotonic()
    request = CollectRequest(output=tmp_path / "out", log_dirs=(tmp_path / "data",), rate=rate, verify_crc=verify_crc)
    result = collect(request, quietly)
    assert time.monotonic() - begin > 0.8 * size / rate
    assert result.manifest.counts["bytes_read"] == pytest.approx(size, rel=0.05)


def test_only_headers_are_read_of_large_batches(tmp_path: Path) -> None:
    write_log_dir(tmp_path / "data", 40 * MIB, value=os.urandom(MIB))
    result = collect(CollectRequest(output=tmp_path / "out", log_dirs=(tmp_path / "data",), verify_crc=False), quietly)
    assert result.manifest.counts["batches"] == 39
    assert result.manifest.counts["bytes_read"] < MIB


def test_a_hole_at_the_end_is_not_read(tmp_path: Path) -> None:
    """Of a file that was made longer in advance (log.preallocate)."""
    segment = write_log_dir(tmp_path / "data", MIB, hole=1 << 30)
    result = collect(CollectRequest(output=tmp_path / "out", log_dirs=(tmp_path / "data",), rate=32 * MIB), quietly)
    assert result.manifest.counts["bytes_read"] < 2 * MIB
    with LiveFile(os.open(segment, os.O_RDONLY), segment.stat().st_size, Pace(None)) as file:
        file.seek(segment.stat().st_size - 10)
        assert file.read(100) == bytes(10)


class TestPageCache:
    """What was there stays; what was brought in goes."""

    def cached(self, segment: Path) -> list[bool]:
        """Of every MiB, whether the page in its middle is in the cache; asked of the kernel without touching it."""
        with segment.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            size = len(mapped)
            pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            begin = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(size), pages) == 0, os.strerror(ctypes.get_errno())
            return [bool(pages[at // mmap.PAGESIZE] & 1) for at in range(MIB // 2, size, MIB)]

    def read_at_the_end(self, log_dir: Path) -> Path:
        """A segment of which only the end is in the cache, where a broker's consumers are."""
        segment = write_log_dir(log_dir, 16 * MIB)
        with segment.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(stream.fileno(), 4 * MIB, 12 * MIB)
        return segment

    @pytest.mark.parametrize("verify_crc", [True, False])
    def test_it_is_left_as_it_was(self, tmp_path: Path, verify_crc: bool) -> None:
        """Once in 20 tries: the kernel itself makes room whenever it has to, and what we dropped would be dropped every time."""
        for attempt in range(20):
            folder = tmp_path / str(attempt)
            segment = self.read_at_the_end(folder / "data")
            before = self.cached(segment)
            assert not all(before)
            collect(CollectRequest(output=folder / "out", log_dirs=(folder / "data",), verify_crc=verify_crc), quietly)
            after = self.cached(segment)
            if any(before[12:]) and after[12:] == before[12:] and sum(after) <= sum(before):
                return
        pytest.fail(f"in the cache before: {before}, after: {after}")


_MEASURE = r"""
import re, sys
from pathlib import Path
from replica_audit.collect import CollectRequest, collect
options = dict(option.split("=") for option in sys.argv[3:])
switches = {key: value == "True" for key, value in options.items()}
request = CollectRequest(output=Path(sys.argv[2]), log_dirs=(Path(sys.argv[1]),), **switches)
counts = collect(request, lambda line: None).manifest.counts
# not getrusage: what it tells begins with the process that this one was forked from
print(int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) >> 10, counts["batches"])
"""


def measured(log_dir: Path, output: Path, *options: str) -> tuple[int, int]:
    """MiB resident at most, and batches."""
    command = [sys.executable, "-c", _MEASURE, str(log_dir), str(output), *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "lib")}).stdout
    resident, batches = text.split()
    return int(resident), int(batches)


class TestMemory:
    """Not more than 300 MB resident, whatever the size of the segment."""

    @pytest.mark.slow
    def test_a_segment_of_a_gib(self, tmp_path: Path) -> None:
        """The size from which a broker rolls."""
        segment = write_log_dir(tmp_path / "data", 1 << 30)
        resident, batches = measured(tmp_path / "data", tmp_path / "out")
        assert batches == scan_file(segment, verify_crc=False).runs[0].batch_count > 3_500_000
        assert resident < 300

    @pytest.mark.parametrize("options", [(), ("verify_crc=False",), ("has_index=False",)])
    def test_many_batches(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        write_log_dir(tmp_path / "data", 96 * MIB)
        assert measured(tmp_path / "data", tmp_path / "out", *options)[0] < 250

    def test_one_batch_of_100_mib(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "data"
        segment = write_log_dir(log_dir, 100 * MIB + 1_000, value=bytes(100 * MIB))
        assert segment.stat().st_size > 100 * MIB
        resident, batches = measured(log_dir, tmp_path / "out")
        assert batches == 1
        assert resident < 200

    def test_3_gib_of_nothing(self, tmp_path: Path) -> None:
        write_log_dir(tmp_path / "data", 1_000, hole=3 << 30)
        assert measured(tmp_path / "data", tmp_path / "out")[0] < 200

    @pytest.mark.slow
    def test_a_compacted_log_full_of_holes(self, tmp_path: Path) -> None:
        """Every batch is a run of its own, up to a limit, in each of many segments: the rows of one replica are large."""
        log_dir = tmp_path / "data"
        segment = write_log_dir(log_dir, 0)
        template = kf.batch(0, 0, value=b"")
        for number in range(40):
            with segment.with_name(f"{number * 100_000:020d}.log").open("wb") as stream:
                for base in range(0, 100_000, 8):
                    stream.write(struct.pack(">q", number * 100_000 + base) + template[8:])
        resident, batches = measured(log_dir, tmp_path / "out")
        assert batches == 40 * 12_500
        assert resident < 250
